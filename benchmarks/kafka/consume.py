"""confluent-kafka reads a topic from its beginning: ``consume.py ADDRESS TOPIC RECORDS TIMES``, as ``clients.py`` is run.

TIMES: so many times over, each time from the beginning; the first one is not measured where there are more.
It prints ``ready``, waits for a line on standard input, reads the records, and prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition


def main() -> None:
    """Assign all partitions, wait for the signal, read."""
    address, topic, records, times = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "benchmark",
            "enable.auto.commit": False,
            "queued.max.messages.kbytes": 262_144,
            "queued.min.messages": 500_000,
            "fetch.message.max.bytes": 4 << 20,
            "check.crcs": True,
        }
    )
    sys.stdin.readline()
    partitions = consumer.list_topics(topic, 10).topics[topic].partitions

    def read_all() -> None:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
        read = 0
        while read < records:
            messages = consumer.consume(10_000, 20)
            if not messages or any(message.error() for message in messages):
                raise SystemExit(f"only {read} records came")
            read += len(messages)

    if times > 1:
        read_all()
    print("ready", flush=True)
    sys.stdin.readline()
    started, cpu = time.perf_counter(), time.process_time()
    for _ in range(max(1, times - 1)):
        read_all()
    measured = {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - cpu}
    print(json.dumps(measured), flush=True)
    consumer.close()


if __name__ == "__main__":
    main()
