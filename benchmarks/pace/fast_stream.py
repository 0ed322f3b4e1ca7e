"""FastStream: records published one by one and handled by a subscriber. Run by the Python that ``make kafka-clients`` sets up.

``fast_stream.py SERVERS TOPIC COUNT``. It says what ``paced_client.py`` says; its seconds end when the last record is handled.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from faststream.kafka import KafkaBroker


async def main(servers: str, topic: str, count: int) -> None:
    """Publish one, wait until it is handled and for the signal, publish the others."""
    broker = KafkaBroker(servers, logger=None)
    handled: asyncio.Queue[str] = asyncio.Queue()
    latencies_ms = []

    @broker.subscriber(topic, group_id=topic, auto_offset_reset="earliest")  # type: ignore[untyped-decorator]
    async def handle(value: str) -> None:
        await handled.put(value)

    async with broker:
        await broker.start()
        await broker.publish("first", topic)
        await handled.get()
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        started = time.perf_counter()
        for number in range(count):
            begun = time.perf_counter()
            await broker.publish(f"value {number}", topic)
            latencies_ms.append((time.perf_counter() - begun) * 1000)
        for _ in range(count):
            await handled.get()
        seconds = time.perf_counter() - started
    print(json.dumps({"seconds": seconds, "latencies_ms": latencies_ms}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
