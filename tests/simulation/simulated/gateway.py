"""A gateway as far as the log is concerned: the real log, committer and reader, with queues between them as in the product.

Requests gather, a flush takes several, its segment is staged ahead while the flush before it commits, one commit at a time. What
it tells its clients is judged by the oracle at the moment when it tells them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from log_format.checkpoints import checkpoint
from log_format.checkpoints.topic_log import TopicLog
from log_format.delta.committer import Committer
from log_format.errors import BackOff, OutcomeUnknown, StoreUnavailable, TidelogError, UnknownTopic
from log_format.ids import NewId
from log_format.segments.reader import SegmentReader
from log_format.topic.append import Append, Batch
from log_format.topic.append_outcome import Duplicate
from log_format.topic.change import Change
from log_format.topic.state import TopicState
from tests.simulation.simulated.oracle import Oracle
from tests.simulation.simulated.scheduler import Lock, Machine, MachineClock, Scheduler, Signal
from tests.simulation.simulated.store import Client
from tests.support.records import batch_of

TOPIC = "t"
FLUSH_REQUESTS_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """The code under test. Planted faults replace it."""

    log: type[TopicLog] = TopicLog
    committer: type[Committer[TopicState]] = Committer
    append: type[Append] = Append
    write_checkpoint: Callable[..., None] = checkpoint.write_checkpoint


@dataclass(eq=False)
class Request:
    """A produce request on its way: values for partitions that the gateway chooses."""

    producer: str
    values: list[bytes]
    record_bytes: int
    settled: Signal
    started_ms: int
    abandoned: bool = False
    """The producer does not wait for the answer any more."""
    topic_id: str = ""
    by_partition: dict[int, list[bytes]] = field(default_factory=dict)
    batch: Batch | None = None


class Gateway:
    """One gateway process, from its start to its crash."""

    def __init__(
        self, scheduler: Scheduler, rng: random.Random, client: Client, machine: Machine, oracle: Oracle, new_id: NewId,
        code: Code, checkpoint_share: float,
    ) -> None:  # fmt: skip
        self.machine = machine
        self.oracle = oracle
        self.clock = MachineClock(scheduler, machine)
        self.client = client
        self.log = code.log(client, TOPIC, self.clock, on_change=oracle.changed)
        self.committer = code.committer(self.log, new_id=new_id, jitter=rng.random)
        self.reader = SegmentReader(client)
        self._scheduler = scheduler
        self._rng = rng
        self._new_id = new_id
        self._code = code
        self._checkpoint_share = checkpoint_share
        self._commit_lock = Lock(scheduler)
        self._queue: list[Request] = []
        self._queued = Signal(scheduler)
        self._open: list[Signal] = []
        self._ahead: tuple[TopicState, dict[int, int]] | None = None
        scheduler.start(f"{machine.name} flusher", machine, self._flush_for_ever)

    def crash(self) -> None:
        """End it where it stands; waiting clients get no answer."""
        self._scheduler.crash(self.machine)
        for settled in self._open:
            if not settled.is_set:
                self.oracle.unknown()
                settled.set()

    def produce(self, request: Request) -> None:
        """Take a request; it is settled some time."""
        self._open.append(request.settled)
        self._scheduler.start(f"{self.machine.name} request", self.machine, partial(self._route, request))

    def change(self, change: Change[object], told: Callable[[object, int, int], None], settled: Signal) -> None:
        """Make an administrator's change; what comes of it goes to ``told`` with the times of the call."""
        self._open.append(settled)
        self._scheduler.start(f"{self.machine.name} change", self.machine, partial(self._change, change, told, settled))

    def look(self) -> TopicState:
        """The state at the head. Raises ``StoreUnavailable``."""
        started_ms = self._scheduler.now_ms
        state = self.log.refresh()
        self.oracle.looked(state, started_ms, self._scheduler.now_ms)
        return state

    def _route(self, request: Request) -> None:
        state = self.log.state
        if not state.exists:
            try:
                state = self.look()
            except StoreUnavailable as problem:
                self._refuse(request, BackOff(problem.detail))
                return
        if state.topic_id is None:
            self._refuse(request, UnknownTopic(TOPIC))
            return
        count = state.partition_count
        partitions = [self._rng.randrange(count) for _ in request.values]
        for partition, value in zip(partitions, request.values, strict=True):
            request.by_partition.setdefault(partition, []).append(value)
        request.topic_id = state.topic_id
        request.batch = batch_of(
            state.topic_id,
            request.values,
            partitions,
            record_bytes_max=request.record_bytes,
            partition_count=count if self._rng.random() < 0.5 else None,
        )
        self._queue.append(request)
        self._queued.set()

    def _flush_for_ever(self) -> None:
        committing: Signal | None = None
        while True:
            self._queued.wait()
            self._scheduler.sleep_ms(self._rng.choice((0, 5, 100)))
            requests, self._queue = self._queue[:FLUSH_REQUESTS_MAX], self._queue[FLUSH_REQUESTS_MAX:]
            self._queued.is_set = bool(self._queue)
            append = self._code.append(
                [request.batch for request in requests if request.batch is not None], self._new_id
            )
            if self._rng.random() < 0.7 and not self._stage(append, requests):
                continue
            if committing is not None:
                committing.wait()
            committing = Signal(self._scheduler)
            self._scheduler.start(
                f"{self.machine.name} commit", self.machine, partial(self._commit, append, requests, committing)
            )

    def _stage(self, append: Append, requests: list[Request]) -> bool:
        state = self.log.state
        next_offsets = state.next_offsets
        if self._ahead is not None:
            before, counts = self._ahead
            if (before.topic_id, before.partition_count) != (state.topic_id, state.partition_count):
                return True  # it can't be told what they will meet
            next_offsets = before.next_offsets.copy()
            for partition, count in counts.items():
                if partition < len(next_offsets):
                    next_offsets[partition] += count
        try:
            segment = append.stage(state, next_offsets)
            if segment is not None:
                self.committer.stage(segment)
        except BackOff as problem:
            for request in requests:
                self._refuse(request, problem)
            return False
        return True

    def _commit(self, append: Append, requests: list[Request], ended: Signal) -> None:
        try:
            with self._commit_lock:
                if self.log.state.exists:
                    self._ahead = self.log.state, append.counts()
                committed = self.committer.commit(append)
                result = committed.result
                self.oracle.told["conflict"] += committed.attempts > 1
        except OutcomeUnknown:
            for request in requests:
                self.oracle.unknown()
                request.settled.set()
        except TidelogError as problem:
            for request in requests:
                self._refuse(request, problem)
        else:
            for request, places in zip(requests, result, strict=True):
                if isinstance(places, TidelogError):
                    self._refuse(request, places)
                else:
                    assert not isinstance(places, Duplicate)
                    # A client that gave up waiting may have sent something else meanwhile: this is no part of its order any
                    # more.
                    producer = f"{request.producer} {request.values}" if request.abandoned else request.producer
                    self.oracle.acknowledge(producer, request.topic_id, request.by_partition, places)
                    if request.batch is not None:
                        self.oracle.routed_rightly(request.values, request.batch.partition_count)
                    request.settled.set()
        finally:
            self._ahead = None
            ended.set()
        self._checkpoint()

    def _change(self, change: Change[object], told: Callable[[object, int, int], None], settled: Signal) -> None:
        started_ms = self._scheduler.now_ms
        try:
            with self._commit_lock:
                result = self.committer.commit(change).result
            told(result, started_ms, self._scheduler.now_ms)
        except OutcomeUnknown:
            self.oracle.unknown()
        except TidelogError as problem:
            self.oracle.refused_change(problem, started_ms, self._scheduler.now_ms)
        settled.set()
        self._checkpoint()

    def _checkpoint(self) -> None:
        state = self.log.state
        if state.version >= 0 and self._rng.random() < self._checkpoint_share:
            try:
                self._code.write_checkpoint(self.client, TOPIC, state.version, self.clock.now_ms())
            except StoreUnavailable:
                return

    def _refuse(self, request: Request, error: TidelogError) -> None:
        now_ms = self._scheduler.now_ms
        count = request.batch.partition_count if request.batch is not None else None
        self.oracle.refuse(
            request.values, request.topic_id, request.record_bytes, count, error, request.started_ms, now_ms
        )
        request.settled.set()
