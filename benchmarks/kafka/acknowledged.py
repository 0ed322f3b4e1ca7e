"""Sends numbered records one by one and prints when each was acknowledged. Run by the clients' own Python.

``acknowledged.py ADDRESS TOPIC COUNT PAUSE_SECONDS`` prints a line ``number nanoseconds-since-the-epoch`` for each record.
"""

from __future__ import annotations

import sys
import time

from confluent_kafka import Producer


def main() -> None:
    address, topic, count, pause = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    producer = Producer({"bootstrap.servers": address, "acks": "all", "linger.ms": 0})
    for number in range(count):
        producer.produce(
            topic, value=str(number).encode(), on_delivery=lambda *_, n=number: print(n, time.time_ns(), flush=True)
        )
        producer.flush(30)
        time.sleep(pause)


if __name__ == "__main__":
    main()
