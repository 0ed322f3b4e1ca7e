"""The clients of ``history``: four that read old records, each a partition of its own.

They would be on other machines. Here they give way (SCHED_IDLE) to the gateway and to those whose latency is measured.
"""

from __future__ import annotations

import http.client
import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast

from tidelog import Consumer, TopicPartition

READERS: Final = 4
VALUE_BYTES: Final = 1024
PARTITION_RECORDS: Final = 49_152
"""48 MiB in each of the readers' partitions: together more than a gateway keeps in memory."""
NEAR_TAIL_RECORDS: Final = 16_384
"""What is so near to the end a consumer does not read by plan."""
FETCHED_BYTES: Final = 8 * 1024 * 1024
HEADERS: Final = {
    "Accept": "application/vnd.apache.arrow.stream",
    "Accept-Encoding": "gzip, deflate, br, zstd",
}
"""As httpx and browsers send them."""


@dataclass(frozen=True)
class Work:
    """``store``: as this machine reaches it; None: by the plan's URLs."""

    port: int
    topic: str
    seconds: float
    store: str | None


Read = Callable[[Work, int], int]
"""Of the partition: bytes of values read."""


def by_http(work: Work, partition: int) -> int:
    """Fetches of 8 MiB, one after the other."""
    connection = http.client.HTTPConnection("127.0.0.1", work.port, timeout=60)
    buffer = bytearray(1 << 20)
    path = f"/v1/topics/{work.topic}/partitions/{partition}/records"
    read, offset, until = 0, 0, time.monotonic() + work.seconds
    while time.monotonic() < until:
        connection.request(
            "GET", f"{path}?offset={offset}&max_records=100000&max_bytes={FETCHED_BYTES}", headers=HEADERS
        )
        answer = connection.getresponse()
        while answer.readinto(buffer):
            pass
        if answer.status != 200:
            raise RuntimeError(f"status {answer.status}")
        following = int(cast("str", answer.getheader("tidelog-next-offset")))
        read += (following - offset) * VALUE_BYTES
        offset = 0 if following == PARTITION_RECORDS else following
    return read


def by_plan(work: Work, partition: int) -> int:
    """Tidelog's own consumer."""
    place = TopicPartition(work.topic, partition)
    read, until = 0, time.monotonic() + work.seconds
    with Consumer(bootstrap_servers=f"http://127.0.0.1:{work.port}", store=work.store) as consumer:
        consumer.assign([place])
        consumer.seek(place, 0)
        while time.monotonic() < until:
            read += consumer.poll_arrow(1_000, FETCHED_BYTES).num_rows * VALUE_BYTES
            if consumer.position(place) >= PARTITION_RECORDS - NEAR_TAIL_RECORDS:
                consumer.seek(place, 0)
    return read


def _process(channel: Any, read: Read, work: Work, partitions: range) -> None:
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    found = [0] * len(partitions)

    def one(index: int, partition: int) -> None:
        found[index] = read(work, partition)

    threads = [threading.Thread(target=one, args=each) for each in enumerate(partitions)]
    channel.send(None)
    channel.recv()
    before = time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    channel.send((sum(found), time.process_time() - before))


class Clients:
    """One process with four threads, or for plans, which are decoded there, four processes. They wait for ``begin``."""

    def __init__(self, read: Read, work: Work) -> None:
        context = multiprocessing.get_context("spawn")
        shares = [range(READERS)] if read is by_http else [range(number, number + 1) for number in range(READERS)]
        self._channels = []
        for share in shares:
            ours, theirs = context.Pipe()
            context.Process(target=_process, args=(theirs, read, work, share)).start()
            theirs.close()
            self._channels.append(ours)
        for channel in self._channels:
            channel.recv()

    def begin(self) -> None:
        """All of them."""
        for channel in self._channels:
            channel.send(None)

    def result(self) -> tuple[int, float]:
        """Bytes of values read and CPU seconds. Raises ``EOFError`` when one failed."""
        results = [channel.recv() for channel in self._channels]
        return sum(size for size, _ in results), sum(cpu for _, cpu in results)
