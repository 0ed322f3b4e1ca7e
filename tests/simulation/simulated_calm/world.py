"""Gateways without any fault, on the virtual clock, and clients that ask for everything at once.

No fault, no crash, no slow store: so every wait must end by what it waits for. A wait that ends by its time-out lost its
wake-up, or waits for what will never come. On the virtual clock it shows as seconds, however busy the machine is.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gateway.cluster.ownership import Mode
from tests.simulation.simulated.faults import Faults, Profile
from tests.simulation.simulated.scheduler import Machine
from tests.simulation.simulated_calm.clients import Client as ApiClient
from tests.simulation.simulated_calm.clients import prepare
from tests.simulation.simulated_service.gateways_world import GatewaysWorld, Over
from tests.simulation.simulated_service.network import Reply
from tests.simulation.simulated_service.peers import Cluster
from tests.simulation.simulated_service.service import Service

LATE_MS = 4_900
"""The shortest wait that ends by its time-out alone is 5 s (for a producer's earlier requests, for a decision)."""
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
    world = CalmWorld(random.Random(seed))
    world.run(seed)
    return world.findings


class CalmWorld(GatewaysWorld):
    """Gateways that nothing happens to, and clients."""

    STEPS_MAX = 3_000_000

    def __init__(self, rng: random.Random) -> None:
        nothing = Faults(rng, Profile(name="nothing", slow=0.0))
        nothing.active = False
        super().__init__(rng, nothing)
        self.findings = Findings()
        mode: Mode = rng.choice(("preferred", "random"))
        self._cluster = Cluster(scheduler=self.scheduler, rng=rng, faults=nothing, mode=mode)

    def begin(self) -> None:
        """Start gateways and clients."""
        for _ in range(self.rng.randrange(1, 4)):
            self.services.append(self.start_service())
        self.act(lambda: prepare(self))

    def at_rest(self) -> None:
        """The last answer has come."""
        self.scheduler.at(REST_MS, self._end)

    def ended(self) -> None:
        """What is left in memory."""
        for service in self.services:
            self._check_rest(service)

    def act(self, body: Callable[[], object]) -> None:
        """One more that does something beside all others."""
        self.actor("actor", body)

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
        service = self.rng.choice(self.services)
        reply = self.network.call(service, method, path, body, headers, patience_ms=patience_ms)
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

    def start_service(self) -> Service:
        """One more gateway."""
        machine = Machine(f"gateway-{len(self.services)}")
        return self.service(self.client(machine), machine, with_groups=True, cluster=self._cluster)

    def _check_rest(self, service: Service) -> None:
        gateway = service.app.gateway
        for memory in (gateway.answer_memory, gateway.request_memory):
            if memory.used_bytes:
                self.findings.wrong.append(f"{memory.used_bytes} bytes of {memory.purpose} were never given back")
        self.findings.wrong += [f"nobody caught {failure}" for failure in service.loop.failures]

    def _end(self) -> None:
        raise Over
