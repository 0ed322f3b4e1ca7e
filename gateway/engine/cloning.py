"""Clones of topics that this gateway makes, one at a time. A repeated request joins the clone that is being made, or gets the one
that was made, here or by another gateway (``log_format.checkpoints.clone_notes``)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

from gateway.call import detached_from_call
from gateway.engine.bounds import PARALLEL_LIST_LOADS_MAX
from gateway.engine.open_table import TableAccess
from gateway.engine.open_topics import OpenTopics
from gateway.engine.pool import Pool
from gateway.tasks.parallel import run_parallel
from log_format.checkpoints.clone_files import CloneBytes, clone_bytes, table_files
from log_format.checkpoints.clone_notes import CloneName, direct_clones
from log_format.checkpoints.cloning import NEWEST, ClonedTopic, TableVersion, clone_topic
from log_format.errors import BackOff, StoreUnavailable, UnknownTopic
from log_format.store import ObjectStore
from log_format.topic.config import ConfigValue
from log_format.topic.state import TopicState

ResultT = TypeVar("ResultT")

ANSWER_MS: Final = 10_000
"""Longest wait of one request for a clone. A client that wants the end asks again."""
REMEMBERED_MAX: Final = 100
"""Number of clones, made and being made, that repeated requests can join. More at a time are refused."""
PARALLEL_COUNTS_MAX: Final = 4
"""Number of clones whose bytes are counted in parallel: each has a list of its files in memory meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundClone:
    """A clone that exists, and its bytes."""

    clone: CloneName
    found: CloneBytes


@dataclass(slots=True, eq=False)
class CloneUnderWay:
    """A clone that is being made, or was made. ``copied`` of ``file_count`` files are there."""

    of: tuple[str, TableVersion, Mapping[str, ConfigValue | None]]
    """Id of the source, its version, and the changed settings."""
    task: asyncio.Task[ClonedTopic] = field(init=False)
    is_charged: bool = False
    """Whether a caller's quota was charged for its partitions."""
    copied: int = 0
    file_count: int = 0

    def progress(self, copied: int, file_count: int) -> None:
        """Note how far it is. Called in a thread."""
        self.copied, self.file_count = max(self.copied, copied), file_count


class Cloning:
    """Makes clones of topics. Used on the event loop only.

    ``made``: called after a clone was made.
    """

    def __init__(
        self, topics: OpenTopics, access: TableAccess, store: ObjectStore, pool: Pool, made: Callable[[], None]
    ) -> None:
        self._topics = topics
        self._clock = access.clock
        self._new_id = access.new_id
        self._store = store
        self._pool = pool
        self._made = made
        self._copies_at_once = access.bounds.copies_at_once
        self._clones: dict[tuple[str, str], CloneUnderWay] = {}
        """By source and clone; the oldest first."""

    async def clone(
        self,
        source: str,
        target: str,
        config: Mapping[str, ConfigValue | None],
        at: TableVersion,
        *,
        wait_ms: int = ANSWER_MS,
    ) -> CloneUnderWay:
        """Make ``target`` a clone of ``source`` at a version, with some settings changed; wait at most ``wait_ms`` for the end.

        If the version is the newest, what was acknowledged before the call is in the clone, also if only a journal had it.
        Raises what ``clone_topic`` and ``OpenTopics.fresh`` raise, ``StoreUnavailable`` as ``BackOff``.
        """
        topic = await self._topics.fresh(source, self._clock.monotonic_ms(), always=True)
        source_id = topic.require_state().existing_id
        known = self._clones.get((source, target))
        if known is None or known.of != (source_id, at, config) or await self._is_over(known, target):
            if at == NEWEST:
                await topic.moving.drain_all()
            known = self._start(source, target, CloneUnderWay((source_id, at, config)))
        await asyncio.wait((known.task,), timeout=wait_ms / 1000)
        if known.task.done():
            try:
                known.task.result()
            except StoreUnavailable as problem:
                raise BackOff(f"The store prevented the clone of {source!r}: {problem.detail}.") from problem
        return known

    async def clones(self, source: str, is_shown: Callable[[str], bool]) -> list[FoundClone]:
        """Return the clones of a topic that exist and whose names are shown, by name, with their bytes; of 100 the newest.

        What a journal has of either topic does not count. Raises ``UnknownTopic``, ``BackOff``, ``CorruptData``.
        """
        state = await self._own_state(source)
        if not state.exists:
            raise UnknownTopic(source)
        noted = await self._read(source, partial(direct_clones, self._store, CloneName(source, state.existing_id)))
        shown = [one for one in sorted(noted) if is_shown(one.name)]
        states = await run_parallel(self._own_state, [one.name for one in shown], limit=PARALLEL_LIST_LOADS_MAX)
        existing = [(one, clone) for one, clone in zip(shown, states, strict=True) if clone.topic_id == one.topic_id]
        if not existing:
            return []
        now_ms = self._clock.now_ms()
        files = await self._read(source, partial(table_files, self._store, state, now_ms))
        paths = [path for path, _ in files]

        async def counted(one: tuple[CloneName, TopicState]) -> FoundClone:
            name, clone = one
            count = partial(clone_bytes, self._store, paths, clone, now_ms)
            return FoundClone(clone=name, found=await self._read(name.name, count))

        return await run_parallel(counted, existing, limit=PARALLEL_COUNTS_MAX)

    async def drain(self) -> None:
        """Wait for the clone that is being made."""
        running = [one.task for one in self._clones.values() if not one.task.done()]
        if running:
            await asyncio.wait(running)

    async def _is_over(self, known: CloneUnderWay, target: str) -> bool:
        """Return whether the clone failed, or was deleted since it was made."""
        if not known.task.done():
            return False
        if known.task.cancelled() or known.task.exception() is not None:
            return True
        state = (await self._topics.fresh(target, self._clock.monotonic_ms())).state
        return state.topic_id != known.task.result().state.topic_id

    async def _own_state(self, name: str) -> TopicState:
        """Return the state of a topic's own table. Raises what ``OpenTopics.fresh`` raises."""
        topic = await self._topics.fresh(name, self._clock.monotonic_ms())
        await topic.fresh_with_table()
        return topic.log.state

    async def _read(self, topic: str, work: Callable[[], ResultT]) -> ResultT:
        try:
            return await self._pool.run(work)
        except StoreUnavailable as problem:
            raise BackOff(f"The store did not return the log of topic {topic!r}: {problem.detail}.") from problem

    def _start(self, source: str, target: str, begun: CloneUnderWay) -> CloneUnderWay:
        self._clones.pop((source, target), None)
        over = [key for key, one in self._clones.items() if one.task.done()]
        for key in over[: max(0, len(self._clones) - REMEMBERED_MAX + 1)]:
            del self._clones[key]
        if len(self._clones) >= REMEMBERED_MAX:
            raise BackOff(f"{REMEMBERED_MAX} topics are being cloned: clone this one later.", topic=source)
        with detached_from_call():  # it goes on if its caller does not wait
            begun.task = asyncio.create_task(self._run(source, target, begun))
        self._clones[source, target] = begun
        return begun

    async def _run(self, source: str, target: str, begun: CloneUnderWay) -> ClonedTopic:
        _, at, config = begun.of
        parts = (self._store, source, target, self._clock, self._new_id)
        make = partial(clone_topic, *parts, config=config, at=at, copies_at_once=self._copies_at_once)
        cloned = await self._pool.run(partial(make, progress=begun.progress))
        self._made()
        return cloned
