"""The poll of groups: one call that joins, commits, acknowledges and reads, for clients without state (docs/http-api.md section
7.7).

1. The client's commit is applied before its acknowledgement, so that it counts for partitions that the member then loses.
2. The offset at which a partition is first read is committed before the answer, so that a later poll never skips a record.
3. A change of the group ends the waiting immediately.
4. A failure after a committed join, commit or acknowledgement is reported in each partition. It never refuses the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from gateway.call import second_part
from gateway.engine.bounds import PARTITIONS_PER_STEP
from gateway.engine.fetch_answer import FetchAnswer, Fetched, FetchFrom, FetchLimits
from gateway.engine.fetcher import Fetcher
from gateway.engine.open_topics import OpenTopics
from gateway.engine.waiters import Wakeup
from gateway.groups.membership.coordinator import Coordinator
from gateway.groups.membership.live_group import HeartbeatResult, LiveGroup
from gateway.groups.membership.session import Session
from gateway.groups.offsets.committed import CommittedOffsets, NextOffset, assume_connected
from gateway.groups.offsets.incarnations import Key
from gateway.memory_budget import Memory
from log_format.clock import Clock
from log_format.errors import ErrorCode, RequestRefused, TidelogError
from log_format.groups.changes import CoordinatorFenced
from log_format.groups.holdings import partition_keys
from log_format.records.filter import RecordFilter

AutoReset = Literal["earliest", "latest", "none"]


async def _all_readable(_topics: Iterable[str]) -> Mapping[str, TidelogError]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class PollRequest:
    """A member's poll. ``generation`` None: nothing is acknowledged."""

    member_id: str
    generation: int | None
    commit: Sequence[NextOffset]
    positions: Mapping[Key, int]
    topic_ids: Mapping[Key, str] = field(default_factory=dict)
    """Ids of the topics that positions belong to, as far as the caller gives them."""
    auto_offset_reset: AutoReset
    limits: FetchLimits
    filter: RecordFilter | None = None
    """Filter of the wanted records; None: all."""
    unreadable: Callable[[Iterable[str]], Awaitable[Mapping[str, TidelogError]]] = _all_readable
    """Function that returns those of the topics that the caller may not read now, each with the error for its partitions."""
    check_connected: Callable[[], Awaitable[None]] = assume_connected
    """Check that is made before the offsets are committed (``CommittedOffsets.commit``)."""
    has_joined: bool = False
    """Whether the member joined by this very call."""

    def for_member(self, member_id: str) -> PollRequest:
        """Return the same poll for a member that has just joined."""
        return replace(self, member_id=member_id, has_joined=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class PollResult:
    """A poll's result. ``parts`` of the answer are the results of ``keys``."""

    member_id: str
    generation: int
    rebalanced: bool
    keys: Sequence[Key]
    answer: FetchAnswer


@dataclass(slots=True)
class _Poll:
    """One poll under way."""

    group: LiveGroup
    wish: PollRequest
    session: Session
    wakeup: Wakeup
    known: int
    """Generation that the client knows."""
    deadline_ms: int
    positions: dict[Key, int]
    topic_ids: dict[Key, str]
    """Ids of the topics that positions belong to, as far as the caller gave them or they were found here."""
    has_changed: bool
    """Whether any change that the poll asked for is committed."""
    failed: dict[Key, TidelogError] = field(default_factory=dict)
    unchecked: set[Key] = field(default_factory=set)
    """Keys of the caller's ``topic_ids`` whose topic was not looked at yet."""
    recreated: set[Key] = field(default_factory=set)
    """Partitions with a position in a topic that was deleted: the present topic of that name is read from its start."""
    is_fenced: bool = False
    """Whether the group refused to commit the offsets where reading begins: another generation has begun."""


class Polling:
    """Polls of group members. Used on the event loop only."""

    def __init__(
        self,
        coordinator: Coordinator,
        committed: CommittedOffsets,
        fetching: Fetcher,
        topics: OpenTopics,
        *,
        clock: Clock,
    ) -> None:
        self._draining = False
        self._coordinator = coordinator
        self._committed = committed
        self._fetching = fetching
        self._topics = topics
        self._clock = clock

    def end_waits(self) -> None:
        """Answer all polls immediately from now on."""
        self._draining = True
        self._coordinator.wake_all()

    async def poll(self, group: LiveGroup, wish: PollRequest, memory: Memory) -> PollResult:
        """Commit, acknowledge, read. Once the member has joined by this call, or its commit succeeded, nothing is refused any
        more.

        Raises ``RequestRefused`` (of members, of the commit), ``BackOff``, ``OutcomeUnknown``.
        """
        group.member(wish.member_id)
        wakeup = Wakeup()
        with group.polling(wish.member_id, wakeup) as session, second_part():
            poll = _Poll(
                group,
                wish,
                session,
                wakeup,
                known=session.acknowledged if wish.generation is None else wish.generation,
                deadline_ms=self._clock.monotonic_ms() + wish.limits.wait_ms_max,
                positions=dict(wish.positions),
                topic_ids=dict(wish.topic_ids),
                unchecked=set(wish.topic_ids),
                has_changed=wish.has_joined,
            )
            try:
                await self._commit(poll)
                while True:
                    heard = await self._acknowledge(poll)
                    await self._find_positions(poll, heard)
                    read = await self._fetch(poll, heard, memory)
                    if read is not None:
                        return await self._answer(poll, heard, *read)
            except TidelogError as problem:
                if not poll.has_changed:
                    raise
                return _fail_all_partitions(poll, problem, memory)

    async def _commit(self, poll: _Poll) -> None:
        wish = poll.wish
        if wish.commit:
            await self._committed.commit(
                *(poll.group.name, wish.commit, wish.member_id, wish.generation),
                epoch=poll.group.row.epoch,
                check_connected=wish.check_connected,
            )
            poll.has_changed = True

    async def _acknowledge(self, poll: _Poll) -> HeartbeatResult:
        poll.wakeup.clear()
        heard = await poll.group.heartbeat(poll.wish.member_id, poll.wish.generation)
        poll.has_changed = poll.has_changed or heard.has_changed
        return heard

    async def _find_positions(self, poll: _Poll, heard: HeartbeatResult) -> None:
        """Find where reading begins in partitions without a position, and commit these offsets."""
        wish, group, positions = poll.wish, poll.group, poll.positions
        failed: dict[Key, TidelogError] = {}
        poll.failed, poll.is_fenced = failed, False
        failed.update(await _unreadable(wish, list(partition_keys(heard.readable))))
        for key in failed:
            positions.pop(key, None)
        await self._drop_recreated(poll, heard)
        unknown = [key for key in partition_keys(heard.readable) if key not in positions and key not in failed]
        if not unknown:
            return
        committed = await self._committed.of_partitions(group.name, unknown)
        begun: list[NextOffset] = []
        instead_of: dict[Key, int | None] = {}
        arrival_ms = self._clock.monotonic_ms()
        for number, key in enumerate(sorted(unknown), 1):
            if number % PARTITIONS_PER_STEP == 0:
                await asyncio.sleep(0)
            try:
                state = (await self._topics.fresh(key[0], arrival_ms)).require_partition(key[1])
            except TidelogError as error:
                failed[key] = error
                continue
            start, end = state.log_start(key[1]), state.high_watermark(key[1])
            row = committed.get(key)
            # A committed offset of an earlier topic of the name does not count.
            offset = None if row is None or row.topic_id != state.topic_id else row.offset
            poll.topic_ids[key] = state.topic_id or ""
            if offset is not None and start <= offset <= end:
                positions[key] = offset
            elif wish.auto_offset_reset == "none":
                failed[key] = _no_offset(group.name, key, offset)
            else:
                is_at_start = wish.auto_offset_reset == "earliest" or key in poll.recreated
                positions[key] = start if is_at_start else end
                one = NextOffset(topic=key[0], partition=key[1], offset=positions[key], topic_id=state.topic_id)
                begun.append(one)
                instead_of[key] = offset
        if begun:
            try:
                await self._committed.commit(group.name, begun, wish.member_id, heard.generation, instead_of=instead_of)
                poll.has_changed = True
            except RequestRefused:
                poll.is_fenced = True
                for one in begun:
                    del positions[one.key]

    async def _drop_recreated(self, poll: _Poll, heard: HeartbeatResult) -> None:
        """Drop positions in topics that were made anew since."""
        arrival_ms = self._clock.monotonic_ms()
        for key in partition_keys(heard.readable) if poll.unchecked else ():
            if key not in poll.unchecked or key not in poll.positions:
                continue
            poll.unchecked.discard(key)
            try:
                state = (await self._topics.fresh(key[0], arrival_ms)).require_state()
            except TidelogError:
                continue  # The fetch reports the error.
            if state.topic_id != poll.topic_ids[key]:
                del poll.positions[key]
                poll.recreated.add(key)

    async def _fetch(self, poll: _Poll, heard: HeartbeatResult, memory: Memory) -> tuple[list[Key], FetchAnswer] | None:
        """Return the partitions and their records; None when the group changed first."""
        is_news = poll.failed or _is_rebalanced(poll, heard) or self._draining
        wait_ms = 0 if is_news else max(0, poll.deadline_ms - self._clock.monotonic_ms())
        keys = _rotate(sorted(key for key in partition_keys(heard.readable) if key in poll.positions), poll.session)
        limits = replace(poll.wish.limits, wait_ms_max=wait_ms)
        wanted = [
            FetchFrom(
                topic=key[0],
                partition=key[1],
                offset=poll.positions[key],
                filter=poll.wish.filter,
                topic_id=poll.topic_ids.get(key),
            )
            for key in keys
        ]
        answer = await self._fetched(wanted, limits, memory, poll.wakeup)
        return None if answer is None else (keys, answer)

    async def _answer(self, poll: _Poll, heard: HeartbeatResult, keys: list[Key], answer: FetchAnswer) -> PollResult:
        """Return the answer to a caller that is still a member. Raises what ``poll`` raises."""
        group, member_id = poll.group, poll.wish.member_id
        try:
            if not await self._coordinator.is_current(group):
                raise CoordinatorFenced(group.name)
            failed = poll.failed | await _unreadable(poll.wish, keys)
            group.member(member_id)
        except BaseException:  # Also when the client went away meanwhile.
            answer.reservation.release()
            raise
        # Only now: the steps before may have taken long, and that is not the member's fault.
        group.note_told(member_id, heard.generation)
        keys, answer.parts = _sort(keys, answer.parts, failed)
        return PollResult(
            member_id=member_id,
            generation=heard.generation,
            rebalanced=_is_rebalanced(poll, heard),
            keys=keys,
            answer=answer,
        )

    async def _fetched(
        self, wanted: Sequence[FetchFrom], limits: FetchLimits, memory: Memory, wakeup: Wakeup
    ) -> FetchAnswer | None:
        """Return the records found; None when the group changed first."""
        if not wanted:
            changed = limits.wait_ms_max > 0 and await wakeup.wait(limits.wait_ms_max)
            return None if changed else FetchAnswer([], memory.reserve(0))
        work = self._fetching.fetch(wanted, limits, memory, self._clock.monotonic_ms())
        if limits.wait_ms_max == 0:
            return await work
        fetch = asyncio.ensure_future(work)
        change = asyncio.ensure_future(wakeup.wait(limits.wait_ms_max + 1_000))
        is_taken = False
        try:
            await asyncio.wait((fetch, change), return_when=asyncio.FIRST_COMPLETED)
            if not fetch.done():
                fetch.cancel()
                await asyncio.wait((fetch,))
            # The fetch may have ended just before it was cancelled.
            is_taken = True
            return None if fetch.cancelled() else fetch.result()
        finally:
            change.cancel()
            # The client may have gone just when it was answered: no other code releases the memory.
            if not is_taken and not fetch.cancel() and not fetch.cancelled() and fetch.exception() is None:
                fetch.result().reservation.release()


def _is_rebalanced(poll: _Poll, heard: HeartbeatResult) -> bool:
    return poll.is_fenced or heard.generation != poll.known


def _fail_all_partitions(poll: _Poll, problem: TidelogError, memory: Memory) -> PollResult:
    """Return the answer of a poll that has changed something and then failed: every partition has the problem.

    The answer names no generation that is new to the member, so its last acknowledgement still holds.
    """
    member_id = poll.wish.member_id
    keys = sorted(partition_keys(poll.group.holdings.readable(member_id)))
    is_out = isinstance(problem, RequestRefused)
    return PollResult(
        member_id=member_id,
        generation=poll.known,
        rebalanced=is_out,
        keys=keys,
        answer=FetchAnswer([problem] * len(keys), memory.reserve(0)),
    )


def _sort(
    keys: Sequence[Key], parts: Sequence[Fetched | TidelogError], failed: Mapping[Key, TidelogError]
) -> tuple[list[Key], list[Fetched | TidelogError]]:
    """Return the keys and their results or errors, in order of topic and partition."""
    found: dict[Key, Fetched | TidelogError] = {**dict(zip(keys, parts, strict=True)), **failed}
    ordered = sorted(found)
    return ordered, [found[key] for key in ordered]


async def _unreadable(wish: PollRequest, keys: Sequence[Key]) -> dict[Key, TidelogError]:
    """Return the partitions that the caller may not read now, with their errors; rights may have changed while it waited."""
    topics = await wish.unreadable({topic for topic, _ in keys})
    return {key: topics[key[0]] for key in keys if key[0] in topics} if topics else {}


def _rotate(keys: list[Key], session: Session) -> list[Key]:
    """Return the partitions, rotated with each poll, since limits are totals."""
    if not keys:
        return keys
    session.turn = (session.turn + 1) % len(keys)
    return keys[session.turn :] + keys[: session.turn]


def _no_offset(name: str, key: Key, offset: int | None) -> RequestRefused:
    is_none = offset is None or offset < 0
    what = "has no committed offset" if is_none else f"has committed offset {offset}, which is not in the log,"
    return RequestRefused(
        f"Group {name!r} {what} for {key[0]}/{key[1]}, and auto_offset_reset is none.",
        code=ErrorCode.NO_COMMITTED_OFFSET,
    )
