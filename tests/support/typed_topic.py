"""A typed topic that the format's own committer writes, as a gateway would."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.delta.committer import Committer
from log_format.delta.log import TableLog
from log_format.layout import topic_root
from log_format.schemas.changes import Decide, Register, compared
from log_format.schemas.columns.subject_readers import StoredReaders
from log_format.schemas.decision import Decided
from log_format.schemas.deletions import DeleteSubject
from log_format.schemas.schema import Schema, SchemaType
from log_format.schemas.state import schemas_table
from log_format.store import ObjectStore
from log_format.stores import open_store
from log_format.topic.append import Append, Batch
from log_format.topic.changes import AlterTopic
from tests.support.records import records_of
from tests.support.topic_writer import TopicWriter, new_id


def register_schema(store_uri: str, subject: str, text: str, kind: SchemaType = SchemaType.AVRO) -> int:
    """Register a version of a subject, and return the schema's id."""
    return register_in(open_store(store_uri), subject, text, kind)


def register_in(store: ObjectStore, subject: str, text: str, kind: SchemaType = SchemaType.AVRO) -> int:
    """Register a version of a subject in a store, and return the schema's id."""
    log = TableLog(store, schemas_table(), SystemClock())
    log.refresh()
    change = Register(subject=subject, schema=Schema(type=kind, text=text), compared=compared(log.state, subject))
    (outcome,) = Committer(log, new_id=new_id).commit(Decide([change], new_id)).result
    assert isinstance(outcome, Decided), outcome
    newest = log.state.latest(subject)
    assert newest is not None
    return newest.schema_id


def delete_in(store: ObjectStore, subject: str) -> None:
    """Delete all versions of a subject in a store."""
    log = TableLog(store, schemas_table(), SystemClock())
    log.refresh()
    change = Decide([DeleteSubject(subject=subject, permanent=False)], new_id)
    (outcome,) = Committer(log, new_id=new_id).commit(change).result
    assert isinstance(outcome, Decided), outcome


def stored_columns(store: ObjectStore, topic: str) -> list[tuple[Any, str | None]]:
    """``data`` and ``data_error`` of each record in the topic's own table, by partition and offset."""
    state = TopicLog(store, topic, SystemClock()).refresh()
    tables = [
        pq.read_table(io.BytesIO(store.get(f"{topic_root(topic)}{segment.path}")))
        for segment in state.manifest.segments()
    ]
    rows = [row for table in tables for row in table.to_pylist()]
    rows.sort(key=lambda row: (row["partition"], row["offset"]))
    return [(row.get("data"), row.get("data_error")) for row in rows]


class TypedWriter:
    """A topic whose values have a schema: each ``append`` is one segment and one commit, with columns."""

    def __init__(self, store_uri: str, topic: str, schema: str, kind: SchemaType = SchemaType.AVRO, **config: str):
        self.subject = f"{topic}-value"
        self._uri, self._kind = store_uri, kind
        self.schema_id = register_schema(store_uri, self.subject, schema, kind)
        self._readers = StoredReaders(open_store(store_uri), SystemClock())
        named = {name.replace("_", "."): value for name, value in config.items()}
        self.writer = TopicWriter(store_uri, topic, config=named)
        self.alter()

    def alter(self) -> None:
        """Give the topic its schema, and the table the columns of it."""
        columns = self._readers.newest(self.subjects).columns
        change = AlterTopic(partition_count=None, config={"value.schema": self.subject}, columns=columns)
        self.writer.committer.commit(change)

    @property
    def subjects(self) -> Any:
        """The topic's subjects, as they are or will be."""
        return self.writer.log.state.config.subjects._replace(value=self.subject)

    def register(self, schema: str) -> int:
        """Register a further version."""
        return register_schema(self._uri, self.subject, schema, self._kind)

    def append(self, values: Sequence[Any], *, partition: int = 0, timestamp_ms: int = 1_763_683_200_000) -> None:
        """One commit with these values: bytes as they are, None, or anything else as a JSON document."""
        coded = [one if one is None or isinstance(one, bytes) else json.dumps(one).encode() for one in values]
        records = records_of(coded, [None] * len(coded), timestamp_ms)
        state = self.writer.log.refresh()
        assert state.topic_id is not None
        batch = Batch(
            topic_id=state.topic_id,
            records=records,
            partitions=np.full(len(coded), partition, np.int32),
            record_bytes_max=1,
            typed=self._readers.newest(self.subjects).typed(records)[0],
            subjects=state.config.subjects,
        )
        committed = self.writer.committer.commit(Append([batch], new_id))
        assert not isinstance(committed.result[0], Exception), committed.result[0]
