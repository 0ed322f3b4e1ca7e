"""Replay of the flights into the topic, through the SDK's producer, at a steady rate."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from log_format.errors import TidelogError
from tidelog.demo.lag import Acknowledgements
from tidelog.demo.source import Flights
from tidelog.demo.summary import Summary, checksum
from tidelog.producer.producer import Producer
from tidelog.types.record import SentRecord

CHUNK_RECORDS_MAX: Final = 1_000
"""Maximum records made and sent between two checks of the clock."""

CHUNKS_PER_SECOND: Final = 20
"""Checks of the clock per second at a slow rate."""

CLOSE_SECONDS: Final = 2
"""Time that an early exit waits for records in flight; the gateway may be gone."""


class NotAcknowledged(RuntimeError):
    """A record was refused, or its outcome is unknown."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """Result of a replay: what the gateway has acknowledged."""

    summary: Summary
    acknowledgements: Acknowledgements
    value_bytes: int
    """Bytes of keys and values."""
    seconds: float
    """Time from the first record sent to the last acknowledgement."""


class _Deliveries:
    """Callback that records each acknowledgement; called from the producer's sending thread only."""

    def __init__(self) -> None:
        self.error: TidelogError | None = None
        self.count = self.checksum_sum = self.checksum_xor = self.value_bytes = 0
        self.partitions, self.offsets, self.at_ms = array("q"), array("q"), array("d")

    def __call__(self, error: TidelogError | None, record: SentRecord) -> None:
        if error is not None or record.partition is None or record.offset is None or record.timestamp_ms is None:
            self.error = error or TidelogError("a record was acknowledged without its offset")
            return
        one = checksum(record.partition, record.offset, record.timestamp_ms, record.key, record.value)
        self.count += 1
        self.checksum_sum += one
        self.checksum_xor ^= one
        self.value_bytes += len(record.key or b"") + len(record.value or b"")
        self.partitions.append(record.partition)
        self.offsets.append(record.offset)
        self.at_ms.append(time.time() * 1000)


def replay(
    url: str, topic: str, flights: Flights, *, records_per_second: int, on_progress: Callable[[int], None]
) -> Replayed:
    """Send every flight and wait until all are acknowledged.

    ``records_per_second``: the rate, 0: as fast as possible. ``on_progress``: called periodically with the number of
    acknowledged records; its exceptions end the replay. Raises ``NotAcknowledged``.
    """
    deliveries = _Deliveries()
    started = time.monotonic()
    sent = 0
    chunk_records = CHUNK_RECORDS_MAX
    if records_per_second:
        chunk_records = max(1, min(CHUNK_RECORDS_MAX, records_per_second // CHUNKS_PER_SECOND))
    with Producer(url, on_delivery=deliveries) as producer:
        try:
            for chunk in flights.chunks(chunk_records):
                for record in chunk:
                    producer.send(topic, record.value, key=record.key, timestamp_ms=record.timestamp_ms)
                sent += len(chunk)
                _check(deliveries)
                on_progress(deliveries.count)
                if records_per_second:
                    time.sleep(max(0.0, started + sent / records_per_second - time.monotonic()))
            producer.flush()
        except BaseException:
            producer.close(timeout=CLOSE_SECONDS)
            raise
    seconds = time.monotonic() - started
    _check(deliveries)
    on_progress(deliveries.count)
    return Replayed(
        summary=Summary(deliveries.count, deliveries.checksum_sum, deliveries.checksum_xor),
        acknowledgements=Acknowledgements(
            np.array(deliveries.partitions), np.array(deliveries.offsets), np.array(deliveries.at_ms)
        ),
        value_bytes=deliveries.value_bytes,
        seconds=seconds,
    )


def _check(deliveries: _Deliveries) -> None:
    if deliveries.error is not None:
        raise NotAcknowledged(f"A record was not acknowledged: {deliveries.error}") from deliveries.error
