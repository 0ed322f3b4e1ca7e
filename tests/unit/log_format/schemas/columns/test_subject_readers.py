"""Readers of topics' schemas in a process without a gateway."""

from __future__ import annotations

import gc
from pathlib import Path

import pyarrow as pa
import pytest

from log_format.clock import SystemClock
from log_format.errors import RequestRefused
from log_format.schemas.columns.codec import SchemaReader
from log_format.schemas.columns.subject_readers import StoredReaders
from log_format.stores.local import LocalStore
from log_format.topic.config import Subjects
from tests.support.records import records_of
from tests.support.registry import record
from tests.support.typed_topic import register_schema

SUBJECTS = Subjects("orders-value")


def test_a_version_registered_since_is_known_at_the_next_look(tmp_path: Path) -> None:
    """Without a gateway, and the readers are made once for each state of the registry."""
    store = str(tmp_path)
    readers = StoredReaders(LocalStore(tmp_path), SystemClock())
    with pytest.raises(RequestRefused, match="has no schema"):
        readers.newest(SUBJECTS)
    assert readers.type_records(SUBJECTS, records_of([b"{}"], [None], 0)) is None
    register_schema(store, SUBJECTS.value, record("Order", id="long"))
    first = readers.newest(SUBJECTS)
    assert first.columns.data == pa.struct([("id", pa.int64())])
    assert readers.newest(SUBJECTS) is first
    register_schema(store, SUBJECTS.value, record("Order", id="long", note=(["null", "string"], None)))
    assert readers.newest(SUBJECTS).columns.data == pa.struct([("id", pa.int64()), ("note", pa.string())])
    typed = readers.type_records(SUBJECTS, records_of([b'{"id":1,"note":"n"}', b"{}"], [None, None], 0))
    assert typed is not None
    assert typed.column("data").to_pylist() == [{"id": 1, "note": "n"}, None]
    assert typed.column("data_error").to_pylist() == [None, "value.id: it is missing"]


def test_a_version_is_read_by_one_reader_in_each_state_of_its_subject(tmp_path: Path) -> None:
    """Ten states of a subject with ten versions take ten readers, and not one for each version of each state."""
    readers = StoredReaders(LocalStore(tmp_path), SystemClock())
    kept = []
    gc.collect()
    before = sum(type(one) is SchemaReader for one in gc.get_objects())
    for number in range(10):
        register_schema(str(tmp_path), SUBJECTS.value, record("Order", id="long", **{f"n{number}": ("int", 0)}))
        kept.append(readers.newest(SUBJECTS))
    assert len(set(map(id, kept))) == 10
    assert sum(type(one) is SchemaReader for one in gc.get_objects()) - before == 10
