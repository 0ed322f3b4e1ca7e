"""Reading as a member of a group: joining, handing partitions over, beginning at what is committed.

All of it happens in the consumer's thread, while it asks for records:

1. What the member lost is read no more. Its positions are committed under the old generation, and ``on_revoked`` is told. Only
   then the member acknowledges the new generation, which lets the partitions go to other members. So no other member reads a
   partition while its records are handed out here.
2. What it gained is read from the committed offset, else by the reset policy. A position that the policy sets to the end is
   committed at once: a consumer that dies before its first commit has skipped nothing.
3. A member that is out (silent for too long, or replaced) has lost everything: nothing is committed, ``on_lost`` is told, and
   it joins again. If another consumer took its ``instance_id``, that is an error instead.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from log_format.errors import TidelogError
from tidelog.calls.groups import GroupCalls, Told
from tidelog.consumer.assignment import Assignment, Progress
from tidelog.consumer.committing import Committing
from tidelog.consumer.membership import Membership
from tidelog.deadline import Deadline
from tidelog.errors import ClientClosed, FencedMember, NoCommittedOffset
from tidelog.types.group import CommittedOffset, GroupMetadata
from tidelog.types.record import TopicPartition

OnRebalance = Callable[[list[TopicPartition]], None]

_logger = logging.getLogger("tidelog.consumer")


class GroupSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer's part in its group. ``auto_commit_interval_ms`` None: it commits only when the caller asks."""

    subscription: Mapping[str, Any]
    """The body of a join; empty: the consumer is no member, and only commits."""
    session_timeout_ms: int
    max_poll_interval_ms: float
    auto_commit_interval_ms: float | None
    api_timeout_ms: float
    reset: str
    on_revoked: OnRebalance | None
    on_assigned: OnRebalance | None
    on_lost: OnRebalance | None


class GroupReading:
    """Keeps the assignment as the group decides it. For one thread at a time; ``stop`` from any."""

    def __init__(self, calls: GroupCalls, assignment: Assignment, settings: GroupSettings) -> None:
        self.membership = Membership(
            calls,
            settings.subscription,
            session_timeout_ms=settings.session_timeout_ms,
            max_poll_interval_ms=settings.max_poll_interval_ms,
        )
        self.committing = Committing(
            calls,
            self.membership,
            assignment,
            interval_ms=settings.auto_commit_interval_ms,
            timeout_ms=settings.api_timeout_ms,
        )
        self._calls = calls
        self._assignment = assignment
        self._settings = settings
        self._in_callback = False
        self._is_closed = False

    @property
    def is_member(self) -> bool:
        """Whether the group assigns the partitions."""
        return bool(self._settings.subscription)

    @property
    def metadata(self) -> GroupMetadata:
        """The group and the member that commits."""
        return self.membership.metadata

    @property
    def needs_attention(self) -> bool:
        """Whether ``serve`` should come before the next record is handed out."""
        return self.membership.needs_attention or self.committing.is_due

    @property
    def may_hand_out(self) -> bool:
        """Whether no other member reads what is assigned here."""
        return not self.membership.is_out

    def serve(self, deadline: Deadline) -> None:
        """Do what the group asks of its member, and commit what is due. Raises ``GatewayError``, and what callbacks raise."""
        if self._in_callback:
            raise RuntimeError("a callback of a rebalance can't ask for records")
        if self._is_closed:
            raise ClientClosed("the client was closed")
        if self.is_member:
            self._serve_member(deadline)
        if self.committing.is_due:
            self.committing.start(self._assignment.positions())

    def committed(self, places: Iterable[TopicPartition], deadline: Deadline) -> dict[TopicPartition, CommittedOffset]:
        """What is committed, of the partitions for which something is. Raises ``GatewayError``."""
        known = self._calls.offsets(deadline)
        return {place: known[place] for place in places if place in known}

    def reset_to(self, positions: Mapping[TopicPartition, int]) -> None:
        """Commit where the group begins in these, for which it had committed nothing. Raises ``GatewayError``."""
        if self._settings.reset == "latest":
            self.committing.commit(positions)

    def refuse_reset(self, places: Sequence[TopicPartition]) -> None:
        """Raise ``NoCommittedOffset`` for partitions that have none, where there is no other way to begin."""
        if places and self._settings.reset == "none":
            where = f"{places[0].topic}/{places[0].partition}"
            raise NoCommittedOffset(
                f"Group {self._calls.group!r} has committed nothing for {where}: commit, or choose another auto_offset_reset."
            )

    def close(self, deadline: Deadline, *, commit: bool, leave: bool) -> None:
        """Commit, where that is automatic, and leave. Errors are logged; what a callback raises is raised at the end."""
        try:
            if self.membership.held and not self.membership.is_out:
                self._revoke(self.membership.held, deadline, commit=commit)
            elif commit and not self.is_member:
                self._commit_quietly(deadline)
        finally:
            self.committing.wait()
            if leave:
                try:
                    self.membership.leave(deadline)
                except TidelogError as error:
                    _logger.info("the group was not told that its member leaves: %s: %s", error.code, error.detail)

    def stop(self) -> None:
        """End polls and heartbeats."""
        self._is_closed = True
        self.membership.stop()

    def _serve_member(self, deadline: Deadline) -> None:
        if self.membership.is_out:
            self._lose()
        if not self.membership.joined:
            self.membership.join(deadline)
        while (told := self.membership.told) is not None and not self.membership.is_out:
            self._hand_over(told, deadline)

    def _hand_over(self, told: Told, deadline: Deadline) -> None:
        wanted = frozenset(told.assignment)
        lost = self.membership.held - wanted
        if lost:
            try:
                self._revoke(lost, None, commit=True)
            finally:
                self._drop(lost)
        if told.generation != self.membership.metadata.generation:
            # Gained partitions are read once the answer to this names them.
            self.membership.acknowledge(told.generation)
            return
        gained = sorted(wanted - self.membership.held)
        if gained:
            self.committing.forget()
            known = self.committed(gained, deadline)
            for place in gained:
                progress = Progress(is_looked_up=True)
                if (begun := known.get(place)) is not None:
                    progress.seek(begun.offset, begun.topic_id)
                self._assignment.add(place, progress)
        self.membership.adopt(wanted)
        if gained and self._settings.on_assigned is not None:
            self._call_back(self._settings.on_assigned, gained)

    def _revoke(self, places: frozenset[TopicPartition], deadline: Deadline | None, *, commit: bool) -> None:
        if commit:
            self._commit_quietly(deadline)
        if self._settings.on_revoked is not None:
            self._call_back(self._settings.on_revoked, sorted(places))

    def _commit_quietly(self, deadline: Deadline | None) -> None:
        if not self.committing.is_automatic:
            return
        try:
            self.committing.commit_changes(self._assignment.positions(), deadline)
        except TidelogError as error:
            _logger.warning(
                "offsets were not committed, their records will come again: %s: %s", error.code, error.detail
            )

    def _lose(self) -> None:
        lost = self.membership.held
        why = self.membership.forget()
        self.committing.forget()
        self._drop(lost)
        _logger.warning("the consumer lost its partitions: %s: %s", why.code, why.detail)
        if lost and self._settings.on_lost is not None:
            self._call_back(self._settings.on_lost, sorted(lost))
        if isinstance(why, FencedMember):
            self.stop()
            raise why

    def _drop(self, places: frozenset[TopicPartition]) -> None:
        self._assignment.remove(places)
        self.membership.adopt(self.membership.held - places)

    def _call_back(self, callback: OnRebalance, places: list[TopicPartition]) -> None:
        self._in_callback = True
        try:
            callback(places)
        finally:
            self._in_callback = False
