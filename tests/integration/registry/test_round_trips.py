"""Any value of a schema is stored typed and comes back equal: by deltalake, by the SDK and by Spark."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from log_format.schemas.columns.json_schema import json_documents
from log_format.schemas.columns.protobuf_values import ProtobufValues
from log_format.schemas.columns.shape import Untypable
from log_format.schemas.parsing_protobuf import parse_protobuf
from tests.support import json_choices, proto_values
from tests.support.avro_values import LEAVES, framed, plain, records
from tests.support.left_out_formats import FORMATS
from tests.support.typed_gateway import TypedGateway, typed_gateway
from tidelog import Consumer, Producer, schemas

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Order:
    """A model with each kind of member."""

    id: int
    amount: float
    price: Annotated[Decimal, schemas.Digits(18, 4)]
    at: datetime
    day: date
    is_paid: bool
    note: str | None = None
    tags: list[str] = field(default_factory=list)
    weights: dict[str, int] = field(default_factory=dict)


_TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
_LONG = st.integers(-(2**63), 2**63 - 1)
ORDERS = st.builds(
    Order,
    id=_LONG,
    amount=st.floats(allow_nan=False, allow_infinity=False),
    price=st.integers(-(10**12), 10**12).map(lambda n: Decimal(n).scaleb(-4)),
    at=st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)).map(lambda one: one.replace(tzinfo=UTC)),  # noqa: DTZ001
    day=st.dates(),
    is_paid=st.booleans(),
    note=st.none() | _TEXT,
    tags=st.lists(_TEXT, max_size=3),
    weights=st.dictionaries(_TEXT, _LONG, max_size=3),
)


def rows_of(typed: TypedGateway, topic: str) -> list[dict[str, Any]]:
    """The table, as a Delta reader has it, by offset."""
    found: list[dict[str, Any]] = typed.table(topic).to_pylist(maps_as_pydicts="strict")
    return found


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TypedGateway]:
    """One gateway for all examples; each has a topic of its own."""
    with typed_gateway(tmp_path_factory.mktemp("trips")) as made:
        yield made


def _sent(typed: TypedGateway, schema: str, values: list[dict[str, Any]]) -> tuple[str, list[bytes]]:
    topic = f"t-{secrets.token_hex(6)}"
    schema_id = typed.registry.register(topic, schema)
    typed.create(topic, value_schema=topic, flush_ms=0)
    sent = framed(schema_id, schema, values)
    typed.produce_bytes(topic, sent)
    return topic, sent


@settings(max_examples=15, deadline=None)
@given(made=records())
def test_avro_values_come_back_equal_by_deltalake(typed: TypedGateway, made: tuple[str, list[dict[str, Any]]]) -> None:
    """Each value of any schema that columns can have: its members in the column, and its bytes beside them."""
    schema, values = made
    topic, sent = _sent(typed, schema, values)
    rows = rows_of(typed, topic)
    assert [row["value"] for row in rows] == sent
    assert [row["data_error"] for row in rows] == [None] * len(values)
    assert [plain(row["data"]) for row in rows] == values


def _sent_messages(typed: TypedGateway, text: str, messages: list[Any]) -> tuple[str, list[bytes]]:
    topic = f"p-{secrets.token_hex(6)}"
    header = b"\0" + typed.registry.register(topic, text, schemaType="PROTOBUF").to_bytes(4, "big")
    typed.create(topic, value_schema=topic, flush_ms=0)
    header += ProtobufValues(parse_protobuf(text, [])).prefix
    sent = [header + message.SerializeToString() for message in messages]
    typed.produce_bytes(topic, sent)
    return topic, sent


def _by_sdk(typed: TypedGateway, topic: str) -> list[bytes | None]:
    settings: Any = {"bootstrap_servers": typed.gateway.url, "consumer_timeout_ms": 100}
    with Consumer(topic, auto_offset_reset="earliest", **settings) as consumer:
        return [record.value for record in consumer]


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_protobuf_values_come_back_equal_by_deltalake_and_the_sdk(typed: TypedGateway, data: st.DataObject) -> None:
    """Each message of any schema that columns can have: its fields in the column, and its bytes beside them."""
    text = data.draw(proto_values.schemas())
    kind = ProtobufValues(parse_protobuf(text, [])).message_class
    messages = [data.draw(proto_values.messages(kind)) for _ in range(data.draw(st.integers(1, 4)))]
    topic, sent = _sent_messages(typed, text, messages)
    rows = typed.table(topic).to_pylist()
    assert [(row["value"], row["data_error"]) for row in rows] == [(one, None) for one in sent]
    for row, message in zip(rows, messages, strict=True):
        expected = proto_values.columns(message)
        assert repr(proto_values.plain(row["data"], expected)) == repr(expected)
    assert _by_sdk(typed, topic) == sent


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_documents_of_choices_and_rules_come_back_equal_by_deltalake_and_the_sdk(
    typed: TypedGateway, data: st.DataObject
) -> None:
    """Any JSON Schema with allOf, oneOf, anyOf and not: what is valid has its members, the rest is marked; a schema that has no
    sound column can't type a topic."""
    schema = data.draw(json_choices.schemas())
    topic, config = f"j-{secrets.token_hex(6)}", {"data.on.error": "mark", "flush.ms": 0}
    typed.registry.register(topic, json.dumps(schema), schemaType="JSON")
    body = {"name": topic, "partition_count": 1, "config": config | {"value.schema": topic}}
    is_typed = typed.http.post("/v1/topics", json=body).status_code == 201
    try:
        shape = json_documents(json.dumps(schema)).shape
    except Untypable:
        assert not is_typed
        return
    assert is_typed
    documents = [data.draw(json_choices.documents(schema)) for _ in range(4)]
    sent = [json.dumps(one).encode() for one in documents if one is not None]
    typed.produce_bytes(topic, sent)
    validator = jsonschema_rs.validator_for({**schema, "$schema": "http://json-schema.org/draft-07/schema#"})
    for text, row in zip(sent, typed.table(topic).to_pylist(), strict=True):
        document = json.loads(text)
        assert row["value"] == text
        assert (row["data_error"] is None) == validator.is_valid(document), (schema, document, row)
        if row["data_error"] is None:
            assert row["data"] == json_choices.members(shape, document)
    assert _by_sdk(typed, topic) == sent


@settings(max_examples=8, deadline=None)
@given(orders=st.lists(ORDERS, min_size=1, max_size=6))
def test_models_come_back_equal_by_the_sdk_and_by_deltalake(typed: TypedGateway, orders: list[Order]) -> None:
    """What was sent as a dataclass is read as one, and its members are columns."""
    topic = f"m-{secrets.token_hex(6)}"
    schemas.register(Order, topic, bootstrap_servers=typed.gateway.url)
    typed.create(topic, value_schema=topic, flush_ms=0)
    with Producer(bootstrap_servers=typed.gateway.url) as producer:
        for order in orders:
            producer.send(topic, order)
    with Consumer(
        topic, value=Order, bootstrap_servers=typed.gateway.url, auto_offset_reset="earliest", consumer_timeout_ms=300
    ) as consumer:
        assert [record.value for record in consumer] == orders
    rows = [plain(row["data"]) for row in rows_of(typed, topic)]
    assert [(row["id"], row["amount"], row["is_paid"], row["note"], row["tags"]) for row in rows] == [
        (one.id, one.amount, one.is_paid, one.note, one.tags) for one in orders
    ]
    assert [(row["at"], row["day"]) for row in rows] == [(one.at, one.day) for one in orders]
    assert [row["weights"] or {} for row in rows] == [one.weights for one in orders]
    assert [Decimal(row["price"]) for row in rows] == [one.price for one in orders]


def test_a_bulk_of_each_kind_comes_back_equal_by_spark(typed: TypedGateway, spark: SparkSession) -> None:
    """Spark's Delta reader gives each member of each value as deltalake does, and that is what was sent."""
    fields = [{"name": f"f{number}", "type": ["null", kind]} for number, (kind, _) in enumerate(LEAVES)]
    schema = json.dumps({"type": "record", "name": "Top", "fields": [{"name": "number", "type": "long"}, *fields]})
    drawn: list[dict[str, Any]] = []

    @settings(max_examples=100, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.fixed_dictionaries({f"f{number}": st.none() | one for number, (_, one) in enumerate(LEAVES)}))
    def draw(values: dict[str, Any]) -> None:
        drawn.append({"number": len(drawn), **values})

    draw()
    topic, _ = _sent(typed, schema, drawn)
    table = spark.read.format("delta").load(f"{typed.gateway.store}/topics/{topic}")
    found = table.where("data_error is null").orderBy("offset").select("data").toArrow().column("data").to_pylist()
    assert [plain(one) for one in found] == drawn
    assert [plain(row["data"]) for row in rows_of(typed, topic)] == drawn


def test_messages_and_choices_come_back_equal_by_spark(typed: TypedGateway, spark: SparkSession) -> None:
    """Spark's Delta reader and its source give each member as deltalake does, and deltalake what was sent."""
    drawn: list[Any] = []

    @settings(max_examples=50, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(proto_values.messages(ProtobufValues(parse_protobuf(FORMATS["protobuf"].schema, [])).message_class))
    def draw(message: Any) -> None:
        drawn.append(message)

    draw()
    topic, _ = _sent_messages(typed, FORMATS["protobuf"].schema, drawn)
    for row, message in zip(typed.table(topic).to_pylist(), drawn, strict=True):
        expected = proto_values.columns(message)
        assert repr(proto_values.plain(row["data"], expected)) == repr(expected)
    choices = FORMATS["choices"]
    other = f"c-{secrets.token_hex(6)}"
    typed.registry.register(other, choices.schema, schemaType=choices.kind)
    typed.create(other, value_schema=other, flush_ms=0)
    typed.produce_bytes(other, [text.encode() for _, text in choices.rows.values()])
    assert [row["data"] for row in rows_of(typed, other)] == [row for row, _ in choices.rows.values()]
    for each in (topic, other):
        wanted = [plain(row["data"]) for row in rows_of(typed, each)]
        table = spark.read.format("delta").load(f"{typed.gateway.store}/topics/{each}")
        source = spark.read.format("tidelog").options(store=typed.gateway.store, subscribe=each).load()
        for found in (table, source):
            rows = found.orderBy("offset").select("data").toArrow().column("data").to_pylist(maps_as_pydicts="strict")
            assert repr([plain(one) for one in rows]) == repr(wanted)


def test_choices_of_json_schema_come_back_as_a_struct_with_one_member_set(typed: TypedGateway) -> None:
    """By deltalake; a document of no branch is refused by its path, a schema without a sound column with the way out."""
    kinds = {
        name: {"type": "object", "properties": {"kind": {"type": "string", "const": name}, "n": {"type": kind}}}
        for name, kind in (("a", "integer"), ("b", "string"))
    }
    choice = {"oneOf": [{"$ref": f"#/$defs/{name}"} for name in kinds]}
    schema = {"allOf": [{"type": "object", "properties": {"id": {"type": "integer"}}}, {"properties": {"of": choice}}]}
    topic = f"t-{secrets.token_hex(6)}"
    typed.registry.register(topic, json.dumps(schema | {"$defs": kinds}), schemaType="JSON")
    typed.create(topic, value_schema=topic, flush_ms=0)
    sent = [{"id": 1, "of": {"kind": "a", "n": 7}}, {"id": 2, "of": {"kind": "b", "n": "x"}}, {"id": 3}]
    typed.produce_bytes(topic, [json.dumps(one).encode() for one in sent])
    assert [row["data"] for row in rows_of(typed, topic)] == [
        {"id": 1, "of": {"a": {"kind": "a", "n": 7}, "b": None}},
        {"id": 2, "of": {"a": None, "b": {"kind": "b", "n": "x"}}},
        {"id": 3, "of": None},
    ]
    body = {"records": [{"value": {"id": 4, "of": {"kind": "c"}}}]}
    answer = typed.http.post(f"/v1/topics/{topic}/records", json=body)
    assert answer.status_code == 400
    assert "INVALID_RECORD" in answer.text
    assert "/of" in answer.text
    other = [{"type": "object", "properties": {name: {"type": "string"}}} for name in ("s", "t")]
    unsound = {"type": "object", "properties": {"of": {"oneOf": other}}}
    typed.registry.register(f"{topic}-2", json.dumps(unsound), schemaType="JSON")
    refused = typed.http.post("/v1/topics", json={"name": f"{topic}-2", "config": {"value.schema": f"{topic}-2"}})
    assert refused.status_code == 400
    assert "of has a choice with two branches called 'object': give each a title" in refused.json()["detail"]
