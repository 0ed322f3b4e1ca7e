"""Gateways that nothing happens to, on the virtual clock, and clients who ask for everything at once.

No fault, no crash, no slow store: so every wait must end by what it waits for. One that ends by its time-out is a wake-up that
was lost, or somebody who waits for what will never come; on the virtual clock it shows as seconds, however busy the machine is.
"""

from __future__ import annotations

import contextlib
import random
import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import gateway.groups.membership.upkeep
import gateway.tables.groups
from gateway.cluster.ownership import Mode
from log_format import limits
from tests.simulation.simulated.faults import Faults, Profile
from tests.simulation.simulated.scheduler import Machine, Scheduler
from tests.simulation.simulated.store import Client, Server
from tests.simulation.simulated_calm.clients import Client as ApiClient
from tests.simulation.simulated_calm.clients import prepare
from tests.simulation.simulated_service.network import Network, Reply
from tests.simulation.simulated_service.peers import Cluster
from tests.simulation.simulated_service.service import Service

STEPS_MAX = 3_000_000
LATE_MS = 4_900
"""The shortest wait that ends by itself where nobody ends it is 5 s (for requests before one's own, for a decision)."""
HANG_MS = 200_000
REST_MS = 2_000
"""After the last answer, for what is done behind answers."""


@dataclass(slots=True, kw_only=True)
class Findings:
    """What should not have happened, and how often what did."""

    wrong: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)


def simulate_calm(seed: int) -> Findings:
    """Run the history of ``seed``."""
    world = World(random.Random(seed))
    random.seed(seed)
    with contextlib.ExitStack() as stack:
        for patch in world.patches():
            stack.enter_context(patch)
        world.run()
    return world.findings


class World:
    """Everything that lives in one history."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.findings = Findings()
        self.scheduler = Scheduler(rng, steps_max=STEPS_MAX)
        self._server = Server(self.scheduler)
        self._faults = Faults(rng, Profile(name="nothing", slow=0.0))
        self._faults.active = False
        self._network = Network(self.scheduler, rng, self._faults)
        self._outside = Machine("outside")
        self._busy = 0
        mode: Mode = rng.choice(("preferred", "random"))
        cluster = Cluster(scheduler=self.scheduler, rng=rng, faults=self._faults, mode=mode)
        self._services = [self._start_service(number, cluster) for number in range(rng.randrange(1, 4))]

    def patches(self) -> list[Any]:
        """What stands in for chance while the history lasts, and what makes it eventful."""
        return [
            mock.patch("uuid.uuid4", self._uuid),
            mock.patch.object(limits, "CHECKPOINT_INTERVAL_MIN", 3),
            mock.patch.object(limits, "CHECKPOINT_INTERVAL_MAX", 5),
            mock.patch.object(gateway.tables.groups, "FILES_MIN", 10),
            mock.patch.object(gateway.groups.membership.upkeep, "COMPACTION_MS", 5_000),
        ]

    def run(self) -> None:
        """From the first request until all are answered; then what is left in memory."""
        self.act(lambda: prepare(self))
        try:
            with contextlib.suppress(_Over):
                self.scheduler.run()
            for service in self._services:
                self._check_rest(service)
        finally:
            for service in self._services:
                service.crash()
            self.scheduler.crash(self._outside)
            for service in self._services:
                service.loop.bury()

    def act(self, body: Any) -> None:
        """Somebody who does something beside all others."""
        self._busy += 1

        def live() -> None:
            body()
            self._busy -= 1
            if self._busy == 0:
                self.scheduler.at(REST_MS, self._end)

        self.scheduler.start("actor", self._outside, live)

    def begin_client(self) -> None:
        """One more client."""
        self.act(ApiClient(self).run)

    def call(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, *, wait_ms: int = 0,
        leaves: bool = True,
    ) -> Reply | None:  # fmt: skip
        """A request to any gateway, which is to be answered in time; None: the client left before that, as some do."""
        began_ms = self.scheduler.now_ms
        patience_ms = self.rng.choice((1, 10, 50, 200)) if leaves and self.rng.random() < 0.05 else HANG_MS
        service = self.rng.choice(self._services)
        reply = self._network.call(service, method, path, body, headers, patience_ms=patience_ms)
        took_ms = self.scheduler.now_ms - began_ms
        what = f"{method} {path} {body} took {took_ms} ms"
        if not isinstance(reply, Reply):
            self.findings.seen["left"] += 1
            if patience_ms == HANG_MS:
                self.findings.wrong.append(f"{what} and was not answered")
            return None
        self.findings.seen[f"{method} {reply.status}"] += 1
        if reply.status >= 500 or took_ms - wait_ms > LATE_MS:
            self.findings.wrong.append(f"{what}: {reply.status} {reply.body}")
        return reply

    def _start_service(self, number: int, cluster: Cluster) -> Service:
        machine = Machine(f"gateway-{number}")
        client = Client(self.scheduler, self._server, self._faults, machine)
        return Service(self.scheduler, client, machine, with_groups=True, cluster=cluster)

    def _uuid(self) -> uuid.UUID:
        return uuid.UUID(int=self.rng.getrandbits(128), version=4)

    def _check_rest(self, service: Service) -> None:
        gateway = service.app.state.gateway
        for memory in (gateway.answer_memory, gateway.request_memory):
            if memory.used_bytes:
                self.findings.wrong.append(f"{memory.used_bytes} bytes of {memory.purpose} were never given back")
        self.findings.wrong += [f"nobody caught {failure}" for failure in service.loop.failures]

    def _end(self) -> None:
        raise _Over


class _Over(Exception):
    """Everybody is done. Work on groups would go on for ever."""
