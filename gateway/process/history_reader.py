"""A reader of history as a process: ``python -m gateway.process.history_reader CONTROL STORE LOG_LEVEL LOG_FORMAT``.

A gateway starts the reader and sends it tasks over ``CONTROL``, a descriptor of a socket (``gateway.catch_up_reads``). The reader
ends when that socket closes, because the gateway stops it or has ended. So it ignores SIGTERM and SIGINT, which a service manager
or a terminal sends to all processes of a service, and finishes the tasks of a draining gateway.

It has a lower priority than all other processes (``gateway.process.priority``).
"""

from __future__ import annotations

import os
import socket
import sys
import time
from typing import Final, cast

import pyarrow as pa
from prometheus_client import CollectorRegistry

from gateway.catch_up_reads.old_records import OldRecords
from gateway.catch_up_reads.service import PARALLEL_TASKS_MAX, Service
from gateway.process.allocator import configure_allocator, resident_bytes, trim
from gateway.process.priority import lower_priority
from gateway.process.stores import open_for_old_records
from gateway.stores.counted import StoreRequests
from gateway.telemetry import structured_log
from log_format.clock import SystemClock
from log_format.segments.reader import SegmentReader
from log_format.without_pandas import hide_pandas

OUT_OF_MEMORY_SCORE: Final = 500
FOOTERS_BYTES: Final = 4 * 1024 * 1024
SPAN_BYTES_MAX: Final = 4 * 1024 * 1024
DECODED_BYTES_MAX: Final = 12 * 1024 * 1024
LARGE_BLOCK_BYTES: Final = 8 * 1024 * 1024
KEPT_BYTES: Final = 16 * 1024 * 1024
"""Bytes that the allocator keeps: fewer than in a gateway, since nothing here is as large as a flush and the process is
smaller."""
TRIM_ABOVE_BYTES: Final = 128 * 1024 * 1024
TRIM_PAUSE_S: Final = 0.25


def main(arguments: list[str]) -> None:
    """Serve until the gateway has ended."""
    lower_priority(out_of_memory_score=OUT_OF_MEMORY_SCORE)
    hide_pandas()
    descriptor, uri, log_level, log_format = arguments
    control = socket.socket(fileno=int(descriptor))
    structured_log.configure(log_level, cast("structured_log.LogFormat", log_format))
    configure_allocator(large_block_bytes=LARGE_BLOCK_BYTES, kept_bytes=KEPT_BYTES)
    pa.set_memory_pool(pa.system_memory_pool())
    clock, requests = SystemClock(), StoreRequests()
    # Threads for the tasks, and one that decodes ahead.
    store = open_for_old_records(
        uri, requests, threads=PARALLEL_TASKS_MAX + 1, clock=clock, registry=CollectorRegistry()
    )
    reader = SegmentReader(
        store,
        footer_cache_bytes=FOOTERS_BYTES,
        span_bytes_max=SPAN_BYTES_MAX,
        decoded_bytes_max=DECODED_BYTES_MAX,
    )
    Service(OldRecords(reader, clock=clock), requests, _Trimmer().after_task).run(control)
    # Threads may wait for the store, and an ordinary exit would wait for them.
    structured_log.WRITER.flush(0.5)
    os._exit(0)


class _Trimmer:
    """Return of freed memory to the system after a task, at most once in ``TRIM_PAUSE_S``."""

    def __init__(self) -> None:
        self._not_before = 0.0

    def after_task(self) -> None:
        """Trim, if much memory is held and it was not done just before. Called in the task's thread."""
        now = time.monotonic()
        if now >= self._not_before and resident_bytes() > TRIM_ABOVE_BYTES:
            self._not_before = now + TRIM_PAUSE_S
            trim()


if __name__ == "__main__":
    main(sys.argv[1:])
