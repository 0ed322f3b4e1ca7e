"""The decoding of a Produce request's batches to Arrow, and the check of their records against the topics' settings.

Batches of one topic that are not compressed are decoded together: a step over the columns of several costs little more than over
those of one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import pyarrow as pa
from kio.schema.errors import ErrorCode as KafkaError

from gateway.kafka.call import KafkaCall
from gateway.kafka.calls.produce_stages import AdmittedBatch, DecodedBatch, PartitionAnswer
from gateway.kafka.calls.refused_records import RECORD_ERRORS_MAX, RefusedRecords, check_records, refuse_some
from gateway.kafka.wire.compression import TooLarge
from gateway.kafka.wire.decoding import UnknownCodec, decode, decode_together
from gateway.kafka.wire.few_records import RECORDS_MAX as FEW_RECORDS
from gateway.kafka.wire.reading import Malformed
from gateway.typed_topics.typed_records import too_wide
from log_format.records.deferred import DeferredRecords
from log_format.records.single import SingleRecord, records_to_table
from log_format.records.size import SMALL_TABLE_RECORDS, all_record_bytes, largest_record_bytes, record_bytes
from log_format.schemas.columns.codec import Misfit, RecordReaders
from log_format.topic.config import Subjects

ReadersBySubjects = Mapping[Subjects, RecordReaders]
NO_READERS: Final[ReadersBySubjects] = MappingProxyType({})


def decode_all(
    call: KafkaCall,
    parts: Sequence[AdmittedBatch | DecodedBatch | PartitionAnswer],
    readers: ReadersBySubjects = NO_READERS,
) -> list[DecodedBatch | PartitionAnswer]:
    """Decode the batches, each refused by itself. Takes long for many records, or compressed ones: then run it in a thread.

    All batches of a request take at most ``request_bytes_max`` of memory, decompressed. ``readers``: readers of the schemas of
    their topics. A batch that goes on without being decoded here is returned as it is.
    """
    left = call.gateway.settings.request_bytes_max
    together = _decode_by_topic(call, parts, left)
    found: list[DecodedBatch | PartitionAnswer] = []
    for part in parts:
        if not isinstance(part, AdmittedBatch):
            found.append(part)
            continue
        try:
            one = together.get(part) or _decode(call, part, left)
        except TooLarge:
            found.append(PartitionAnswer(part.partition, KafkaError.message_too_large))
        except UnknownCodec:
            found.append(PartitionAnswer(part.partition, KafkaError.unsupported_compression_type))
        except Malformed:
            found.append(PartitionAnswer(part.partition, KafkaError.invalid_record))
        else:
            left -= max(one.size_bytes, len(part.batch))
            found.append(one)
    return check_schemas(found, readers)


def check_schemas(
    parts: Sequence[DecodedBatch | PartitionAnswer], readers: ReadersBySubjects
) -> list[DecodedBatch | PartitionAnswer]:
    """Return the batches with their typed columns, each refused by itself for records that are not of the topic's schemas, unless
    the topic marks them. The records of all batches with the same schemas are checked at once."""
    found = list(parts)
    for subjects, reader in readers.items():
        numbers = [
            number
            for number, part in enumerate(parts)
            if isinstance(part, DecodedBatch)
            and part.refused is None
            and part.typed is None
            and part.admitted.state.config.subjects == subjects
        ]
        batches = [part for number in numbers if isinstance(part := parts[number], DecodedBatch)]
        tables = [_table(part) for part in batches]
        fitting, wide = _fitting(batches, tables, reader)
        for at in wide:
            what = too_wide(tables[at].num_rows, reader.width)
            found[numbers[at]] = replace(batches[at], refused=refuse_some(KafkaError.message_too_large, what, {}))
        numbers, batches = [numbers[at] for at in fitting], [batches[at] for at in fitting]
        tables = [tables[at] for at in fitting]
        if not tables:
            continue
        typed, misfits = reader.typed(pa.concat_tables([table.select(["key", "value"]) for table in tables]))
        start = 0
        for number, part, table in zip(numbers, batches, tables, strict=True):
            end = start + table.num_rows
            first, last = (bisect_left(misfits, row, key=lambda misfit: misfit.row) for row in (start, end))
            own = [replace(misfit, row=misfit.row - start) for misfit in misfits[first:last]]
            columns = typed.slice(start, table.num_rows)
            found[number] = replace(part, records=table, typed=columns, misfits=own, refused=_refuse_misfits(part, own))
            start = end
    return found


def _fitting(
    parts: Sequence[DecodedBatch], tables: Sequence[pa.Table], reader: RecordReaders
) -> tuple[list[int], list[int]]:
    """Return the places of the batches whose columns together are not too many values, and of those that are too much."""
    fitting: list[int] = []
    wide: list[int] = []
    count = size_bytes = 0
    for at, (part, table) in enumerate(zip(parts, tables, strict=True)):
        takes = reader.takes(count + table.num_rows, size_bytes + part.size_bytes)
        (fitting if takes else wide).append(at)
        if takes:
            count, size_bytes = count + table.num_rows, size_bytes + part.size_bytes
    return fitting, wide


def _table(part: DecodedBatch) -> pa.Table:
    assert not isinstance(part.records, DeferredRecords)
    return records_to_table([part.records]) if isinstance(part.records, SingleRecord) else part.records


def _refuse_misfits(part: DecodedBatch, misfits: Sequence[Misfit]) -> RefusedRecords | None:
    # A dead letter is marked here: a batch's records have adjacent offsets and numbers, so none may leave its batch.
    if not misfits or part.admitted.state.config.choice("data.on.error") != "reject":
        return None
    told = {misfit.row: str(misfit) for misfit in misfits[:RECORD_ERRORS_MAX]}
    return refuse_some(KafkaError.invalid_record, "A record is not of the topic's schema.", told)


def _decode_by_topic(
    call: KafkaCall, parts: Sequence[AdmittedBatch | DecodedBatch | PartitionAnswer], bytes_max: int
) -> dict[AdmittedBatch, DecodedBatch]:
    """Decode together what can be. Only batches of one topic, since they share memory until its flush.

    Leaves out a topic of which one batch is malformed or too large: its batches are decoded one by one, to refuse only that one.
    """
    by_topic: dict[str, list[AdmittedBatch]] = {}
    for part in parts:
        if isinstance(part, AdmittedBatch) and not part.head.codec and part.head.count > FEW_RECORDS:
            by_topic.setdefault(part.name, []).append(part)
    found: dict[AdmittedBatch, DecodedBatch] = {}
    for some in by_topic.values():
        if len(some) == 1:
            continue
        try:
            records = decode_together(
                [part.head for part in some], [part.batch for part in some], call.arrived_at_ms, bytes_max
            )
        except (Malformed, TooLarge):
            continue
        sizes, start = record_bytes(records), 0
        for part in some:
            end = start + part.head.count
            own = sizes[start:end]
            own_records = records.slice(start, part.head.count)
            found[part] = _check_records(call, part, own_records, int(own.max()), int(own.sum()))
            start = end
    return found


def _decode(call: KafkaCall, part: AdmittedBatch, bytes_max: int) -> DecodedBatch:
    """Decode one batch. Raises ``TooLarge``, ``UnknownCodec``, ``Malformed``."""
    records = decode(part.head, part.batch, call.arrived_at_ms, bytes_max)
    if isinstance(records, SingleRecord):
        return _check_records(call, part, records, records.size_bytes, records.size_bytes)
    if records.num_rows <= SMALL_TABLE_RECORDS:
        return _check_records(call, part, records, largest_record_bytes(records), all_record_bytes(records))
    sizes = record_bytes(records)
    return _check_records(call, part, records, int(sizes.max()), int(sizes.sum()))


def _check_records(
    call: KafkaCall, part: AdmittedBatch, records: pa.Table | SingleRecord, largest_bytes: int, size_bytes: int
) -> DecodedBatch:
    refused = check_records(records, part.state.config, largest_bytes, call.arrived_at_ms)
    return DecodedBatch(part, records, largest_bytes, size_bytes, refused)
