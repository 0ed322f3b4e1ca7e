"""One simulated history of one topic, from one seed: gateways, producers, readers, administrators, upkeep, and misfortune.

``simulate(seed)`` returns what happened or raises ``Violation`` (or whatever the code under test raised that it must not).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial

from log_format import layout
from log_format.errors import ObjectMissing, StoreUnavailable
from log_format.topic.changes import AlterTopic, CreateTopic, DeleteRecords, DeleteTopic
from log_format.topic.config import TopicConfig
from tests.simulation.simulated.faults import PROFILES, Faults, Profile
from tests.simulation.simulated.gateway import TOPIC, Code, Gateway, Request
from tests.simulation.simulated.oracle import Oracle
from tests.simulation.simulated.reader import Reader
from tests.simulation.simulated.scheduler import Machine, MachineClock, Signal
from tests.simulation.simulated.truth import Truth
from tests.simulation.simulated.upkeep import Janitor, check_end
from tests.simulation.simulated.world import History, World, drawn, ignore


def simulate(
    seed: int,
    *,
    profile: Profile | None = None,
    code: Code | None = None,
    on_note: Callable[[str], None] = ignore,
) -> History:
    """Run the history of ``seed``. The profile is drawn from the seed unless given; ``on_note`` gets each line of the trace."""
    rng = random.Random(seed)
    world = LogWorld(rng, drawn(rng, PROFILES, profile), code if code is not None else Code())
    world.scheduler.on_note = on_note
    world.run()
    world.oracle.told["ghosts"] += world.truth.ghosts
    return world.history(seed, world.oracle.told)


class LogWorld(World):
    """One topic, and all that goes on about it."""

    STEPS_MAX = 60_000

    def __init__(self, rng: random.Random, profile: Profile, code: Code) -> None:
        super().__init__(rng, Faults(rng, profile), lists_from_key=profile.lists_from_key)
        self.truth = Truth(self._segment)
        self.oracle = Oracle(self.truth)
        self.server.on_written = self._written
        self._code = code
        self._ids = 0
        self._next_value = 0
        self._created = Signal(self.scheduler)
        self.gateways: list[Gateway] = []

    def run(self) -> None:
        """From the first request until everything has come to rest; then the last checks."""
        for _ in range(self.rng.randrange(2, 5)):
            self.gateways.append(self._start_gateway())
        for index in range(self.rng.randrange(2, 4)):
            self.actor(f"producer-{index}", partial(self._produce_for_ever, f"producer-{index}"))
        self.actor("administrator", self._administrate)
        self.actor("misfortune", partial(self.misfortune, self.profile.turns))
        if self.profile.clean_up:
            machine = Machine("janitor")
            client = self.client(machine)
            janitor = Janitor(client, MachineClock(self.scheduler, machine), lambda: self.busy == 0)
            self.scheduler.start("janitor", machine, janitor.work)
        try:
            self.scheduler.run()
            check_end(self.server.objects, self.truth, self.oracle, self._code, self.rng)
        finally:
            for gateway in self.gateways:
                self.scheduler.crash(gateway.machine)
            self.scheduler.crash(self.outside)

    def _new_id(self) -> str:
        self._ids += 1
        return f"id-{self._ids}"

    def _start_gateway(self) -> Gateway:
        machine = self.next_machine()
        client = self.client(machine)
        gateway = Gateway(
            self.scheduler, self.rng, client, machine, self.oracle, self._new_id, self._code, self.profile.checkpoint
        )
        if self.rng.random() < 0.6:
            self.scheduler.start(f"{machine.name} reader", machine, partial(self._read_for_ever, gateway))
        return gateway

    def machines(self) -> Sequence[Machine]:
        """Of the gateways."""
        return [gateway.machine for gateway in self.gateways]

    def crash(self, index: int) -> None:
        """End a gateway where it stands, and start another one instead."""
        self.gateways[index].crash()
        self.gateways[index] = self._start_gateway()

    def _await(self, settled: Signal) -> bool:
        """Wait for an answer, perhaps not to the end. Whether it came."""
        if self.rng.random() < 0.2:
            self.scheduler.at(self.rng.randrange(1, 60_000), settled.give_up)
        return settled.wait()

    def _produce_for_ever(self, name: str) -> None:
        if self.rng.random() < 0.9:
            self._created.wait()
        for _ in range(self.profile.turns):
            self.think()
            values = []
            for _ in range(self.rng.randrange(1, 4)):
                self._next_value += 1
                values.append(f"value-{self._next_value}".encode())
            settled = Signal(self.scheduler)
            request = Request(name, values, self.rng.choice((20, 20, 2_000)), settled, self.scheduler.now_ms)
            self.rng.choice(self.gateways).produce(request)
            request.abandoned = not self._await(settled)

    def _administrate(self) -> None:
        self._change(self._create(), self.rng.choice(self.gateways))
        self._created.set()
        for _ in range(self.profile.turns):
            self.think()
            if self.rng.random() < self.profile.administration:
                gateway = self.rng.choice(self.gateways)
                self._change(self._any_change(gateway), gateway)
                if not gateway.log.state.exists:
                    self._change(self._create(), self.rng.choice(self.gateways))

    def _create(self) -> CreateTopic:
        count = self.rng.randrange(1, 4)
        return CreateTopic(
            name=TOPIC, partition_count=count, config=TopicConfig.parse({}), topic_id=f"topic-{self._new_id()}"
        )

    def _any_change(self, gateway: Gateway) -> CreateTopic | AlterTopic | DeleteTopic | DeleteRecords:
        state = gateway.log.state
        match self.rng.randrange(5):
            case 0 | 1:
                return DeleteTopic()
            case 2:
                return self._create()
            case 3:
                largest = self.rng.choice((1_000, None))
                more = min(4, state.partition_count + self.rng.randrange(2)) if state.exists else None
                return AlterTopic(partition_count=more, config={"max.message.bytes": largest})
            case _:
                before = {
                    partition: self.rng.choice((-1, self.rng.randrange(6)))
                    for partition in range(max(1, state.partition_count))
                }
                return DeleteRecords(before=before)

    def _change(self, change: CreateTopic | AlterTopic | DeleteTopic | DeleteRecords, gateway: Gateway) -> None:
        settled = Signal(self.scheduler)

        def told(result: object, started_ms: int, now_ms: int) -> None:
            self.scheduler.note(f"{gateway.machine.name} {type(change).__name__} gives {result}")
            match change:
                case CreateTopic():
                    assert isinstance(result, bool)
                    self.oracle.made(result, change.topic_id, change.partition_count, started_ms, now_ms)
                case DeleteTopic():
                    assert isinstance(result, tuple)
                    self.oracle.deleted(started_ms, now_ms)
                    self._delete_segments(gateway, result)
                case DeleteRecords():
                    assert isinstance(result, dict)
                    self.oracle.trimmed(result, started_ms, now_ms)

        gateway.change(change, told, settled)
        self._await(settled)

    def _delete_segments(self, gateway: Gateway, paths: tuple[str, ...]) -> None:
        """What may be done at once with the segments of a topic that was deleted."""
        for path in paths:
            try:
                gateway.client.delete(f"{layout.topic_root(TOPIC)}{path}")
            except StoreUnavailable:
                continue

    def _read_for_ever(self, gateway: Gateway) -> None:
        reader = Reader(gateway)
        while self.busy:
            self.think()
            reader.poll()
        reader.poll()

    def _written(self, key: str, data: bytes) -> None:
        version = layout.commit_version(key)
        if version is not None:
            self.scheduler.note(f"version {version} stands: {data[:60]!r}")
            self.truth.landed(version, data, self.scheduler.now_ms)

    def _segment(self, path: str) -> bytes:
        try:
            return self.server.objects.get(f"{layout.topic_root(TOPIC)}{path}")
        except ObjectMissing:
            raise KeyError(path) from None
