"""One classic group in its coordinator's memory: the phases of a rebalance, and the row that the table holds.

1. A generation is in the table before any member hears its assignment. So no commit of an older one succeeds after a member
   has begun to read under a newer one, whichever gateway judges it.
2. The row is written once a generation, with the leader's assignment, and when the last member has gone. A gateway that takes
   over reads the members from it and goes on, without a rebalance unless the gateway assigned that generation. A rebalance
   under way begins anew, since clients join again.
3. Of rebalances and sessions only deadlines are kept; ``end_sessions`` acts on those that have passed.

Source: Kafka's classic group protocol, KIP-62, KIP-345 (static members), KIP-394 (a new member gets its id first), KIP-814.

Used on the event loop only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

import msgspec

from gateway.call import mark_committed
from gateway.groups.bounds import MEMBERS_MAX
from gateway.groups.classic.member import ClassicGeneration, ClassicJoinRequest, Member, chosen_protocol, member_of
from gateway.groups.classic.phase import Phase
from gateway.groups.classic.refusal import GroupFull, Rebalancing, inconsistent
from gateway.groups.classic.roster import PromisedIds, Roster
from gateway.groups.classic.stored import ClassicParts, StoredRow, agreed_protocol
from log_format.errors import OutcomeUnknown, TidelogError
from log_format.groups.changes import CoordinatorFenced, fenced_member_error, stale_error, unknown_member_error
from log_format.groups.row import ClassicProtocol, GroupRow

_log = logging.getLogger("gateway.groups")


class ClassicGroup:
    """A classic group that this gateway coordinates. ``is_lost``: whether it does so no more, or can't tell."""

    def __init__(self, row: GroupRow, parts: ClassicParts) -> None:
        self.stored = StoredRow(row, parts.table)
        self.is_lost = False
        self.generation = row.generation
        known = agreed_protocol(row)
        self.protocol_type, self.protocol, self.leader = known.protocol_type, known.protocol, known.leader
        self._parts = parts
        self._clock = parts.clock
        # The previous coordinator answers from memory as long as it may not know of this claim.
        seen_ms = self._clock.monotonic_ms() + parts.bounds.lease_ms
        members = (member_of(one, self.protocol_type, self.protocol or "", seen_ms) for one in row.members)
        self.members = Roster(row.group, members)
        self.phase = Phase.STABLE if row.members else Phase.EMPTY
        self._promised = PromisedIds()
        self._phase_ends_ms: int | None = None
        self._begun_ms = 0
        self._is_initial = False
        """Whether the rebalance began with an empty group: then further members are waited for."""
        self._is_behind = False
        """Whether the table does not say yet that the group is empty."""
        self._tasks: set[asyncio.Task[None]] = set()
        if row.members and row.classic is None:
            self._prepare()

    @property
    def name(self) -> str:
        """The group's name."""
        return self.stored.row.group

    @property
    def is_idle(self) -> bool:
        """Whether dropping the group from memory loses nothing."""
        return self.stored.is_idle and not (self.members or self._promised or self._tasks or self._is_behind)

    @property
    def row(self) -> GroupRow:
        """Row as the table has it."""
        return self.stored.row

    @property
    def state(self) -> str:
        """State in the words of the HTTP contract."""
        return self.phase.state

    @property
    def member_count(self) -> int:
        """Number of members that have joined, or wait for the next generation."""
        return len(self.members)

    # Requests of members

    async def join(self, wish: ClassicJoinRequest, new_id: str) -> ClassicGeneration | None:
        """Let a member join; return the generation that took it in, or None if its client shall join again, with ``new_id``.

        Raises ``RequestRefused``, ``GroupFull``, ``BackOff``, ``OutcomeUnknown``.
        """
        self.check_mine()
        self.members.check_protocols(wish, self.protocol_type)
        self.members.check_instance(wish)
        if not wish.member_id:
            known = self.members.of_instance(wish.instance_id)
            if known is not None:
                return await self._replace(known, wish, new_id)
            if wish.requires_id and wish.instance_id is None:
                self._promise(new_id, wish)
                return None
            return await self._next(self._add(new_id, wish))
        if self._promised.take(wish.member_id):
            return await self._next(self._add(wish.member_id, wish))
        member = self.member(wish.member_id, wish.instance_id)
        is_same = member.wish.protocols == wish.protocols
        follows = self.phase is Phase.STABLE and member.member_id != self.leader
        if is_same and (follows or self.phase is Phase.COMPLETING):
            # The answer to its last request was lost, or its client is not sure.
            return self._joined(member)
        self.members.update(member, wish)
        if self.phase is not Phase.PREPARING:
            self._prepare()
        return await self._next(member)

    async def sync(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        protocol: tuple[str, str] | None,
        assignments: Mapping[str, bytes],
    ) -> bytes:
        """Return the member's assignment, once the leader's is in the table. ``assignments``: by member, from the leader.

        Raises ``RequestRefused`` (also ``Rebalancing``), ``BackOff``, ``OutcomeUnknown``.
        """
        self.check_mine()
        member = self.member(member_id, instance_id)
        self._check_generation(generation)
        if self.phase is Phase.PREPARING:
            raise Rebalancing(self.name)
        if protocol is not None and protocol != (self.protocol_type, self.protocol):
            raise inconsistent(self.name, f"its protocol is {self.protocol_type}/{self.protocol}")
        if self.phase is Phase.STABLE:
            return member.assignment
        waiting = member.await_sync(Rebalancing(self.name))
        if member_id == self.leader:
            task = asyncio.create_task(self._assign({one.member_id: b"" for one in self.members} | dict(assignments)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(waiting)

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int) -> None:
        """Take a member's heartbeat. Raises ``RequestRefused`` (also ``Rebalancing``), ``CoordinatorFenced``."""
        self.check_mine()
        self.member(member_id, instance_id)
        self._check_generation(generation)
        if self.phase is Phase.PREPARING:
            raise Rebalancing(self.name)

    async def leave(self, leaving: Sequence[tuple[str, str | None]]) -> list[TidelogError | None]:
        """Take members out, by id or by instance id; return the refusal of each. Raises ``BackOff``, ``OutcomeUnknown``."""
        self.check_mine()
        refusals: list[TidelogError | None] = []
        for member_id, instance_id in leaving:
            present = None if member_id else self.members.of_instance(instance_id)
            try:
                if not self._promised.take(member_id):
                    self._remove(self.member(member_id if present is None else present.member_id, instance_id))
                refusals.append(None)
            except TidelogError as refusal:
                refusals.append(refusal)
        self._maybe_complete()
        await self._write_empty()
        mark_committed()
        return refusals

    def member(self, member_id: str, instance_id: str | None = None) -> Member:
        """Return a member, and note that it is alive. Raises ``RequestRefused`` (``UNKNOWN_MEMBER``, ``FENCED_MEMBER``)."""
        found = self.members.find(member_id, instance_id)
        found.seen_ms = max(found.seen_ms, self._clock.monotonic_ms())
        return found

    def check_commit(self, member_id: str, generation: int) -> None:
        """Raise ``RequestRefused`` unless the commit is a member's, under the present generation."""
        self.member(member_id)
        self._check_generation(generation)
        if self.phase is Phase.COMPLETING:
            raise Rebalancing(self.name)

    # Deadlines

    def has_ended_sessions(self, now_ms: int) -> bool:
        """Return whether ``end_sessions`` has something to do."""
        return (first_ms := self._first_deadline_ms(now_ms)) is not None and first_ms <= now_ms

    async def end_sessions(self) -> list[str]:
        """Act on deadlines that have passed; return the members whose session ended. Raises ``BackOff``, ``OutcomeUnknown``."""
        now_ms = self._clock.monotonic_ms()
        self._promised.end(now_ms)
        over = [one for one in self.members if one.deadline_ms(now_ms) <= now_ms]
        if self._phase_ends_ms is not None and self._phase_ends_ms <= now_ms:
            if self.phase is Phase.PREPARING:
                self._complete()
            else:
                over += [one for one in self.members if not one.has_synced and one not in over]
                self._phase_ends_ms = now_ms + self.members.rebalance_timeout_ms
        for member in over:
            if member in self.members:
                self._remove(member)
        self._maybe_complete()
        await self._write_empty()
        return [member.member_id for member in over]

    def expect_end(self) -> None:
        """Let the upkeep look at the group at its next deadline."""
        self._parts.deadlines.expect(self.name, self._first_deadline_ms(self._clock.monotonic_ms()))

    def postpone(self, duration_ms: int) -> None:
        """Put off all deadlines by the time for which this process was suspended."""
        self.members.postpone(duration_ms)
        self._promised.postpone(duration_ms)
        if self._phase_ends_ms is not None:
            self._phase_ends_ms += duration_ms

    def wake_all(self) -> None:
        """Answer all calls that wait here with an error if the group is lost."""
        if self.is_lost:
            self.members.fail(CoordinatorFenced(self.name))
            self.members.release()

    def _first_deadline_ms(self, now_ms: int) -> int | None:
        found = [*self._promised.ends_ms, *(one.deadline_ms(now_ms) for one in self.members)]
        if self._phase_ends_ms is not None:
            found.append(self._phase_ends_ms)
        if self._is_behind and self.phase is Phase.EMPTY:
            found.append(now_ms)
        return min(found, default=None)

    # Phases

    def _prepare(self) -> None:
        """Begin a rebalance: every member shall join again."""
        self.members.fail_syncs(Rebalancing(self.name))
        self._is_initial = self.phase is Phase.EMPTY
        self._begun_ms = self._clock.monotonic_ms()
        self.phase, self._phase_ends_ms = Phase.PREPARING, self._begun_ms + self.members.rebalance_timeout_ms

    def _maybe_complete(self) -> None:
        """Complete the rebalance as soon as no member is missing."""
        if self.phase is Phase.PREPARING:
            may_begin = not self._promised and not self._is_initial
            if not self.members or (may_begin and self.members.all_join):
                self._complete()
        self._parts.deadlines.expect(self.name, self._begun_ms if self._is_behind else self._phase_ends_ms)

    def _complete(self) -> None:
        """Begin the next generation with the members that have joined; a static one stays until its session ends."""
        for member in self.members:
            if member.joining is None and member.wish.instance_id is None:
                self._forget(member)
        self._is_initial = False
        if not self.members:
            self.generation += 1
            self.phase, self.protocol, self.leader = Phase.EMPTY, None, None
            self._phase_ends_ms, self._is_behind = None, True
            return
        now_ms = self._clock.monotonic_ms()
        self._phase_ends_ms = now_ms + self.members.rebalance_timeout_ms
        joined = [one.member_id for one in self.members if one.joining is not None]
        if not joined:
            return  # Only static members are left, which are waited for.
        if self.leader not in joined:
            self.leader = joined[0]
        self.generation += 1
        self.phase = Phase.COMPLETING
        self.protocol = chosen_protocol(list(self.members))
        self._parts.metrics.rebalances.inc()
        _log.info("group %s: generation %d, %d members", self.name, self.generation, len(self.members))
        for member in self.members:
            member.begin(self._joined(member), now_ms)

    async def _assign(self, assignments: Mapping[str, bytes]) -> None:
        """Write the generation with the leader's assignment, and give it to the members."""
        generation = self.generation
        try:
            await self._write(generation, Phase.COMPLETING, assignments)
        except TidelogError as error:
            if generation == self.generation and self.phase is Phase.COMPLETING:
                self.members.fail_syncs(error)
                self._prepare()
                self._maybe_complete()
            return
        if generation == self.generation and self.phase is Phase.COMPLETING:
            self.phase, self._phase_ends_ms = Phase.STABLE, None
            now_ms = self._clock.monotonic_ms()
            for member in self.members:
                member.synced(assignments[member.member_id], now_ms)
            self.expect_end()

    async def _next(self, member: Member) -> ClassicGeneration:
        waiting = member.await_join(Rebalancing(self.name))
        self._maybe_complete()
        return await asyncio.shield(waiting)

    def _joined(self, member: Member) -> ClassicGeneration:
        return self.members.joined(member, self.generation, self.protocol_type, self.protocol or "", self.leader or "")

    # Members

    def _add(self, member_id: str, wish: ClassicJoinRequest) -> Member:
        if len(self.members) >= MEMBERS_MAX:
            raise GroupFull(self.name, MEMBERS_MAX)
        member = Member(member_id=member_id, wish=wish, seen_ms=(now_ms := self._clock.monotonic_ms()))
        member.release = self._parts.table.budget.admit(member.memory_bytes)
        if not self.members:
            self.protocol_type = wish.protocol_type
        self.members.add(member)
        if self.phase is not Phase.PREPARING:
            self._prepare()
        if self._is_initial:
            latest_ms = self._begun_ms + self.members.rebalance_timeout_ms
            self._phase_ends_ms = min(now_ms + self._parts.bounds.first_join_ms, latest_ms)
        return member

    def _promise(self, new_id: str, wish: ClassicJoinRequest) -> None:
        if len(self.members) + len(self._promised) >= MEMBERS_MAX:
            raise GroupFull(self.name, MEMBERS_MAX)
        until_ms = self._clock.monotonic_ms() + wish.session_timeout_ms
        self._promised.promise(new_id, until_ms)
        self._parts.deadlines.expect(self.name, until_ms)

    async def _replace(self, old: Member, wish: ClassicJoinRequest, new_id: str) -> ClassicGeneration:
        """Replace a static member that comes back under a new id; fence the old id. It keeps its assignment unless the members
        now choose another protocol (KIP-345). Its metadata may differ: a sticky assignor's change at each start."""
        former_leader = self.leader
        is_leader = old.member_id == former_leader
        old.fail(fenced_member_error(self.name, old.member_id))
        member = old.successor(new_id, wish, self._clock.monotonic_ms())
        self.members.replace(old, member)
        if is_leader:
            self.leader = new_id
        if self.phase is not Phase.STABLE or chosen_protocol(list(self.members)) != self.protocol:
            if self.phase is not Phase.PREPARING:
                self._prepare()
            return await self._next(member)
        try:
            await self._write(self.generation, Phase.STABLE, {one.member_id: one.assignment for one in self.members})
        except TidelogError:
            if self.phase is Phase.STABLE:
                self._prepare()
                self._maybe_complete()
            raise
        joined = self._joined(member)
        return joined.unchanged_for(wish, former_leader or "") if is_leader else joined

    def _remove(self, member: Member) -> None:
        self._forget(member)
        if self.phase in (Phase.STABLE, Phase.COMPLETING):
            self._prepare()

    def _forget(self, member: Member) -> None:
        self.members.remove(member)
        member.release(None)
        member.fail(unknown_member_error(self.name, member.member_id))

    def check_mine(self) -> None:
        """Raise ``CoordinatorFenced`` if another gateway coordinates the group."""
        if self.is_lost:
            raise CoordinatorFenced(self.name)

    def _check_generation(self, generation: int) -> None:
        if generation != self.generation:
            raise stale_error(self.name, f"generation {generation} is not the current one, {self.generation}")

    # The table

    async def _write_empty(self) -> None:
        if self._is_behind and self.phase is Phase.EMPTY:
            await self._write(self.generation, Phase.EMPTY, {})

    async def _write(self, generation: int, phase: Phase, assignments: Mapping[str, bytes]) -> None:
        """Write the members. Raises ``Rebalancing`` if generation or phase have changed; ``BackOff``, ``OutcomeUnknown``."""

        def next_row() -> GroupRow | None:
            self.check_mine()
            if generation != self.generation or phase is not self.phase:
                raise Rebalancing(self.name)
            if phase is Phase.EMPTY and not self._is_behind:
                return None
            members = self.members.rows(generation, self.protocol or "", assignments)
            self.members.release()
            agreed = ClassicProtocol(protocol_type=self.protocol_type, protocol=self.protocol, leader=self.leader)
            return msgspec.structs.replace(
                self.row, generation=generation, assignor=self.protocol, members=members, classic=agreed
            )

        try:
            await self.stored.write(next_row)
        except (CoordinatorFenced, OutcomeUnknown):
            self.is_lost = True
            self.wake_all()
            raise
        self._is_behind = False
