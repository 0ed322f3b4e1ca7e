"""Arrow bodies with the columns of typed values: stored as they came, checked in bulk, and read as documents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from tests.support.registry import record
from tests.support.typed_gateway import TypedGateway, typed_gateway
from tidelog import Producer, schemas

ORDER = record("Order", id="long", amount="double", note=(["null", "string"], None))
STRICT = json.dumps(
    {
        "type": "object",
        "properties": {
            "id": {"type": "integer", "minimum": 1},
            "kind": {"enum": ["A", "B"], "type": "string"},
            "at": {"type": "string", "format": "date-time"},
        },
        "required": ["id"],
        "additionalProperties": False,
    }
)


def create(typed: TypedGateway, topic: str, schema: str, **config: Any) -> None:
    """Create a topic of a schema."""
    kind = "AVRO" if '"fields"' in schema else "JSON"
    typed.registry.register(f"{topic}-value", schema, schemaType=kind)
    typed.create(topic, value_schema=f"{topic}-value", **config)


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TypedGateway]:
    """One gateway for all tests here; each has its own topic and subject."""
    with typed_gateway(tmp_path_factory.mktemp("arrow")) as made:
        yield made


def test_columns_are_stored_as_they_came(typed: TypedGateway) -> None:
    """Narrower types and another order do; the value is the record as a document; a null row is a tombstone."""
    create(typed, "columns", ORDER)
    data = pa.StructArray.from_arrays(
        [pa.array([1.5, 2.0, 0.0], pa.float32()), pa.array([1, 2, 3], pa.int16()), pa.array(["a", None, None])],
        names=["amount", "id", "note"],
        mask=pa.array([False, False, True]),
    )
    assert typed.columns("columns", {"key": ["a", "b", "a"], "data": data}).status_code == 200
    documents = [{"id": 1, "amount": 1.5, "note": "a"}, {"id": 2, "amount": 2.0, "note": None}, None]
    assert typed.table("columns").column("data").to_pylist() == documents
    assert typed.documents("columns") == [documents[0], {"id": 2, "amount": 2.0}, None]


def test_a_wrong_row_is_named(typed: TypedGateway) -> None:
    """Nothing of the request is stored; the answer names the row and the member; bounds and enumerations are checked."""
    create(typed, "strict", STRICT)
    data = pa.array([{"id": 1, "kind": "A"}, {"id": 0, "kind": "A"}, {"id": 2, "kind": "C"}, {"id": None}])
    answer = typed.columns("strict", {"data": data})
    assert (answer.status_code, answer.json()["error_code"]) == (400, "INVALID_RECORD")
    found = {error["where"]: error["what"] for error in answer.json()["errors"]}
    assert list(found) == ["/records/1/data/id", "/records/2/data/kind", "/records/3/data/id"]
    assert found["/records/2/data/kind"] == "it must be one of A, B"
    assert typed.table("strict").num_rows == 0


def test_a_column_that_does_not_fit_is_named(typed: TypedGateway) -> None:
    """A wrong type and an unknown member are wrong for all rows; a topic without a schema takes no columns."""
    create(typed, "named", ORDER)
    for data, where in (({"id": "1", "amount": 1.0}, "/data/id"), ({"id": 1, "other": 1}, "/data/other")):
        answer = typed.columns("named", {"data": pa.array([data])})
        assert (answer.status_code, answer.json()["errors"][0]["where"]) == (400, where)
    assert typed.http.post("/v1/topics", json={"name": "plain"}).status_code == 201
    answer = typed.columns("plain", {"data": pa.array([{"id": 1}])})
    assert answer.status_code == 400
    assert "value.schema" in answer.json()["detail"]


def test_a_new_member_widens_the_table(typed: TypedGateway) -> None:
    """A column of a version that was registered a moment ago is known when it comes."""
    create(typed, "wider", ORDER)
    later = record("Order", id="long", amount="double", note=(["null", "string"], None), more=(["null", "int"], None))
    assert typed.columns("wider", {"data": pa.array([{"id": 1, "amount": 1.0}])}).status_code == 200
    typed.registry.register("wider-value", later)
    assert typed.columns("wider", {"data": pa.array([{"id": 2, "amount": 1.0, "more": 5}])}).status_code == 200
    assert [row["more"] for row in typed.table("wider").column("data").to_pylist()] == [None, 5]
    assert typed.documents("wider")[1] == {"id": 2, "amount": 1.0, "more": 5}


def test_marked_rows_keep_what_was_sent(typed: TypedGateway) -> None:
    """With data.on.error mark, a row that does not fit is stored as a document of what came, with the reason."""
    create(typed, "marked", STRICT, data_on_error="mark")
    data = pa.array([{"id": 1, "kind": "A"}, {"id": 0, "kind": "C"}])
    assert typed.columns("marked", {"data": data}).status_code == 200
    table = typed.table("marked")
    assert [row is None for row in table.column("data").to_pylist()] == [False, True]
    assert table.column("data_error")[1].as_py() == "value.kind: it must be one of A, B"
    assert typed.documents("marked") == [{"id": 1, "kind": "A"}, {"id": 0, "kind": "C"}]


def test_columns_in_a_transaction_and_delayed(typed: TypedGateway) -> None:
    """Records that are appended later come as columns, too."""
    create(typed, "later", ORDER)
    begun = typed.http.post("/v1/transactions", json={"transactional_id": "arrow"}).json()["transaction_id"]
    data = pa.array([{"id": 1, "amount": 1.0}])
    answer = typed.columns("later", {"data": data, "partition": [0]}, **{"Tidelog-Transaction": begun})
    assert answer.status_code == 202, answer.text
    assert typed.http.post(f"/v1/transactions/{begun}:commit").status_code == 200
    answer = typed.columns("later", {"data": data, "deliver_after_ms": [3_600_000]})
    assert len(answer.json()["scheduled"]) == 1
    assert typed.documents("later") == [{"id": 1, "amount": 1.0}]


def test_documents_are_bounded_as_bodies_are(typed: TypedGateway) -> None:
    """Columns that would become documents larger than a request may be are refused, and so is one record that is too large."""
    names = [f"member_{index:04}_{'x' * 40}" for index in range(500)]
    create(typed, "large", record("Wide", **dict.fromkeys(names, "boolean")))
    rows = pa.StructArray.from_arrays([pa.repeat(pa.scalar(True), 2_000)] * len(names), names=names)
    answer = typed.columns("large", {"data": rows})
    assert (answer.status_code, answer.json()["error_code"]) == (413, "REQUEST_TOO_LARGE")
    create(typed, "small", ORDER, max_message_bytes="50")
    answer = typed.columns("small", {"data": pa.array([{"id": 1, "amount": 1.0, "note": "x" * 50}])})
    assert (answer.status_code, answer.json()["error_code"]) == (413, "RECORD_TOO_LARGE")


def test_a_data_frame_is_sent_as_columns(typed: TypedGateway) -> None:
    """Its schema types the topic, its columns are members, and others stay the records' own."""
    frame = pd.DataFrame({"user": ["u1", "u2"], "id": [1, 2], "kind": pd.Categorical(["a", "b"])})
    members = ["id", "kind"]
    url = str(typed.http.base_url)
    table = pa.table(frame)
    schemas.register(table.select(members).schema, "frames-value", bootstrap_servers=url)
    config = {"value.schema": "frames-value"}
    assert typed.http.post("/v1/topics", json={"name": "frames", "partition_count": 1, "config": config}).is_success
    with Producer(url) as producer:
        sent = producer.send_table("frames", frame.rename(columns={"user": "key"}), data=members)
        assert sent.result(timeout=30).count == 2
        with pytest.raises(ValueError, match="no column 'other'"):
            producer.send_table("frames", frame, data=["other"])
    stored = typed.table("frames")
    assert stored.column("key").to_pylist() == [b"u1", b"u2"]
    assert stored.column("data").to_pylist() == [{"id": 1, "kind": "a"}, {"id": 2, "kind": "b"}]
