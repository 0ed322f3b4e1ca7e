"""One history of gateways whose clients come by both doors, from one seed: HTTP's and Kafka's, over the same topics.

``simulate_kafka(seed)`` returns what happened or raises ``Violation``.
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial
from typing import Final

from gateway.engine.bounds import EngineBounds
from tests.simulation.simulated.faults import CALM, CROWDED, FAULTY, HOSTILE, STORMY, Profile
from tests.simulation.simulated.truth import Violation
from tests.simulation.simulated_kafka.clients import KafkaClient, plain_producer, poll, reader
from tests.simulation.simulated_kafka.committer import Committer
from tests.simulation.simulated_kafka.idempotent import IdempotentProducer
from tests.simulation.simulated_kafka.judge import KafkaJudge
from tests.simulation.simulated_kafka.line import Line
from tests.simulation.simulated_kafka.renewer import renewer
from tests.simulation.simulated_kafka.transactor import Transactor
from tests.simulation.simulated_service import clients as by_http
from tests.simulation.simulated_service.gateways_world import Simulation
from tests.simulation.simulated_service.service import EVENTFUL, Service
from tests.simulation.simulated_service.world import TOPICS, ServiceWorld

RENEWED = replace(FAULTY, name="renewed", administration=0.0, recreation=0.6)
"""Topics are deleted by their ids, and made anew."""
PROFILES = {CALM: 1, FAULTY: 4, STORMY: 3, CROWDED: 3, HOSTILE: 2, RENEWED: 3}
GROUP = "readers"
TRANSACTORS_GROUP = "transactor's"
LAST_POLLS_MAX = 200


LARGE: Final = replace(EVENTFUL, staged_names_max=0, transaction_piece_bytes=1)
"""Every transaction with a batch is a large one, each batch a segment."""


class KafkaWorld(ServiceWorld):
    """Clients of Kafka's among those of HTTP."""

    judge: KafkaJudge

    def __init__(self, rng: random.Random, profile: Profile, *, bounds: EngineBounds = EVENTFUL) -> None:
        super().__init__(rng, profile)
        self._bounds = bounds

    def make_judge(self) -> KafkaJudge:
        """Of what both are told."""
        return KafkaJudge(self.object_of)

    def start_service(self) -> Service:
        """One more gateway, with a listener."""
        machine = self.next_machine()
        return self.service(self.client(machine), machine, cluster=self.cluster, with_kafka=True, bounds=self._bounds)

    def begin(self) -> None:
        """Start gateways and actors."""
        super().begin()
        self.actor("kafka-plain", partial(plain_producer, self._kafka("kafka-plain")))
        for index in range(2):
            name = f"kafka-idempotent-{index}"
            self.actor(name, IdempotentProducer(self._kafka(name)).run)
        self.actor("kafka-transactor", Transactor(self._kafka("kafka-transactor"), TRANSACTORS_GROUP).run)
        self.committer = Committer(self._kafka("kafka-committer"), GROUP)
        self.actor("kafka-committer", self.committer.run)
        if self.profile.recreation:
            self.judge.is_deleted_by_id = True
            self.actor("kafka-renewer", partial(renewer, self._kafka("kafka-renewer")))
        for topic in TOPICS:
            client = self._kafka(f"kafka-reader of {topic}")
            body = partial(reader, client, topic, lambda: self.busy > 0)
            self.scheduler.start(client.name, self.outside, body)

    def at_rest(self) -> None:
        """Then also both doors of each gateway show all that there is."""
        super().at_rest()
        for service in self.services:
            self.scheduler.start(f"last look at {service.machine.name}", self.outside, partial(self._look, service))

    def _look(self, service: Service) -> None:
        client = self._kafka("last look")
        line = client.line_to(service)
        for topic in TOPICS:
            by_http.make(self.around, topic)
            self._read_whole(client, line, topic)
            for partition in range(self.partitions_max):
                self.committer.look(line, service, (topic, partition))
        line.close()

    def _read_whole(self, client: KafkaClient, line: Line, topic: str) -> None:
        positions = dict.fromkeys(range(self.partitions_max), 0)
        for _ in range(LAST_POLLS_MAX):
            ends = self.judge.truth(topic).head.next_offsets
            if all(positions[index] >= end for index, end in enumerate(ends)):
                return
            poll(client, line, topic, positions)
        raise Violation(f"nothing is wrong, and {topic} is read up to {positions} only")

    def _kafka(self, name: str) -> KafkaClient:
        return KafkaClient(around=self.around, faults=self.faults, judge=self.judge, name=name)


simulate_kafka = Simulation(KafkaWorld, PROFILES)
