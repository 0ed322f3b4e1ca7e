"""Producers, transactional loops and readers by Kafka's protocol (librdkafka), each a thread, beside those over HTTP.

They write into the same history: what comes in by one door is read, and judged, by the other.
"""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from tests.support.waiting import until
from tests.torture.tortured.checker import Log
from tests.torture.tortured.clients import GIVE_UP_SECONDS, TIMEOUT_SECONDS, Client
from tests.torture.tortured.history import Place, Read, Write, key_of

QUICK: Final[dict[str, Any]] = {
    "retry.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "socket.timeout.ms": int(TIMEOUT_SECONDS * 1000),
    "log_level": 0,
}
"""Settings of all of them: they find out soon that a gateway is gone."""
Line = tuple[str, int]


@dataclass(slots=True)
class _Sent:
    """A record on its way."""

    topic: str
    partition: int
    value: str
    started: float
    offset: int = -1
    ended: float = 0.0
    error: str = ""

    def delivered(self, error: Any, message: Message) -> None:
        """See confluent-kafka."""
        self.ended = time.monotonic()
        if error is not None:
            self.error = str(error)
        else:
            offset = message.offset()
            self.offset = -1 if offset is None else offset


def produce_by_kafka(client: Client, servers: str, topics: dict[str, int], pace_seconds: float) -> None:
    """An idempotent producer. Each record is a write of its own: a request holds what librdkafka puts into it."""
    made = partial(Producer, {**QUICK, "bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5})
    producer = made()
    while not client.stopping.is_set():
        sent = _sent(client, producer, topics, 20)
        _flush(producer)
        for one in sent:
            done = one.ended > 0 and not one.error
            client.history.add(
                Write(
                    client=client.name,
                    kind="Kafka: record",
                    values={one.topic: {one.partition: [one.value]}},
                    outcome="acknowledged" if done else "unknown",
                    started=one.started,
                    ended=one.ended or time.monotonic(),
                    places=[Place(topic=one.topic, partition=one.partition, base_offset=one.offset, values=[one.value])]
                    if done
                    else [],
                    why=one.error,
                )
            )
        if any(one.error or not one.ended for one in sent):
            producer.purge()
            producer = made()
        client.stopping.wait(client.rng.uniform(0, 2 * pace_seconds))


def transact_by_kafka(client: Client, servers: str, topics: dict[str, int], pace_seconds: float) -> None:
    """Transactions over all topics; some are aborted on purpose. A client that dies of an error is made anew."""
    producer: Producer | None = None
    while not client.stopping.is_set():
        producer = producer or _initialized(client, servers)
        if producer is None:
            continue
        started, values = time.monotonic(), client.values(topics, 12)
        outcome, why = _transaction(client, producer, values)
        client.history.add(
            Write(
                client=client.name,
                kind="Kafka: transaction",
                values=values,
                outcome=outcome,
                started=started,
                ended=time.monotonic(),
                atomic=True,
                is_placed=False,
                why=why,
            )
        )
        if why:
            producer = None
        client.stopping.wait(client.rng.uniform(0, 2 * pace_seconds))


def _initialized(client: Client, servers: str) -> Producer | None:
    """None where the gateways did not answer in time."""
    producer = Producer({**QUICK, "bootstrap.servers": servers, "transactional.id": client.name})
    try:
        producer.init_transactions(TIMEOUT_SECONDS)
    except KafkaException:
        client.stopping.wait(client.rng.uniform(0.05, 0.5))
        return None
    return producer


def _transaction(client: Client, producer: Producer, values: dict[str, dict[int, list[str]]]) -> tuple[str, str]:
    """The outcome, and why the producer can't go on."""
    is_committing = False
    try:
        producer.begin_transaction()
        for topic, held in values.items():
            for partition, some in held.items():
                for value in some:
                    producer.produce(topic, value.encode(), key_of(value).encode(), partition=partition)
        if client.rng.random() < 1 / 3:
            _insisted(producer.abort_transaction)
            return "aborted", ""
        is_committing = True
        _insisted(producer.commit_transaction)
    except KafkaException as caught:
        error = caught.args[0]
        if error.txn_requires_abort():  # then it was not committed, and can't be any more
            try:
                _insisted(producer.abort_transaction)
            except KafkaException as again:
                return "aborted", str(again)
            return "aborted", ""
        return "unknown" if is_committing else "aborted", str(error)
    return "acknowledged", ""


def _insisted(call: Any) -> None:
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while True:
        try:
            call(TIMEOUT_SECONDS)
        except KafkaException as caught:
            if not caught.args[0].retriable() or time.monotonic() > deadline:
                raise
        else:
            return


def _flush(producer: Producer) -> None:
    """Wait until each record has an outcome, or the producer can't go on, as where a topic made anew does not know it."""
    deadline = time.monotonic() + GIVE_UP_SECONDS
    with suppress(
        KafkaException, SystemError
    ):  # confluent-kafka raises the second from a callback behind a fatal error
        while producer.flush(1.0) and time.monotonic() < deadline:
            pass


def _sent(client: Client, producer: Producer, topics: dict[str, int], records: int) -> list[_Sent]:
    sent = []
    for topic, held in client.values(topics, records).items():
        for partition, values in held.items():
            for value in values:
                one = _Sent(topic, partition, value, time.monotonic())
                sent.append(one)
                producer.produce(
                    topic, value.encode(), key_of(value).encode(), partition=partition, on_delivery=one.delivered
                )
    return sent


@dataclass(slots=True)
class _Position:
    """Of a reader in one partition: where its next read begins, and what it has since."""

    offset: int = 0
    values: list[str] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)


def read_by_kafka(client: Client, servers: str, topics: dict[str, int]) -> None:
    """Consumes all partitions from offset 0 on. Each time it asks for the end of a partition, it says what it has read."""
    positions: dict[Line, _Position] = defaultdict(_Position)
    consumer = _consumer(servers, topics)
    try:
        while not client.stopping.is_set():
            for message in messages(consumer, 0.5):
                position = positions[str(message.topic()), int(message.partition() or 0)]
                position.values.append((message.value() or b"").decode())
                position.offsets.append(int(message.offset() or 0))
            for (topic, partition), position in positions.items():
                started = time.monotonic()
                try:
                    _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), TIMEOUT_SECONDS)
                except KafkaException:
                    continue
                client.history.add(
                    Read(
                        client=client.name,
                        topic=topic,
                        partition=partition,
                        offset=position.offset,
                        values=position.values,
                        offsets=position.offsets,
                        next_offset=position.offset + len(position.values),
                        high_watermark=end,
                        started=started,
                        ended=time.monotonic(),
                    )
                )
                positions[topic, partition] = _Position(position.offset + len(position.values))
    finally:
        consumer.close()


def by_kafka(servers: str, topics: dict[str, int]) -> Log:
    """The final topics, read by a consumer."""
    log: Log = {(topic, partition): [] for topic, count in topics.items() for partition in range(count)}
    consumer = _consumer(servers, topics)
    try:
        ends = {line: _end(consumer, line) for line in log}
        deadline = time.monotonic() + GIVE_UP_SECONDS
        while any(len(log[line]) < end for line, end in ends.items()):
            if time.monotonic() > deadline:
                raise AssertionError(f"the records up to {ends} do not come")
            for message in messages(consumer, 1.0):
                held = log[str(message.topic()), int(message.partition() or 0)]
                if message.offset() != len(held):
                    raise AssertionError(f"{message.topic()} has {message.offset()} where {len(held)} should be")
                held.append((message.value() or b"").decode())
    finally:
        consumer.close()
    return log


def _end(consumer: Consumer, line: Line) -> int:
    """Where the partition ends. librdkafka fails a request at a broker that it forgets meanwhile, and leaves the repeat to us."""

    def look() -> tuple[int, int] | None:
        with suppress(KafkaException):
            return consumer.get_watermark_offsets(TopicPartition(*line), TIMEOUT_SECONDS)
        return None

    _, end = until(look, GIVE_UP_SECONDS, what=f"no gateway tells where {line} ends")
    return end


def _consumer(servers: str, topics: dict[str, int]) -> Consumer:
    """At the beginning of all partitions. An offset that is out of range is an error."""
    consumer = Consumer(
        {
            **QUICK,
            "bootstrap.servers": servers,
            "group.id": "no group",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "check.crcs": True,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for topic, count in topics.items() for number in range(count)])
    return consumer


def messages(consumer: Consumer, seconds: float) -> list[Message]:
    """What has come. Raises ``KafkaException`` for an error that a client can't go past by itself."""
    found = []
    for message in consumer.consume(500, seconds):
        error = message.error()
        if error is None:
            found.append(message)
        elif not error.retriable() and error.name() not in _PASSING:
            raise KafkaException(error)
    return found


_PASSING: Final = {"_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_TIMED_OUT", "_MAX_POLL_EXCEEDED"}
"""Errors of librdkafka while no gateway answers."""
