"""One client that sends a record, waits for its acknowledgement, and sends the next, as a process of its own.

``paced_client.py CLIENT ADDRESS TOPIC SECONDS PAUSE_SECONDS``. ``CLIENT``: ``sdk`` or ``librdkafka``, both
with default settings. It sends one record, prints ``ready``, and waits for a line. Then it goes on for ``SECONDS``, with a pause
behind each answer, and prints ``{"seconds", "latencies_ms"}``. ``Paced.java`` and ``fast_stream.py`` do the same.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from confluent_kafka import Producer as KafkaProducer

from tidelog import Producer

VALUE: Final = b"v" * 100
ANSWER_SECONDS_MAX: Final = 60


@contextmanager
def _sdk(address: str, topic: str) -> Iterator[Callable[[], None]]:
    with Producer(address) as producer:
        yield lambda: producer.send(topic, VALUE).result(ANSWER_SECONDS_MAX) and None


@contextmanager
def _librdkafka(address: str, topic: str) -> Iterator[Callable[[], None]]:
    producer = KafkaProducer({"bootstrap.servers": address})
    refused: list[object] = []

    def send() -> None:
        producer.produce(topic, VALUE, on_delivery=lambda error, _: refused.append(error) if error else None)
        if producer.flush(ANSWER_SECONDS_MAX) or refused:
            raise SystemExit(f"not delivered: {refused}")

    yield send


def main() -> None:
    """Send one, wait for the signal, send for some seconds, and say how long each took."""
    client, address, topic, seconds, pause = sys.argv[1:]
    latencies_ms = []
    with {"sdk": _sdk, "librdkafka": _librdkafka}[client](address, topic) as send:
        send()
        print("ready", flush=True)
        sys.stdin.readline()
        started = time.perf_counter()
        while (begun := time.perf_counter()) < started + float(seconds):
            send()
            ended = time.perf_counter()
            latencies_ms.append((ended - begun) * 1000)
            time.sleep(float(pause))
    print(json.dumps({"seconds": ended - started, "latencies_ms": latencies_ms}), flush=True)


if __name__ == "__main__":
    main()
