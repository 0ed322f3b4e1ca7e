"""What a schema costs: CPU of the gateway for a record that is checked and gets columns, beside the same record without a schema.

JSON documents over HTTP, a thousand in a request; and values of Confluent's Avro and Protobuf serializers by confluent-kafka.
Eight fields. The untyped topic is the base, turn by turn in the same run.
"""

from __future__ import annotations

import json
import statistics
import struct
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import KafkaError, Producer
from google.protobuf import descriptor_pool, json_format, message_factory

from benchmarks.harness.load import request
from benchmarks.harness.options import Options
from benchmarks.harness.pairs import in_turns, ratio
from benchmarks.harness.processes import Server, call, free_port, gateway, make_topic
from benchmarks.harness.report import Table
from benchmarks.harness.stores import directory
from benchmarks.produce.price import priced
from benchmarks.typed.floor import RECORDS_MAX, floor_table
from benchmarks.typed.orders import FIELDS, order
from log_format.schemas.parsing_protobuf import parse_protobuf

RECORDS: Final = 1_000
CONNECTIONS: Final = 2
BUSY_CONNECTIONS: Final = 64
"""Enough of them that requests do not wait for commits, but for the gateway's CPU."""
RATE_MIN: Final = 500_000
KAFKA_RECORDS: Final = 200_000
ROUNDS: Final = 5
JSON_RATIO_MAX: Final = 2.0
ARROW_RECORDS: Final = (1_000, 20_000)
ARROW_RATIO_MAX: Final = 1.1
STORED_RATIO_MAX: Final = 0.85
AVRO_RATIO_MAX: Final = 1.4
PROTOBUF_RATIO_MAX: Final = 1.4
_PROTOBUF: Final = """syntax = "proto3"; import "google/protobuf/timestamp.proto";
message Order { int64 id = 1; double amount = 2; string name = 3; google.protobuf.Timestamp at = 4; int32 quantity = 5;
  bool is_paid = 6; int64 parent = 7; string city = 8; }"""
_TOPICS: Final = {"untyped": "", "typed": "orders-value"}
_PROTOBUF_TOPICS: Final = {"untyped": "", "typed_protobuf": "protobuf-value"}


def measure(_options: Options) -> Iterator[Table]:
    """Yield two tables: what a schema costs, and what of it is pyarrow's alone."""
    table = Table(
        "A schema's price: eight fields, 4 partitions, a directory",
        ["load", "bytes", "records/s", "CPU us/record, untyped", "typed", "typed / untyped", "at most"],
        notes=[
            f"Medians of {ROUNDS} alternating rounds; CPU is that of the gateway's process; records/s of the typed topic."
        ],
    )
    address = f"127.0.0.1:{free_port()}"
    with directory() as store, gateway(store, settings=["--kafka-listen", address]) as server:
        schema_id, protobuf_id = _set_up(server)
        documents = [json.dumps(order(number)) for number in range(RECORDS)]
        rows = {
            f"JSON x {RECORDS:,} over HTTP": CONNECTIONS,
            f"the same by {BUSY_CONNECTIONS} connections: records/s, at least {RATE_MIN:,} wanted": BUSY_CONNECTIONS,
        }
        for load, connections in rows.items():
            sent = {name: partial(_by_http, server, name, documents, connections) for name in _TOPICS}
            _add(table, load, len(documents[0]), in_turns(sent, ROUNDS, warms_up=True), JSON_RATIO_MAX)
        values = [_framed(schema_id, order(number)) for number in range(RECORDS)]
        sent = {name: partial(_by_kafka, server, address, name, values) for name in _TOPICS}
        _add(table, "Avro by confluent-kafka", len(values[0]), in_turns(sent, ROUNDS, warms_up=True), AVRO_RATIO_MAX)
        messages = [_serialized(protobuf_id, order(number)) for number in range(RECORDS)]
        written = {
            name: partial(_by_kafka, server, address, topic, messages)
            for name, topic in zip(_TOPICS, _PROTOBUF_TOPICS, strict=True)
        }
        rounds = in_turns(written, ROUNDS, warms_up=True)
        _add(table, "Protobuf by confluent-kafka", len(messages[0]), rounds, PROTOBUF_RATIO_MAX)
        _add_columns(table, server, documents)
    yield table
    orders = [order(number) for number in range(RECORDS_MAX)]
    yield floor_table(orders, [_framed(schema_id, one) for one in orders])


def _set_up(server: Server) -> tuple[int, int]:
    """Register the schemas and make the topics; return the schemas' ids."""
    fields = [{"name": name, "type": kind} for name, kind in FIELDS]
    schema = json.dumps({"type": "record", "name": "Order", "fields": fields})
    registered = call(server.port, "POST", "/registry/subjects/orders-value/versions", {"schema": schema})
    message = {"schema": _PROTOBUF, "schemaType": "PROTOBUF"}
    other = call(server.port, "POST", "/registry/subjects/protobuf-value/versions", message)
    for name, subject in (_TOPICS | _PROTOBUF_TOPICS).items():
        make_topic(server.port, name, partitions=4, config={"value.schema": subject})
    return int(registered["id"]), int(other["id"])


def _long(number: int) -> bytes:
    """Encode a number that is not negative as Avro does."""
    raw, found = number << 1, bytearray()
    while raw > 127:
        found.append(raw & 127 | 128)
        raw >>= 7
    return bytes([*found, raw])


def _framed(schema_id: int, members: dict[str, Any]) -> bytes:
    """Return the order as Confluent's Avro serializer writes it."""

    name, city = members["name"].encode(), members["city"].encode()
    body = _long(members["id"]) + struct.pack("<d", members["amount"]) + _long(len(name)) + name
    body += _long(1_795_867_200_000) + _long(members["quantity"]) + bytes([members["is_paid"]])
    return b"\0" + schema_id.to_bytes(4, "big") + body + _long(members["parent"]) + _long(len(city)) + city


def _serialized(schema_id: int, members: dict[str, Any]) -> bytes:
    """Return the order as Confluent's Protobuf serializer writes it."""
    parsed = parse_protobuf(_PROTOBUF, [])
    pool = descriptor_pool.DescriptorPool()
    for file in parsed.files:
        pool.AddSerializedFile(file.SerializeToString())
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName("Order"))()
    json_format.ParseDict(members, message)
    return b"\0" + schema_id.to_bytes(4, "big") + b"\0" + bytes(message.SerializeToString())


def _by_http(server: Server, topic: str, documents: Sequence[str], connections: int) -> tuple[float, float]:
    """Send for two seconds; return CPU µs a record, and records a second."""
    records = ",".join(f'{{"key":"k{number % 100}","value":{one}}}' for number, one in enumerate(documents))
    body = f'{{"records":[{records}]}}'.encode()
    one = request("POST", f"/v1/topics/{topic}/records", body, {"Content-Type": "application/json"})
    done = priced(server, [one], connections=connections, seconds=2)
    return done.cpu_us / RECORDS, done.load.answers * RECORDS / done.load.seconds


def _add_columns(table: Table, server: Server, documents: Sequence[str]) -> None:
    """Add rows of Arrow bodies: the columns, of which no value is stored, beside the documents in an untyped topic."""
    config: dict[str, str | int] = {"value.schema": "orders-value", "value.keep": "false"}
    make_topic(server.port, "columns", partitions=4, config=config)
    make_topic(server.port, "documents", partitions=4, config={})
    topics = {"untyped": "documents", "typed": "columns"}
    for count in ARROW_RECORDS:
        orders = [order(number) for number in range(count)]
        keys = pa.array([f"k{number % 100}" for number in range(count)])
        values = pa.table({"key": keys, "value": pa.array(map(json.dumps, orders), pa.string())})
        members = pa.array([one | {"at": datetime.fromisoformat(one["at"])} for one in orders])
        bodies = {"untyped": values, "typed": pa.table({"key": keys, "data": members})}
        loads = {name: partial(_by_arrow, server, topic, bodies[name]) for name, topic in topics.items()}
        rounds = in_turns(loads, ROUNDS, warms_up=True)
        _add(table, f"Arrow x {count:,} with the columns, value.keep=false", len(documents[0]), rounds, ARROW_RATIO_MAX)
    stored = {name: _stored_bytes(server, topic) for name, topic in topics.items()}
    table.add(
        "the same: bytes stored a record",
        len(documents[0]),
        "",
        f"{stored['untyped']:.1f} B",
        f"{stored['typed']:.1f} B",
        f"{stored['typed'] / stored['untyped']:.2f}",
        f"{STORED_RATIO_MAX}",
    )


def _by_arrow(server: Server, topic: str, records: pa.Table) -> tuple[float, float]:
    """Send for two seconds; return CPU µs a record, and records a second."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, records.schema) as writer:
        writer.write_table(records)
    headers = {"Content-Type": "application/vnd.apache.arrow.stream"}
    one = request("POST", f"/v1/topics/{topic}/records", sink.getvalue().to_pybytes(), headers)
    done = priced(server, [one], connections=CONNECTIONS, seconds=2)
    return done.cpu_us / len(records), done.load.answers * len(records) / done.load.seconds


def _stored_bytes(server: Server, topic: str) -> float:
    partitions = call(server.port, "GET", f"/v1/topics/{topic}")["partitions"]
    count = sum(one["high_watermark"] for one in partitions)
    return float(sum(one["size_bytes"] for one in partitions) / count)


def _by_kafka(server: Server, address: str, topic: str, values: Sequence[bytes]) -> tuple[float, float]:
    """Send records by one producer; return CPU µs a record, and records a second."""

    failed: list[object] = []

    def acknowledged(error: KafkaError | None, _message: object) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer({"bootstrap.servers": address, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000})
    before, began = server.cpu_seconds(), time.monotonic()
    for number in range(KAFKA_RECORDS):
        producer.produce(topic, values[number % RECORDS], on_delivery=acknowledged)
        if number % 1000 == 0:
            producer.poll(0)
    left = producer.flush(120)
    if left or failed:
        raise RuntimeError(f"not every record was acknowledged: {left} left, {failed[:1]}")
    seconds = time.monotonic() - began
    return (server.cpu_seconds() - before) / KAFKA_RECORDS * 1e6, KAFKA_RECORDS / seconds


def _add(table: Table, load: str, size: int, rounds: dict[str, list[tuple[float, float]]], ratio_max: float) -> None:
    prices = {name: [cpu_us for cpu_us, _ in found] for name, found in rounds.items()}
    table.add(
        load,
        size,
        f"{statistics.median(rate for _, rate in rounds['typed']):,.0f}",
        *(f"{statistics.median(prices[name]):.2f}" for name in _TOPICS),
        f"{ratio(prices['typed'], prices['untyped']):.2f}",
        f"{ratio_max}",
    )
