"""Records that a query's options leave out are left out where they are read."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from log_format.records.schema import HEADERS
from log_format.topic.append import Append, Batch
from spark_pipeline.schemas import KAFKA_SOURCE
from spark_pipeline.source.batch import BatchReader
from spark_pipeline.source.options import parse_options
from spark_pipeline.source.stream import StreamReader
from tests.support.records import batch_of
from tests.support.source_bench import SourceBench, new_id

OPTIONS = {"store": "x", "subscribe": "t"}
NARROW = StructType([KAFKA_SOURCE["offset"]])


@pytest.fixture
def filled(bench: SourceBench) -> SourceBench:
    """Offsets 0 to 59 in partition 0: key ``k`` and a number of six, a header ``type`` of two values; twelve have none."""
    for first in range(0, 60, 20):
        numbers = range(first, first + 20)
        batch = batch_of(bench.log.state.topic_id, [b""] * 20, keys=[b"k%d" % (number % 6) for number in numbers])
        headers = [[("type", b"ab"[number % 2 :][:1])] if number % 5 else None for number in numbers]
        records = batch.records.set_column(3, "headers", pa.array(headers, HEADERS))
        with_headers = Batch(
            topic_id=batch.topic_id,
            records=records,
            partitions=batch.partitions,
            record_bytes_max=batch.record_bytes_max,
        )
        bench.committer.commit(Append([with_headers], new_id))
    return bench


def offsets(reader: BatchReader | StreamReader, tasks: list[object]) -> list[int]:
    batches = [batch for task in tasks for batch in reader.read(task)]  # type: ignore[arg-type]
    return sorted(offset for batch in batches for offset in batch.column("offset").to_pylist())


def by_batch(schema: StructType = KAFKA_SOURCE, **options: str) -> list[int]:
    reader = BatchReader(parse_options(OPTIONS | options, streaming=False), schema)
    return offsets(reader, list(reader.partitions()))


@pytest.mark.parametrize("schema", [KAFKA_SOURCE, NARROW])
def test_a_batch(filled: SourceBench, schema: StructType) -> None:
    """Headers and key; both must hold; the columns need not be asked for."""
    typed = [offset for offset in range(60) if offset % 5 and offset % 2]
    keyed = [offset for offset in range(60) if offset % 6 == 3]
    both = sorted({*typed} & {*keyed})
    assert by_batch(schema) == [*range(60)]
    assert by_batch(schema, filterHeaders='["type:b"]') == typed
    assert by_batch(schema, filterHeaders='["type:*", "type:a"]', filterKey="k3") == []
    assert by_batch(schema, filterKey="k3") == keyed
    assert by_batch(schema, filterHeaders='["type:b"]', filterKey="k3") == both


def test_a_stream(filled: SourceBench) -> None:
    """Each micro-batch has the records that pass; its offsets are those of all."""
    options = OPTIONS | {"startingOffsets": "earliest", "filterHeaders": '["type:b"]'}
    reader = StreamReader(parse_options(options, streaming=True), NARROW)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert end["t"]["0"] == 60
    assert offsets(reader, list(reader.partitions(start, end))) == [n for n in range(60) if n % 5 and n % 2]
