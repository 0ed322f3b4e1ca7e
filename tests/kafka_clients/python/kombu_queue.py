"""What a program of kombu does with a queue: put, get, acknowledge, reject, requeue; a connection that ends and another.

Arguments: bootstrap servers, prefix of queues. kombu puts one message at a time and waits for it, so there are few.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import Any

from kombu import Connection

COUNT = 30
SECONDS = 30


def put(queue: Any) -> None:
    """Numbers, also as a header."""
    for number in range(COUNT):
        queue.put({"number": number}, headers={"number": number})


def got(queue: Any) -> Any:
    """The next message, which is whole."""
    message = queue.get(timeout=SECONDS)
    assert message.payload == {"number": message.headers["number"]}, message.payload
    return message


def acknowledged(address: str, name: str) -> None:
    """Two connections, one after the other: each message once, in order."""
    with Connection(address) as connection, connection.SimpleQueue(name) as queue:
        put(queue)
    seen = []
    for _ in range(2):
        with Connection(address) as connection, connection.SimpleQueue(name) as queue:
            for number in range(COUNT // 2):
                message = got(queue)
                message.reject() if number == 7 else message.ack()
                seen.append(message.payload["number"])
    with Connection(address) as connection, connection.SimpleQueue(name) as queue:
        try:
            raise AssertionError(f"{queue.get(timeout=5).payload} came again")
        except queue.Empty:
            pass
    assert seen == [*range(COUNT)], seen


def requeued(address: str, name: str) -> None:
    """What is requeued comes again. kombu goes back to what it has committed, and may hand out what lies behind it twice.

    Its commit goes out a moment after ``ack``, and has what was taken meanwhile: without a pause there is nothing to go back to.
    """
    counts: Counter[int] = Counter()
    with Connection(address) as connection, connection.SimpleQueue(name) as queue:
        put(queue)
        queue.consumer.qos(prefetch_count=1)
        while len(counts) < COUNT or counts[5] < 2 or counts[17] < 2:
            message = got(queue)
            number = message.payload["number"]
            counts[number] += 1
            if number in {5, 17} and counts[number] == 1:
                message.requeue()
            else:
                message.ack()
                time.sleep(0.3)
            assert counts.total() < 3 * COUNT, counts
    assert set(counts) == {*range(COUNT)}, counts


def main(servers: str, prefix: str) -> None:
    """Raises for what is not as it should be."""
    address = f"confluentkafka://{servers}"
    acknowledged(address, f"{prefix}.acknowledged")
    requeued(address, f"{prefix}.requeued")
    print("all is as it should be")


if __name__ == "__main__":
    main(*sys.argv[1:])
