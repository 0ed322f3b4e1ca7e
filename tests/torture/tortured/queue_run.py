"""A run of queues and delayed records: senders, workers of one queue, misfortune; then everything is settled and judged."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.torture.tortured import clients
from tests.torture.tortured.history import History
from tests.torture.tortured.joined import joined
from tests.torture.tortured.misfortune import Misfortune
from tests.torture.tortured.queue_clients import (
    DELIVERIES_MAX,
    LETTERS,
    LOCK_MS,
    PARTITIONS,
    QUEUE,
    TOPIC,
    send,
    work,
)
from tests.torture.tortured.queue_history import Found, Place, QueueHistory, contradictions
from tests.torture.tortured.queue_processes import QueueProcesses
from tests.torture.tortured.renewed_queue import RenewedQueue
from tests.torture.tortured.run import Outcome
from tests.torture.tortured.service import Service, service

SETTLE_SECONDS_MAX = 240.0
_SCHEDULED_FOR = "tidelog-scheduled-for"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much, how long, how bad."""

    seconds: float
    seed: int
    gateways: int = 3
    senders: int = 4
    workers: int = 8
    pace_seconds: float = 0.2
    handled_pace_seconds: float = 4.0
    """Between two requests of records that worker processes handle."""
    freeze_seconds: float = 20.0


def torture_queues(plan: Plan, directory: Path, *, progress: Callable[[str], None] = lambda text: None) -> Outcome:
    """Run the plan; a contradiction is a line."""
    faults, failures, began = History(), list[str](), time.monotonic()
    with service(directory, plan.gateways) as running:
        sending, working, calm = threading.Event(), threading.Event(), threading.Event()

        def client(name: str, until: threading.Event) -> clients.Client:
            return clients.Client(name, running.urls, faults, until, plan.seed)

        operator = client("operator", threading.Event())
        _make(operator)
        histories = [QueueHistory() for _ in range(plan.senders + plan.workers)]
        senders = [
            clients.start(send, client(f"sender-{i}", sending), histories[i], plan.pace_seconds, failures=failures)
            for i in range(plan.senders)
        ]
        workers = [
            clients.start(work, client(f"worker-{i}", working), histories[plan.senders + i], calm, failures=failures)
            for i in range(plan.workers)
        ]
        reader = _Reader(client("reader", working))
        watching = clients.start(lambda _client: reader.run(), reader.client, failures=failures)
        processes = QueueProcesses(client("killer", calm), running.urls, directory, failures)
        processes.start(client("handled-sender", sending), plan.handled_pace_seconds)
        renewed = RenewedQueue(client, running.urls, sending, calm, failures)
        misfortune = threading.Thread(
            target=Misfortune(running, faults, plan.seed, calm, plan.freeze_seconds).run, daemon=True
        )
        misfortune.start()
        deadline = time.monotonic() + plan.seconds
        while (left := deadline - time.monotonic()) > 0 and not failures:
            progress(f"{left:.0f} s left, {sum(len(one.deliveries) for one in histories)} deliveries")
            time.sleep(min(left, 1.0))
        sending.set()
        for thread in senders:
            thread.join(SETTLE_SECONDS_MAX)
        calm.set()
        misfortune.join(SETTLE_SECONDS_MAX)
        failures += processes.settled() + renewed.settled()
        failures += _settled(operator)
        working.set()
        failures += joined((*senders, *workers, watching), SETTLE_SECONDS_MAX)
        reader.read()
        letters = _letters(running)
        handled = processes.judged(len(faults.faults)) + renewed.judged()
        failures += [f"gateway {i} ended with {code}" for i, g in enumerate(running.gateways) if (code := g.stop())]
    whole = QueueHistory(
        sent=[one for each in histories for one in each.sent],
        deliveries=[one for each in histories for one in each.deliveries],
        settlements=[one for each in histories for one in each.settlements],
    )
    found = contradictions(whole, reader.log, letters, deliveries_max=DELIVERIES_MAX)
    kinds = Counter(f"fault: {one.what}" for one in faults.faults)
    return Outcome(
        counts={
            **whole.counts(),
            "dead letters": len(letters),
            "records": len(reader.log),
            **dict(sorted(processes.counts.items())),
            **renewed.counts(),
            **dict(sorted(kinds.items())),
        },
        contradictions=(failures + found + handled)[:20],
        seconds=time.monotonic() - began,
    )


def _make(operator: clients.Client) -> None:
    for name, count in ((TOPIC, PARTITIONS), (LETTERS, 1)):
        body = {"name": name, "partition_count": count, "config": {"flush.ms": 50}}
        reply, _, _ = operator.insist("POST", "/v1/topics", body)
        assert reply.status in {200, 201}, reply
    settings = {
        "topics": [TOPIC],
        "start": "earliest",
        "lock_ms": LOCK_MS,
        "max_deliveries": DELIVERIES_MAX,
        "dead_letter_topic": LETTERS,
        "backoff_ms": [0, 500],
    }
    reply, _, _ = operator.insist("PUT", f"/v1/queues/{QUEUE}", settings)
    assert reply.status in {200, 201}, reply


def _settled(operator: clients.Client) -> list[str]:
    """Wait until nothing is delayed and nothing unsettled, twice in a row: a delayed record may be on its way."""
    deadline, rest = time.monotonic() + SETTLE_SECONDS_MAX, 0
    while time.monotonic() < deadline:
        waiting = operator.call("GET", f"/v1/topics/{TOPIC}/scheduled?limit=1")
        queue = operator.call("GET", f"/v1/queues/{QUEUE}")
        done = waiting.status == queue.status == 200 and not waiting.body["scheduled"]
        rest = rest + 1 if done and not any(one["lag"] for one in queue.body["partitions"]) else 0
        if rest == 4:
            return []
        time.sleep(1.0)
    return [f"not everything was settled in {SETTLE_SECONDS_MAX:.0f} s of calm: {waiting.body}, {queue.body}"]


class _Reader:
    """Reads the topic all the time: each value's records, and when they were there first."""

    def __init__(self, client: clients.Client) -> None:
        self.client = client
        self.log: dict[str, list[Found]] = {}
        self._positions = [0] * PARTITIONS

    def run(self) -> None:
        """Until stopped."""
        while not self.client.stopping.is_set():
            self.read()
            self.client.stopping.wait(0.1)

    def read(self) -> None:
        """Each partition up to its end, as far as gateways answer."""
        for partition, position in enumerate(self._positions):
            path = f"/v1/topics/{TOPIC}/partitions/{partition}/records?offset={position}&max_records=10000"
            reply = self.client.call("GET", path)
            if reply.status != 200:
                continue
            read_ms = time.time_ns() // 1_000_000
            for record in reply.body["records"]:
                found = Found(place=(partition, record["offset"]), due_ms=_due_ms(record), read_ms=read_ms)
                self.log.setdefault(record["value"], []).append(found)
            self._positions[partition] = reply.body["next_offset"]


def _due_ms(record: dict[str, Any]) -> int | None:
    times = [int(one["value"]) for one in record["headers"] if one["key"] == _SCHEDULED_FOR]
    return times[0] if times else None


def _letters(running: Service) -> dict[str, list[Place]]:
    """The places that dead letters name, by value."""
    client = clients.Client("letters", running.urls, History(), threading.Event(), 0)
    found: dict[str, list[Place]] = {}
    offset = 0
    while True:
        path = f"/v1/topics/{LETTERS}/partitions/0/records?offset={offset}&max_records=10000"
        reply, _, _ = client.insist("GET", path)
        for record in reply.body["records"]:
            headers = {one["key"]: one["value"] for one in record["headers"]}
            place = int(headers["tidelog-dlq-partition"]), int(headers["tidelog-dlq-offset"])
            found.setdefault(record["value"], []).append(place)
        offset = reply.body["next_offset"]
        if offset == reply.body["high_watermark"]:
            return found
