"""One group in its coordinator's memory: sessions, and the row that the table holds.

1. The row changes only by commits to the table, one after another. Events during a commit share the next one.
2. Sessions are in memory: when each ends, when a member learned of a generation. A new coordinator starts them anew.
3. A partition is free for its new member once the row says so, never before.

Used on the event loop only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gateway.call import mark_committed
from gateway.engine.group_commit import Group, GroupCommit, ImmediateSchedule
from gateway.engine.waiters import Wakeup
from gateway.groups.assignment.next_row import Subscriptions
from gateway.groups.bounds import CHANGES_WAITING_MAX, MEMBERS_MAX, GroupBounds
from gateway.groups.membership.regrouping import Regrouping, RequestedChanges, assignor_of, assignor_refusal
from gateway.groups.membership.session import Session, inherit_session, new_session
from gateway.groups.metrics import GroupMetrics
from gateway.groups.subscription.subscribed_topics import SeenTopics, SubscribedTopics
from gateway.problem import overloaded
from gateway.system_tables.groups import GroupsTable
from gateway.tasks.deadlines import Deadlines
from log_format.clock import Clock
from log_format.cluster.proof import NOBODY
from log_format.errors import BackOff, OutcomeUnknown
from log_format.groups.changes import (
    CoordinatorFenced,
    PutGroup,
    fenced_member_error,
    foreign_instance_error,
    stale_error,
    unknown_member_error,
)
from log_format.groups.holdings import Holdings
from log_format.groups.memory import member_bytes
from log_format.groups.row import GroupRow, MemberRow, Partitions, belongs_to_another

_log = logging.getLogger("gateway.groups")


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedMember:
    """A member as in the row that took it in, and the partitions that it may read by that row."""

    member: MemberRow
    readable: Partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatResult:
    """A heartbeat's result: the newest generation, what the member may read, and whether it acknowledged a new generation."""

    generation: int
    readable: Partitions
    session_timeout_ms: int
    has_changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupParts:
    """Parts needed to coordinate a group."""

    table: GroupsTable
    subscribed: SubscribedTopics
    regrouping: Regrouping
    deadlines: Deadlines
    clock: Clock
    metrics: GroupMetrics
    bounds: GroupBounds


class LiveGroup:
    """A group that this gateway coordinates.

    ``is_lost``: whether it does so no more, or can't tell; then the group must be claimed anew.
    """

    def __init__(self, row: GroupRow, parts: GroupParts) -> None:
        self.row = row
        self.holdings = Holdings(row)
        self.is_lost = False
        self._parts = parts
        self._clock = parts.clock
        now_ms = self._clock.monotonic_ms()
        self.sessions = {
            member.member_id: inherit_session(member, now_ms + parts.bounds.lease_ms) for member in row.members
        }
        self._changes: GroupCommit[RequestedChanges, GroupRow] = GroupCommit(
            self._commit_changes,
            schedule=ImmediateSchedule(),
            label=f"group {row.group!r}",
            waiting_max=CHANGES_WAITING_MAX,
        )
        self._polls: dict[str, list[Wakeup]] = {}
        self._subscriptions: Subscriptions | None = None

    @property
    def name(self) -> str:
        """The group's name."""
        return self.row.group

    @property
    def is_idle(self) -> bool:
        """Whether dropping the group from memory loses nothing."""
        return not self.sessions and self.is_quiet

    @property
    def is_quiet(self) -> bool:
        """Whether no change is under way."""
        return self._changes.is_idle

    @property
    def member_count(self) -> int:
        """Number of members in the row."""
        return len(self.sessions)

    @property
    def state(self) -> str:
        """State in the words of the HTTP contract."""
        if not self.row.members:
            return "Empty"
        settled = all(
            self.sessions[member.member_id].acknowledged == self.row.generation
            and self.holdings.readable(member.member_id) == member.target
            for member in self.row.members
        )
        return "Stable" if settled else "Reconciling"

    def member(self, member_id: str) -> MemberRow:
        """Return a member's row. Raises ``RequestRefused`` (``UNKNOWN_MEMBER``, ``FENCED_MEMBER``)."""
        for row in self.row.members:
            if row.member_id == member_id:
                if self.sessions[member_id].is_ended:
                    break
                return row
            if member_id in row.former_ids:
                raise fenced_member_error(self.name, member_id)
        raise unknown_member_error(self.name, member_id)

    def speaks_classic(self, member_id: str) -> bool:
        """Return whether this is a member that speaks Kafka's classic protocol."""
        return any(one.member_id == member_id and one.classic is not None for one in self.row.members)

    async def join(self, member: MemberRow, assignor: str) -> JoinedMember:
        """Let a member join; return it at the generation that took it in. A member whose id is known begins anew.

        Raises ``RequestRefused``, ``BackOff``, ``OutcomeUnknown``.
        """
        if len(self.row.members) >= MEMBERS_MAX:
            raise overloaded(f"Group {self.name!r} has {MEMBERS_MAX} members already.")
        owner = NOBODY if member.reader is None else member.reader.principal
        same = [
            one for one in self.row.members if member.instance_id is not None and one.instance_id == member.instance_id
        ]
        if any(belongs_to_another(one.reader, owner) for one in same):
            raise foreign_instance_error(self.name, member.instance_id)
        is_back = member.member_id in self.sessions
        if is_back:
            # By joining, its client says that it reads nothing any more.
            self.sessions[member.member_id] = new_session(member, self._clock.monotonic_ms())
        asked = RequestedChanges(
            join=member, assignor=assignor, leaves=frozenset({member.member_id} if is_back else ())
        )
        refusal = assignor_refusal(self.row, asked, assignor_of(self.row, ()))
        if refusal is not None:
            raise refusal
        row = await self._next(asked)
        for taken_in in row.members:
            if taken_in.member_id == member.member_id:
                mark_committed()
                return JoinedMember(member=taken_in, readable=Holdings(row).readable(member.member_id))
        # The static member's next instance joined in the same commit.
        raise fenced_member_error(self.name, member.member_id)

    async def leave(self, member_ids: Iterable[str]) -> None:
        """Take these members out. Raises what ``join`` raises."""
        await self._next(RequestedChanges(leaves=frozenset(member_ids)))
        mark_committed()

    async def subscribe(self, member_id: str, topics: tuple[str, ...], pattern: str | None) -> None:
        """Change a member's subscription. Raises what ``join`` raises."""
        await self._next(RequestedChanges(subscribed={member_id: (topics, pattern)}))

    async def topics_changed(self) -> None:
        """Assign anew if topics or partitions have changed. Raises what ``join`` raises."""
        await self._next(RequestedChanges())

    def is_behind(self, seen: SeenTopics) -> bool:
        """Return whether the members' topics or partitions have changed since they were assigned."""
        return self._subscriptions is None or seen.differ(self.row.members, self._subscriptions)

    async def heartbeat(self, member_id: str, generation: int | None) -> HeartbeatResult:
        """Acknowledge ``generation`` (None: nothing); return what holds then. Raises what ``join`` raises."""
        member = self.member(member_id)
        session = self.sessions[member_id]
        session.seen_ms = max(session.seen_ms, self._clock.monotonic_ms())
        before = session.acknowledged
        session.is_inherited &= generation is None
        if generation is not None and generation > self.row.generation:
            raise stale_error(
                self.name, f"generation {generation} was never assigned; the newest is {self.row.generation}"
            )
        if generation == self.row.generation:
            row = await self._acknowledge(member_id, session, generation)
            if row is not None:
                return self._heard(row, member, has_changed=True)
        elif generation is not None and generation > session.acknowledged:
            # The member let go of what that generation took from it, and learns only now of a newer one.
            session.acknowledged, session.learned_ms = generation, None
        return self._heard(self.row, member, has_changed=session.acknowledged != before)

    def recall(self, member_id: str, generation: int) -> None:
        """Take the member's word for the generation that it acknowledged last, if an earlier coordinator may have taken that
        acknowledgement."""
        session = self.sessions[member_id]
        if self._may_recall(member_id, generation):
            session.acknowledged = generation
        session.is_inherited &= generation != session.acknowledged

    def note_told(self, member_id: str, generation: int) -> None:
        """Note that the member is about to hear of the generation. From now on it has a session's time to acknowledge it."""
        session = self.sessions.get(member_id)
        if session is not None and session.acknowledged < generation:
            self.note_called(session)

    def note_called(self, session: Session) -> None:
        """Note that a member is told to acknowledge, or to join again."""
        if session.learned_ms is None:
            session.learned_ms = self._clock.monotonic_ms()

    def check_commit(self, member_id: str, generation: int) -> None:
        """Raise ``RequestRefused`` unless the generation is the member's last one or the group's present one."""
        self.member(member_id)
        acknowledged = self.sessions[member_id].acknowledged
        if generation not in (acknowledged, self.row.generation) and not self._may_recall(member_id, generation):
            raise stale_error(
                self.name,
                (
                    f"generation {generation} is neither the member's last, {acknowledged}, nor the group's, "
                    f"{self.row.generation}"
                ),
            )

    @contextmanager
    def polling(self, member_id: str, wakeup: Wakeup) -> Iterator[Session]:
        """Keep the member alive while the context lasts, and set ``wakeup`` at each change of the group."""
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
        """Return whether ``end_sessions`` has something to do."""
        return any(session.deadline_ms(now_ms) <= now_ms for session in self.sessions.values())

    async def end_sessions(self) -> list[str]:
        """Mark members whose session ended, so that they are told; take out those whose session is over by their own clock, too.
        Return the members taken out. Raises what ``join`` raises."""
        now_ms = self._clock.monotonic_ms()
        for session in self.sessions.values():
            session.is_ended = session.is_ended or session.deadline_ms(now_ms) <= now_ms
        self.wake_all()
        over = [name for name, session in self.sessions.items() if session.is_ended and session.over_ms <= now_ms]
        if over:
            await self.leave(over)
        return over

    def seen_ms(self, now_ms: int) -> dict[str, int]:
        """Return when each member was heard of last (monotonic clock), by its id. A member whose poll waits is heard of now."""
        return {
            name: now_ms if session.polls else session.seen_ms
            for name, session in self.sessions.items()
            if not session.is_inherited
        }

    def expect_end(self) -> None:
        """Let the upkeep look at the sessions when the first may end, whether or not its member's calls go on."""
        now_ms = self._clock.monotonic_ms()
        first_ms = min((session.deadline_ms(now_ms) for session in self.sessions.values()), default=None)
        self._parts.deadlines.expect(self.name, first_ms)

    def postpone(self, duration_ms: int) -> None:
        """Extend all sessions by the time for which this process was suspended."""
        for session in self.sessions.values():
            session.seen_ms += duration_ms
            if session.learned_ms is not None:
                session.learned_ms += duration_ms

    def wake_all(self) -> None:
        """Wake every waiting poll."""
        for waiting in self._polls.values():
            for wakeup in waiting:
                wakeup.set()

    def _may_recall(self, member_id: str, generation: int) -> bool:
        """Return whether an earlier coordinator may have taken the acknowledgement. One that frees partitions is in the row."""
        session = self.sessions[member_id]
        if not session.is_inherited or not session.acknowledged < generation <= self.row.generation:
            return False
        return generation < self.row.generation or not _has_lost(self.member(member_id))

    def _heard(self, row: GroupRow, member: MemberRow, *, has_changed: bool) -> HeartbeatResult:
        holdings = self.holdings if row is self.row else Holdings(row)
        return HeartbeatResult(
            generation=row.generation,
            readable=holdings.readable(member.member_id),
            session_timeout_ms=member.session_timeout_ms,
            has_changed=has_changed,
        )

    async def _acknowledge(self, member_id: str, session: Session, generation: int) -> GroupRow | None:
        """Return the row with the acknowledgement; None if the row has the acknowledgement already, or needs none."""
        if session.acknowledged == generation:
            return None
        member = self.member(member_id)
        if _has_lost(member):
            row = await self._next(RequestedChanges(acknowledged={member_id: generation}))
            mark_committed()
            return row
        if session.acknowledged < generation:
            session.acknowledged = generation
            session.learned_ms = None
        return None

    # The one way to a new row

    async def _next(self, asked: RequestedChanges) -> GroupRow:
        """Return the row with the change, once it is in the table. The change goes on when the caller is cancelled."""
        if self.is_lost:
            # Another group may have taken its place under the same epoch, while it was idle.
            raise CoordinatorFenced(self.name)
        pending = self._changes.submit(asked)
        try:
            growth_bytes = 0 if asked.join is None else member_bytes(asked.join)
            pending.settled.add_done_callback(self._parts.table.budget.admit(growth_bytes))
        except BackOff:
            self._changes.withdraw(pending)
            raise
        return await asyncio.shield(pending.settled)

    async def _commit_changes(self, group: Group[RequestedChanges, GroupRow]) -> None:
        """Make the next row of all changes in the group commit, and commit it."""
        try:
            next_row = await self._parts.regrouping.next_row(self.row, group.items, self._acknowledged())
            row = await self._write(next_row.row) if next_row.row != self.row else self.row
            self._subscriptions = next_row.subscriptions
        except (CoordinatorFenced, OutcomeUnknown):
            self.is_lost = True
            raise
        finally:
            self.wake_all()
        group.settle([refusal or row for refusal in next_row.refusals])

    def _acknowledged(self) -> dict[str, int]:
        return {name: session.acknowledged for name, session in self.sessions.items()}

    async def _write(self, row: GroupRow) -> GroupRow:
        """Commit the row and use it from then on; return it as committed."""
        written = (await self._parts.table.decide(PutGroup(row=row))).row
        assert written is not None
        if written.generation != self.row.generation:
            self._parts.metrics.rebalances.inc()
            _log.info("group %s: generation %d, %d members", row.group, row.generation, len(row.members))
        self._replace(written)
        return written

    def _replace(self, row: GroupRow) -> None:
        now_ms = self._clock.monotonic_ms()
        before = self.sessions
        self.sessions = {}
        for member in row.members:
            session = before.get(member.member_id) or new_session(member, now_ms)
            session.acknowledged = max(session.acknowledged, member.acknowledged)
            if session.acknowledged == row.generation:
                session.learned_ms = None
            self.sessions[member.member_id] = session
        self.row = row
        self.holdings = Holdings(row)
        self.expect_end()


def _has_lost(member: MemberRow) -> bool:
    """Return whether the member may still hold partitions that its generation gives to others."""
    return any(set(numbers) - set(member.target.get(topic, ())) for topic, numbers in member.held.items())
