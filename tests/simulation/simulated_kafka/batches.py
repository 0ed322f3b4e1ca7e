"""Record batches of Kafka's clients, by aiokafka: what a producer sends, and what a consumer makes of an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from tests.simulation.simulated.scheduler import EPOCH_MS
from tests.simulation.simulated.truth import Violation


class Identity(NamedTuple):
    """The id and the epoch of a producer."""

    producer_id: int = -1
    epoch: int = -1


NOBODY = Identity()


def batch(values: Sequence[bytes], by: Identity = NOBODY, sequence: int = -1, *, transactional: bool = False) -> bytes:
    """The records, uncompressed."""
    builder = DefaultRecordBatchBuilder(2, 0, int(transactional), by.producer_id, by.epoch, sequence, 1 << 20)
    for number, value in enumerate(values):
        builder.append(number, EPOCH_MS, None, value, [])
    return bytes(builder.build())


class Read(NamedTuple):
    """What batches have: offset and value of each record, where they begin and where to go on."""

    records: list[tuple[int, bytes]]
    first_offset: int
    next_offset: int


def read(data: bytes, asked_offset: int) -> Read:
    """Whole batches, from the first one's base offset on. Raises ``Violation`` where a checksum is wrong."""
    batches, records = MemoryRecords(data), []
    first, following = None, asked_offset
    while (one := batches.next_batch()) is not None:
        if not one.validate_crc():
            raise Violation(f"a batch with a wrong checksum, read from {asked_offset}")
        first = one.base_offset if first is None else first
        records += [(record.offset, record.value or b"") for record in one]
        following = one.next_offset
    return Read(records, asked_offset if first is None else first, following)
