"""One Kafka client as a process of its own: ``clients.py CLIENT ADDRESS TOPIC RECORDS VALUE_BYTES``.

Run by the interpreter of ``scripts/kafka.sh``, so it imports nothing of this project. It warms up, prints ``ready``, and waits
for a line on standard input. It sends the records one by one with acks=all. It then prints one line of JSON: seconds, and CPU
seconds of this process.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

WARM_UP_RECORDS = 20_000
LINGER_MS = 5
BATCH_BYTES = 1 << 20


def confluent(address: str, topic: str) -> Callable[[list[bytes], int], None]:
    """Return a function that sends with librdkafka, by confluent-kafka."""
    from confluent_kafka import Producer  # noqa: PLC0415 - each run needs one client

    producer = Producer(
        {
            "bootstrap.servers": address,
            "acks": "all",
            "linger.ms": LINGER_MS,
            "batch.size": BATCH_BYTES,
            "batch.num.messages": 100_000,
            "queue.buffering.max.messages": 500_000,
            "queue.buffering.max.kbytes": 262_144,
        }
    )

    def send(values: list[bytes], count: int) -> None:
        sent, different = 0, len(values)
        while sent < count:
            try:
                producer.produce(topic, values[sent % different])
            except BufferError:
                producer.poll(0.01)
                continue
            sent += 1
            if sent % 1000 == 0:
                producer.poll(0)
        if producer.flush(120):
            raise SystemExit("not delivered")

    return send


def kafka_python(address: str, topic: str) -> Callable[[list[bytes], int], None]:
    """Return a function that sends with kafka-python, which is all in Python, as our client is."""
    from kafka import KafkaProducer  # noqa: PLC0415

    producer = KafkaProducer(bootstrap_servers=address, acks="all", linger_ms=LINGER_MS, batch_size=BATCH_BYTES)

    def send(values: list[bytes], count: int) -> None:
        different = len(values)
        futures = [producer.send(topic, values[index % different]) for index in range(count)]
        producer.flush(120)
        if not all(future.succeeded() for future in futures):
            raise SystemExit("not delivered")

    return send


def stored(address: str, topic: str) -> int:
    """Return the number of records in the new topic. It shows failures, as confluent-kafka is measured without callbacks."""
    from confluent_kafka import Consumer, TopicPartition  # noqa: PLC0415

    consumer = Consumer({"bootstrap.servers": address, "group.id": "watermarks"})
    try:
        partitions = consumer.list_topics(topic, 10).topics[topic].partitions
        return sum(consumer.get_watermark_offsets(TopicPartition(topic, partition), 10)[1] for partition in partitions)
    finally:
        consumer.close()


def main() -> None:
    """Warm up, wait for the signal, send, and check that all records are there."""
    client, address, topic, records, value_bytes = sys.argv[1:]
    values = [json.loads(line).encode() for line in sys.stdin.readline().split("\t")]
    if any(len(value) != int(value_bytes) for value in values):
        raise SystemExit("values of another length")
    send = {"confluent-kafka": confluent, "kafka-python": kafka_python}[client](address, topic)
    send(values, WARM_UP_RECORDS)
    print("ready", flush=True)
    sys.stdin.readline()
    started, cpu = time.perf_counter(), time.process_time()
    send(values, int(records))
    measured = {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - cpu}
    missing = WARM_UP_RECORDS + int(records) - stored(address, topic)
    if missing:
        raise SystemExit(f"{missing} records are missing")
    print(json.dumps(measured), flush=True)


if __name__ == "__main__":
    main()
