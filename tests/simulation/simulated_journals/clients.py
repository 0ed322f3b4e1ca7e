"""Clients of four kinds: plain, idempotent, with an expected offset, and with records of decided transactions."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from log_format.topic import producer_id
from log_format.topic.append import Batch
from log_format.topic.applied_transactions import TransactionStamp
from log_format.topic.producers import ProducerStamp
from log_format.topic.state import TopicState
from tests.simulation.simulated.scheduler import EPOCH_MS
from tests.simulation.simulated_journals.judge import Request
from tests.support.records import batch_of

if TYPE_CHECKING:
    from tests.simulation.simulated_journals.world import JournalsWorld

TRIES_MAX = 12


class Clients:
    """All clients of a world."""

    def __init__(self, world: JournalsWorld) -> None:
        self._world = world
        self._rng: random.Random = world.rng
        self._numbers = count(1)
        self._undecided: list[int] = []

    def bodies(self) -> Iterator[Callable[[], None]]:
        """What each client does."""
        yield _named("plain", self._send_plain)
        for index in range(2):
            yield _named(f"idempotent-{index}", self._send_stamped)
        yield _named("finisher", self._finish)
        yield _named("kafka", self._send_numbered)

    def _topic(self) -> str:
        return self._rng.choice(("a", "a", "b"))

    def _values(self, least: int = 1) -> list[bytes]:
        padding = self._rng.choice(("", "", "", "x" * 80))
        return [f"value-{next(self._numbers)}{padding}".encode() for _ in range(self._rng.randrange(least, 4))]

    def _send_plain(self, name: str) -> None:
        world = self._world
        for _ in range(2 * world.profile.turns):
            world.think()
            request, topic = Request(name, self._values()), self._topic()
            if self._rng.random() < 0.2:
                request.values = request.values[:1]
                request.expected = self._rng.choice((0, 1, self._likely_end(topic)))
            world.send(topic, request, partial(self._batch, request))

    def _likely_end(self, topic: str) -> int:
        return max(
            [end for (_, partition), end in self._world.judge.known_ends(topic).items() if not partition], default=0
        )

    def _send_stamped(self, name: str) -> None:
        world, topic = self._world, self._topic()
        sequence, who = 0, self._new_producer()
        bound: str | None = None
        for _ in range(world.profile.turns):
            world.think()
            request = Request(name, self._values(least=0), stamp=ProducerStamp(who, 0, sequence))
            request.topic_id = bound
            if self._insist(topic, request):
                sequence, bound = sequence + 1, request.topic_id
                if self._rng.random() < 0.3:  # the answer was lost on its way to the client
                    self._insist(topic, request)
            else:
                topic, sequence, who, bound = self._topic(), 0, self._new_producer(), None

    def _send_numbered(self, name: str) -> None:
        """As a Kafka client: sequences count the records of the partition; it begins another epoch by itself."""
        world, topic = self._world, self._topic()
        number = producer_id.issue_number(EPOCH_MS, f"{next(self._numbers):06x}")
        sequence, epoch = 0, 0
        bound: str | None = None
        for _ in range(world.profile.turns):
            world.think()
            stamp = ProducerStamp(producer_id.format_number(number, 0), epoch, sequence)
            request = Request(name, self._values(), stamp=stamp)
            request.topic_id = bound
            request.routes = dict.fromkeys(request.values, 0)
            if self._insist(topic, request):
                sequence, bound = sequence + len(request.values), request.topic_id
                if self._rng.random() < 0.5:  # the answer was lost on its way to the client
                    self._insist(topic, request)
            else:
                topic, sequence, epoch, bound = self._topic(), 0, epoch + 1, None

    def _new_producer(self) -> str:
        return producer_id.issue(producer_id.PLAIN, EPOCH_MS, f"{next(self._numbers):020x}", b"key")

    def _insist(self, topic: str, request: Request) -> bool:
        """Until it is acknowledged. False where it was not."""
        world, ledger = self._world, self._world.ledger
        for _ in range(TRIES_MAX):
            acknowledged = ledger.told["acknowledged"] + ledger.told["duplicate"]
            if world.send(topic, request, partial(self._batch, request)):
                return ledger.told["acknowledged"] + ledger.told["duplicate"] > acknowledged
            if request.topic_id is not None and ledger.head(request.topic_id) is None:
                return False
            world.think()
        return False

    def _finish(self, name: str) -> None:
        """Applies decided transactions, each by some gateways."""
        world = self._world
        for number in range(1, 1 + world.profile.turns):
            world.think()
            topic, decided = self._topic(), 10 * number
            self._undecided.append(decided)
            floor = min(self._undecided)
            request = Request(
                name, self._values(), transaction=TransactionStamp(f"transaction-{number}", decided, floor)
            )
            if self._insist(topic, request) and self._rng.random() < 0.5:
                self._insist(topic, request)
            if self._rng.random() < 0.8:
                self._undecided.remove(decided)

    def _batch(self, request: Request, own: TopicState) -> Batch:
        """The request for the incarnation that it met first."""
        if request.topic_id is None:
            request.topic_id = own.topic_id
        for value in request.values:
            if value not in request.routes:
                request.routes[value] = 0 if request.expected is not None else self._rng.randrange(own.partition_count)
        fixed = request.is_repeated or request.expected is not None
        return batch_of(
            request.topic_id,
            request.values,
            [request.routes[value] for value in request.values],
            record_bytes_max=max(map(len, request.values), default=0),
            partition_count=None if fixed else own.partition_count,
            stamp=request.stamp,
            expected_offset=request.expected,
            transaction=request.transaction,
        )


def _named(name: str, body: Callable[[str], None]) -> Callable[[], None]:
    def live() -> None:
        body(name)

    live.__name__ = name
    return live
