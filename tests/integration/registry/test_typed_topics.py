"""Typed topics by HTTP and by a Kafka client, with columns that a Delta reader sees."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import fastavro
import httpx
import pytest
from confluent_kafka import KafkaError, Producer

from log_format.clock import SystemClock
from log_format.delta.log import TableLog
from log_format.schemas.state import schemas_table
from log_format.stores.local import LocalStore
from tests.support.registry import record
from tests.support.typed_gateway import TypedGateway, typed_gateway
from tests.support.waiting import until

ORDER = record("Order", id="long", amount="double")
LATER = record("Order", id="long", amount="double", note=(["null", "string"], None))
DOCUMENT = json.dumps(
    {
        "type": "object",
        "properties": {"id": {"type": "integer", "minimum": 1}, "name": {"type": "string"}},
        "required": ["id"],
        "additionalProperties": False,
    }
)


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TypedGateway]:
    """One gateway for all tests here; each has its own topic and subject."""
    with typed_gateway(tmp_path_factory.mktemp("typed")) as made:
        yield made


def framed(schema_id: int, schema: str, value: Any) -> bytes:
    """A value as Confluent's Avro serializer writes it."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(schema)), value)
    return b"\0" + schema_id.to_bytes(4, "big") + stream.getvalue()


def test_documents_become_columns_at_the_acknowledgement(typed: TypedGateway) -> None:
    """What was acknowledged is there for the next query, with types; the value is what was sent."""
    typed.registry.register("documents-value", ORDER)
    typed.create("documents", value_schema="documents-value")
    assert typed.produce("documents", {"id": 1, "amount": 3.5}, None).status_code == 200
    table = typed.table("documents")
    assert table.column("data").to_pylist() == [{"id": 1, "amount": 3.5}, None]
    assert json.loads(table.column("value")[0].as_py()) == {"id": 1, "amount": 3.5}
    assert table.column("data_error").null_count == 2


def test_a_wrong_document_refuses_the_request_by_its_path(typed: TypedGateway) -> None:
    """Nothing of the request is stored; the answer names the record, the member and what was expected."""
    typed.registry.register("strict-value", ORDER)
    typed.create("strict", value_schema="strict-value")
    answer = typed.produce("strict", {"id": 1, "amount": 1}, {"id": 2, "amount": "much"})
    assert (answer.status_code, answer.json()["error_code"]) == (400, "INVALID_RECORD")
    (error,) = answer.json()["errors"]
    assert error == {"where": "/records/1/value/amount", "what": "it must be a number, not a string"}
    assert typed.table("strict").num_rows == 0


def test_values_of_kafkas_serializers_are_read_by_their_schema(typed: TypedGateway) -> None:
    """Two versions side by side; a version that was registered a moment ago widens the table; wrong bytes are refused alone."""
    first = typed.registry.register("kafka-value", ORDER)
    typed.create("kafka", value_schema="kafka-value")
    second = typed.registry.register("kafka-value", LATER)
    old = framed(first, ORDER, {"id": 1, "amount": 1.0})
    new = framed(second, LATER, {"id": 2, "amount": 2.0, "note": "n"})
    errors = typed.sent("kafka", old, new, old[:-1], old + b"x", b"\0\0\0\xff\xff", b"text", b"", old)
    codes = [None if error is None else error.code() for error in errors]
    assert codes == [None, None, *[KafkaError.INVALID_RECORD] * 5, None]
    assert typed.table("kafka").column("data").to_pylist() == [
        {"id": 1, "amount": 1.0, "note": None},
        {"id": 2, "amount": 2.0, "note": "n"},
        {"id": 1, "amount": 1.0, "note": None},
    ]


def test_a_wrong_record_can_be_marked_instead(typed: TypedGateway) -> None:
    """It keeps its offset and its bytes, and says why it has no columns."""
    typed.registry.register("marked-value", DOCUMENT, schemaType="JSON")
    typed.create("marked", value_schema="marked-value", data_on_error="mark")
    assert typed.produce("marked", {"id": 1, "name": "a"}, {"id": 0}, {"id": 2, "other": 1}).status_code == 200
    assert typed.sent("marked", b"no JSON") == [None]
    table = typed.table("marked")
    assert [None if row is None else row["id"] for row in table.column("data").to_pylist()] == [1, None, None, None]
    reasons = table.column("data_error").to_pylist()
    assert reasons[0] is None
    assert "minimum" in reasons[1]
    assert reasons[2] == "value.other: the schema has no such member"
    assert table.column("value")[3].as_py() == b"no JSON"


def test_sql_at_the_gateway_has_the_columns(typed: TypedGateway) -> None:
    """Documents and values of serializers alike, reasons of marked records, and a topic that has no records yet."""
    schema_id = typed.registry.register("queried-value", ORDER)
    typed.create("queried", value_schema="queried-value", data_on_error="mark")

    def rows(sql: str) -> list[list[Any]]:
        answer = typed.http.post("/v1/sql", json={"sql": sql})
        assert answer.status_code == 200, answer.text
        found: list[list[Any]] = answer.json()["rows"]
        return found

    assert rows("select count(data.id) from queried") == [[0]]
    assert typed.produce("queried", {"id": 1, "amount": 3.5}, {"id": 2}, None).status_code == 200
    assert typed.sent("queried", framed(schema_id, ORDER, {"id": 1, "amount": 0.5})) == [None]
    assert rows("select data.id, sum(data.amount) from queried where data is not null group by 1") == [[1, 4.0]]
    assert rows("select value, data_error from queried where data_error is not null") == [
        ['{"id":2}', "value.amount: it is missing"]
    ]
    typed.create("plain")
    assert typed.http.post("/v1/sql", json={"sql": "select data from plain"}).status_code == 400


def test_keys_have_schemas_too(typed: TypedGateway) -> None:
    """A key's schema may be a primitive type."""
    typed.registry.register("keyed-key", '"long"')
    typed.create("keyed", key_schema="keyed-key")
    key = framed(typed.registry.register("keyed-key", '"long"'), '"long"', 77)
    producer = Producer({"bootstrap.servers": typed.gateway.kafka})
    producer.produce("keyed", b"anything", key=key)
    assert producer.flush(30) == 0
    assert typed.table("keyed").column("key_data").to_pylist() == [77]


def test_records_of_a_transaction_have_columns(typed: TypedGateway) -> None:
    """They are judged when they are sent, and get their columns when the transaction's records are appended."""
    typed.registry.register("transacted-value", ORDER)
    typed.create("transacted", value_schema="transacted-value")
    begun = typed.http.post("/v1/transactions", json={"transactional_id": "typed"}).json()
    headers = {"Tidelog-Transaction": begun["transaction_id"]}
    records = {"records": [{"value": {"id": 5, "amount": 1}}]}
    assert typed.http.post("/v1/topics/transacted/records", json=records, headers=headers).status_code == 202
    wrong = {"records": [{"value": {"id": 5}}]}
    assert typed.http.post("/v1/topics/transacted/records", json=wrong, headers=headers).status_code == 400
    assert typed.table("transacted").num_rows == 0
    assert typed.http.post(f"/v1/transactions/{begun['transaction_id']}:commit").status_code == 200
    assert typed.table("transacted").column("data").to_pylist() == [{"id": 5, "amount": 1.0}]


def test_a_stored_request_is_answered_again_whatever_schema_came_since(typed: TypedGateway) -> None:
    """A repeat is told where its records are, and is not refused as if they were nowhere; the next request is judged."""
    typed.registry.register("repeated-value", ORDER)
    typed.create("repeated")
    producer = typed.http.post("/v1/producers", json={}).json()

    def sent(sequence: int) -> httpx.Response:
        headers = {"Tidelog-Producer-Id": producer["producer_id"], "Tidelog-Producer-Epoch": "0"}
        headers["Tidelog-Producer-Sequence"] = str(sequence)
        records = {"records": [{"value": "of no schema"}]}
        return typed.http.post("/v1/topics/repeated/records", json=records, headers=headers)

    first = sent(0)
    assert first.status_code == 200
    assert typed.http.patch("/v1/topics/repeated", json={"config": {"value.schema": "repeated-value"}}).is_success
    again = sent(0)
    assert (again.status_code, again.json()["duplicate"]) == (200, True)
    assert again.json()["partitions"] == first.json()["partitions"]
    assert sent(1).status_code == 400
    typed.registry.call("DELETE", "/subjects/repeated-value")
    assert sent(0).json()["partitions"] == first.json()["partitions"]
    assert typed.table("repeated").num_rows == 1


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ('{"type":"record","name":"A","fields":[{"name":"a","type":["null","A"],"default":null}]}', "contains itself"),
        ('{"type":"record","name":"A","fields":[]}', "without members"),
        (record("A", a="int", A="int"), "upper and lower case"),
    ],
)
def test_a_schema_that_columns_cant_have_is_refused_by_its_member(
    typed: TypedGateway, schema: str, reason: str
) -> None:
    """The topic is not made, and the answer says what is wrong with the schema."""
    typed.registry.register(f"unfit {reason}", schema)
    answer = typed.http.post("/v1/topics", json={"name": "unfit", "config": {"value.schema": f"unfit {reason}"}})
    assert (answer.status_code, answer.json()["error_code"]) == (400, "INVALID_CONFIG")
    assert reason in answer.json()["detail"]


def test_a_subject_without_schemas_types_no_topic(typed: TypedGateway) -> None:
    """A mistyped name is found when it is set."""
    answer = typed.http.post("/v1/topics", json={"name": "unnamed", "config": {"value.schema": "nowhere"}})
    assert (answer.status_code, answer.json()["error_code"]) == (400, "INVALID_CONFIG")


def test_a_topic_becomes_typed_while_it_is_used(typed: TypedGateway) -> None:
    """Records from then on are judged; those of before have null columns."""
    typed.registry.register("online-value", ORDER)
    typed.create("online")
    assert typed.produce("online", "anything").status_code == 200
    assert typed.http.patch("/v1/topics/online", json={"config": {"value.schema": "online-value"}}).status_code == 200
    assert typed.produce("online", "anything").status_code == 400
    assert typed.produce("online", {"id": 1, "amount": 2}).status_code == 200
    assert typed.table("online").column("data").to_pylist() == [None, {"id": 1, "amount": 2.0}]


def test_a_version_that_the_columns_cant_take_is_refused_when_it_is_registered(typed: TypedGateway) -> None:
    """The answer names the field and the way out, whatever the compatibility; without a topic it is taken."""
    typed.registry.register("kept-value", ORDER)
    typed.registry.call("PUT", "/config/kept-value", {"compatibility": "NONE"})
    typed.create("kept", value_schema="kept-value")
    changed = record("Order", id="string", amount="double")
    message = typed.registry.refused(409, "POST", "/subjects/kept-value/versions", {"schema": changed})
    assert "id is string, and its column is int64" in message
    assert "new field" in message
    asked = {"schema": changed}
    checked = typed.registry.call("POST", "/compatibility/subjects/kept-value/versions", asked, verbose="true")
    assert not checked["is_compatible"], "a check says what a registration would"
    assert checked["messages"] == [message]
    typed.registry.call("DELETE", "/config/kept-value")
    typed.registry.call("PUT", "/config/kept-value", {"compatibility": "NONE"})
    typed.registry.refused(409, "POST", "/subjects/kept-value/versions", {"schema": changed})
    typed.registry.register("kept-value", record("Order", amount="double", other="int"))
    typed.registry.register("free-value", ORDER)
    typed.registry.call("PUT", "/config/free-value", {"compatibility": "NONE"})
    typed.registry.register("free-value", changed)


def test_deleting_versions_changes_what_documents_are_judged_by(typed: TypedGateway) -> None:
    """The newest version that is left judges; without any nothing is taken; columns keep their types for what comes later."""
    typed.registry.register("gone-value", ORDER)
    typed.create("gone", value_schema="gone-value")
    typed.registry.register("gone-value", LATER)
    assert typed.produce("gone", {"id": 1, "amount": 1, "note": "n"}).status_code == 200
    typed.registry.call("DELETE", "/subjects/gone-value/versions/2")
    assert typed.produce("gone", {"id": 1, "amount": 1, "note": "n"}).status_code == 400
    typed.registry.call("DELETE", "/subjects/gone-value")
    assert typed.produce("gone", {"id": 1, "amount": 1}).status_code == 400
    changed = record("Order", id="string", amount="double")
    typed.registry.refused(409, "POST", "/subjects/gone-value/versions", {"schema": changed})
    typed.registry.register("gone-value", ORDER)
    assert typed.produce("gone", {"id": 2, "amount": 1}).status_code == 200


def test_a_typed_topic_at_a_journal_gets_its_columns_by_the_drain(typed: TypedGateway) -> None:
    """By HTTP and by a Kafka client: the door refuses what is wrong, and the drain judges as the door did, over two versions."""
    first = typed.registry.register("shared-value", ORDER)
    typed.create("shared", value_schema="shared-value", commit_mode="shared", drain_ms="1000")
    newer = record("Order", id="long", amount="double", note=("string", "none"))

    def send(number: int) -> None:
        order = {"id": number, "amount": 1.0}
        assert typed.produce("shared", order).status_code == 200
        errors = typed.sent("shared", json.dumps(order).encode(), framed(first, ORDER, order), b"{}")
        assert [None if error is None else error.code() for error in errors] == [None, None, KafkaError.INVALID_RECORD]
        assert typed.produce("shared", {"id": "x"}).status_code == 400

    send(1)
    typed.registry.register("shared-value", newer)
    assert until(lambda: typed.produce("shared", {"id": 2, "amount": 1.0, "note": "n"}).status_code == 200)
    send(3)
    table = until(lambda: found if (found := typed.table("shared")).num_rows == 7 else None)
    data = table.column("data").to_pylist()
    assert [one["id"] for one in data] == [1, 1, 1, 2, 3, 3, 3]
    assert [one["note"] for one in data] == [None, None, None, "n", "none", "none", None]
    assert table.column("data_error").null_count == 7
    answer = typed.http.patch("/v1/topics/shared", json={"config": {"commit.mode": "own"}})
    assert answer.status_code == 200, answer.text
    assert typed.produce("shared", {"id": 4, "amount": 1.0}).status_code == 200
    assert typed.table("shared").column("data").to_pylist()[-1] == {"id": 4, "amount": 1.0, "note": "none"}


def test_a_clone_claims_its_columns(typed: TypedGateway) -> None:
    """A typed topic's clone has the same columns, checks by the same schema, and keeps the registry from versions that its table
    can't hold; another schema whose members have other types is refused for it."""
    typed.registry.register("cloned-value", ORDER)
    typed.registry.register("other-value", record("Order", id="string"))
    typed.create("cloned", value_schema="cloned-value")
    assert typed.produce("cloned", {"id": 1, "amount": 3.5}).status_code == 200
    refused = typed.http.post("/v1/topics/cloned:clone", json={"name": "no", "config": {"value.schema": "other-value"}})
    assert (refused.status_code, refused.json()["error_code"]) == (400, "INVALID_CONFIG")
    made = typed.http.post("/v1/topics/cloned:clone", json={"name": "clone-of-it"})
    assert made.status_code == 201, made.text
    assert typed.produce("clone-of-it", {"id": 2, "amount": 1.0}).status_code == 200
    assert typed.produce("clone-of-it", {"id": "x", "amount": 1.0}).status_code == 400
    assert typed.table("clone-of-it")["data"].to_pylist() == [{"id": 1, "amount": 3.5}, {"id": 2, "amount": 1.0}]
    store = LocalStore(typed.gateway.store)
    row = TableLog(store, schemas_table(), SystemClock()).refresh().configs["cloned-value"]
    assert {topic for topic, _ in row.claims} == {"cloned", "clone-of-it"}
