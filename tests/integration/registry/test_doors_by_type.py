"""The doors of typed topics by the types of schemas: Avro, Protobuf and JSON Schema, documents, framed values and columns.

Whichever a record comes by, what its schema forbids is refused, marked, or a dead letter, as the topic says, each time with the
member's path; and what fits has its columns. Which doors there are is held by ``test_every_door``.
"""

from __future__ import annotations

import dataclasses
import io
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import fastavro
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError
from pydantic import BaseModel

from log_format.errors import RequestRefused
from spark_pipeline.sink import stage
from spark_pipeline.sink.commit import commit_staged, open_transactions
from spark_pipeline.sink.options import SinkOptions
from tests.support.registry import record
from tests.support.typed_gateway import ARROW, TypedGateway, typed_gateway
from tidelog import Producer
from tidelog.errors import InvalidRecord

JSON_SCHEMA: Final = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "count": {"type": "integer"}},
    "required": ["id", "count"],
    "additionalProperties": False,
}
SCHEMAS: Final = {
    "AVRO": record("Order", id="long", count="int"),
    "PROTOBUF": 'syntax = "proto3"; message Order { int64 id = 1; int32 count = 2; }',
    "JSON": json.dumps(JSON_SCHEMA),
}
UNFIT: Final = {"AVRO": 2**40, "PROTOBUF": 2**40, "JSON": 2**63}
"""A count that the column can't have."""
POLICIES: Final = ("reject", "mark", "dead-letter")
_numbers: Final = itertools.count(1)


class Order(BaseModel):
    """A model of pydantic's."""

    id: int
    count: int


@dataclasses.dataclass
class PlainOrder:
    """A dataclass of the same members."""

    id: int
    count: int


class Sent(NamedTuple):
    """What became of a record: it was refused, or is a dead letter, for a reason; or is stored."""

    refusal: str = ""
    letter: str = ""


class House(NamedTuple):
    """A gateway, a topic for each type of schema and each policy, and a producer of the SDK."""

    gateway: TypedGateway
    producer: Producer
    ids: dict[str, int]

    @property
    def store(self) -> str:
        """Where its tables are."""
        return str(self.gateway.gateway.store)


Put = Callable[[House, str, str, dict[str, int]], Sent]
"""Sends the members of a value to a topic, by the type of its schema."""


def _varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + _varint(number >> 7)


def _framed(house: House, kind: str, members: dict[str, int]) -> bytes:
    """As Confluent's serializers write it, of wider types than the schema's."""
    out = io.BytesIO(b"\0" + house.ids[kind].to_bytes(4, "big"))
    out.seek(0, io.SEEK_END)
    if kind == "AVRO":
        fastavro.schemaless_writer(out, json.loads(record("Order", id="long", count="long")), members)
    elif kind == "PROTOBUF":
        out.write(b"\0\x08" + _varint(members["id"]) + b"\x10" + _varint(members["count"]))
    else:
        out.write(json.dumps(members).encode())
    return out.getvalue()


def _posted(house: House, topic: str, content: bytes, kind: str) -> Sent:
    answer = house.gateway.http.post(f"/v1/topics/{topic}/records", content=content, headers={"content-type": kind})
    body = answer.json()
    if answer.status_code == 400:
        assert body["error_code"] == "INVALID_RECORD", body
        (error,) = body["errors"]
        return Sent(refusal=f"{error['where']} {error['what']}".replace("/", "."))
    assert answer.status_code == 200, answer.text
    return Sent(letter="".join(one["reason"] for one in body.get("dead_letters", ())))


def _json(house: House, topic: str, _kind: str, members: dict[str, int]) -> Sent:
    return _posted(house, topic, json.dumps({"records": [{"value": members}]}).encode(), "application/json")


def _ndjson(house: House, topic: str, _kind: str, members: dict[str, int]) -> Sent:
    return _posted(house, topic, json.dumps({"value": members}).encode() + b"\n", "application/x-ndjson")


def _arrow(house: House, topic: str, column: pa.Array, name: str) -> Sent:
    table, stream = pa.table({name: column}), io.BytesIO()
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    return _posted(house, topic, stream.getvalue(), ARROW)


def _arrow_values(house: House, topic: str, kind: str, members: dict[str, int]) -> Sent:
    return _arrow(house, topic, pa.array([_framed(house, kind, members)], pa.binary()), "value")


def _arrow_columns(house: House, topic: str, _kind: str, members: dict[str, int]) -> Sent:
    return _arrow(house, topic, _struct(members), "data")


def _struct(members: dict[str, int]) -> pa.StructArray:
    return pa.array([members], pa.struct([("id", pa.int64()), ("count", pa.uint64())]))


def _kafka(house: House, topic: str, value: bytes) -> Sent:
    (error,) = house.gateway.sent(topic, value)
    if error is None:
        return Sent()
    assert error.code() == KafkaError.INVALID_RECORD
    return Sent(refusal=".count")  # the client does not show the message that names it


def _kafka_framed(house: House, topic: str, kind: str, members: dict[str, int]) -> Sent:
    return _kafka(house, topic, _framed(house, kind, members))


def _kafka_document(house: House, topic: str, _kind: str, members: dict[str, int]) -> Sent:
    return _kafka(house, topic, json.dumps(members).encode())


def _sdk(house: House, topic: str, value: Any) -> Sent:
    try:
        stored = house.producer.send(topic, value).result()
    except InvalidRecord as refusal:
        return Sent(refusal=str(refusal).replace("/", "."))
    return Sent(letter=stored.dead_letter_reason or "")


def _sdk_pydantic(house: House, topic: str, _kind: str, members: dict[str, int]) -> Sent:
    return _sdk(house, topic, Order(**members))


def _sdk_dataclass(house: House, topic: str, _kind: str, members: dict[str, int]) -> Sent:
    return _sdk(house, topic, PlainOrder(**members))


def _sdk_framed(house: House, topic: str, kind: str, members: dict[str, int]) -> Sent:
    return _sdk(house, topic, _framed(house, kind, members))


def _spark(house: House, topic: str, column: pa.Array) -> Sent:
    options = SinkOptions(store=house.store, topic=topic)
    rows = pa.record_batch({"value": column, "partition": pa.array([0], pa.int32())})
    try:
        commit_staged([stage.stage([rows], options, stage.new_attempt(), None)], options)
    except RequestRefused as refusal:
        return Sent(refusal=refusal.detail)
    return Sent()


def _spark_struct(house: House, topic: str, _kind: str, members: dict[str, int]) -> Sent:
    return _spark(house, topic, _struct(members))


def _spark_values(house: House, topic: str, kind: str, members: dict[str, int]) -> Sent:
    return _spark(house, topic, pa.array([_framed(house, kind, members)], pa.binary()))


DOORS: Final[dict[str, Put]] = {
    "JSON": _json,
    "NDJSON": _ndjson,
    "Arrow, framed values": _arrow_values,
    "Arrow, columns": _arrow_columns,
    "Kafka, framed values": _kafka_framed,
    "Kafka, documents": _kafka_document,
    "SDK, pydantic": _sdk_pydantic,
    "SDK, dataclass": _sdk_dataclass,
    "SDK, framed values": _sdk_framed,
    "Spark, struct": _spark_struct,
    "Spark, framed values": _spark_values,
}
MARKS: Final = ("Kafka", "Spark")
"""Doors by which no record can leave its batch: what would be a dead letter is marked (docs/typed-topics.md)."""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """One gateway for all cases."""
    folder: Path = tmp_path_factory.mktemp("doors")
    with typed_gateway(folder) as gateway, Producer(gateway.gateway.url, on_delivery=lambda *_: None) as producer:
        ids = {
            kind: gateway.registry.register(f"{kind}-value", text, schemaType=kind) for kind, text in SCHEMAS.items()
        }
        for kind, policy in itertools.product(SCHEMAS, POLICIES):
            gateway.create(f"{kind}-{policy}", value_schema=f"{kind}-value", data_on_error=policy, flush_ms=0)
        yield House(gateway, producer, ids)
    for cached in (stage.topic_log, stage.producer_key, stage.schema_readers, open_transactions):
        cached.cache_clear()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", SCHEMAS)
@pytest.mark.parametrize("door", DOORS)
def test_what_a_schema_forbids_is_named_at_each_door(house: House, door: str, kind: str, policy: str) -> None:
    """A count that is out of range: refused, marked, or a dead letter, each with the member's path; nothing else is stored. The
    record before it fits, and has its columns."""
    topic, put = f"{kind}-{policy}", DOORS[door]
    fit, unfit = ({"id": next(_numbers), "count": count} for count in (3, UNFIT[kind]))
    before = house.gateway.table(topic).num_rows
    assert put(house, topic, kind, fit) == Sent()
    sent = put(house, topic, kind, unfit)
    rows = house.gateway.table(topic).slice(before).select(["data", "data_error"]).to_pylist()
    assert rows[0] == {"data": fit, "data_error": None}
    if policy == "mark" or (policy == "dead-letter" and door.startswith(MARKS)):
        assert sent == Sent()
        (marked,) = rows[1:]
        assert (marked["data"], marked["data_error"].partition(":")[0]) == (None, "value.count")
        return
    assert rows[1:] == []
    assert (".count" in sent.refusal) == (policy == "reject"), sent
    assert sent.letter.startswith("value.count: ") == (policy == "dead-letter"), sent
    if policy == "dead-letter":
        letter = house.gateway.http.get(
            f"/v1/topics/{topic}.dead-letters/partitions/0/records", params={"offset": 0, "max_records": 1000}
        ).json()["records"][-1]
        assert {"key": "tidelog.reason", "value": sent.letter} in letter["headers"]
