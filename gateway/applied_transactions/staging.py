"""Staged objects of transactions: put, listed, read, deleted. All of this may run in any gateway."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, ParamSpec, TypeVar

from gateway.applied_transactions.staged_sizes import StagedSizes
from gateway.engine.bounds import EngineBounds
from gateway.engine.pool import Pool
from gateway.memory_budget import MemoryBudget
from gateway.tasks.parallel import run_parallel
from log_format import limits
from log_format.errors import (
    BackOff,
    CorruptData,
    ErrorCode,
    ObjectMissing,
    OutcomeUnknown,
    RequestRefused,
    StoreUnavailable,
)
from log_format.ids import NewId
from log_format.store import ObjectStore, read_bounded
from log_format.topic.producer_id import JOB, kind_of
from log_format.transactions.staged_index import INDEX_BYTES_MAX, IndexedBatch, decode_index, encode_index
from log_format.transactions.staged_index import SUFFIX as INDEX_SUFFIX
from log_format.transactions.staged_offsets import SUFFIX, StagedOffsets, decode_offsets, encode_offsets
from log_format.transactions.staged_records import (
    STAGED,
    StagedLane,
    StagedName,
    StagedRecords,
    decode_staged,
    encode_staged,
    parse_names,
    staged_key,
    staged_name,
    staged_prefix,
)
from log_format.transactions.staged_settlements import (
    StagedSettlements,
    decode_settlements,
    encode_settlements,
    is_settlements,
)

MEMORY_WAIT_MS_MAX: Final = 10_000
"""Time that a commit waits for memory before the gateway refuses it (503, nothing happened)."""

PARALLEL_READS_MAX: Final = 4
"""Number of a transaction's staged objects that are read in parallel: the threads also look at logs."""

PARALLEL_DELETES_MAX: Final = 4
"""Number of threads that delete one transaction's staged objects."""

DELETES_PER_CALL: Final = 64
"""Number of objects that one call of a thread deletes."""

COMMITTED_SHARE_MAX: Final = 4
"""Factor by which a commit may exceed the bounds: more gateways than four may have crossed them together, and the batches were
acknowledged."""

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger("gateway.transactions")


@dataclass(frozen=True, slots=True)
class StagedListing:
    """Objects staged for a transaction."""

    names: Sequence[StagedName]
    size_bytes: int
    next_number: int
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Size of each object, by name."""

    @property
    def is_of_kafka(self) -> bool:
        """Whether a Kafka client's batches are among the objects."""
        return any(name.lane is not None for name in self.names)


@dataclass(frozen=True, slots=True)
class Staged:
    """Content of staged objects, by name, each kind in the order of staging."""

    records: Mapping[str, StagedRecords]
    offsets: Mapping[str, StagedOffsets]
    settlements: Mapping[str, StagedSettlements] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the objects, in the order of staging."""
        return (*self.records, *self.offsets, *self.settlements)

    def pending_ids(self) -> dict[str, list[str]]:
        """Return the pending ids of each queue."""
        found: dict[str, list[str]] = {}
        for one in self.settlements.values():
            found.setdefault(one.queue, []).append(one.pending_id)
        return found


class Staging:
    """Staged objects in the store. ``pool`` runs calls of the store; ``memory``: budget for objects that are read."""

    def __init__(
        self, store: ObjectStore, *, pool: Pool, new_id: NewId, memory: MemoryBudget, bounds: EngineBounds
    ) -> None:
        self._store = store
        self._pool = pool
        self._new_id = new_id
        self._memory = memory
        self._bytes_max = bounds.transaction_bytes_max
        self._kafka_bytes_max = bounds.kafka_transaction_bytes_max
        self._names_max = bounds.staged_names_max
        self._cleaning: set[asyncio.Task[None]] = set()
        self._sizes = StagedSizes(self._kafka_bytes_max, limits.KAFKA_TRANSACTION_BATCHES_MAX)

    async def list_staged(self, transaction_id: str) -> StagedListing:
        """Return the objects staged now. Raises ``BackOff``."""
        return await self._call(self._list, transaction_id)

    async def put(self, transaction_id: str, listed: StagedListing, staged: StagedRecords, sequence: int | None) -> str:
        """Stage one request after the listed objects; return the object's name.

        Raises ``BackOff``, ``OutcomeUnknown``, ``RequestRefused`` (``REQUEST_TOO_LARGE``).
        """
        self.check_room(listed, staged.records.nbytes)
        name = staged_name(listed.next_number, staged.topic, sequence, self._new_id())
        await self._stored(f"{staged_prefix(transaction_id)}{name}", encode_staged(staged))
        return name

    async def put_lane(self, transaction_id: str, staged: StagedRecords, lane: StagedLane) -> None:
        """Stage a Kafka client's batch; while its transaction is small, without listing it.

        The commit puts batches in order. Raises what ``put`` raises.
        """
        name, data = staged_name(0, staged.topic, lane, self._new_id()), encode_staged(staged)
        if self._sizes.add(transaction_id, len(data)):
            listed = await self.list_staged(transaction_id)
            size_bytes, count = listed.size_bytes + len(data), len(listed.names) + 1
            self._check_of_kafka(size_bytes, count)
            self._sizes.listed(transaction_id, size_bytes, count)
        await self._stored(f"{staged_prefix(transaction_id)}{name}", data)

    async def put_offsets(self, transaction_id: str, listed: StagedListing, staged: StagedOffsets) -> str:
        """Stage offsets of a group after the listed objects; return the object's name. Raises what ``put`` raises."""
        data = encode_offsets(staged)
        self.check_room(listed, len(data))
        name = staged_name(listed.next_number, f"groups/{staged.group}", None, self._new_id(), suffix=SUFFIX)
        await self._stored(f"{staged_prefix(transaction_id)}{name}", data)
        return name

    async def put_settlements(self, transaction_id: str, listed: StagedListing, staged: StagedSettlements) -> str:
        """Stage settlements of a queue after the listed objects; return the object's name. Raises what ``put`` raises."""
        data = encode_settlements(staged)
        self.check_room(listed, len(data))
        name = staged_name(listed.next_number, f"queues/{staged.queue}", None, self._new_id(), suffix=SUFFIX)
        await self._stored(f"{staged_prefix(transaction_id)}{name}", data)
        return name

    async def withdraw(self, transaction_id: str, name: str) -> None:
        """Delete one object of an undecided transaction. Raises ``BackOff``."""
        await self._call(self._store.delete, staged_key(transaction_id, name))

    @asynccontextmanager
    async def room(self, transaction_id: str, size_bytes: int | None = None) -> AsyncIterator[None]:
        """Hold memory for the staged objects while the context lasts; ``size_bytes``: their size, if known. Raises
        ``BackOff``."""
        if size_bytes is None:
            size_bytes = (await self.list_staged(transaction_id)).size_bytes
        if size_bytes > self._bytes_max and kind_of(transaction_id) == JOB:
            raise BackOff(
                f"Transaction {transaction_id} is too large for a gateway: its job or maintenance finishes it."
            )
        with await self._memory.reserve_in_turn(size_bytes, wait_ms=MEMORY_WAIT_MS_MAX):
            yield

    async def read(self, transaction_id: str, names: Sequence[str], turns: asyncio.Semaphore | None = None) -> Staged:
        """Return the content of the objects with these names, in order; ``turns`` bounds the transaction's concurrent reads.

        Raises ``BackOff``, ``CorruptData``.
        """
        turns = turns or read_semaphore()

        async def one(name: str) -> StagedRecords | StagedOffsets | StagedSettlements:
            async with turns:
                return await self._call(self._read, staged_key(transaction_id, name))

        found = dict(zip(names, await asyncio.gather(*map(one, names)), strict=True))
        return Staged(
            {name: one for name, one in found.items() if isinstance(one, StagedRecords)},
            {name: one for name, one in found.items() if isinstance(one, StagedOffsets)},
            {name: one for name, one in found.items() if isinstance(one, StagedSettlements)},
        )

    async def transaction_ids(self) -> list[str]:
        """Return the ids of the transactions with staged objects. Raises ``BackOff``."""
        return await self._call(self._ids)

    async def clean(self, transaction_id: str) -> None:
        """Delete all objects of the transaction, best effort: the collector deletes the rest."""
        try:
            keys = await self._call(self._keys, transaction_id)
            some = [keys[start : start + DELETES_PER_CALL] for start in range(0, len(keys), DELETES_PER_CALL)]
            await run_parallel(lambda keys: self._call(self._delete, keys), some, limit=PARALLEL_DELETES_MAX)
        except BackOff as problem:
            _log.warning("staged records of %s are left to the collector: %s", transaction_id, problem.detail)

    def clean_in_background(self, transaction_id: str) -> None:
        """Delete all objects of the transaction after the answer, best effort. Returns immediately."""
        task = asyncio.create_task(self.clean(transaction_id))
        self._cleaning.add(task)
        task.add_done_callback(self._cleaning.discard)

    async def drain(self) -> None:
        """Wait for the deletions after answers."""
        while self._cleaning:
            await asyncio.wait(set(self._cleaning))

    def is_large(self, listed: StagedListing) -> bool:
        """Return whether the objects are a Kafka client's, and too many for the memory, or for the row of a decision."""
        return listed.is_of_kafka and (listed.size_bytes > self._bytes_max or len(listed.names) > self._names_max)

    async def put_index(self, transaction_id: str, listed: StagedListing, names: Sequence[str]) -> str:
        """Put the index of these batches; return its name. Raises ``BackOff``, ``OutcomeUnknown``."""
        name = f"{self._new_id()}{INDEX_SUFFIX}"
        await self._stored(staged_key(transaction_id, name), encode_index([(one, listed.sizes[one]) for one in names]))
        return name

    async def index(self, transaction_id: str, name: str) -> list[IndexedBatch]:
        """Return the batches in the index ``name``. Raises ``BackOff``, ``CorruptData``."""
        return await self._call(self._read_index, staged_key(transaction_id, name))

    def check_room(self, listed: StagedListing, more_bytes: int) -> None:
        """Raise ``RequestRefused`` (``REQUEST_TOO_LARGE``) if the transaction would become too large."""
        size_bytes, count = listed.size_bytes + more_bytes, len(listed.names) + 1
        if listed.is_of_kafka:
            self._check_of_kafka(size_bytes, count)
            size_bytes, count = more_bytes, count - sum(name.lane is not None for name in listed.names)
        _check_size(size_bytes, count, self._bytes_max, limits.TRANSACTION_REQUESTS_MAX)

    def check_whole(self, listed: StagedListing) -> None:
        """Raise ``RequestRefused`` (``REQUEST_TOO_LARGE``) if a Kafka client's transaction is too large to be decided: its
        batches were staged without a look at others."""
        if listed.is_of_kafka:
            self._check_of_kafka(listed.size_bytes, len(listed.names), COMMITTED_SHARE_MAX)

    def _check_of_kafka(self, size_bytes: int, count: int, share: int = 1) -> None:
        _check_size(size_bytes, count, self._kafka_bytes_max * share, limits.KAFKA_TRANSACTION_BATCHES_MAX * share)

    async def _stored(self, key: str, data: bytes) -> None:
        """Put an object. The object belongs to its transaction if it is there at the commit, so a lost answer is no refusal."""
        try:
            await self._pool.run(self._store.put, key, data)
        except StoreUnavailable as problem:
            detail = f"The store did not accept staged records: {problem.detail}."
            raise (OutcomeUnknown(detail) if problem.may_have_happened else BackOff(detail)) from problem

    async def _call(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await self._pool.run(call, *args, **kwargs)
        except StoreUnavailable as problem:
            raise BackOff(f"The store did not return staged records: {problem.detail}.") from problem

    def _list(self, transaction_id: str) -> StagedListing:
        prefix = staged_prefix(transaction_id)
        sizes = {info.key.removeprefix(prefix): info.size_bytes for info in self._store.list(prefix)}
        names = parse_names(sizes)
        return StagedListing(names, sum(sizes.values()), names[-1].number + 1 if names else 0, sizes)

    def _ids(self) -> list[str]:
        return list(self._store.list_directories(STAGED))

    def _read(self, key: str) -> StagedRecords | StagedOffsets | StagedSettlements:
        try:
            data = read_bounded(self._store, key, self._bytes_max)
        except ObjectMissing as problem:
            raise CorruptData(f"The staged records {problem.key} are missing.", object=problem.key) from problem
        if not key.endswith(SUFFIX):
            return decode_staged(data, key)
        return decode_settlements(data, key) if is_settlements(data) else decode_offsets(data, key)

    def _read_index(self, key: str) -> list[IndexedBatch]:
        try:
            return decode_index(read_bounded(self._store, key, INDEX_BYTES_MAX), key)
        except ObjectMissing as problem:
            raise CorruptData(f"The index {problem.key} is missing.", object=problem.key) from problem

    def _keys(self, transaction_id: str) -> list[str]:
        return [info.key for info in self._store.list(staged_prefix(transaction_id))]

    def _delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._store.delete(key)


def _check_size(size_bytes: int, count: int, bytes_max: int, count_max: int) -> None:
    if size_bytes > bytes_max or count > count_max:
        raise RequestRefused(
            f"A transaction holds at most {bytes_max} bytes in {count_max} requests: commit sooner.",
            code=ErrorCode.REQUEST_TOO_LARGE,
            limit_bytes=bytes_max,
            limit_of="transaction",
        )


def read_semaphore() -> asyncio.Semaphore:
    """Return a bound for the concurrent reads of one transaction."""
    return asyncio.Semaphore(PARALLEL_READS_MAX)
