"""A day of outages in seconds: the producer's sending over two gateways that fail by a seed, on a virtual clock."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest

from log_format.errors import TidelogError
from tests.support.fake_log import Asked, FakeLog, Problem
from tidelog.bodies.record_columns import ANY_PARTITION
from tidelog.calls.producers import issue_producer
from tidelog.deadline import Deadline
from tidelog.errors import DeliveryTimeout, OutcomeUnknown
from tidelog.http.answer import Answer, AnswerLost, NeverSent
from tidelog.http.transport import Transport
from tidelog.producer.delivery import Outcome, RecordBatch
from tidelog.producer.numbering import SequenceNumbering
from tidelog.producer.sender import Sender

DAY_S = 24 * 3600
BATCH_EVERY_S = 40
DELIVERY_TIMEOUT_MS = 120_000
REQUEST_TIMEOUT_MS = 30_000


@dataclass
class Clock:
    """Stands for the module ``time``; it moves when a thread waits."""

    now_s: float = 1_000.0

    def monotonic(self) -> float:
        return self.now_s


@dataclass
class Weather:
    """How each of two gateways is at each moment: well, failing, silent or dead, for a while."""

    rng: random.Random
    until_s: dict[str, float] = field(default_factory=dict)
    state: dict[str, str] = field(default_factory=dict)

    def of(self, url: str, now_s: float) -> str:
        if now_s >= self.until_s.get(url, 0.0):
            self.state[url] = self.rng.choice(["well", "well", "failing", "silent", "dead"])
            # Mostly minutes, sometimes hours: longer than any time-out.
            self.until_s[url] = now_s + self.rng.choice([30, 120, 300, 900, 7_200])
        return self.state[url]


class SimulatedNetwork:
    """Exchanges with a log in memory; ``exchange`` stands for ``Address.exchange``."""

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self.clock = clock
        self.rng = rng
        self.weather = Weather(rng)
        self.log = FakeLog()
        self.log.sequence_wait_seconds = 0.0

    def exchange(
        self, url: str, method: str, target: str, body: bytes | None, headers: Mapping[str, str], timeout_ms: float
    ) -> Answer:
        state = self.weather.of(url, self.clock.now_s)
        if state == "dead":
            self.clock.now_s += min(self.rng.choice([0.001, 5.0]), timeout_ms / 1000)
            raise NeverSent(f"{url}: refused")
        lowered = {name.lower(): value for name, value in headers.items()}
        asked = Asked(method, urlsplit(target).path, {}, lowered, body or b"")
        trouble = self.rng.choice(["none", "lost", "undone", "busy", "doubt"]) if state == "failing" else "none"
        if trouble == "busy":
            self.clock.now_s += 0.01
            later = {"retry-after": str(self.rng.choice([1, 10]))}
            return _problem(Problem(503, "UNAVAILABLE"), later)
        done = self.rng.random() < 0.5 if state == "silent" or trouble == "doubt" else trouble != "undone"
        answer = self._carry_out(asked) if done else _problem(Problem(504, "OUTCOME_UNKNOWN"))
        if state == "silent":
            self.clock.now_s += timeout_ms / 1000
            raise AnswerLost(f"{url}: no answer in time")
        self.clock.now_s += 0.05
        if trouble in {"lost", "undone"}:
            raise AnswerLost(f"{url}: reset")
        return _problem(Problem(504, "OUTCOME_UNKNOWN")) if trouble == "doubt" else answer

    def _carry_out(self, asked: Asked) -> Answer:
        try:
            status, headers, body = self.log.carry_out(asked)
        except Problem as problem:
            return _problem(problem)
        return Answer(status=status, headers={name.lower(): value for name, value in headers.items()}, body=body)


def _problem(problem: Problem, headers: Mapping[str, str] | None = None) -> Answer:
    return Answer(status=problem.status, headers=headers or {}, body=json.dumps(problem.body).encode())


@pytest.fixture
def network(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SimulatedNetwork:
    """The clients of this test are on it, and on its clock."""
    clock, rng = Clock(), random.Random(request.param)
    network = SimulatedNetwork(clock, rng)
    for module in ("deadline", "http.endpoints", "producer.sender", "producer.topic_facts"):
        monkeypatch.setattr(f"tidelog.{module}.time", clock)
    monkeypatch.setattr("tidelog.http.endpoints.random", rng)
    monkeypatch.setattr(
        "tidelog.http.connection.Address.exchange",
        lambda address, method, target, *, body, headers, timeout_ms, answer_bytes_max, watch=None: network.exchange(
            address.url, method, target, body, headers, timeout_ms
        ),
    )

    def pause(_transport: Transport, pause_ms: float) -> None:
        clock.now_s += pause_ms / 1000

    monkeypatch.setattr("tidelog.http.transport.Transport.pause", pause)
    monkeypatch.setattr("tidelog.http.owners.Owners.endpoint_for", lambda _owners, _topic: None)
    return network


@pytest.mark.parametrize("network", [1, 2], indirect=True)
def test_a_day_of_outages_loses_and_doubles_nothing(network: SimulatedNetwork) -> None:
    """Every record has its outcome within its time, and the log agrees.

    Acknowledged records are there once, at their offsets and in order; refused and timed out ones never; ones in doubt at most
    once.
    """
    threads_before = set(threading.enumerate())
    clock, log = network.clock, network.log
    log.carry_out(Asked("POST", "/v1/topics", {}, {}, b'{"name":"t","partition_count":1,"config":{}}'))
    transport = Transport(["http://one", "http://two"], request_timeout_ms=REQUEST_TIMEOUT_MS)
    numbering = SequenceNumbering(lambda _topic, deadline: issue_producer(transport, deadline), renews=True)
    sender = Sender(transport, compression=None, numbering=numbering)
    outcomes: dict[bytes, Outcome] = {}
    end_s, number = clock.now_s + DAY_S, 0
    while clock.now_s < end_s:
        batch = RecordBatch("t", opened_at=clock.now_s, deadline=Deadline(DELIVERY_TIMEOUT_MS))
        batch.number = number
        values = [b"%d-%d" % (number, index) for index in range(3)]
        for value in values:
            batch.add(None, value, (), ANY_PARTITION, 1_763_683_200_000, 100)
        started_s = clock.now_s
        sender.register(batch)
        found = sender.deliver(batch)
        assert found is not None
        sender.unregister(batch)
        assert clock.now_s - started_s <= DELIVERY_TIMEOUT_MS / 1000 + 1
        outcomes.update(zip(values, found, strict=True))
        number += 1
        clock.now_s += BATCH_EVERY_S
    transport.close()
    stored = [record.value for record in log.topics["t"].records[0]]
    assert len(stored) == len(set(stored))
    assert [value for value in outcomes if value in set(stored)] == stored
    for value, outcome in outcomes.items():
        if isinstance(outcome, int):
            assert stored[outcome] == value
        elif isinstance(outcome, TidelogError) and not outcome.may_have_happened:
            assert value not in stored
    kinds = {int if isinstance(outcome, int) else type(outcome) for outcome in outcomes.values()}
    assert kinds == {int, DeliveryTimeout, OutcomeUnknown}
    assert set(threading.enumerate()) <= threads_before, "the day needs no thread of its own"
