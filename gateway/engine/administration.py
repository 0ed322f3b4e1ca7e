"""Administration of topics: create, describe, list, alter, delete, and delete records before an offset."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from gateway.call import detached_from_call
from gateway.engine.bounds import PARALLEL_LIST_LOADS_MAX
from gateway.engine.open_journal import Journals
from gateway.engine.open_table import TableAccess
from gateway.engine.open_topic import OpenTopic
from gateway.engine.open_topics import OpenTopics
from gateway.engine.pool import Pool
from gateway.engine.topic_survey import LISTED_NAMES_MAX, TopicSurvey
from log_format import layout
from log_format.checkpoints.archive_rows import archived_files
from log_format.checkpoints.repair import repair_topic
from log_format.errors import (
    BackOff,
    CorruptData,
    OutcomeUnknown,
    StoreUnavailable,
    TidelogError,
    UnknownTopic,
    UnsupportedTable,
)
from log_format.limits import LOAD_ATTEMPTS_MAX
from log_format.records.typed_columns import NO_TYPED_COLUMNS, TypedColumns
from log_format.store import ObjectStore
from log_format.topic.archiving import ArchivedFile, RemoveArchived
from log_format.topic.attachment import Attachment, TopicMove
from log_format.topic.changes import (
    AlterTopic,
    CreateTopic,
    DeleteAllRecords,
    DeleteRecords,
    DeleteTopic,
    RemoveDeadSegments,
    refuse_pins,
)
from log_format.topic.config import ConfigValue, Subjects, TopicConfig, names_schemas
from log_format.topic.state import TopicState

_log = logging.getLogger("gateway.administration")

_MADE_MS = 60_000
_MADE_OWN_MAX = 200
"""Number of topics created within ``_MADE_MS`` after which a new topic with ``commit.mode`` ``auto`` begins at a journal: so many
topics can't all keep commits of their own for long."""


class DamagedTopic(NamedTuple):
    """A topic whose log can't be read, and the error."""

    topic: str
    problem: CorruptData
    partition_count: int = 0
    """Always 0: the partition count of a damaged topic is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPage:
    """A page of topics in order of name. ``next_after``: name after which the next page begins; None on the last page."""

    topics: list[TopicState]
    damaged: list[DamagedTopic]
    next_after: str | None


ColumnsOf = Callable[[Subjects, str], Awaitable[TypedColumns]]
"""Function that returns the typed columns of topics with these schemas."""


class Administration:
    """Operations that create, describe, list, alter and delete topics. Used on the event loop only."""

    def __init__(
        self,
        registry: OpenTopics,
        access: TableAccess,
        journals: Journals,
        *,
        cold_store: ObjectStore,
        cold_pool: Pool,
        columns_of: ColumnsOf,
    ) -> None:
        self._columns_of = columns_of
        self._registry = registry
        self.survey = TopicSurvey(registry, access.clock)
        self._cold_store = cold_store
        self._clock = access.clock
        self._new_id = access.new_id
        self._cold_pool = cold_pool
        self._bounds = access.bounds
        self._journals = journals
        self._made: deque[int] = deque()
        """Monotonic times at which the newest topics were created by this gateway."""
        self._sweeps: set[asyncio.Task[None]] = set()
        self._listed: tuple[int, tuple[str, ...]] | None = None
        """Monotonic time of the last listing of topic names, and the names."""

    def parse_config(self, given: Mapping[str, object]) -> TopicConfig:
        """Return the settings that a user gave, parsed. Raises ``RequestRefused`` (``INVALID_CONFIG``)."""
        return TopicConfig.parse(given, request_bytes_max=self._bounds.request_bytes_max)

    async def create(self, name: str, partition_count: int, config: TopicConfig) -> tuple[TopicState, bool]:
        """Create a topic; return its state, and True if it was created or False if the same topic existed.

        Raises ``RequestRefused`` (name, count, ``TOPIC_ALREADY_EXISTS``, ``INVALID_CONFIG``), and what ``OpenTopic.commit``
        raises.
        """
        columns = await self._columns_of(config.subjects, name) if config.subjects.are_set else NO_TYPED_COLUMNS
        change = CreateTopic(
            name=name, partition_count=partition_count, config=config, topic_id=self._new_id(), columns=columns
        )
        topic = await self._registry.fresh(name, self._clock.monotonic_ms())
        if not topic.state.exists:
            change = replace(change, attachment=await self._initial_attachment(change.topic_id, config))
        committed = await topic.commit(change)
        self._registry.retain(topic)
        self._listed = None
        return topic.require_state(), committed.result

    async def describe(self, name: str) -> TopicState:
        """Return the topic's state. Raises ``UnknownTopic``, and what ``OpenTopic.fresh`` raises."""
        topic = await self._registry.fresh(name, self._clock.monotonic_ms())
        return topic.require_state()

    async def alter(
        self, name: str, partition_count: int | None, config: Mapping[str, ConfigValue | None]
    ) -> TopicState:
        """Raise the partition count and change settings of the topic that exists when the call begins.

        Raises what ``AlterTopic.propose`` and ``OpenTopic.commit`` raise.
        """
        topic = await self._existing(name)
        bytes_max = self._bounds.request_bytes_max
        before = topic.require_state().config
        altered = before.altered(config, request_bytes_max=bytes_max)
        mode = altered.commit_mode
        columns = (
            NO_TYPED_COLUMNS if altered.subjects == before.subjects else await self._columns_of(altered.subjects, name)
        )
        topic_id, is_own = topic.state.topic_id, topic.state.attachment is None

        def change(move: TopicMove) -> AlterTopic:
            return AlterTopic(
                partition_count=partition_count,
                config=config,
                request_bytes_max=bytes_max,
                move=move,
                topic_id=topic_id,
                columns=columns,
            )

        joins = await self._journals.find_with_room() if mode == "shared" and is_own else None
        # What was judged by the former schemas gets its columns by them, so the change waits for the drain.
        is_drained = names_schemas(config)
        await topic.move(
            change, joins=joins, leaves=mode == "own", is_drained=is_drained, reason=f"commit.mode is {mode}"
        )
        return topic.require_state()

    async def delete(self, name: str, meant_id: str | None = None, *, force: bool = False) -> None:
        """Delete the topic. Its segments are deleted after the answer, best effort.

        A topic with very many segments loses most of them in commits before its deletion; the collector deletes their objects.
        A topic with a damaged log is repaired first, so that a journal keeps nothing of it either.

        Args:
            meant_id: id of the incarnation to delete; None: the one that exists when the call begins. A topic made anew under
                the name is not deleted (``UnknownTopic``).
            force: also a topic with pins, which end with it.

        Raises ``UnknownTopic``, ``RequestRefused`` (``TOPIC_HAS_PINS``), what ``OpenTopic.commit`` raises, and
        ``OutcomeUnknown`` also when the topic lost records and may still exist.
        """
        topic = await self._repaired(name)
        if topic is None:
            return
        topic_id, has_begun = topic.state.topic_id, False
        if meant_id not in (None, topic_id):
            raise UnknownTopic(name)
        refuse_pins(topic.state, self._clock.now_ms(), force)  # before anything is removed
        try:
            while topic_id is not None and topic.state.manifest.segment_count() > self._bounds.removes_max:
                with detached_from_call():  # The caller asked for the topic's deletion, not for this commit.
                    has_removed = (await topic.moving.change(partial(self._delete_all, topic_id, force))).result
                if not has_removed:
                    break
                has_begun = True
            if topic_id is not None and topic.state.archive.segment_count:
                has_begun = True
                await self._empty_archive(topic, topic_id)
            committed = await topic.moving.change(lambda move: DeleteTopic(move=move, topic_id=topic_id, force=force))
        except UnknownTopic:
            if not has_begun:
                raise
            return  # Another call deleted the topic meanwhile: the caller has what it asked for.
        except TidelogError as problem:
            if not has_begun:
                raise
            said = f"Topic {name!r} has lost objects and is not completely deleted: delete it again."
            raise OutcomeUnknown(said, topic=name) from problem
        if committed.result:
            self._run_in_background(self._delete_segments(name, committed.result))

    async def delete_records(self, name: str, before: Mapping[int, int]) -> dict[int, int]:
        """Move log starts up in the topic that exists when the call begins; return the log start of each partition in ``before``.

        Raises what ``DeleteRecords.propose`` and ``OpenTopic.commit`` raise.
        """
        topic = await self._existing(name)
        change = DeleteRecords(before=before, removes_max=self._bounds.removes_max, topic_id=topic.state.topic_id)
        committed = await topic.moving.change(lambda move: replace(change, move=move), is_drained=True)
        if committed.state.topic_id is not None and committed.state.has_dead_segments():
            self._run_in_background(self._remove_dead(topic, committed.state.topic_id))
        return committed.result

    async def page(
        self,
        prefix: str,
        after: str,
        limit: int,
        shown: Callable[[str], bool] = lambda _name: True,
        *,
        age_ms_max: int = 0,
    ) -> TopicPage:
        """Return at most ``limit`` topics whose names start with ``prefix`` and come after ``after``.

        Args:
            shown: filter of names; what it raises is passed on.
            age_ms_max: how stale the topics' states may be.

        Raises what ``OpenTopic.fresh`` raises.
        """
        arrival_ms = self._clock.monotonic_ms() - age_ms_max
        listed = await self.recent_names(age_ms_max)
        names = filter(shown, (name for name in listed if name.startswith(prefix) and name > after))
        found: list[TopicState | DamagedTopic] = []
        while len(found) <= limit:
            some = list(islice(names, PARALLEL_LIST_LOADS_MAX))
            if not some:
                return _page(found, None)
            states = await asyncio.gather(*(self._state(name, arrival_ms) for name in some))
            found += [state for state in states if state is not None]
            limit = _count_fitting(found, limit, self._bounds.list_partitions_max)
        return _page(found[:limit], found[limit - 1].topic)

    async def names(self) -> list[str]:
        """Return the names of all topics (``OpenTopics.names``)."""
        return await self._registry.names()

    async def recent_names(self, age_ms_max: int) -> Sequence[str]:
        """Return the topics' names by a listing at most ``age_ms_max`` old. Creating a topic in this gateway discards the
        listing."""
        now_ms = self._clock.monotonic_ms()
        if self._listed is None or now_ms - self._listed[0] > age_ms_max or age_ms_max == 0:
            names = await self.names()
            if len(names) > LISTED_NAMES_MAX:
                return names
            self._listed = (now_ms, tuple(names))
        return self._listed[1]

    def forget_names(self) -> None:
        """Make the next list ask the store for names: a topic was made otherwise."""
        self._listed = None

    async def drain(self) -> None:
        """Stop looking at topics and deleting segments; maintenance deletes the rest."""
        await self.survey.drain()
        for task in list(self._sweeps):
            task.cancel()
        if self._sweeps:
            await asyncio.wait(self._sweeps)

    def _delete_all(self, topic_id: str, force: bool, move: TopicMove) -> DeleteAllRecords:
        return DeleteAllRecords(topic_id=topic_id, removes_max=self._bounds.removes_max, move=move, force=force)

    async def _empty_archive(self, topic: OpenTopic, topic_id: str) -> None:
        """Remove all files of the archive from the table. Raises ``BackOff`` if others change the archive all the time."""
        for _ in range(LOAD_ATTEMPTS_MAX):
            state = topic.state
            if state.topic_id != topic_id or not state.archive.segment_count:
                return
            files = await self._cold_pool.run(archived_files, self._cold_store, state, self._clock.now_ms())
            version = state.archive.version
            for some in files.to_batches(max_chunksize=self._bounds.removes_max):
                change = RemoveArchived(
                    topic_id=topic_id,
                    archive_version=version,
                    files=[ArchivedFile(*file) for file in zip(*(each.to_pylist() for each in some), strict=True)],
                )
                with detached_from_call():
                    committed = await topic.commit(change)
                if not committed.result:
                    break  # maintenance has changed the archive
                version = committed.state.archive.version
        raise BackOff(f"Maintenance keeps changing the archive of topic {topic.name!r}.", topic=topic.name)

    async def _initial_attachment(self, topic_id: str, config: TopicConfig) -> Attachment | None:
        now_ms = self._clock.monotonic_ms()
        self._made.append(now_ms)
        while now_ms - self._made[0] > _MADE_MS:
            self._made.popleft()
        mode = config.commit_mode
        may_be_own = len(self._made) <= _MADE_OWN_MAX or self._journals.refusal_reason is not None
        if mode == "own" or (mode == "auto" and may_be_own):
            return None
        journal = await self._journals.find_with_room()
        number = self._journals.get(journal).state.topics.next_number(topic_id)
        return Attachment(journal, number, number)

    async def _state(self, name: str, arrival_ms: int) -> TopicState | DamagedTopic | None:
        """Return the topic's state, None if it does not exist, or ``DamagedTopic``: a damaged log does not hide the other
        topics."""
        try:
            state = (await self._registry.fresh(name, arrival_ms)).state
        except CorruptData as problem:
            return DamagedTopic(name, problem)
        return state if state.exists else None

    async def _existing(self, name: str) -> OpenTopic:
        topic = await self._registry.fresh(name, self._clock.monotonic_ms(), always=True)
        topic.require_state()
        return topic

    async def _repaired(self, name: str) -> OpenTopic | None:
        """Return the topic, repaired first if its log is damaged, so that it can be deleted; None if repair found only damage.

        Raises ``UnknownTopic``, and what ``OpenTopic.fresh`` raises.
        """
        try:
            return await self._existing(name)
        except UnsupportedTable:
            raise
        except CorruptData as problem:
            _log.warning("topic %s is repaired to be deleted: %s", name, problem.detail)
        repair = partial(repair_topic, self._cold_store, name, self._clock, self._new_id, looks_at_files=False)
        try:
            made = await self._cold_pool.run(repair)
        except StoreUnavailable as problem:
            raise BackOff(
                f"The store prevented the repair of topic {name!r}: {problem.detail}.", topic=name
            ) from problem
        return await self._existing(name) if made.exists else None

    def _run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._sweeps.add(task)
        task.add_done_callback(self._sweeps.discard)

    async def _remove_dead(self, topic: OpenTopic, topic_id: str) -> None:
        """Remove the dead segments from the table for which the commit that moved the log starts had no room."""
        change = RemoveDeadSegments(topic_id=topic_id, removes_max=self._bounds.removes_max)
        try:
            while (await topic.commit(change)).result:
                pass
        except TidelogError as problem:
            _log.warning("segments of topic %s below its log starts are left to maintenance: %s", topic.name, problem)

    async def _delete_segments(self, name: str, paths: tuple[str, ...]) -> None:
        for path in paths:
            try:
                await self._cold_pool.run(self._cold_store.delete, f"{layout.topic_root(name)}{path}")
            except (StoreUnavailable, BackOff) as problem:
                _log.warning("segments of the deleted topic %s are left to the collector: %s", name, problem)
                return


def _page(found: Sequence[TopicState | DamagedTopic], next_after: str | None) -> TopicPage:
    return TopicPage(
        topics=[one for one in found if isinstance(one, TopicState)],
        damaged=[one for one in found if isinstance(one, DamagedTopic)],
        next_after=next_after,
    )


def _count_fitting(topics: Sequence[TopicState | DamagedTopic], limit: int, partitions_max: int) -> int:
    """Return how many topics fit a page: at most ``limit``, with ``partitions_max`` partitions in total, at least one topic."""
    partitions = 0
    for count, topic in enumerate(topics[:limit]):
        partitions += topic.partition_count
        if count and partitions > partitions_max:
            return count
    return limit
