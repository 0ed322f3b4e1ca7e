"""An idempotent producer by Kafka's protocol: several batches under way, each repeated in its turn until its outcome is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kio.schema.errors import ErrorCode as KafkaError

from tests.simulation.simulated_kafka.batches import NOBODY, Identity, batch
from tests.simulation.simulated_kafka.clients import PASSING, TRIES_MAX, UNSURE, KafkaClient
from tests.simulation.simulated_kafka.line import Asked
from tests.simulation.simulated_service.network import Lost


@dataclass(slots=True)
class _Batch:
    """On its way, until its outcome is known."""

    sequence: int
    values: list[bytes]
    is_in_doubt: bool = False
    base_offset: int | None = None
    """Once it is acknowledged, which the judge hears in the order of sequences."""
    during: tuple[int, int] | None = None
    """From when to when the request was under way that was acknowledged."""


class IdempotentProducer:
    """Numbers its batches for each partition, has several under way, and repeats each until it knows, in their order."""

    def __init__(self, client: KafkaClient) -> None:
        self._client = client
        self._topic = client.rng.choice(client.around.topics)
        self._identity = NOBODY
        self._next: dict[int, int] = {}
        self._waiting: dict[int, list[_Batch]] = {}

    def run(self) -> None:
        """Live."""
        for _ in range(self._client.around.turns):
            self._client.around.think()
            if self._identity is NOBODY and not self._begin():
                break
            for _ in range(self._client.rng.randrange(1, 4)):
                for index, values in self._client.values().items():
                    self._waiting.setdefault(index, []).append(_Batch(self._next.get(index, 0), values))
                    self._next[index] = self._next.get(index, 0) + len(values)
            self._until_known()
        self._client.leave()

    def _begin(self) -> bool:
        for _ in range(TRIES_MAX):
            told = self._client.line().call(
                "init_producer_id", 4, transactional_id=None, transaction_timeout=0, producer_id=-1, producer_epoch=-1
            )
            if told is not Lost.NO_ANSWER and told.error_code is KafkaError.none:
                self._identity = Identity(told.producer_id, told.producer_epoch)
                self._next.clear()
                return True
            self._client.pause()
        return False

    def _until_known(self) -> None:
        for _ in range(TRIES_MAX):
            self._round()
            if not any(self._waiting.values()):
                return
            self._client.pause()
        self._give_up()

    def _round(self) -> None:
        """Send what waits, one batch of each partition a request, all at once; then hear the answers."""
        line = self._client.line()
        rounds: list[tuple[Asked | None, dict[int, _Batch]]] = []
        began_ms = self._client.around.scheduler.now_ms
        open_ones = {index: [one for one in some if one.base_offset is None] for index, some in self._waiting.items()}
        for number in range(max(map(len, open_ones.values()), default=0)):
            sent = {index: some[number] for index, some in open_ones.items() if number < len(some)}
            batches = {index: batch(one.values, self._identity, one.sequence) for index, one in sent.items()}
            rounds.append((self._client.produce(line, self._topic, batches), sent))
        for asked, sent in rounds:
            if asked is None:
                continue
            told = self._client.outcomes(line, asked)
            for index, one in sent.items():
                if told is None:
                    one.is_in_doubt = True
                elif one in self._waiting.get(index, ()):
                    self._known(index, one, told[index], began_ms)

    def _known(self, index: int, one: _Batch, told: Any, began_ms: int) -> None:
        error, judge = told.error_code, self._client.judge
        if error is KafkaError.none:
            one.base_offset = told.base_offset
            one.during = (began_ms, self._client.around.scheduler.now_ms)
            if one.is_in_doubt:
                judge.unknown("known to Kafka's client after doubt")
            some = self._waiting[index]
            while some and some[0].base_offset is not None:
                self._judged(index, some.pop(0))
        elif error in UNSURE:
            one.is_in_doubt = True
        elif error not in PASSING:
            judge.told[f"Kafka: {error.name}"] += 1
            self._give_up()

    def _judged(self, index: int, one: _Batch) -> None:
        name = f"{self._client.name}.{self._identity.producer_id}"
        assert one.base_offset is not None
        self._client.acknowledged(name, self._topic, index, one.values, one.base_offset, one.during)

    def _give_up(self) -> None:
        """Go on under another id. What is not known never will be."""
        for index, some in self._waiting.items():
            for one in some:
                if one.base_offset is None:
                    self._client.judge.unknown("given up by Kafka's client")
                else:
                    self._judged(index, one)
        self._waiting.clear()
        self._identity = NOBODY
