"""One group as its coordinator has it in memory: sessions, and the row that the table holds.

1. The row changes only by commits to the table, one after another; what happens meanwhile shares the next.
2. Sessions are in memory: when one ended, when a member learned of a generation. A coordinator that takes over starts them anew.
3. A partition is free for its new member once the row says so, never by memory alone.

Belongs to the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from gateway.call import stands, unasked
from gateway.engine.waiting import Wakeup
from gateway.groups.bounds import GROUP_PARTITIONS_MAX, LARGE_GROUP_PARTITIONS, LEASE_MS
from gateway.groups.regrouping import Happened, Subscriptions, frozen, members_after, next_row
from gateway.groups.session import Session
from gateway.groups.subscription import SeenTopics
from gateway.problem import overloaded
from log_format.clock import Clock
from log_format.errors import BackOff, ErrorCode, OutcomeUnknown, RequestRefused, TidelogError
from log_format.groups.changes import CoordinatorFenced, fenced_member, stale, unknown_member
from log_format.groups.holdings import Holdings
from log_format.groups.memory import row_bytes
from log_format.groups.row import GroupRow, MemberRow, Partitions

T = TypeVar("T")
Write = Callable[[GroupRow], Awaitable[GroupRow]]
"""Commits a row; what it raises says whether that may have happened."""
Resolve = Callable[[Sequence[MemberRow]], Awaitable[Subscriptions]]
"""Finds out what members subscribe to."""

Admit = Callable[[int], None]
"""Raises ``BackOff`` where a row may not take so many bytes of memory more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """A member as the row that took it in has it, and what it may read by that row."""

    member: MemberRow
    readable: Partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What a heartbeat found: the newest generation, what the member may read, and whether it acknowledged anything new."""

    generation: int
    readable: Partitions
    session_timeout_ms: int
    has_changed: bool


@dataclass(slots=True)
class _Waiting:
    """What the next row takes in, and who waits for it."""

    joins: list[MemberRow] = field(default_factory=list)
    leaves: set[str] = field(default_factory=set)
    acknowledged: dict[str, int] = field(default_factory=dict)
    topics_changed: bool = False
    done: asyncio.Future[GroupRow] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def __bool__(self) -> bool:
        return bool(self.joins or self.leaves or self.acknowledged or self.topics_changed)


class LiveGroup:
    """A group that this gateway coordinates. ``is_lost``: it does not any more, or can't tell; it has to be claimed anew.

    ``expect`` is called with it when there are new sessions, whoever still waits for them: somebody has to see their end.
    """

    def __init__(
        self,
        row: GroupRow,
        *,
        write: Write,
        resolve: Resolve,
        expect: Callable[[LiveGroup], None],
        clock: Clock,
        admit: Admit = lambda _growth_bytes: None,
    ) -> None:
        self.row = row
        self.holdings = Holdings(row)
        self.is_lost = False
        self._write = write
        self._resolve = resolve
        self._expect = expect
        self._admit = admit
        self._refused: dict[str, TidelogError] = {}
        """Members that did not get in, though others' leaving did."""
        self._clock = clock
        now_ms = clock.monotonic_ms()
        self.sessions = {
            member.member_id: Session(now_ms + LEASE_MS, member.session_timeout_ms, member.acknowledged)
            for member in row.members
        }
        self._waiting = _Waiting()
        self._running: asyncio.Task[None] | None = None
        self._polls: dict[str, list[Wakeup]] = {}
        self._assignor = row.assignor or ""
        self._subscriptions: Subscriptions | None = None

    @property
    def name(self) -> str:
        """Of the group."""
        return self.row.group

    @property
    def is_idle(self) -> bool:
        """Whether nothing would be lost by forgetting it."""
        return not self.sessions and not self._waiting and self._running is None

    @property
    def state(self) -> str:
        """The contract's."""
        if not self.row.members:
            return "Empty"
        settled = all(
            self.sessions[member.member_id].acknowledged == self.row.generation
            and self.holdings.readable(member.member_id) == member.target
            for member in self.row.members
        )
        return "Stable" if settled else "Reconciling"

    def member(self, member_id: str) -> MemberRow:
        """Raises ``RequestRefused`` (``UNKNOWN_MEMBER``, ``FENCED_MEMBER``)."""
        for row in self.row.members:
            if row.member_id == member_id:
                if self.sessions[member_id].is_ended:
                    break
                return row
            if member_id in row.former_ids:
                raise fenced_member(self.name, member_id)
        raise unknown_member(self.name, member_id)

    async def join(self, member: MemberRow, assignor: str) -> Joined:
        """The member at the generation that took it in. Raises ``RequestRefused``, ``BackOff``, ``OutcomeUnknown``."""
        used = self.row.assignor if self.row.members else None
        if used is None and (self._waiting.joins or self._running is not None):
            used = self._assignor
        if used and used != assignor:
            raise RequestRefused(
                f"The members of group {self.name!r} use the assignor {used}, not {assignor}.",
                code=ErrorCode.INCONSISTENT_ASSIGNOR,
            )
        self._assignor = assignor
        self._waiting.joins.append(member)
        row = await self._taken_in()
        refusal = self._refused.pop(member.member_id, None)
        if refusal is not None:
            raise refusal
        for taken_in in row.members:
            if taken_in.member_id == member.member_id:
                stands()
                return Joined(member=taken_in, readable=Holdings(row).readable(member.member_id))
        # The next instance of a static member came in the same moment.
        raise fenced_member(self.name, member.member_id)

    async def leave(self, member_ids: Iterable[str]) -> None:
        """Take these out. Raises as ``join``."""
        self._waiting.leaves |= set(member_ids)
        await self._taken_in()
        stands()

    async def topics_changed(self) -> None:
        """Assign anew if topics or partitions are others than before. Raises as ``join``."""
        self._waiting.topics_changed = True
        await self._taken_in()

    def is_behind(self, seen: SeenTopics) -> bool:
        """Whether its members' topics or partitions are others than when they were assigned."""
        return self._subscriptions is None or seen.differ(self.row.members, self._subscriptions)

    async def heartbeat(self, member_id: str, generation: int | None) -> Heard:
        """Acknowledge ``generation`` (None: nothing); what holds then. Raises as ``join``."""
        member = self.member(member_id)
        session = self.sessions[member_id]
        session.seen_ms = max(session.seen_ms, self._clock.monotonic_ms())
        before = session.acknowledged
        if generation is not None and generation > self.row.generation:
            raise stale(self.name, f"generation {generation} was never given out; {self.row.generation} is the newest")
        if generation == self.row.generation:
            row = await self._acknowledge(member_id, session, generation)
            if row is not None:
                return self._heard(row, member, has_changed=True)
        elif generation is not None and generation > session.acknowledged:
            # It let go of what that one took from it, and learns only now that there is a newer one.
            session.acknowledged, session.learned_ms = generation, None
        return self._heard(self.row, member, has_changed=session.acknowledged != before)

    def told(self, member_id: str, generation: int) -> None:
        """The member is about to hear of the generation: from now on it has a session's time to acknowledge it."""
        session = self.sessions.get(member_id)
        if session is not None and session.acknowledged < generation and session.learned_ms is None:
            session.learned_ms = self._clock.monotonic_ms()

    def check_commit(self, member_id: str, generation: int) -> None:
        """Raise ``RequestRefused`` unless the generation is the member's last, or the present one."""
        self.member(member_id)
        acknowledged = self.sessions[member_id].acknowledged
        if generation not in (acknowledged, self.row.generation):
            raise stale(
                self.name, f"generation {generation} is neither {acknowledged}, its last, nor {self.row.generation}"
            )

    @contextmanager
    def polling(self, member_id: str, wakeup: Wakeup) -> Iterator[Session]:
        """While this lasts the member is alive, and ``wakeup`` is set by whatever changes in the group."""
        session = self.sessions[member_id]
        session.seen_ms = max(session.seen_ms, self._clock.monotonic_ms())
        session.polls += 1
        self._polls.setdefault(member_id, []).append(wakeup)
        try:
            yield session
        finally:
            session.polls -= 1
            if not session.is_ended:
                session.seen_ms = max(session.seen_ms, self._clock.monotonic_ms())
            self._polls[member_id].remove(wakeup)
            if not self._polls[member_id]:
                del self._polls[member_id]

    def has_ended_sessions(self, now_ms: int) -> bool:
        """Whether there is something to do for ``end_sessions``."""
        return any(session.deadline_ms(now_ms) <= now_ms for session in self.sessions.values())

    async def end_sessions(self) -> list[str]:
        """Tell members that are out so, and take out those whose session is over by their own clock. Raises as ``join``."""
        now_ms = self._clock.monotonic_ms()
        for session in self.sessions.values():
            session.is_ended = session.is_ended or session.deadline_ms(now_ms) <= now_ms
        self.wake_all()
        over = [name for name, session in self.sessions.items() if session.is_ended and session.over_ms <= now_ms]
        if over:
            await self.leave(over)
        return over

    def next_deadline_ms(self, now_ms: int) -> int | None:
        """When to look for ended sessions; None: there are none."""
        return min((session.deadline_ms(now_ms) for session in self.sessions.values()), default=None)

    def stood_still(self, duration_ms: int) -> None:
        """This process did not run for so long: no session did."""
        for session in self.sessions.values():
            session.seen_ms += duration_ms
            if session.learned_ms is not None:
                session.learned_ms += duration_ms

    def wake_all(self) -> None:
        """Let everybody who waits look at the group again."""
        for waiting in self._polls.values():
            for wakeup in waiting:
                wakeup.set()

    def _heard(self, row: GroupRow, member: MemberRow, *, has_changed: bool) -> Heard:
        holdings = self.holdings if row is self.row else Holdings(row)
        return Heard(
            generation=row.generation,
            readable=holdings.readable(member.member_id),
            session_timeout_ms=member.session_timeout_ms,
            has_changed=has_changed,
        )

    async def _acknowledge(self, member_id: str, session: Session, generation: int) -> GroupRow | None:
        """The row that says so; None where it says so already, or need not."""
        if session.acknowledged == generation:
            return None
        member = self.member(member_id)
        if any(set(numbers) - set(member.target.get(topic, ())) for topic, numbers in member.held.items()):
            self._waiting.acknowledged[member_id] = generation
            row = await self._taken_in()
            stands()
            return row
        if session.acknowledged < generation:
            session.acknowledged = generation
            session.learned_ms = None
        return None

    # The one way to a new row

    async def _taken_in(self) -> GroupRow:
        """The row with what was asked, once it is in the table. It goes on when the caller is cancelled."""
        done = self._waiting.done
        if self._running is None:
            with unasked():  # a run takes in what others ask, too
                self._running = asyncio.create_task(self._run())
        return await asyncio.shield(done)

    async def _run(self) -> None:
        try:
            while self._waiting:
                taken, self._waiting = self._waiting, _Waiting()
                try:
                    await self._take_in(taken)
                except TidelogError as error:
                    if isinstance(error, CoordinatorFenced | OutcomeUnknown):
                        self.is_lost = True
                    _fail(taken.done, error)
                finally:
                    _fail(taken.done, OutcomeUnknown("The group's change ended without an outcome."))
        finally:
            self._running = None
            if self._waiting:
                # Nobody foresaw what ended this run. Who came meanwhile must not wait for the next one that comes.
                taken, self._waiting = self._waiting, _Waiting()
                _fail(taken.done, BackOff("The group's changes met a defect: this one was not made."))
            self.wake_all()

    async def _take_in(self, taken: _Waiting) -> None:
        """Make the next row. One that may not grow takes in nobody and no topic more, and lets go of everybody who leaves."""
        try:
            row, subscriptions = await self._next_row(taken, taken.joins)
            self._admit(row_bytes(row) - row_bytes(self.row))
        except BackOff as refusal:
            if refusal.code != ErrorCode.OVERLOADED or not (taken.leaves or taken.acknowledged):
                raise
            row, subscriptions = await self._next_row(taken, (), is_frozen=True)
            self._refused = {member.member_id: refusal for member in taken.joins}
        if row != self.row:
            row = await self._write(row)
            self._replace(row)
        self._subscriptions = subscriptions
        if not taken.done.done():
            taken.done.set_result(row)

    async def _next_row(
        self, taken: _Waiting, joins: Sequence[MemberRow], *, is_frozen: bool = False
    ) -> tuple[GroupRow, Subscriptions]:
        acknowledged = {name: session.acknowledged for name, session in self.sessions.items()}
        acknowledged |= taken.acknowledged
        happened = Happened(joins=joins, leaves=taken.leaves, acknowledged=acknowledged)
        size = sum(len(numbers) for member in self.row.members for numbers in member.target.values())
        members = await _by_size(size + len(self.row.members), lambda: members_after(self.row, happened))
        subscriptions = await self._resolve(members)
        counted = frozen(self.row, subscriptions) if is_frozen else subscriptions
        size = sum(counted.counts.values())
        if not is_frozen and size > GROUP_PARTITIONS_MAX:
            raise overloaded(f"Group {self.name!r} would read {size} partitions; {GROUP_PARTITIONS_MAX} is the most.")
        assignor = (self.row.assignor if self.row.members and self.row.assignor else None) or self._assignor
        row = await _by_size(size + len(members), lambda: next_row(self.row, members, counted, assignor))
        return row, subscriptions

    def _replace(self, row: GroupRow) -> None:
        now_ms = self._clock.monotonic_ms()
        before = self.sessions
        self.sessions = {}
        for member in row.members:
            session = before.get(member.member_id) or Session(now_ms, member.session_timeout_ms, member.acknowledged)
            session.acknowledged = max(session.acknowledged, member.acknowledged)
            if session.acknowledged == row.generation:
                session.learned_ms = None
            self.sessions[member.member_id] = session
        self.row = row
        self.holdings = Holdings(row)
        self._expect(self)
        self.wake_all()


async def _by_size(size: int, work: Callable[[], T]) -> T:
    """The result of pure work: of much of it from a thread, so that nobody else waits."""
    return work() if size < LARGE_GROUP_PARTITIONS else await asyncio.to_thread(work)


def _fail(done: asyncio.Future[GroupRow], error: TidelogError) -> None:
    if not done.done():
        done.set_exception(error)
        done.exception()  # whoever waits may be gone
