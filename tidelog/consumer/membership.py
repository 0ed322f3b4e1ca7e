"""Membership in a consumer group: the member's id, its partitions, and its heartbeat thread.

1. The thread only listens; the consumer's own thread acts on the news that heartbeats bring. Nothing is acknowledged before
   that, so no partition goes to another member while its records are still handed out here.
2. Calls about the member run one at a time, so their answers are processed in the order in which they were given.
3. A member considers itself out when no heartbeat was answered for a session timeout, counted from the sending of the last
   answered one. The group may have removed it since.
4. A member that was not asked for records for ``max_poll_interval_ms`` leaves, and its partitions go to active members. A
   member with an ``instance_id`` only stops its heartbeats, as in Kafka, until its session ends. It has lost its partitions in
   either case (3).
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator

from log_format.errors import TidelogError
from tidelog import limits
from tidelog.calls.groups import GroupCalls, HeartbeatAnswer
from tidelog.consumer.settings import ConsumerSettings
from tidelog.deadline import Deadline
from tidelog.errors import ClientClosed, FencedMember, GatewayError, StaleGeneration, UnknownGroup, UnknownMember
from tidelog.types.group import GroupMetadata
from tidelog.types.record import TopicPartition
from tidelog.worker_thread import WorkerThread

_logger = logging.getLogger("tidelog.consumer")
_MEMBERSHIP_LOST = (UnknownMember, FencedMember, StaleGeneration, UnknownGroup)


class Membership:
    """A member of a group, used by the consumer's thread; ``stop`` and ``note_commit_error`` may come from any."""

    def __init__(self, calls: GroupCalls, settings: ConsumerSettings) -> None:
        """Create the member without joining yet."""
        self.held: frozenset[TopicPartition] = frozenset()
        """Partitions that this member reads."""
        self._calls = calls
        self._settings = settings
        self._poll_count = 0
        """Number of calls for records: cheaper than reading the clock for each record."""
        self._is_polling = False
        self._poll_count_seen = (0, 0.0)
        """``_poll_count`` and the time (monotonic seconds) when the thread last saw a change."""
        self._member_id: str | None = None
        self._generation: int | None = None
        self._pending_assignment: HeartbeatAnswer | None = None
        self._lost: TidelogError | None = None
        self._alive_until = float("inf")
        self._interval_s = 0.0
        self._call_lock = threading.Lock()
        self._news = threading.Event()
        self._stopped = threading.Event()
        self._thread: WorkerThread | None = None

    @property
    def metadata(self) -> GroupMetadata:
        """Member and generation that it acknowledged; gateways validate commits by them."""
        return GroupMetadata(self._calls.group, self._member_id, self._generation)

    @property
    def joined(self) -> bool:
        """Whether this is a member, as far as it knows."""
        return self._member_id is not None

    @property
    def has_lost_membership(self) -> bool:
        """Whether other members may be reading its partitions."""
        return self._lost is not None or time.monotonic() >= self._alive_until

    @property
    def needs_attention(self) -> bool:
        """Whether there is news in ``pending_assignment``, or the member ``has_lost_membership``."""
        return self._pending_assignment is not None or self.has_lost_membership

    @property
    def pending_assignment(self) -> HeartbeatAnswer | None:
        """News that the consumer has not acted on yet."""
        return self._pending_assignment

    def note_poll(self) -> None:
        """Record that the caller asked for records."""
        self._poll_count += 1

    @contextlib.contextmanager
    def polling(self) -> Iterator[None]:
        """Treat the whole block as a call for records."""
        self._is_polling = True
        try:
            yield
        finally:
            self._poll_count += 1
            self._is_polling = False

    def wait(self, timeout_ms: float) -> None:
        """Wait until there is news, or ``stop`` is called."""
        if not self._stopped.is_set() and not self.needs_attention:
            self._news.clear()
            if not self.needs_attention:
                self._news.wait(timeout_ms / 1000)

    def join(self, deadline: Deadline) -> None:
        """Become a member; ``pending_assignment`` then has the assignment. Raises ``GatewayError``."""
        assert not self.joined
        began = time.monotonic()
        joined = self._calls.join(self._settings.join_body, deadline)
        with self._call_lock:
            self._member_id, self._generation = joined.member_id, joined.generation
            self._poll_count_seen = (self._poll_count, time.monotonic())
            self._apply_answer(joined, began)
        if self._thread is None or not self._thread.is_alive():
            # A bug may have ended the thread: the member's session expired then, and it rejoins.
            self._thread = WorkerThread(self._run, name="tidelog-heartbeat")
            self._thread.start()

    def acknowledge(self, generation: int) -> None:
        """Acknowledge the generation: revoked partitions are no longer read. On ``GatewayError`` it is not acknowledged."""
        with self._call_lock:
            self._heartbeat(generation)

    def adopt(self, held: frozenset[TopicPartition]) -> None:
        """Record the partitions that are read from now on."""
        self.held = held
        answer = self._pending_assignment
        if answer is not None and answer.generation == self._generation and held == frozenset(answer.assignment):
            self._pending_assignment = None

    def note_commit_error(self, error: TidelogError) -> None:
        """Mark the member as out if the error of a commit says so."""
        if isinstance(error, UnknownMember | FencedMember):
            self._lost = error
            self._news.set()

    def end(self) -> TidelogError:
        """End the membership, and return the reason."""
        silent = UnknownMember("No heartbeat was answered for session_timeout_ms.")
        with self._call_lock:
            why = self._lost or silent
            self._member_id = self._generation = self._pending_assignment = self._lost = None
            self._alive_until = float("inf")
            self.held = frozenset()
        return why

    def leave(self, deadline: Deadline) -> None:
        """Leave the group, which reassigns the partitions immediately. After a ``GatewayError`` the session timeout does that."""
        if self._member_id is not None and not self.has_lost_membership:
            self._calls.leave(self._member_id, deadline)

    def stop(self, timeout_ms: float = 0) -> None:
        """Stop the heartbeats, and wait up to ``timeout_ms`` for the thread to end."""
        self._stopped.set()
        self._news.set()
        if self._thread is not None:
            self._thread.ended(timeout_ms / 1000)

    def _run(self) -> None:
        while not self._stopped.wait(min(self._interval_s, self._settings.max_poll_interval_ms / 1000)):
            with self._call_lock:
                if self._member_id is None or self._generation is None or self.has_lost_membership:
                    continue
                try:
                    if self._is_poll_overdue():
                        self._leave_idle(self._member_id)
                        continue
                    self._heartbeat(self._generation)
                except ClientClosed:
                    return
                except GatewayError as error:
                    _logger.warning("a heartbeat failed: %s: %s", error.code, error.detail)
                    self._interval_s = min(self._interval_s, limits.BACKOFF_LAST_MS / 1000)

    def _is_poll_overdue(self) -> bool:
        """Return whether the caller has not asked for records for too long."""
        now = time.monotonic()
        asked, at = self._poll_count_seen
        if asked != self._poll_count or self._is_polling:
            self._poll_count_seen = (self._poll_count, now)
            return False
        return now - at >= self._settings.max_poll_interval_ms / 1000

    def _leave_idle(self, member_id: str) -> None:
        """Stop handing out records, then leave. Raises ``GatewayError``: the session timeout ends the membership then."""
        what = f"No records were requested for max_poll_interval_ms ({self._settings.max_poll_interval_ms:g} ms)"
        self._lost = UnknownMember(f"{what}, so the consumer gave up its partitions.")
        self._news.set()
        _logger.warning(
            "the consumer leaves group %s: %s. The next poll rejoins. Poll fewer records at a time "
            "(max_poll_records), or raise max_poll_interval_ms",
            self._calls.group,
            what[0].lower() + what[1:],
        )
        if self._settings.instance_id is None:
            self._calls.leave(member_id, Deadline(self._settings.session_timeout_ms / 3))

    def _heartbeat(self, generation: int) -> None:
        if self._member_id is None:
            raise UnknownMember("The consumer is not a member of the group.")
        began = time.monotonic()
        try:
            # A third of the session, which leaves time to ask another gateway if this one hangs.
            answer = self._calls.heartbeat(self._member_id, generation, Deadline(self._settings.session_timeout_ms / 3))
        except _MEMBERSHIP_LOST as error:
            self._lost = error
            self._news.set()
            raise
        self._generation = generation
        self._apply_answer(answer, began)

    def _apply_answer(self, answer: HeartbeatAnswer, began: float) -> None:
        self._alive_until = began + self._settings.session_timeout_ms / 1000
        self._interval_s = answer.heartbeat_interval_ms / 1000
        if answer.generation == self._generation and frozenset(answer.assignment) == self.held:
            self._pending_assignment = None
        else:
            self._pending_assignment = answer
            self._news.set()
