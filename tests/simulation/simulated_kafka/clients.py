"""Clients by Kafka's protocol: what each of them does, a producer that sends and never repeats, and readers."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode as KafkaError

from gateway.kafka.calls.produce import ORIGINAL_RECORDS_MIN
from tests.simulation.simulated.faults import SECOND_MS, Faults
from tests.simulation.simulated.truth import Violation
from tests.simulation.simulated_kafka.batches import batch, read
from tests.simulation.simulated_kafka.judge import KafkaJudge
from tests.simulation.simulated_kafka.line import Asked, Line
from tests.simulation.simulated_service.clients import Surroundings, values_of_turn
from tests.simulation.simulated_service.network import Lost
from tests.simulation.simulated_service.service import Service

TRIES_MAX: Final = 40
MANY: Final = 0.2
PRODUCE_VERSIONS: Final = (3, 8, 12, 13)
FETCH_VERSIONS: Final = (4, 11, 12, 13, 18)
BY_ID: Final = 13
"""From which on Produce and Fetch name topics by their ids."""
UNSURE: Final = frozenset({KafkaError.request_timed_out})
"""It may have happened."""
PASSING: Final = frozenset(
    {
        *UNSURE,
        KafkaError.not_leader_or_follower,
        KafkaError.unknown_topic_or_partition,
        KafkaError.unknown_topic_id,
        KafkaError.out_of_order_sequence_number,
        KafkaError.coordinator_not_available,
        KafkaError.coordinator_load_in_progress,
        KafkaError.not_coordinator,
        KafkaError.concurrent_transactions,
        KafkaError.unstable_offset_commit,
    }
)
"""Upon which a client asks again."""
_PRODUCE: Final[dict[str, Any]] = {"transactional_id": None, "acks": -1, "timeout": 30_000}
_METADATA: Final[dict[str, Any]] = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
_FETCH: Final[dict[str, Any]] = {
    "replica_id": -1,
    "rack_id": "",
    "min_bytes": 1,
    "max_bytes": 8 << 20,
    "isolation_level": 0,
    "session_id": 0,
    "session_epoch": -1,
    "forgotten_topics_data": (),
}
EARLIEST: Final = -2
_NO_ID: Final = UUID(int=0)


@dataclass(slots=True, kw_only=True)
class KafkaClient:
    """One client, with a line to some gateway while it stands. ``around``: what clients by HTTP have."""

    around: Surroundings
    faults: Faults
    judge: KafkaJudge
    name: str
    _line: Line | None = field(default=None, init=False)
    _ids: dict[str, UUID] = field(default_factory=dict, init=False)

    @property
    def rng(self) -> random.Random:
        """The seed's."""
        return self.around.rng

    def line(self) -> Line:
        """One that stands; to any gateway, where a new one is needed."""
        if self._line is None or not self._line.is_open:
            self._line = self.line_to(self.around.any_service())
        return self._line

    def line_to(self, service: Service) -> Line:
        """A new one."""
        return Line(self.around.scheduler, self.rng, self.faults, service)

    def leave(self) -> None:
        """Hang up."""
        if self._line is not None:
            self._line.close()

    def pause(self) -> None:
        """Before it asks again: perhaps at another gateway."""
        if self.rng.random() < 0.5:
            self.leave()
        self.around.scheduler.sleep_ms(self.rng.randrange(50, 2 * SECOND_MS))

    def topic_id(self, line: Line, topic: str) -> UUID | None:
        """What a gateway said it is, until one says that there is no such topic."""
        if topic in self._ids:
            return self._ids[topic]
        told = line.call("metadata", 12, **_METADATA, topics=[{"topic_id": _NO_ID, "name": topic}])
        if told is Lost.NO_ANSWER or told.topics[0].error_code is not KafkaError.none:
            return None
        self._ids[topic] = told.topics[0].topic_id
        return self._ids[topic]

    def forget_ids(self) -> None:
        """Ask anew."""
        self._ids.clear()

    def values(self) -> dict[int, list[bytes]]:
        """New ones for some partitions; now and then so many that consumers at the tail get the batch as it was sent."""
        found = values_of_turn(self.around)
        if self.rng.random() < MANY:
            found[min(found)] += [self.around.new_value() for _ in range(ORIGINAL_RECORDS_MIN)]
        return found

    def produce(self, line: Line, topic: str, batches: dict[int, bytes], **more: Any) -> Asked | None:
        """Send one batch for each partition; None: the topic's id can't be had."""
        version = self.rng.choice(PRODUCE_VERSIONS)
        topic_id = self.topic_id(line, topic) if version >= BY_ID else None
        if version >= BY_ID and topic_id is None:
            return None
        data = [{"index": index, "records": records} for index, records in batches.items()]
        named = {"topic_id": topic_id} if version >= BY_ID else {"name": topic}
        return line.ask("produce", version, **{**_PRODUCE, **more}, topic_data=[{**named, "partition_data": data}])

    def outcomes(self, line: Line, asked: Asked | None) -> dict[int, Any] | None:
        """Of each partition of a Produce; None: there is no answer."""
        if asked is None or (answer := line.answer(asked)) is Lost.NO_ANSWER:
            return None
        (topic,) = answer.responses
        for one in topic.partition_responses:
            if one.error_code is KafkaError.unknown_server_error:
                raise Violation(f"{self.name} met an unforeseen error")
            if one.error_code is KafkaError.unknown_topic_id:
                self.forget_ids()
        return {one.index: one for one in topic.partition_responses}

    def acknowledged(
        self,
        name: str,
        topic: str,
        index: int,
        values: list[bytes],
        base_offset: int,
        during: tuple[int, int] | None = None,
    ) -> None:
        """Have the judge look at the place of one batch."""
        place = {"partition": index, "count": len(values), "base_offset": base_offset}
        self.judge.acknowledged(name, topic, {index: values}, {"duplicate": False, "partitions": [place]}, during)
        self.judge.told["acknowledged by Kafka"] += 1


def plain_producer(client: KafkaClient) -> None:
    """Sends, and never repeats what may have happened."""
    for _ in range(client.around.turns):
        client.around.think()
        topic, values = client.rng.choice(client.around.topics), client.values()
        line = client.line()
        asked = client.produce(line, topic, {index: batch(some) for index, some in values.items()})
        if asked is None:
            continue
        told = client.outcomes(line, asked)
        if told is None:
            client.judge.unknown("Kafka's answer lost")
            continue
        for index, some in values.items():
            error = told[index].error_code
            if error is KafkaError.none:
                client.acknowledged(client.name, topic, index, some, told[index].base_offset)
            elif error in UNSURE:
                client.judge.unknown(error.name)
            else:
                client.judge.refused_by_kafka(some, error.name)
    client.leave()


def reader(client: KafkaClient, topic: str, busy: Callable[[], bool]) -> None:
    """Polls all partitions of a topic at once, from where it is."""
    positions = dict.fromkeys(range(client.around.partitions_max), 0)
    while busy():
        client.around.think()
        poll(client, client.line(), topic, positions)
    client.leave()


def poll(client: KafkaClient, line: Line, topic: str, positions: dict[int, int]) -> bool:
    """Read on from these positions, which move. Whether there was an answer."""
    version = client.rng.choice(FETCH_VERSIONS)
    topic_id = client.topic_id(line, topic) if version >= BY_ID else None
    if version >= BY_ID and topic_id is None:
        return False
    named = {"topic_id": topic_id} if version >= BY_ID else {"topic": topic}
    asked = list(positions) if client.rng.random() < 0.5 else [client.rng.choice(list(positions))]
    bytes_max = client.rng.choice((1, 100)) if len(asked) == 1 else 1 << 20
    partitions = [
        {"partition": index, "fetch_offset": positions[index], "partition_max_bytes": bytes_max} for index in asked
    ]
    clock = client.around.scheduler
    wait_ms, started_ms = client.rng.choice((0, 0, 300, 2 * SECOND_MS)), clock.now_ms
    known = {name: value for name, value in _FETCH.items() if version < 15 or name != "replica_id"}
    told = line.call("fetch", version, **known, max_wait=wait_ms, topics=[{**named, "partitions": partitions}])
    if told is Lost.NO_ANSWER or not told.responses:
        return False
    is_full = False
    for one in told.responses[0].partitions:
        index = one.partition_index
        if one.error_code is KafkaError.none:
            if is_full and not one.records:
                continue  # what there was no time for comes with the next answer
            is_full = bool(one.records)
            found = read(bytes(one.records or b""), positions[index])
            records = [{"offset": offset, "value": value.decode()} for offset, value in found.records]
            body = {"records": records, "next_offset": found.next_offset, "high_watermark": one.high_watermark}
            client.judge.fetched(topic, index, found.first_offset, body, started_ms, clock.now_ms)
            client.judge.told["read by Kafka"] += len(records)
            if topic_id is not None:
                client.judge.fetched_by_id(topic, str(topic_id), index, found.records)
            positions[index] = found.next_offset
        elif one.error_code is KafkaError.offset_out_of_range:
            positions[index] = max(0, _log_start(line, topic, index))
        elif one.error_code is KafkaError.unknown_topic_id:
            client.forget_ids()
        elif one.error_code is KafkaError.unknown_server_error:
            raise Violation(f"a fetch of {topic}/{index} met an unforeseen error")
    return True


def _log_start(line: Line, topic: str, index: int) -> int:
    """Where the partition begins; -1: there is no answer."""
    wanted = [{"name": topic, "partitions": [{"partition_index": index, "timestamp": EARLIEST}]}]
    told = line.call("list_offsets", 7, replica_id=-1, isolation_level=0, topics=wanted)
    found: int = -1 if told is Lost.NO_ANSWER else told.topics[0].partitions[0].offset
    return found
