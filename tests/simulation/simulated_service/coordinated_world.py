"""Groups or queues, and who coordinates them: what their clients and gateways believe, right or wrong."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from tests.simulation.simulated.faults import SECOND_MS, Faults, Profile
from tests.simulation.simulated.scheduler import Machine, MachineClock
from tests.simulation.simulated_service.gateways_world import BelievedOwnership, GatewaysWorld
from tests.simulation.simulated_service.network import Lost, Reply
from tests.simulation.simulated_service.service import Service

LedgerT = TypeVar("LedgerT")


class CoordinatedWorld(GatewaysWorld):
    """Gateways that stand still and lose sight of each other, so that several believe that they coordinate one of ``names``."""

    def __init__(self, rng: random.Random, profile: Profile, names: Sequence[str]) -> None:
        super().__init__(rng, Faults(rng, profile))
        self._names = names
        self._coordinators = dict.fromkeys(names, 0)
        """Where requests about a name go, as far as its clients know."""
        self.faithful = rng.choice((0.0, 0.5, 0.95))
        """How probably a client goes where it went before, whatever there is to know."""

    def begin(self) -> None:
        """Start gateways, and what begins with clients."""
        self.start_some()
        self.scheduler.start("begin", self.outside, self.begin_clients)

    @abstractmethod
    def begin_clients(self) -> None:
        """Make what is there from the start, and start actors."""

    def ownership(self, machine: Machine) -> BelievedOwnership:
        """What a gateway believes."""
        return BelievedOwnership(machine, MachineClock(self.scheduler, machine), self._coordinator_of)

    def place_of(self, name: str) -> int:
        """Where a client that looks around goes: ``service_at`` has its gateway."""
        return self._coordinators[name]

    def service_at(self, place: int) -> Service:
        """The gateway at a place."""
        return self.services[place % len(self.services)]

    def noticed(self, index: int) -> None:
        """Clients go to another gateway."""
        for name, place in self._coordinators.items():
            if place % len(self.services) == index and self.rng.random() < 0.7:
                self._coordinators[name] = place + 1
        if self.rng.random() < 0.3:
            # Another gateway sees it otherwise.
            self._coordinators[self._names[0] if len(self._names) == 1 else self.rng.choice(self._names)] += 1

    def on_silence(self, name: str, service: Service) -> None:
        """A gateway does not answer a request about a name."""
        if self._coordinator_of(name) is service.machine and self.rng.random() < 0.5:
            self._coordinators[name] += 1

    def _coordinator_of(self, name: str) -> Machine:
        return self.service_at(self._coordinators[name]).machine


class Around(Generic[LedgerT]):
    """What a client has: its world, the ledger, and its own view of which gateway is right."""

    def __init__(self, world: CoordinatedWorld, ledger: LedgerT) -> None:
        self._world = world
        self._views: dict[str, int] = {}
        self.ledger = ledger
        self.scheduler = world.scheduler
        self.rng = world.rng
        self.network = world.network
        self.think = world.think
        self.on_silence = world.on_silence
        self.turns = world.profile.turns

    def gateway_for(self, name: str) -> Service:
        """The gateway that seems to coordinate a group or queue."""
        world = self._world
        if name not in self._views or not world.faults.active or self.rng.random() >= world.faithful:
            self._views[name] = world.place_of(name)
        return world.service_at(self._views[name])

    def call(
        self,
        name: str,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
        *,
        patience_ms: int = 5 * SECOND_MS,
    ) -> Reply | Lost:
        """A request about a group or queue."""
        service = self.gateway_for(name)
        reply = self.network.call(service, method, path, body, headers, patience_ms=patience_ms)
        if isinstance(reply, Lost):
            self.on_silence(name, service)
        return reply
