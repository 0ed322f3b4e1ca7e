"""One history of gateways whose topics come and go between their own commits and journals, from one seed.

``simulate_modes(seed)`` returns what happened or raises ``Violation``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

from log_format import layout
from log_format.errors import ObjectMissing
from tests.simulation.simulated.faults import CALM, CROWDED, FAULTY, HOSTILE, SECOND_MS, STORMY, Profile
from tests.simulation.simulated.truth import Violation
from tests.simulation.simulated.world import ignore
from tests.simulation.simulated_modes.judge import ModesJudge
from tests.simulation.simulated_service.clients import Surroundings
from tests.simulation.simulated_service.gateways_world import Simulation
from tests.simulation.simulated_service.journal_keeper import EAGER, JournalKeeper
from tests.simulation.simulated_service.network import Lost, Reply
from tests.simulation.simulated_service.service import Code, Service
from tests.simulation.simulated_service.world import QUIET_AFTER_MS, RENEWED, ServiceWorld

DOZING = replace(
    FAULTY, name="dozing", fault=0.08, pause=0.2, pause_at_request=0.04, pause_ms_max=15 * SECOND_MS, administration=0.4
)
"""Falls asleep in the middle of everything, for longer than others wait for it."""
PROFILES = {CALM: 1, FAULTY: 3, STORMY: 3, CROWDED: 3, HOSTILE: 2, DOZING: 4, RENEWED: 2}
PARTITIONS_MAX = 3
_DRAINS_MAX = 60


class ModesWorld(ServiceWorld):
    """The service's clients, and beside them an operator that alters topics, and the upkeep of journals."""

    partitions_max = PARTITIONS_MAX
    judge: ModesJudge

    def __init__(self, rng: random.Random, profile: Profile) -> None:
        super().__init__(rng, profile)
        self._keeper = JournalKeeper()
        self._remembered = (rng.choice((1, 10)), rng.choice((0, 1, 20)))
        """Topics of a journal, and closed ones that it remembers."""

    def run(self, seed: int, *, code: Code | None = None, on_note: Callable[[str], None] = ignore) -> None:
        """As every world, within its bounds."""
        topics_max, closed_remembered = self._remembered
        bounds = {
            **EAGER,
            "gateway.engine.open_journal.JOURNAL_TOPICS_MAX": topics_max,
            "log_format.journal.topics.JOURNAL_CLOSED_REMEMBERED": closed_remembered,
        }
        with ExitStack() as stack:
            for target, value in bounds.items():
                stack.enter_context(mock.patch(target, value))
            super().run(seed, code=code, on_note=on_note)

    def make_judge(self) -> ModesJudge:
        """Of what clients are told, and of what journals say."""
        return ModesJudge(self.object_of, self._object_of_journal)

    def new_config(self) -> dict[str, Any]:
        """A topic begins anywhere."""
        return {
            "commit.mode": self.rng.choice(("own", "shared", "shared", "auto")),
            "drain.ms": self.rng.choice((1_000, 2_000, 5_000)),
        }

    def new_value(self) -> bytes:
        """Some values are above what topics allow now and then."""
        return super().new_value() + b"x" * self.rng.choice((0, 0, 20))

    def begin(self) -> None:
        """Start gateways and actors."""
        super().begin()
        self.actor("operator", partial(operator, self.around))
        self.actor("expecting", partial(expecting_producer, self.around))
        self.scheduler.start("upkeep", self.outside, self._keep)

    def _keep(self) -> None:
        while self.busy:
            self.scheduler.sleep_ms(self.rng.randrange(100, 2 * SECOND_MS))
            self._keeper.keep(self.rng.choice(self.services))

    def at_rest(self) -> None:
        """Nothing is wrong from some time on: one gateway drains what all have left. After the last requests all drain."""
        self.scheduler.sleep_ms(QUIET_AFTER_MS)
        self._drain_all([self.rng.choice(self.services)])
        super().at_rest()
        self.scheduler.start("last drains", self.outside, self._last_drains)

    def _last_drains(self) -> None:
        self.scheduler.sleep_ms(20 * SECOND_MS)
        self._drain_all(self.services)
        for service in self.services:
            self.scheduler.start("last reader", self.outside, partial(self._read_all, service))

    def _drain_all(self, services: Sequence[Service]) -> None:
        failures = [_drain_failures(service) for service in services]
        for round_ in range(_DRAINS_MAX):
            self.scheduler.sleep_ms(3 * SECOND_MS)
            if round_ > 2 and self.judge.is_drained:
                break
            for service in services:
                self._keeper.keep(service, is_over=True)
        if not self.judge.is_drained:
            names = [service.machine.name for service in services]
            raise Violation(f"{names} do not drain {[topic.head for topic in self.judge.topics.values()]}")
        if [_drain_failures(service) for service in services] != failures:
            raise Violation("nothing is wrong, and drains fail")

    def _read_all(self, service: Service) -> None:
        """Whatever is there is read by each gateway."""
        for topic, truth in self.judge.topics.items():
            state = truth.head
            for partition in range(state.partition_count):
                offset = state.log_starts[partition]
                while offset < state.next_offsets[partition]:
                    path = f"/v1/topics/{topic}/partitions/{partition}/records?offset={offset}&max_records=100"
                    started_ms = self.scheduler.now_ms
                    reply = self.around.ask(service, "GET", path)
                    if not isinstance(reply, Reply) or reply.status != 200:
                        raise Violation(f"at the end {path} gave {reply}")
                    self.judge.fetched(topic, partition, offset, reply.body, started_ms, self.scheduler.now_ms)
                    offset = reply.body["next_offset"]

    def ended(self) -> None:
        """What clients were told is compared with what there is, and nothing failed beside requests."""
        self._keeper.check()
        failures = [failure for service in self.services for failure in service.loop.failures]
        if failures:
            raise Violation(f"a gateway failed: {failures[0]}")
        super().ended()

    def written(self, key: str, data: bytes) -> None:
        """Commits are the judge's truth."""
        super().written(key, data)
        version = layout.commit_version(key)
        if version is not None and key.startswith(layout.JOURNALS):
            number = int(key.removeprefix(layout.JOURNALS).split("/")[0])
            self.scheduler.note(f"version {version} of journal {number} stands: {data[-300:]!r}")
            self.judge.landed_in_journal(number, version, data, self.scheduler.now_ms)

    def _object_of_journal(self, number: int, path: str) -> bytes:
        try:
            return self.server.objects.get(f"{layout.journal_root(number)}{path}")
        except ObjectMissing:
            raise KeyError(path) from None


def _drain_failures(service: Service) -> float:
    (metric,) = service.engine._metrics.drain_failures.collect()
    return float(metric.samples[0].value)


def operator(around: Surroundings) -> None:
    """Alters topics: where their commits go, what they allow, how many partitions they have."""
    for _ in range(4 * around.turns):
        around.think()
        topic = around.rng.choice(around.topics)
        body: dict[str, Any]
        match around.rng.randrange(8):
            case 0:
                body = {"partition_count": around.partitions_max}
            case 1 | 2:
                body = {"config": {"max.message.bytes": around.rng.choice((20, None))}}
            case _:
                body = {"config": {"commit.mode": around.rng.choice(("own", "shared", "shared", "auto"))}}
        reply = around.call("PATCH", f"/v1/topics/{topic}", body)
        if isinstance(reply, Reply) and reply.status == 200:
            around.judge.told["altered"] += 1


def expecting_producer(around: Surroundings) -> None:
    """Appends where it expects to, as one that is alone would: what it expected is where its record is."""
    expected: dict[str, int] = {}
    for _ in range(around.turns):
        around.think()
        topic, value = around.rng.choice(around.topics), around.new_value()
        headers = {"Tidelog-Expected-Offset": str(expected.get(topic, 0))}
        body = {"records": [{"value": value.decode()}]}
        reply = around.call("POST", f"/v1/topics/{topic}/partitions/0/records", body, headers)
        if reply is Lost.NO_ANSWER:
            around.judge.unknown("answer lost")
        elif isinstance(reply, Reply):
            if reply.status == 200:
                place = reply.body["partitions"][0]["base_offset"]
                if place != expected.get(topic, 0):
                    raise Violation(f"{value!r} was expected at {headers} of {topic}, it is at {place}")
                around.judge.acknowledged("expecting", topic, {0: [value]}, reply.body)
                around.judge.told["expected"] += 1
                expected[topic] = place + 1
            elif reply.may_have_happened:
                around.judge.unknown(reply.error_code)
            else:
                around.judge.refused([value], reply)
                if reply.error_code == "EXPECTED_OFFSET_MISMATCH":
                    expected[topic] = reply.body["actual"]


simulate_modes = Simulation(ModesWorld, PROFILES)
