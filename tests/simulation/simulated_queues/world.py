"""One history of a queue from one seed: gateways as they are, callers by HTTP, one store, and misfortune.

Callers take records and settle them in time, late or never, some in transactions. Gateways crash, stand still and lose sight of
each other, so that several believe that they coordinate the queue. At the end nothing fails any more, and one caller must be
able to take and accept what is left. ``simulate_queues(seed)`` returns what happened or raises ``Violation``.
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

from tests.simulation.simulated import faults
from tests.simulation.simulated.faults import SECOND_MS, Profile
from tests.simulation.simulated.scheduler import MachineClock
from tests.simulation.simulated.truth import Violation
from tests.simulation.simulated_queues.ledger import Ledger, Place
from tests.simulation.simulated_queues.workers import Caller, Worker
from tests.simulation.simulated_service.coordinated_world import CoordinatedWorld
from tests.simulation.simulated_service.gateways_world import Simulation
from tests.simulation.simulated_service.network import Reply
from tests.simulation.simulated_service.service import Service

QUEUE, TOPIC, LETTERS = "q", "t", "dead"
PARTITIONS = 2
WORKERS = 3
RECORDS = 10
"""Of each partition."""
MAX_DELIVERIES = 3
SETTLED_MS_MAX = 100 * SECOND_MS
"""Histories without a defect need 25 s: a dead worker's locks end, and a successor waits out the longest."""

CALM = replace(faults.CALM, turns=12)
FAULTY = replace(faults.FAULTY, turns=10, pause_ms_max=15 * SECOND_MS)
HOSTILE = replace(faults.HOSTILE, turns=8, think_ms_max=2 * SECOND_MS)
PASSING = replace(faults.PASSING, turns=14, pause_ms_max=12 * SECOND_MS)
RENEWED = replace(PASSING, name="renewed", recreation=0.3)
RENEWED_FAULTY = replace(FAULTY, name="renewed, faulty", recreation=0.3)
"""The topic is deleted and made anew under the callers."""
PROFILES = {CALM: 1, FAULTY: 3, PASSING: 3, HOSTILE: 1, RENEWED: 2, RENEWED_FAULTY: 2}


class QueuesWorld(CoordinatedWorld):
    """A queue and its callers."""

    def __init__(self, rng: random.Random, profile: Profile) -> None:
        super().__init__(rng, profile, (QUEUE,))
        self._clock = MachineClock(self.scheduler, self.outside)
        self.ledger = Ledger(self._clock.now_ms, self.scheduler.note, max_deliveries=MAX_DELIVERIES)
        self.told = self.ledger.told
        self._numbers = count()
        self._lock_ms = rng.choice((1_000, 2_000, 4_000))
        self._order = rng.choice(("none", "none", "key"))

    def begin_clients(self) -> None:
        """Make the queue; start its callers, and misfortune."""
        self._make(TOPIC, PARTITIONS)
        self._make(LETTERS, 1)
        settings = {
            "topics": [TOPIC],
            "start": "earliest",
            "lock_ms": self._lock_ms,
            "max_deliveries": MAX_DELIVERIES,
            "dead_letter_topic": LETTERS,
            "max_in_flight": self.rng.choice((3, 100)),
            "order": self._order,
        }
        self.insist("PUT", f"/v1/queues/{QUEUE}", settings)
        self._produce()
        for number in range(WORKERS):
            self.actor(f"worker {number}", Worker(self._caller(), f"worker-{number}").run)
        self.actor("producer", self._produce)
        self.actor("misfortune", partial(self.misfortune, 2 * self.profile.turns))
        if self.profile.recreation:
            self.actor("renewer", partial(self.renew, self.profile.turns, lambda: TOPIC, self._make_anew))

    def _make(self, topic: str, partition_count: int) -> None:
        body = {"name": topic, "partition_count": partition_count, "config": {"flush.ms": 0}}
        self.insist("POST", "/v1/topics", body)

    def _make_anew(self, topic: str) -> None:
        self._make(topic, PARTITIONS)
        self._produce()

    def _produce(self) -> None:
        """Perhaps more than once, each time with other values; to a topic that is not there nothing."""
        keys = [(p, self.rng.choice((None, "a", "b"))) for p in range(PARTITIONS) for _ in range(RECORDS)]

        def records() -> list[dict[str, Any]]:
            return [{"partition": p, "value": f"value-{next(self._numbers)}", "key": key} for p, key in keys]

        self.ask_to_produce(TOPIC, records)

    def _caller(self) -> Caller:
        return Caller(self, self.ledger, QUEUE, self._lock_ms)

    # The end

    def at_rest(self) -> None:
        """One caller takes and accepts all that is left; then the dead letters are counted."""
        if self.profile.recreation:
            # A gateway that stands still may have a deletion yet whose client has asked again elsewhere.
            self.scheduler.sleep_ms(2 * self.profile.pause_ms_max)
            self._make(TOPIC, PARTITIONS)
        worker = Worker(self._caller(), "the last")
        deadline_ms = self.scheduler.now_ms + SETTLED_MS_MAX
        while True:
            found = worker.drain()
            if found == 0 and self._lag() == 0:
                break
            if self.scheduler.now_ms > deadline_ms:
                raise Violation(f"the queue is not empty after {SETTLED_MS_MAX} ms")
            self.scheduler.sleep_ms(200)
        there = [
            (TOPIC, partition, record["offset"], record["value"])
            for partition in range(PARTITIONS)
            for record in self._records(TOPIC, partition)
        ]
        self.ledger.finished(there, self._dead())
        self.scheduler.at(0, self.stop)

    def _lag(self) -> int:
        reply = self._caller().ask("GET", f"/v1/queues/{QUEUE}")
        if not isinstance(reply, Reply) or reply.status != 200:
            return -1
        return sum(one["lag"] for one in reply.body["partitions"])

    def _records(self, topic: str, partition: int) -> list[dict[str, Any]]:
        path = f"/v1/topics/{topic}/partitions/{partition}/records?offset=0&max_records=10000"
        found: list[dict[str, Any]] = self.insist("GET", path).body["records"]
        return found

    def _dead(self) -> list[tuple[Place, int, str]]:
        found = []
        for record in self._records(LETTERS, 0):
            said = {header["key"].removeprefix("tidelog-dlq-"): header["value"] for header in record["headers"]}
            place = (said["topic"], int(said["partition"]), int(said["offset"]), record["value"])
            found.append((place, int(said["deliveries"]), said["reason"]))
        return found

    # Gateways

    def start_service(self) -> Service:
        """One more gateway."""
        machine = self.next_machine()
        return self.service(self.client(machine), machine, with_queues=True, ownership=self.ownership(machine))


simulate_queues = Simulation(QueuesWorld, PROFILES)
