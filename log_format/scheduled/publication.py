"""The publications of a window: their records, and their numbers.

The blocks of a window's objects that overlap its times, sorted by object and row, are cut into publications of at most
``PUBLICATION_BLOCKS`` blocks; a publication ends when ``PUBLICATION_BYTES`` are reached. Publication ``b`` of window ``n`` is a
request of the producer ``PUBLISHER`` with the epoch ``n * 2^20 + b`` and the sequence 0. So the topic's log refuses a second one
with that number, whichever process sends it, and every process cuts in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from log_format import limits
from log_format.records.schema import BATCH_SCHEMA
from log_format.scheduled.calendar import Window
from log_format.scheduled.delayed_records import with_scheduled_header
from log_format.scheduled.erasing import meant_rows
from log_format.scheduled.record_outcome import RecordOutcome, record_outcomes
from log_format.scheduled.scheduled_object import Block, ScheduledObject, due_times
from log_format.topic.append import Batch
from log_format.topic.erasures import Erasure, Judge
from log_format.topic.producer_id import PUBLISHER
from log_format.topic.producers import ProducerStamp

NUMBERS_PER_WINDOW: Final = 1 << 20

Part = tuple[str, ScheduledObject, Block]
"""Block of an object, with the object's name."""


class PublicationCutter:
    """A cutter of a window's blocks into publications."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._parts: list[Part] = []
        self._bytes = 0

    def add(self, name: str, one: ScheduledObject) -> Iterator[list[Part]]:
        """Add the window's next object, in order, and yield the publications that are complete. Deleted objects were
        published."""
        for block in one.index.blocks:
            if block.last_due <= self._window.after_ms or block.first_due > self._window.until_ms:
                continue
            self._parts.append((name, one, block))
            self._bytes += block.size_bytes
            if len(self._parts) == limits.PUBLICATION_BLOCKS or self._bytes >= limits.PUBLICATION_BYTES:
                yield self.finish()

    def finish(self) -> list[Part]:
        """Return the last publication; empty if there is none."""
        parts, self._parts, self._bytes = self._parts, [], 0
        return parts


def publication_epoch(number: int, publication: int) -> int:
    """Return the epoch of a window's publication."""
    assert publication < NUMBERS_PER_WINDOW
    return number * NUMBERS_PER_WINDOW + publication


def publication_batch(
    topic_id: str,
    window: Window,
    loaded: Iterable[tuple[Part, pa.Table]],
    epoch: int,
    now_ms: int,
    *,
    erasures: Sequence[Erasure],
    secret: bytes,
    judge: Judge | None = None,
) -> tuple[Batch, int] | None:
    """Return the batch of a publication, sorted by due time, and its first due time; None if no record is to be published.

    Args:
        topic_id: incarnation of the topic.
        window: the window.
        loaded: parts of the publication, with their rows.
        epoch: number of the publication.
        now_ms: timestamp of the records under ``LogAppendTime``.
        erasures: the topic's requests to erase, which leave out what was delayed before them.
        secret: the cluster's key.
        judge: gives columns to the records, for requests with conditions on them.
    """
    taken = []
    for (name, one, block), rows in loaded:
        numbers = np.arange(block.first_row, block.first_row + block.row_count, dtype=np.int64)
        found = record_outcomes((window,), name, due_times(rows), numbers)
        found = (found == RecordOutcome.TAKEN) & ~meant_rows(one, rows, erasures, secret, judge)
        taken.append(rows.filter(pa.array(found)))
    table = pa.concat_tables(taken).combine_chunks()
    if not table.num_rows:
        return None
    table = table.take(pa.array(np.argsort(due_times(table), kind="stable"))).combine_chunks()
    batch = Batch(
        topic_id=topic_id,
        records=with_scheduled_header(table.select(BATCH_SCHEMA.names), due_times(table)),
        partitions=table.column("partition").to_numpy().astype(np.int32),
        record_bytes_max=0,  # checked when they were sent: a delayed record can't be refused
        stamp=ProducerStamp(PUBLISHER, epoch, 0),
        append_time_ms=now_ms,
        erasures=frozenset(erasure.erasure_id for erasure in erasures),
    )
    return batch, int(due_times(table)[0])
