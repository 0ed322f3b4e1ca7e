"""The clients of ``history``: four that read old records, each a partition of its own.

They would be on other machines. Here they give way (SCHED_IDLE) to the gateway and to those whose latency is measured.
"""

from __future__ import annotations

import http.client
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast
from urllib.parse import urlsplit

from benchmarks.fetch.small_traffic import Span
from benchmarks.harness.bodies import ARROW
from benchmarks.harness.processes import call
from benchmarks.harness.scenario import Standing
from tidelog import Consumer, TopicPartition

READERS: Final = 4
VALUE_BYTES: Final = 1024
PARTITION_RECORDS: Final = 49_152
"""48 MiB in each of the readers' partitions: together more than a gateway keeps in memory."""
NEAR_TAIL_RECORDS: Final = 16_384
"""What is so near to the end a consumer does not read by plan."""
FETCHED_BYTES: Final = 8 * 1024 * 1024
AS_LIBRARIES: Final = {"Accept": "*/*", "Accept-Encoding": "gzip, deflate"}
"""The default headers of requests, aiohttp and httpx without extras; the answer is JSON."""
ARROW_GZIP: Final = {"Accept": ARROW, "Accept-Encoding": "gzip, deflate"}
ARROW_ZSTD: Final = {"Accept": ARROW, "Accept-Encoding": "gzip, deflate, br, zstd"}
"""As browsers send it, and httpx with its extras."""


@dataclass(frozen=True)
class Work:
    """``store``: as this machine reaches it; None: by the plan's URLs. ``headers``: of fetches."""

    port: int
    topic: str
    span: Span
    store: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def counts(self) -> bool:
        """Return whether what has just been read counts."""
        return self.span.counted_from <= time.monotonic() < self.span.until

    def goes_on(self) -> bool:
        """Return whether the span is not over."""
        return time.monotonic() < self.span.until


Read = Callable[[Work, int], int]
"""Reads a partition, and returns the bytes of values read in the span that counts."""


def by_http(work: Work, partition: int) -> int:
    """Fetch 8 MiB after 8 MiB."""
    connection = http.client.HTTPConnection("127.0.0.1", work.port, timeout=60)
    buffer = bytearray(1 << 20)
    path = f"/v1/topics/{work.topic}/partitions/{partition}/records"
    read = offset = 0
    while work.goes_on():
        connection.request(
            "GET", f"{path}?offset={offset}&max_records=100000&max_bytes={FETCHED_BYTES}", headers=dict(work.headers)
        )
        answer = connection.getresponse()
        while answer.readinto(buffer):
            pass
        if answer.status != 200:
            raise RuntimeError(f"status {answer.status}")
        following = int(cast("str", answer.getheader("tidelog-next-offset")))
        read += (following - offset) * VALUE_BYTES * work.counts()
        offset = 0 if following == PARTITION_RECORDS else following
    connection.close()
    return read


def by_plan(work: Work, partition: int) -> int:
    """Read with Tidelog's own consumer."""
    place = TopicPartition(work.topic, partition)
    read = 0
    with Consumer(bootstrap_servers=f"http://127.0.0.1:{work.port}", store=work.store) as consumer:
        consumer.assign([place])
        consumer.seek(place, 0)
        while work.goes_on():
            read += consumer.poll_arrow(1_000, FETCHED_BYTES).num_rows * VALUE_BYTES * work.counts()
            if consumer.position(place) >= PARTITION_RECORDS - NEAR_TAIL_RECORDS:
                consumer.seek(place, 0)
    return read


def bare(work: Work, partition: int) -> int:
    """Read the same objects in ranges of 8 MiB, and throw them away: what the store gives to a client that does nothing else."""
    segments = call(work.port, "GET", f"/v1/topics/{work.topic}/partitions/{partition}/segments")["segments"]
    buffer = bytearray(1 << 20)
    connections: dict[str, http.client.HTTPConnection] = {}
    read = 0
    while work.goes_on():
        for segment in segments:
            if work.store is not None:
                with Path(urlsplit(work.store).path, segment["key"]).open("rb", buffering=0) as file:
                    while file.readinto(buffer):
                        pass
            else:
                _get(connections, segment["url"], segment["size_bytes"], buffer)
            read += (segment["end_offset"] - segment["start_offset"]) * VALUE_BYTES * work.counts()
            if not work.goes_on():
                break
    return read


def _get(connections: dict[str, http.client.HTTPConnection], url: str, size_bytes: int, buffer: bytearray) -> None:
    parts = urlsplit(url)
    connection = connections.setdefault(parts.netloc, http.client.HTTPConnection(parts.netloc, timeout=60))
    for start in range(0, size_bytes, FETCHED_BYTES):
        end = min(start + FETCHED_BYTES, size_bytes)
        connection.request("GET", f"{parts.path}?{parts.query}", headers={"Range": f"bytes={start}-{end - 1}"})
        answer = connection.getresponse()
        while answer.readinto(buffer):
            pass
        if answer.status != 206:
            raise RuntimeError(f"status {answer.status}")


def _read_all(read: Read, partitions: range, work: Work) -> tuple[int, float]:
    """Read partitions in a thread each; return bytes of values read in the span that counts, and CPU seconds."""
    # In one session with the gateway: Linux may weigh sessions against each other, and then this would say nothing.
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with ThreadPoolExecutor(len(partitions)) as threads:
        reads = [threads.submit(read, work, partition) for partition in partitions]
        time.sleep(max(0.0, work.span.counted_from - time.monotonic()))
        before = time.process_time()
        sizes = [each.result() for each in reads]
    return sum(sizes), time.process_time() - before


class Clients:
    """One process with four threads, or for plans, which are decoded there, four processes. They wait for ``begin``."""

    def __init__(self, read: Read) -> None:
        shares = [range(number, number + 1) for number in range(READERS)] if read is by_plan else [range(READERS)]
        self._processes = [Standing(_read_all, read, share) for share in shares]

    def begin(self, work: Work) -> None:
        """Begin work in all of them, and return at once."""
        for process in self._processes:
            process.begin(work)

    def result(self) -> tuple[int, float]:
        """Return bytes of values read in the span that counts, and CPU seconds of all. Raises ``EOFError`` when one failed."""
        sizes, seconds = zip(*(process.result() for process in self._processes), strict=True)
        return sum(sizes), sum(seconds)

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.close()
