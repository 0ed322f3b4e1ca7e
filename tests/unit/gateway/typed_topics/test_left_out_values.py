"""Values that are left out are made when someone reads them, and not while their batch is appended."""

from __future__ import annotations

import pyarrow as pa

from log_format.records.left_out import with_values
from log_format.records.typed_columns import DATA, DATA_ERROR
from log_format.topic.append import Batch
from log_format.topic.config import Subjects
from tests.support import records
from tests.support.cpu_time import cpu_seconds, is_cheap
from tests.support.engine import Gateway

COUNT = 100_000


async def test_an_append_makes_no_documents(gateway: Gateway) -> None:
    """The event loop's part of an append takes a quarter of the time that the documents of its records would take, at most."""
    topic = await gateway.topic(flush_ms=60_000)
    plain = records.batch_of(topic.state.topic_id, [None] * COUNT, timestamps_ms=gateway.engine.clock.now_ms())
    data = pa.array([{"id": number, "name": "a"} for number in range(COUNT)])
    typed = pa.table({DATA: data, DATA_ERROR: pa.nulls(COUNT, pa.string())})
    batch = Batch(
        topic_id=plain.topic_id,
        records=plain.stored,
        partitions=0,
        record_bytes_max=plain.record_bytes_max,
        typed=typed,
        subjects=Subjects("s"),
        has_left_out=True,
    )
    documents = plain.stored.append_column(DATA, data)
    submitted = [topic.submit(batch)]
    assert is_cheap(lambda: submitted.append(topic.submit(batch)), cpu_seconds(lambda: with_values(documents)) / 4)
