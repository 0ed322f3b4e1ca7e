"""confluent-kafka sends a record a second to each of many topics: ``many_topics.py ADDRESS TOPICS SECONDS``.

It is run as ``clients.py`` is. It makes the topics, sends for some seconds, prints ``ready``, waits for a line on standard input,
and sends in an open loop: record n is due n / TOPICS seconds behind the start, and its latency counts from then. It prints one
line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

MADE_AT_ONCE = 100
SECONDS_MAX = 60
WARM_UP_SECONDS = 10


def send(producer: Producer, names: list[str], seconds: int) -> list[float]:
    """Send a record a second to each topic; return the latencies in milliseconds."""
    latencies: list[float] = []
    failed: list[Any] = []

    def delivered(due: float, error: Any, _message: Any) -> None:
        if error is not None:
            failed.append(error)
        latencies.append((time.perf_counter() - due) * 1000)

    started, count = time.perf_counter(), len(names)
    for number in range(count * seconds):
        due = started + number / count
        while (left := due - time.perf_counter()) > 0:
            producer.poll(left)
        producer.produce(names[number % count], b"x" * 100, on_delivery=partial(delivered, due))
        producer.poll(0)
    if producer.flush(SECONDS_MAX) or failed:
        raise SystemExit(f"not delivered: {failed[:1]}")
    return latencies


def main() -> None:
    """Make the topics, warm up, wait for the signal, send."""
    address, count, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    sys.stdin.readline()
    names = [f"many-{number:05}" for number in range(count)]
    admin = AdminClient({"bootstrap.servers": address})
    for first in range(0, count, MADE_AT_ONCE):
        made = admin.create_topics([NewTopic(name, 1, 1) for name in names[first : first + MADE_AT_ONCE]])
        for one in made.values():
            one.result(SECONDS_MAX)
    ends = time.perf_counter() + SECONDS_MAX
    while (
        not set(names) <= admin.list_topics(timeout=SECONDS_MAX).topics.keys()
    ):  # a broker tells of them a little later
        if time.perf_counter() > ends:
            raise SystemExit("the topics do not come")
        time.sleep(0.1)
    producer = Producer({"bootstrap.servers": address, "acks": "all", "linger.ms": 5})
    send(producer, names, WARM_UP_SECONDS)
    print("ready", flush=True)
    sys.stdin.readline()
    started, cpu = time.perf_counter(), time.process_time()
    latencies = send(producer, names, seconds)
    measured = {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - cpu}
    print(json.dumps(measured | {"latencies_ms": latencies}), flush=True)


if __name__ == "__main__":
    main()
