"""One simulated history of topics and journals, from one seed: gateways, clients, administrators, upkeep, and misfortune.

``simulate_journals(seed)`` returns what happened or raises ``Violation`` (or whatever the code under test raised that it must
not).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

from log_format import layout
from log_format.checkpoints.checkpoint import write_checkpoint, write_table_checkpoint
from log_format.checkpoints.journal_log import journal_table
from log_format.errors import ObjectMissing, StoreUnavailable, TidelogError
from log_format.journal.offer import Offer
from log_format.topic.append_outcome import AppendOutcome
from log_format.topic.changes import AlterTopic, DeleteRecords, DeleteTopic, MoveTopic
from log_format.topic.config import TopicConfig
from tests.simulation.simulated import faults
from tests.simulation.simulated.faults import Faults, Profile
from tests.simulation.simulated.scheduler import Machine, MachineClock, Signal
from tests.simulation.simulated.upkeep import Janitor
from tests.simulation.simulated.world import History, World, drawn, ignore
from tests.simulation.simulated_journals.clients import Clients
from tests.simulation.simulated_journals.ending import check_end
from tests.simulation.simulated_journals.gateway import Gateway
from tests.simulation.simulated_journals.judge import Judge, Request
from tests.simulation.simulated_journals.ledger import Ledger
from tests.simulation.simulated_journals.old_release import CreateEarlier, OldGateway

TOPICS = ["a", "b"]
JOURNALS = [0, 1]
REMEMBERED = 1
"""Closed numbers of topics that left, instead of thousands: so that the floor counts."""
READ_SHARE = 0.2
"""So often a reader goes on to the next run of a partition: what it sees of the others is judged without a request."""
CLOSED_REMEMBERED = "log_format.journal.topics.JOURNAL_CLOSED_REMEMBERED"
PROFILES = {
    faults.CALM: 2,
    faults.FAULTY: 4,
    faults.STORMY: 3,
    faults.CROWDED: 4,
    faults.SLEEPY: 1,
    faults.DROWSY: 1,
    faults.HOSTILE: 2,
}
MEDDLED = replace(faults.CROWDED, name="meddled", turns=12)
"""Not drawn: topics are altered all the time."""
RESTLESS = replace(faults.CALM, name="restless", turns=12)
"""Not drawn: topics come to journals and leave them all the time, and a gateway that takes one there is slow."""

Planted = tuple[str, Any]
"""What a planted fault replaces, and by what."""


def simulate_journals(
    seed: int,
    *,
    profile: Profile | None = None,
    planted: Sequence[Planted] = (),
    on_note: Callable[[str], None] = ignore,
) -> History:
    """Run the history of ``seed``."""
    rng = random.Random(seed)
    with ExitStack() as replaced:
        for target, replacement in ((CLOSED_REMEMBERED, REMEMBERED), *planted):
            replaced.enter_context(patch(target, replacement))
        world = JournalsWorld(rng, drawn(rng, PROFILES, profile))
        world.scheduler.on_note = on_note
        world.run()
    return world.history(seed, world.ledger.told)


class JournalsWorld(World):
    """A few topics, two journals, and all that goes on about them."""

    STEPS_MAX = 200_000

    def __init__(self, rng: random.Random, profile: Profile) -> None:
        super().__init__(rng, Faults(rng, profile), lists_from_key=profile.lists_from_key)
        self.ledger = Ledger(self._object, TOPICS, JOURNALS)
        self.judge = Judge(self.ledger)
        self.server.on_written = self._written
        self.gateways: list[Gateway] = []
        self.letters: list[tuple[int, Offer]] = []
        self.clients = Clients(self)
        self._ids = 0
        self._open: dict[Machine, list[Signal]] = {}

    def run(self) -> None:
        """From the first request until everything has come to rest; then the last checks."""
        for _ in range(self.rng.randrange(2, 4)):
            self.gateways.append(self._start_gateway())
        for body in self.clients.bodies():
            self.actor(body.__name__, body)
        for _ in range(2):
            self.actor("administrator", self._administrate)
        self.actor("misfortune", partial(self.misfortune, self.profile.turns))
        if self.rng.random() < 0.3:
            self.actor("old release", self._old_release)
        if self.profile.clean_up:
            for root in (layout.journal_root(0), layout.topic_root("a")):
                machine = Machine("janitor")
                janitor = Janitor(
                    self.client(machine), MachineClock(self.scheduler, machine), lambda: self.busy == 0, root
                )
                self.scheduler.start("janitor", machine, janitor.work)
        try:
            self.scheduler.run()
            self.judge.end()
            check_end(self)
        finally:
            for gateway in self.gateways:
                self.scheduler.crash(gateway.machine)
            self.scheduler.crash(self.outside)

    def new_id(self) -> str:
        """Unique, and good for a producer id."""
        self._ids += 1
        return f"{self._ids:020x}"

    # Gateways

    def _start_gateway(self) -> Gateway:
        machine = self.next_machine()
        gateway = Gateway(
            self.scheduler,
            self.rng,
            self.client(machine),
            machine,
            self.new_id,
            topics=TOPICS,
            journals=JOURNALS,
            letters=self.letters,
        )
        self._open[machine] = []
        self.scheduler.start(f"{machine.name} upkeep", machine, partial(self._keep_up, gateway))
        self.scheduler.start(f"{machine.name} reader", machine, partial(self._read_for_ever, gateway))
        return gateway

    def machines(self) -> Sequence[Machine]:
        """Of the gateways."""
        return [gateway.machine for gateway in self.gateways]

    def crash(self, index: int) -> None:
        """End a gateway where it stands, and start another one instead."""
        machine = self.gateways[index].machine
        self.scheduler.crash(machine)
        for settled in self._open[machine]:
            settled.give_up()
        self.gateways[index] = self._start_gateway()

    def on_gateway(self, gateway: Gateway, call: Callable[[], Any]) -> tuple[bool, Any]:
        """Let the gateway do it. (Whether there was an answer, the answer or the ``TidelogError``.)"""
        settled = Signal(self.scheduler)
        answers: list[Any] = []

        def live() -> None:
            try:
                answers.append(call())
            except (TidelogError, StoreUnavailable) as problem:
                answers.append(problem)
            settled.set()

        self._open[gateway.machine].append(settled)
        if not gateway.machine.alive:
            return False, None
        self.scheduler.start(f"{gateway.machine.name} call", gateway.machine, live)
        settled.wait()
        return bool(answers), answers[0] if answers else None

    def send(self, topic: str, request: Request, batch_for: Callable[..., Any]) -> bool:
        """Send a request to some gateway. Whether its answer is the last word."""
        gateway = self.rng.choice(self.gateways)
        has_answer, outcome = self.on_gateway(gateway, partial(gateway.append, topic, batch_for))
        self.scheduler.note(f"{gateway.machine.name} answers {request.values} with {outcome!r}")
        told: AppendOutcome | None = outcome if has_answer else None
        if isinstance(outcome, StoreUnavailable):
            return not request.is_repeated  # nothing was sent yet
        return self.judge.told(request, told)

    # What goes on by itself

    def _keep_up(self, gateway: Gateway) -> None:
        """Drains, tidies up, writes checkpoints."""
        while self.busy:
            self.think()
            name, number = self.rng.choice(TOPICS), self.rng.choice(JOURNALS)
            with tolerant():
                match self.rng.randrange(4):
                    case 0 | 1:
                        gateway.drain(name)
                    case 2:
                        gateway.tidy(number)
                    case _ if self.rng.random() < self.profile.checkpoint:
                        self._checkpoint(gateway, name, number)

    def _checkpoint(self, gateway: Gateway, name: str, number: int) -> None:
        version = gateway.topics[name].state.version
        if version >= 0:
            write_checkpoint(gateway.store, name, version, gateway.clock.now_ms())
        version = gateway.journals[number].state.version
        if version >= 0:
            self.ledger.told["checkpoint"] += 1
            write_table_checkpoint(gateway.store, journal_table(number).root, version, gateway.clock.now_ms())

    def _read_for_ever(self, gateway: Gateway) -> None:
        positions: dict[tuple[str | None, int], int] = {}
        while self.busy:
            self.think()
            with tolerant():
                self._read(gateway, self.rng.choice(TOPICS), positions)

    def _read(self, gateway: Gateway, name: str, positions: dict[tuple[str | None, int], int]) -> None:
        before = self.judge.known_ends(name)
        state = gateway.view(name)
        self.judge.looked(state, before)
        for partition in range(state.partition_count):
            end, key = state.high_watermark(partition), (state.topic_id, partition)
            offset = max(positions.get(key, 0), state.log_start(partition))
            while offset < end and self.rng.random() < READ_SHARE:
                rows = [row for row in gateway.read(state, partition, offset) if row[0] < end]
                now = gateway.topics[name].state
                if now.topic_id != state.topic_id or now.log_start(partition) > offset:
                    break  # deleted meanwhile
                self.judge.read(state, partition, offset, rows)
                offset += len(rows)
            positions[key] = offset

    # Administrators

    def _administrate(self) -> None:
        for name in TOPICS:
            if self.rng.random() < 0.8:
                self._create(name)
        for _ in range(2 * self.profile.turns):
            self.think()
            name, gateway = self.rng.choice(TOPICS), self.rng.choice(self.gateways)
            if gateway.topics[name].state.exists:
                has_answer, answer = self.on_gateway(gateway, partial(self._change, gateway, name))
                self.scheduler.note(f"{gateway.machine.name} changes {name}: {answer!r}")
                if isinstance(answer, TidelogError):
                    self.ledger.told[f"change: {answer.code}"] += 1
                    if answer.code.startswith("CORRUPT"):
                        raise answer
                self.ledger.told["change unknown"] += not has_answer
            else:
                self._create(name)

    def _create(self, name: str) -> None:
        gateway, topic_id = self.rng.choice(self.gateways), f"topic-{self.new_id()}"

        def create() -> None:
            place = gateway.new_place(topic_id, self.rng.choice(JOURNALS)) if self.rng.random() < 0.6 else None
            gateway.topics[name].commit(
                CreateEarlier(
                    name=name,
                    partition_count=self.rng.randrange(1, 4),
                    config=TopicConfig.parse({}),
                    topic_id=topic_id,
                    attachment=place,
                )
            )

        self.on_gateway(gateway, create)

    def _change(self, gateway: Gateway, name: str) -> None:
        """Any change, perhaps left off halfway."""
        state = gateway.topics[name].state
        change = partial(gateway.change, name, dies=lambda: self.rng.random() < 0.15)
        what = 0 if self.profile is MEDDLED else self.rng.randrange(9)
        what = self.rng.choice((5, 7)) if self.profile is RESTLESS else what
        self.scheduler.note(f"{gateway.machine.name} begins change {what} of {name}")
        match what:
            case 0 | 1:
                more = min(4, state.partition_count + self.rng.randrange(2)) if state.exists else None
                config = {"max.message.bytes": self.rng.choice((60, None))}
                change(lambda move: AlterTopic(partition_count=more, config=config, move=move))
            case 2:
                change(lambda move: DeleteTopic(move=move))
            case 3 | 4:
                before = {partition: self.rng.choice((-1, 0, 2)) for partition in range(max(1, state.partition_count))}
                change(lambda move: DeleteRecords(before=before, move=move), is_drained=True)
            case 5 | 6:
                change(partial(_move, state.topic_id), leaves=True)
            case _:
                joins = self.rng.choice(JOURNALS)
                change(partial(self._join, gateway, state.topic_id), joins=joins)

    def _join(self, gateway: Gateway, topic_id: str | None, move: Any) -> MoveTopic:
        """The number is chosen, and the commit follows; perhaps late."""
        if self.profile is RESTLESS and self.rng.random() < 0.5:
            gateway.clock.sleep_ms(self.rng.choice((1_000, 5_000, 20_000)))
        return _move(topic_id, move)

    def _old_release(self) -> None:
        """A gateway of the release before journals, which appends wherever it may."""
        machine = self.next_machine()
        old = OldGateway(self.client(machine), MachineClock(self.scheduler, machine), self.new_id, self.rng)
        for _ in range(self.profile.turns):
            self.think()
            name, value = self.rng.choice(TOPICS), f"old-{self.new_id()}".encode()
            with tolerant():
                self.ledger.told[f"old release: {old.append(name, value)}"] += 1

    # The store

    def _written(self, key: str, data: bytes) -> None:
        version = layout.commit_version(key)
        if version is not None:
            self.scheduler.note(f"{key} stands: {data[:400]!r}")
            self.ledger.landed(key, version, data, self.scheduler.now_ms)

    def _object(self, key: str) -> bytes:
        try:
            return self.server.objects.get(key)
        except ObjectMissing:
            raise KeyError(key) from None


def _move(topic_id: str | None, move: Any) -> MoveTopic:
    return MoveTopic(topic_id=str(topic_id), move=move)


@contextmanager
def tolerant() -> Iterator[None]:
    """What fails is tried again some time, unless stored data is wrong."""
    try:
        yield
    except StoreUnavailable:
        return
    except TidelogError as problem:
        if problem.code.startswith("CORRUPT"):
            raise
