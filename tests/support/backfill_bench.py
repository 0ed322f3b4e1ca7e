"""A topic ``t`` with records of before it had a schema, and maintenance that gives them columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from log_format.records.schema import RECORD_SCHEMA
from log_format.schemas.columns.codec import RecordReaders
from log_format.schemas.columns.subject_readers import StoredReaders
from log_format.schemas.schema import SchemaType
from log_format.segments.scan import scan_segment
from log_format.topic.append import Append, Batch
from log_format.topic.changes import AlterTopic
from log_format.topic.config import Subjects
from tests.support.maintenance_bench import MaintenanceBench
from tests.support.records import batch_of
from tests.support.typed_topic import register_in

VALUE = "orders-value"
SUBJECTS = Subjects(VALUE)


class BackfillBench(MaintenanceBench):
    """The bench of maintenance, with a registry in its store."""

    def register(self, text: str, subject: str = VALUE, kind: SchemaType = SchemaType.AVRO) -> int:
        """Register a version of a subject; its id."""
        return register_in(self.store, subject, text, kind)

    def readers(self, subjects: Subjects = SUBJECTS) -> RecordReaders:
        """Readers of what is registered."""
        return StoredReaders(self.store, self.clock).newest(subjects)

    def alter(self, subjects: Subjects = SUBJECTS, *, backfill: bool = True) -> None:
        """Give the topic its schemas, as a gateway does, and let maintenance give columns to what is there."""
        config = {"value.schema": subjects.value or None, "key.schema": subjects.key or None}
        config |= {"data.backfill": "on" if backfill else "off", "data.on.error": "mark"}
        self.commit(AlterTopic(partition_count=None, config=config, columns=self.readers(subjects).columns))

    def produce(self, *values: Any, partition: int = 0, keys: Sequence[bytes | None] | None = None) -> None:
        """One flush as gateways make it now: with columns where the topic has a schema; JSON of what is not bytes or None."""
        self.log.refresh()
        coded = [one if one is None or isinstance(one, bytes) else json.dumps(one).encode() for one in values]
        times = [self.clock.now_ms() + number for number in range(len(coded))]
        plain = batch_of(self.log.state.topic_id, coded, partition, keys=keys, timestamps_ms=times, record_bytes_max=10)
        subjects = self.log.state.config.subjects
        batch = Batch(
            topic_id=plain.topic_id,
            records=plain.records,
            partitions=np.full(len(coded), partition, np.int32),
            record_bytes_max=10,
            typed=self.readers(subjects).typed(plain.records)[0] if subjects.are_set else None,
            subjects=subjects,
        )
        (outcome,) = self.commit(Append([batch], self.new_id))
        assert not isinstance(outcome, Exception), outcome

    def records(self) -> pa.Table:
        """Every record as every reader gets it, by partition and offset."""
        tables = [
            table.select(RECORD_SCHEMA.names)
            for segment in self.log.refresh().manifest.segments()
            for table in scan_segment(self.store, "t", segment)
        ]
        return pa.concat_tables(tables).sort_by([("partition", "ascending"), ("offset", "ascending")]).combine_chunks()

    def columns(self) -> list[dict[str, Any]]:
        """The typed columns of every record, by partition and offset, as any reader of Parquet has them."""
        rows: list[dict[str, Any]] = []
        for segment in self.log.refresh().manifest.segments():
            rows += pq.read_table(pa.BufferReader(self.store.get(f"topics/t/{segment.path}"))).to_pylist()
        rows.sort(key=lambda row: (row["partition"], row["offset"]))
        return [{name: row.get(name) for name in ("data", "key_data", "data_error")} for row in rows]

    def adds(self) -> list[dict[str, Any]]:
        """The ``add`` of each segment that is in the table."""
        paths = {segment.path for segment in self.log.refresh().manifest.segments()}
        found = [
            json.loads(line)["add"]
            for info in self.store.list("topics/t/_delta_log/")
            if info.key.endswith(".json")
            for line in self.store.get(info.key).splitlines()
            if line.startswith(b'{"add"')
        ]
        return [one for one in found if one["path"] in paths]

    def left(self) -> int:
        """Segments that the next backfill would rewrite."""
        return sum("data" not in json.loads(one["tags"].get("tidelog.typed", "[]")) for one in self.adds())
