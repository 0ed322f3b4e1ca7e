"""``Consumer`` for asyncio.

Calls that wait for gateways run in a thread, one after another, and hand out no records. Records are handed out in the event
loop, atomically with the return from ``poll``, so a cancelled poll loses none: the next poll returns them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import partial, wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, Unpack

from log_format import limits as contract
from tidelog import limits
from tidelog.aio.in_thread import in_thread
from tidelog.aio.keywords import ConsumerKeywords
from tidelog.arguments import require_pyarrow
from tidelog.closing import AsyncClosing
from tidelog.consumer.consumer import Consumer as BlockingConsumer
from tidelog.deadline import Deadline
from tidelog.schemas.typed_values import SchemaNeeded
from tidelog.types.group import GroupMetadata
from tidelog.types.record import Record, TopicPartition
from tidelog.units_of_time import in_milliseconds

if TYPE_CHECKING:
    import pyarrow as pa

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _awaited(
    method: Callable[Concatenate[BlockingConsumer, _P], _T],
) -> Callable[Concatenate[Consumer, _P], Coroutine[Any, Any, _T]]:
    """Wrap a blocking method as a coroutine that runs in a thread, after any call that a cancelled task left running."""

    @wraps(method)
    async def call(self: Consumer, /, *arguments: _P.args, **named: _P.kwargs) -> _T:
        with self._one_task():
            return await self._run_serialized(partial(method, self._consumer, *arguments, **named))

    return call


class Consumer(AsyncClosing):
    """asyncio version of ``tidelog.Consumer``, for one task at a time: a concurrent call by a second task raises
    ``RuntimeError``.

    Every call may be cancelled. It has then happened or not; the positions are right in either case. The next call waits for
    the one left running: about a second at most, or until a gateway has answered.

    ``on_revoked``, ``on_assigned`` and ``on_lost`` are plain functions, called in a thread and not in the event loop.
    """

    def __init__(self, *topics: str, **settings: Unpack[ConsumerKeywords]) -> None:
        """Create the consumer, as ``tidelog.Consumer``. Raises ``ValueError``."""
        self._iteration_timeout_ms = settings.get("consumer_timeout_ms")
        self._consumer = BlockingConsumer(*topics, **settings)
        if self._consumer.typed_values is not None:
            self._consumer.typed_values.asks = False
        self._last: asyncio.Future[Any] | None = None
        self._busy = False

    assign = _awaited(BlockingConsumer.assign)
    assignment = _awaited(BlockingConsumer.assignment)
    topics = _awaited(BlockingConsumer.topics)
    partitions_for_topic = _awaited(BlockingConsumer.partitions_for_topic)
    seek = _awaited(BlockingConsumer.seek)
    seek_to_beginning = _awaited(BlockingConsumer.seek_to_beginning)
    seek_to_end = _awaited(BlockingConsumer.seek_to_end)
    position = _awaited(BlockingConsumer.position)
    pause = _awaited(BlockingConsumer.pause)
    resume = _awaited(BlockingConsumer.resume)
    beginning_offsets = _awaited(BlockingConsumer.beginning_offsets)
    end_offsets = _awaited(BlockingConsumer.end_offsets)
    offsets_for_times = _awaited(BlockingConsumer.offsets_for_times)
    positions = _awaited(BlockingConsumer.positions)
    commit = _awaited(BlockingConsumer.commit)
    commit_async = _awaited(BlockingConsumer.commit_async)
    committed = _awaited(BlockingConsumer.committed)
    seek_to_committed = _awaited(BlockingConsumer.seek_to_committed)
    lag = _awaited(BlockingConsumer.lag)

    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions."""
        return self._consumer.paused()

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the high watermark, as ``tidelog.Consumer.highwater``."""
        return self._consumer.highwater(partition)

    def group_metadata(self) -> GroupMetadata:
        """Return the group and member, as ``tidelog.Consumer.group_metadata``."""
        return self._consumer.group_metadata()

    @in_milliseconds
    async def poll(self, timeout_ms: float = limits.POLL_TIMEOUT_MS, max_records: int | None = None) -> list[Record]:
        """Return the next records, as ``tidelog.Consumer.poll``."""
        with self._one_task():
            await self._wait(timeout_ms)
            while True:
                try:
                    return self._consumer.ready(max_records)
                except SchemaNeeded as needed:
                    await self._learn(needed.schema_id)

    @in_milliseconds
    async def poll_arrow(
        self, timeout_ms: float = limits.POLL_TIMEOUT_MS, max_bytes: int = contract.FETCH_BYTES_MAX
    ) -> pa.Table:
        """Return the next records as a table, as ``tidelog.Consumer.poll_arrow``."""
        require_pyarrow("poll_arrow")
        with self._one_task():
            await self._wait(timeout_ms)
            return self._consumer.ready_arrow(max_bytes)

    async def __aiter__(self) -> AsyncIterator[Record]:
        """Yield records, as iteration of ``tidelog.Consumer``. ``position`` is the offset behind the last record yielded."""
        wait_ms = limits.ITERATION_WAIT_MS if self._iteration_timeout_ms is None else self._iteration_timeout_ms
        while True:
            records = await self.poll(timeout_ms=wait_ms, max_records=1)
            if not records and self._iteration_timeout_ms is not None:
                return
            for record in records:
                yield record

    async def close(self, *, leave: bool | None = None) -> None:
        """Close, as ``tidelog.Consumer.close``, and wait until the threads have ended."""
        await asyncio.shield(in_thread(lambda: self._consumer.close(leave=leave)))
        await self._wait_for_last_call()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Close. If the block raised, there is no further automatic commit."""
        await asyncio.shield(in_thread(lambda: self._consumer.__exit__(kind, error, at)))
        await self._wait_for_last_call()

    async def _wait(self, timeout_ms: float) -> None:
        await self._wait_for_last_call()
        deadline = Deadline(timeout_ms)
        while not self._consumer.has_ready():
            slice_ms = min(deadline.remaining_ms(), limits.AIO_SLICE_MS)
            if await self._run_serialized(partial(self._consumer.wait, slice_ms)) or deadline.passed:
                return

    async def _learn(self, schema_id: int) -> None:
        """Ask the registry for a schema that a value names, in a thread."""
        typed = self._consumer.typed_values
        assert typed is not None
        await self._run_serialized(partial(typed.learn, schema_id))

    async def _run_serialized(self, call: Callable[[], _T]) -> _T:
        """Run the call in a thread, after any call that a cancelled task left running."""
        await self._wait_for_last_call()
        running = self._last = in_thread(call)
        return await asyncio.shield(running)

    async def _wait_for_last_call(self) -> None:
        if self._last is not None and not self._last.done():
            await asyncio.wait({self._last})

    @contextlib.contextmanager
    def _one_task(self) -> Iterator[None]:
        if self._busy:
            raise RuntimeError("a consumer is for one task at a time: another task is using it")
        self._busy = True
        try:
            yield
        finally:
            self._busy = False
