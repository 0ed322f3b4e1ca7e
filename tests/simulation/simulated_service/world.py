"""One history of a whole service from one seed: gateways as they are, clients by HTTP, one store, and misfortune.

``simulate_service(seed)`` returns what happened or raises ``Violation``.
"""

from __future__ import annotations

import contextlib
import random
import uuid
from collections import Counter
from collections.abc import Callable
from functools import partial
from unittest import mock

from gateway.cluster.ownership import Mode
from log_format import layout, limits
from log_format.errors import ObjectMissing
from tests.simulation.simulated.faults import CALM, CROWDED, FAULTY, HOSTILE, MINUTE_MS, STORMY, Faults, Profile
from tests.simulation.simulated.scheduler import Machine, Scheduler
from tests.simulation.simulated.store import Client, Server
from tests.simulation.simulated.world import History
from tests.simulation.simulated_service.clients import (
    AtOnceProducer,
    IdempotentProducer,
    Surroundings,
    TransactionalLoop,
    administrator,
    last_words,
    plain_producer,
    reader,
)
from tests.simulation.simulated_service.judge import Judge
from tests.simulation.simulated_service.network import Network
from tests.simulation.simulated_service.peers import Cluster
from tests.simulation.simulated_service.service import Code, Service

PROFILES = {CALM: 1, FAULTY: 4, STORMY: 3, CROWDED: 3, HOSTILE: 2}
QUIET = Profile(name="quiet", slow=0.0, think_ms_max=25, administration=0.0, turns=2)
"""Nothing goes wrong, so that whatever is put off is the gateways' own doing."""
QUIET_ROUNDS = 10
"""Of requests that come as another one's flush begins or ends, and then nothing that would wake who sleeps."""
QUIET_AFTER_MS = 5 * MINUTE_MS
"""How long after the last fault nothing is wrong any more: what is late has arrived, and nobody waits for what was lost."""
TOPICS = ("t", "u")
PARTITIONS = 2
STEPS_MAX = 400_000


def simulate_service(
    seed: int,
    *,
    profile: Profile | None = None,
    code: Code | None = None,
    on_note: Callable[[str], None] = lambda line: None,
) -> History:
    """Run the history of ``seed``."""
    rng = random.Random(seed)
    (drawn,) = rng.choices(list(PROFILES), list(PROFILES.values()))
    world = World(rng, profile if profile is not None else drawn)
    world.scheduler.on_note = on_note
    # Back-off draws from the module's own generator, wherever nobody gives it another one.
    random.seed(seed)
    with contextlib.ExitStack() as stack:
        for patch in (*world.patches(), *(code.patches() if code is not None else [])):
            stack.enter_context(patch)
        world.run()
    seen = world.server.seen + world.judge.told + Counter(world.network.seen)
    seen["forwarded"] += world.cluster.forwarded
    return History(seed=seed, profile=world.profile.name, trace=tuple(world.scheduler.trace), seen=seen)


class World:
    """Everything that lives in one history."""

    def __init__(self, rng: random.Random, profile: Profile) -> None:
        self.rng = rng
        self.profile = profile
        self.scheduler = Scheduler(rng, steps_max=STEPS_MAX)
        self.server = Server(self.scheduler)
        self.server.on_written = self._written
        self.faults = Faults(rng, profile)
        self.network = Network(self.scheduler, rng, self.faults)
        mode: Mode = rng.choice(("off", "off", "preferred", "random"))
        self.cluster = Cluster(scheduler=self.scheduler, rng=rng, faults=self.faults, mode=mode)
        self.judge = Judge(self._segment)
        self._outside = Machine("outside")
        self._next_value = 0
        self._started = 0
        self._busy = 0
        self._is_quiet = profile is QUIET
        self.faults.active = not self._is_quiet
        self._services: list[Service] = []
        self._crashed: list[Service] = []

    def patches(self) -> list[object]:
        """What stands in for chance and the real world while the history lasts."""
        return [
            mock.patch("uuid.uuid4", self._uuid),
            mock.patch.object(limits, "CHECKPOINT_INTERVAL_MIN", 3),
            mock.patch.object(limits, "CHECKPOINT_INTERVAL_MAX", 5),
        ]

    def run(self) -> None:
        """From the first request until everything has come to rest; then the last checks."""
        for _ in range(self.rng.randrange(2, 4)):
            self._services.append(self._start_service())
        around = Surroundings(
            scheduler=self.scheduler,
            rng=self.rng,
            network=self.network,
            judge=self.judge,
            any_service=lambda: self.rng.choice(self._services),
            think=self._think,
            new_value=self._new_value,
            topics=TOPICS,
            partitions_max=PARTITIONS,
            turns=self.profile.turns,
            outside=self._outside,
            is_quiet=lambda: self._is_quiet,
        )
        self._around = around
        self._actor("administrator", partial(administrator, around, self.profile.administration))
        for index in range(2):
            self._actor(f"plain-{index}", partial(plain_producer, around, f"plain-{index}"))
        for index in range(2):
            self._actor(f"idempotent-{index}", IdempotentProducer(around, f"idempotent-{index}").run)
        self._actor("transactional", TransactionalLoop(around, "transactional").run)
        self._actor("at-once", AtOnceProducer(around, "at-once").run)
        self._actor("misfortune", self._misfortune)
        for topic in TOPICS:
            body = partial(reader, around, topic, lambda: self._busy > 0)
            self.scheduler.start(f"reader of {topic}", self._outside, body)
        try:
            self.scheduler.run()
            self.judge.end()
        finally:
            for service in self._services:
                service.crash()
            self.scheduler.crash(self._outside)
            for service in (*self._services, *self._crashed):
                service.loop.bury()

    def _start_service(self) -> Service:
        self._started += 1
        machine = Machine(f"gateway-{self._started}", wall_skew_ms=self.rng.randrange(-3000, 3000))
        client = Client(self.scheduler, self.server, self.faults, machine)
        return Service(self.scheduler, client, machine, cluster=self.cluster)

    def _actor(self, name: str, body: Callable[[], None]) -> None:
        self._busy += 1

        def live() -> None:
            body()
            self._busy -= 1
            if self._busy == 0:
                self.faults.active = False
                self.server.down_until_ms = 0
                self._afterwards()

        self.scheduler.start(name, self._outside, live)

    def _afterwards(self) -> None:
        self.scheduler.sleep_ms(QUIET_AFTER_MS)
        self._is_quiet = True
        rounds = QUIET_ROUNDS if self.profile is QUIET else 1
        for service in self._services:
            body = partial(last_words, self._around, service, rounds)
            self.scheduler.start(f"last words to {service.machine.name}", self._outside, body)

    def _misfortune(self) -> None:
        for _ in range(self.profile.turns):
            self._think()
            index = self.rng.randrange(len(self._services))
            service = self._services[index]
            if self.rng.random() < self.profile.pause:
                pause_ms = self.rng.randrange(1, self.profile.pause_ms_max)
                service.machine.paused_until_ms = self.scheduler.now_ms + pause_ms
                self._note("pause", service, pause_ms)
            elif self.rng.random() < self.profile.crash:
                self._note("crash", service, 0)
                service.crash()
                self._crashed.append(service)
                self._services[index] = self._start_service()
            elif self.rng.random() < self.profile.outage:
                self.server.down_until_ms = self.scheduler.now_ms + self.rng.randrange(self.profile.outage_ms_max)
                self._note("outage", service, self.server.down_until_ms - self.scheduler.now_ms)

    def _note(self, what: str, service: Service, duration_ms: int) -> None:
        self.server.seen[what] += 1
        self.scheduler.note(f"{what} of {service.machine.name} for {duration_ms} ms")

    def _think(self) -> None:
        self.scheduler.sleep_ms(self.rng.randrange(self.profile.think_ms_max))

    def _uuid(self) -> uuid.UUID:
        return uuid.UUID(int=self.rng.getrandbits(128), version=4)

    def _new_value(self) -> bytes:
        self._next_value += 1
        return f"value-{self._next_value}".encode()

    def _written(self, key: str, data: bytes) -> None:
        version = layout.commit_version(key)
        if version is not None and key.startswith(layout.TOPICS):
            topic = key.removeprefix(layout.TOPICS).split("/")[0]
            self.scheduler.note(f"version {version} of {topic} stands: {data[:60]!r}")
            self.judge.landed(topic, version, data, self.scheduler.now_ms)

    def _segment(self, topic: str, path: str) -> bytes:
        try:
            return self.server.objects.get(f"{layout.topic_root(topic)}{path}")
        except ObjectMissing:
            raise KeyError(path) from None
