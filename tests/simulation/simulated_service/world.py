"""One history of a whole service from one seed: gateways as they are, clients by HTTP, one store, and misfortune.

``simulate_service(seed)`` returns what happened or raises ``Violation``.
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial
from typing import Any

from gateway.cluster.ownership import Mode
from log_format import layout
from log_format.errors import ObjectMissing
from tests.simulation.simulated.faults import CALM, CROWDED, FAULTY, HOSTILE, MINUTE_MS, STORMY, Faults, Profile
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
from tests.simulation.simulated_service.gateways_world import GatewaysWorld, Simulation
from tests.simulation.simulated_service.judge import Judge
from tests.simulation.simulated_service.peers import Cluster
from tests.simulation.simulated_service.service import Service

RENEWED = replace(FAULTY, name="renewed", administration=0.8, recreation=1.0)
"""Topics are deleted and made anew all the time, and readers say which one they read."""
PROFILES = {CALM: 1, FAULTY: 4, STORMY: 3, CROWDED: 3, HOSTILE: 2, RENEWED: 2}
QUIET = Profile(name="quiet", slow=0.0, think_ms_max=25, administration=0.0, turns=2)
"""Nothing goes wrong, so that whatever is put off is the gateways' own doing."""
QUIET_ROUNDS = 10
"""Of requests that come as another one's flush begins or ends, with nothing after them that would wake a sleeper."""
QUIET_AFTER_MS = 5 * MINUTE_MS
"""How long after the last fault nothing is wrong any more: what is late has arrived, and no wait for what was lost goes on."""
SWEPT_MS = 10_000
TOPICS = ("t", "u")
PARTITIONS = 2


class ServiceWorld(GatewaysWorld):
    """Two topics, and the clients that write, read and administer them."""

    partitions_max = PARTITIONS

    def __init__(self, rng: random.Random, profile: Profile) -> None:
        super().__init__(rng, Faults(rng, profile))
        mode: Mode = rng.choice(("off", "off", "preferred", "random"))
        self.cluster = Cluster(scheduler=self.scheduler, rng=rng, faults=self.faults, mode=mode)
        self.judge = self.make_judge()
        self.told = self.judge.told
        self._next_value = 0
        self._is_quiet = profile is QUIET
        self.faults.active = not self._is_quiet

    def make_judge(self) -> Judge:
        """Of what clients are told."""
        return Judge(self.object_of)

    def new_config(self) -> dict[str, Any]:
        """Settings of a topic that is made."""
        return {}

    def begin(self) -> None:
        """Start gateways and actors."""
        self.start_some()
        around = Surroundings(
            scheduler=self.scheduler,
            rng=self.rng,
            network=self.network,
            judge=self.judge,
            any_service=lambda: self.rng.choice(self.services),
            think=self.think,
            new_value=self.new_value,
            topics=TOPICS,
            partitions_max=self.partitions_max,
            partitions_made=PARTITIONS,
            new_config=self.new_config,
            turns=self.profile.turns,
            outside=self.outside,
            is_quiet=lambda: self._is_quiet,
            says_ids=self.profile.recreation > 0,
        )
        self.around = around
        self.actor("administrator", partial(administrator, around, self.profile.administration))
        for index in range(2):
            self.actor(f"plain-{index}", partial(plain_producer, around, f"plain-{index}"))
        for index in range(2):
            self.actor(f"idempotent-{index}", IdempotentProducer(around, f"idempotent-{index}").run)
        self.actor("transactional", TransactionalLoop(around, "transactional").run)
        self.actor("at-once", AtOnceProducer(around, "at-once").run)
        self.actor("misfortune", partial(self.misfortune, self.profile.turns))
        for topic in TOPICS:
            body = partial(reader, around, topic, lambda: self.busy > 0)
            self.scheduler.start(f"reader of {topic}", self.outside, body)

    def ended(self) -> None:
        """What clients were told is compared with what there is."""
        self.judge.end()
        self.told["forwarded"] += self.cluster.forwarded

    def start_service(self) -> Service:
        """One more gateway."""
        machine = self.next_machine()
        return self.service(self.client(machine), machine, cluster=self.cluster)

    def at_rest(self) -> None:
        """Nothing is wrong from some time on: what is asked then is answered at once."""
        self.scheduler.sleep_ms(QUIET_AFTER_MS)
        # What a gateway that died decided and did not finish: no client repeats a request without a number.
        self.services[0].sweep()
        self.scheduler.sleep_ms(SWEPT_MS)
        self._is_quiet = True
        rounds = QUIET_ROUNDS if self.profile is QUIET else 1
        for service in self.services:
            body = partial(last_words, self.around, service, rounds)
            self.scheduler.start(f"last words to {service.machine.name}", self.outside, body)

    def new_value(self) -> bytes:
        """One that no record had before."""
        self._next_value += 1
        return f"value-{self._next_value}".encode()

    def written(self, key: str, data: bytes) -> None:
        """Commits are the judge's truth."""
        version = layout.commit_version(key)
        if version is not None and key.startswith(layout.TOPICS):
            topic = key.removeprefix(layout.TOPICS).split("/")[0]
            self.scheduler.note(f"version {version} of {topic} stands: {data[:60]!r}")
            self.judge.landed(topic, version, data, self.scheduler.now_ms)

    def object_of(self, topic: str, path: str) -> bytes:
        """An object of a topic's table. Raises ``KeyError``."""
        try:
            return self.server.objects.get(f"{layout.topic_root(topic)}{path}")
        except ObjectMissing:
            raise KeyError(path) from None


simulate_service = Simulation(ServiceWorld, PROFILES)
