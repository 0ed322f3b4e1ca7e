"""Commits of a group's offsets: on request, and automatically at an interval.

1. Commits run one at a time, in the order of the requests, so a late old commit never moves an offset back.
2. An automatic commit takes the positions at a moment when the caller asks for more records, so all earlier records have been
   handled. It runs concurrently with reading, in a thread that lives only as long as the commit.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

import msgspec

from log_format.errors import TidelogError
from tidelog.bodies.json_offsets import next_offset
from tidelog.calls.groups import GroupCalls
from tidelog.consumer.assignment import Assignment
from tidelog.consumer.membership import Membership
from tidelog.consumer.settings import ConsumerSettings
from tidelog.deadline import Deadline
from tidelog.types.group import GroupMetadata, NextOffset
from tidelog.types.record import TopicPartition
from tidelog.worker_thread import WorkerThread

_logger = logging.getLogger("tidelog.consumer")

OnCommit = Callable[[Mapping[TopicPartition, NextOffset], TidelogError | None], object]


class _Commit(msgspec.Struct, frozen=True):
    """A commit as requested: by the time its thread runs, the consumer's positions may have changed."""

    offsets: Mapping[TopicPartition, NextOffset]
    topic_ids: Mapping[TopicPartition, str]
    who: GroupMetadata
    metadata: str | None


class OffsetCommitter:
    """Committer of a group's offsets, used by the consumer's thread."""

    def __init__(
        self, calls: GroupCalls, membership: Membership, assignment: Assignment, settings: ConsumerSettings
    ) -> None:
        """Store the parts. ``assignment``: says to which topics the positions belong."""
        self._calls = calls
        self._membership = membership
        self._assignment = assignment
        self._interval_s = settings.auto_commit_interval_ms / 1000 if settings.enable_auto_commit else None
        self._timeout_ms = settings.api_timeout_ms
        self._committed: dict[TopicPartition, int] = {}
        self._due_at = 0.0
        self._thread: WorkerThread | None = None
        self.schedule_next()

    @property
    def is_automatic(self) -> bool:
        """Whether offsets are committed automatically."""
        return self._interval_s is not None

    @property
    def is_due(self) -> bool:
        """Whether an automatic commit is due."""
        return self._interval_s is not None and time.monotonic() >= self._due_at

    def schedule_next(self) -> None:
        """Schedule the next automatic commit one interval from now."""
        self._due_at = time.monotonic() + (self._interval_s or 0.0)

    def forget_commits(self) -> None:
        """Drop the remembered commits: other members may have committed meanwhile."""
        self.wait()
        self._committed = {}

    def commit(self, offsets: Mapping[TopicPartition, NextOffset], metadata: str | None = None) -> None:
        """Commit the offsets, and return when they are committed. Raises ``GatewayError``."""
        self.wait()
        if offsets:
            self._commit(self._prepare(offsets, metadata))

    def commit_later(self, offsets: Mapping[TopicPartition, NextOffset], callback: OnCommit | None) -> None:
        """Commit in a thread, which calls ``callback`` at its end."""
        self.wait()
        if offsets:
            self._thread = WorkerThread(self._try, self._prepare(offsets), callback, name="tidelog-commit")
            self._thread.start()

    def commit_changes(self, positions: Mapping[TopicPartition, int], deadline: Deadline | None = None) -> None:
        """Commit the offsets that differ from the last ones committed here. Raises as ``commit``."""
        self.wait()
        changes = self._changes(positions)
        if changes:
            self._commit(self._prepare(changes), deadline)

    def start_automatic(self, positions: Mapping[TopicPartition, int]) -> None:
        """Commit changed offsets in a thread. Does nothing while the previous commit is still under way."""
        self.schedule_next()
        if self._thread is not None and self._thread.is_alive():
            return
        changes = self._changes(positions)
        if changes:
            self._thread = WorkerThread(self._try, self._prepare(changes), None, name="tidelog-commit")
            self._thread.start()

    def wait(self) -> None:
        """Wait until the thread has ended."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.ended()

    def _changes(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {place: offset for place, offset in positions.items() if self._committed.get(place) != offset}

    def _prepare(self, offsets: Mapping[TopicPartition, NextOffset], metadata: str | None = None) -> _Commit:
        return _Commit(dict(offsets), self._assignment.topic_ids(offsets), self._membership.metadata, metadata)

    def _commit(self, prepared: _Commit, deadline: Deadline | None = None) -> None:
        deadline = deadline or Deadline(self._timeout_ms)
        try:
            self._calls.commit(
                prepared.offsets, prepared.who, prepared.metadata, deadline, topic_ids=prepared.topic_ids
            )
        except TidelogError as error:
            self._membership.note_commit_error(error)
            raise
        self._committed |= {place: next_offset(given) for place, given in prepared.offsets.items()}

    def _try(self, prepared: _Commit, callback: OnCommit | None) -> None:
        failed: TidelogError | None = None
        try:
            self._commit(prepared)
        except TidelogError as error:
            failed = error
        if callback is not None:
            callback(prepared.offsets, failed)
        elif failed is not None:
            _logger.warning(
                "offsets were not committed; the next commit includes them: %s: %s", failed.code, failed.detail
            )
