"""Reading as a member of a group: joining, handing over partitions, starting at committed offsets.

All of this happens in the consumer's thread, while the caller asks for records:

1. Revoked partitions are no longer read. Their positions are committed under the old generation, and ``on_revoked`` is called.
   Only then does the member acknowledge the new generation, which lets the partitions go to other members. So no other member
   reads a partition while its records are handed out here.
2. Gained partitions are read from the committed offset, else by the reset policy. A position that the policy sets to the end is
   committed immediately, so a consumer that dies before its first commit has skipped nothing.
3. A member that is out (silent for too long, or replaced) has lost all its partitions: nothing is committed, ``on_lost`` is
   called, and the member rejoins. If another consumer took its ``instance_id``, that is an error instead.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from log_format.errors import TidelogError
from tidelog.calls.groups import GroupCalls, HeartbeatAnswer
from tidelog.consumer.assignment import Assignment, Progress
from tidelog.consumer.membership import Membership
from tidelog.consumer.offset_committer import OffsetCommitter
from tidelog.consumer.settings import ConsumerSettings, OnRebalance
from tidelog.deadline import Deadline
from tidelog.errors import ClientClosed, FencedMember, NoCommittedOffset
from tidelog.types.group import CommittedOffset, GroupMetadata
from tidelog.types.record import TopicPartition

_logger = logging.getLogger("tidelog.consumer")


class GroupSession:
    """Keeper of the assignment that the group decides. For one thread at a time; ``stop`` may come from any."""

    def __init__(self, calls: GroupCalls, assignment: Assignment, settings: ConsumerSettings) -> None:
        self.membership = Membership(calls, settings)
        self.committer = OffsetCommitter(calls, self.membership, assignment, settings)
        self._calls = calls
        self._assignment = assignment
        self._settings = settings
        self._in_callback = False
        self._is_closed = False

    @property
    def metadata(self) -> GroupMetadata:
        """Group and member on whose behalf commits are made."""
        return self.membership.metadata

    @property
    def needs_attention(self) -> bool:
        """Whether ``handle_news`` should be called before the next record is handed out."""
        return self.membership.needs_attention or self.committer.is_due

    @property
    def may_hand_out(self) -> bool:
        """Whether no other member can be reading the partitions assigned here."""
        return not self.membership.has_lost_membership

    @property
    def rejoins(self) -> bool:
        """Whether the member's session has ended, so that ``handle_news`` drops its partitions and joins again."""
        return self._settings.is_member and self.membership.joined and self.membership.has_lost_membership

    def handle_news(self, deadline: Deadline) -> None:
        """Act on the group's news, and commit if a commit is due. Raises ``GatewayError``, and what callbacks raise."""
        if self._in_callback:
            raise RuntimeError("a rebalance callback can't ask for records")
        if self._is_closed:
            raise ClientClosed("the client was closed")
        if self._settings.is_member:
            self._handle_news_as_member(deadline)
        if self.committer.is_due:
            self.committer.start_automatic(self._assignment.positions())

    def committed(self, places: Iterable[TopicPartition], deadline: Deadline) -> dict[TopicPartition, CommittedOffset]:
        """Return the committed offsets of those partitions that have one. Raises ``GatewayError``."""
        known = self._calls.offsets(deadline)
        return {place: known[place] for place in places if place in known}

    def reset_to(self, positions: Mapping[TopicPartition, int]) -> None:
        """Commit the initial positions that the reset policy chose at the end of the log. Raises ``GatewayError``."""
        if self._settings.auto_offset_reset == "latest":
            self.committer.commit(positions)

    def refuse_reset(self, places: Sequence[TopicPartition]) -> None:
        """Raise ``NoCommittedOffset`` if partitions without a committed offset are left and the reset policy is ``none``."""
        if places and self._settings.auto_offset_reset == "none":
            where = f"{places[0].topic}/{places[0].partition}"
            raise NoCommittedOffset(
                f"Group {self._calls.group!r} has no committed offset for {where}: commit one, or choose another "
                "auto_offset_reset."
            )

    def close(self, deadline: Deadline, *, commit: bool, leave: bool) -> None:
        """Commit, if commits are automatic, and leave. Errors are logged; exceptions of callbacks are raised at the end."""
        try:
            if self.membership.held and not self.membership.has_lost_membership:
                self._revoke(self.membership.held, deadline, commit=commit)
            elif commit and not self._settings.is_member:
                self._commit_quietly(deadline)
        finally:
            self.committer.wait()
            if leave:
                try:
                    self.membership.leave(deadline)
                except TidelogError as error:
                    _logger.info(
                        "leaving the group failed, so the session timeout ends the membership: %s: %s",
                        error.code,
                        error.detail,
                    )

    def stop(self) -> None:
        """End polls and heartbeats."""
        self._is_closed = True
        self.membership.stop()

    def _handle_news_as_member(self, deadline: Deadline) -> None:
        if self.membership.has_lost_membership:
            self._drop_lost_partitions()
        if not self.membership.joined:
            self.membership.join(deadline)
        while (answer := self.membership.pending_assignment) is not None and not self.membership.has_lost_membership:
            self._apply_assignment(answer, deadline)

    def _apply_assignment(self, answer: HeartbeatAnswer, deadline: Deadline) -> None:
        wanted = frozenset(answer.assignment)
        lost = self.membership.held - wanted
        if lost:
            try:
                self._revoke(lost, None, commit=True)
            finally:
                self._drop(lost)
        if answer.generation != self.membership.metadata.generation:
            # Gained partitions are read once the answer to this acknowledgement assigns them.
            self.membership.acknowledge(answer.generation)
            return
        gained = sorted(wanted - self.membership.held)
        if gained:
            self.committer.forget_commits()
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
        if not self.committer.is_automatic:
            return
        try:
            self.committer.commit_changes(self._assignment.positions(), deadline)
        except TidelogError as error:
            _logger.warning(
                "offsets were not committed, so their records will be delivered again: %s: %s", error.code, error.detail
            )

    def _drop_lost_partitions(self) -> None:
        lost = self.membership.held
        why = self.membership.end()
        self.committer.forget_commits()
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
