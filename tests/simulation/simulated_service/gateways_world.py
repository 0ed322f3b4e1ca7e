"""Whole gateways on simulated machines, clients beyond a bad network, and what stands in for chance and the real world."""

from __future__ import annotations

import contextlib
import json
import random
import uuid
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from gateway.cluster.ownership import Ownership
from gateway.cluster.peers import Peers
from log_format.clock import Clock
from tests.simulation.simulated.faults import Faults, Profile
from tests.simulation.simulated.scheduler import Machine
from tests.simulation.simulated.store import Client
from tests.simulation.simulated.world import History, World, drawn, ignore
from tests.simulation.simulated_service.network import Network, Reply
from tests.simulation.simulated_service.service import Code, Service


class BelievedOwnership(Ownership):
    """What ``coordinator_of`` says of a group or a queue, right or wrong."""

    def __init__(self, machine: Machine, clock: Clock, coordinator_of: Callable[[str], Machine]) -> None:
        super().__init__(machine.name, Peers(clock), "preferred")
        self._machine = machine
        self._coordinator_of = coordinator_of

    def coordinates(self, group: str) -> bool:
        return self._coordinator_of(group) is self._machine

    def coordinates_queue(self, queue: str) -> bool:
        return self.coordinates(queue)


class Over(Exception):
    """The history is over, though work beside requests would go on for ever."""


class Made(NamedTuple):
    """What a commit says of its topic."""

    topic_id: str
    is_deleted: bool


def made_by(data: bytes) -> Made | None:
    """The topic that a commit makes, changes or deletes."""
    for action in map(json.loads, data.splitlines()):
        if (said := action.get("metaData")) is not None:
            return Made(said["id"], said["configuration"].get("tidelog.deleted") == "true")
    return None


class GatewaysWorld(World):
    """Gateways as they are; ``begin`` lets clients begin."""

    STEPS_MAX = 400_000
    told: Counter[str]
    """The outcomes that clients were told of."""

    def __init__(self, rng: random.Random, faults: Faults) -> None:
        super().__init__(rng, faults)
        self.server.on_written = self.written
        self.network = Network(self.scheduler, rng, faults)
        self.services: list[Service] = []
        self.chance = random.Random()
        """Jitter, and gateways that are chosen at random."""
        self._crashed: list[Service] = []

    @abstractmethod
    def begin(self) -> None:
        """Start gateways and actors."""

    def written(self, key: str, data: bytes) -> None:
        """An object stands."""

    def ended(self) -> None:
        """The last checks, when everything has come to rest."""

    def run(self, seed: int, *, code: Code | None = None, on_note: Callable[[str], None] = ignore) -> None:
        """From the first request until everything has come to rest; then the last checks."""
        self.scheduler.on_note = on_note
        self.chance.seed(seed)
        with contextlib.ExitStack() as stack:
            for patch in code.patches() if code is not None else []:
                stack.enter_context(patch)
            self._run()

    def _run(self) -> None:
        self.begin()
        try:
            with contextlib.suppress(Over):
                self.scheduler.run()
            self.ended()
        finally:
            self.stop()
            self.scheduler.crash(self.outside)
            for service in (*self.services, *self._crashed):
                service.loop.bury()

    def history(self, seed: int, told: Counter[str]) -> History:
        """As every world's, with what became of its requests."""
        return super().history(seed, told + Counter(self.network.seen))

    def start_some(self) -> None:
        """Start two or three gateways."""
        for _ in range(self.rng.randrange(2, 4)):
            self.services.append(self.start_service())

    def renew(self, turns: int, pick: Callable[[], str], make: Callable[[str], None]) -> None:
        """The actor that deletes topics and makes them anew. ``pick``: says which; ``make``: makes it."""
        for _ in range(turns):
            self.think()
            if self.rng.random() < self.profile.recreation:
                topic = pick()
                self.delete(topic)
                if self.rng.random() < 0.5:
                    self.think()
                make(topic)
                self.told["made anew"] += 1

    def stop(self) -> None:
        """End all gateways where they stand."""
        for service in self.services:
            service.crash()

    def machines(self) -> Sequence[Machine]:
        """Of the gateways."""
        return [service.machine for service in self.services]

    def insist(self, method: str, path: str, body: Any = None) -> Reply:
        """Ask any gateway until it is done; twice does no harm."""
        while True:
            reply = self.network.call(self.rng.choice(self.services), method, path, body)
            if isinstance(reply, Reply) and reply.status in {200, 201}:
                return reply
            self.think()

    def ask_to_produce(self, topic: str, records: Callable[[], Sequence[Any]]) -> bool:
        """Append to a topic, perhaps twice; False: there is no such topic. ``records``: those of one try."""
        while True:
            body = {"records": records()}
            reply = self.network.call(self.rng.choice(self.services), "POST", f"/v1/topics/{topic}/records", body)
            if isinstance(reply, Reply) and (reply.status == 200 or reply.error_code == "UNKNOWN_TOPIC"):
                return reply.status == 200
            self.think()

    def delete(self, topic: str, query: str = "") -> None:
        """Delete the topic that is there. Behind a lost answer look, and ask again where it is the same one."""
        path = f"/v1/topics/{topic}"
        meant: str | None = None
        while True:
            found = self.network.call(self.rng.choice(self.services), "GET", path)
            if isinstance(found, Reply) and found.status in {200, 404}:
                found_id = found.body.get("topic_id")
                meant = meant or found_id
                if found_id is None or found_id != meant:
                    return
                reply = self.network.call(self.rng.choice(self.services), "DELETE", f"{path}{query}")
                if isinstance(reply, Reply) and reply.status in {204, 404}:
                    return
            self.think()

    @abstractmethod
    def start_service(self) -> Service:
        """One more gateway."""

    def service(self, client: Client, machine: Machine, **more: Any) -> Service:
        """A gateway whose ids and chance are the seed's."""
        return Service(self.scheduler, client, machine, new_id=self._new_id, chance=self.chance, **more)

    def crash(self, index: int) -> None:
        """End a gateway where it stands, and start another one instead."""
        self.services[index].crash()
        self._crashed.append(self.services[index])
        self.services[index] = self.start_service()

    def _new_id(self) -> str:
        return str(uuid.UUID(int=self.rng.getrandbits(128), version=4))


@dataclass(frozen=True, slots=True)
class Simulation:
    """Histories of one kind of world. ``world``: makes it of its chance and its profile, which is drawn by weight."""

    world: Callable[..., GatewaysWorld]
    profiles: Mapping[Profile, int]

    def __call__(
        self,
        seed: int,
        *,
        profile: Profile | None = None,
        code: Code | None = None,
        on_note: Callable[[str], None] = ignore,
        **settings: Any,
    ) -> History:
        """Run the history of ``seed``; raise ``Violation`` where a promise is broken. ``settings``: others of the world."""
        rng = random.Random(seed)
        world = self.world(rng, drawn(rng, self.profiles, profile), **settings)
        world.run(seed, code=code, on_note=on_note)
        return world.history(seed, world.told)
