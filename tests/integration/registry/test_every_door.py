"""Each door by which a record comes into a topic, with records that the topic's schema forbids: none gets in unjudged.

The doors are all operations that need Write on a topic (tests/support/rights), so a new one fails here until it has its case.
"""

from __future__ import annotations

import base64
import io
import json
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import pyarrow as pa
import pytest
from confluent_kafka import KafkaException, Producer
from deltalake import DeltaTable

from gateway.codec.media_type import PRODUCE_TYPES
from tests.support.kafka_gateway import KafkaGateway, kafka_gateway
from tests.support.registry import Registry, record
from tests.support.rights import http_rows, kafka_rows, registry_rows
from tests.support.waiting import until

DAY: Final = ["null", {"type": "int", "logicalType": "date"}]
ORDER: Final = record("Order", id="long", day=(DAY, None))
FIT: Final = b'{"id": 7}'
UNFIT: Final = {
    "text": b"of no schema",
    "another type": b'{"id": "7"}',
    "unknown id": b"\0\0\1\1\1\2",
    "cut off": b"\0\0\0\0\1",
    "a second document": b'{"id": 7}{"id": 7}',
    "a week for a date": b'{"id": 7, "day": "2026-W01-1"}',
}
NO_DOOR: Final = {
    "POST /v1/credentials": "who has them puts objects that no commit names (gateway/vending/policy.py)",
    "PUT /v1/queues/{queue}": "names the topic of dead letters; `:settle` puts them there",
    "DELETE /v1/topics/{topic}/scheduled/{scheduled}": "takes a record away",
    "kafka add_partitions_to_txn": "names what the transaction will write to",
    **dict.fromkeys(
        (
            "POST /v1/topics",
            "PATCH /v1/topics/{topic}",
            *("kafka create_topics", "kafka alter_configs", "kafka incremental_alter_configs"),
        ),
        "names the topic of dead letters; producing puts them there",
    ),
    "kafka share_group_heartbeat": "makes a queue",
    "kafka alter_share_group_offsets": "makes a queue",
}


class House:
    """A gateway with everything; each case has a topic and a subject of its own."""

    def __init__(self, gateway: KafkaGateway) -> None:
        self.gateway = gateway
        self.http = httpx.Client(base_url=gateway.url, timeout=60, trust_env=False)
        self.registry = Registry(f"{gateway.url}/registry")
        self.registry.register("orders", ORDER)

    def create(self, topic: str, **config: str) -> None:
        """A topic; names of settings have underscores for dots."""
        settings: dict[str, Any] = {name.replace("_", "."): value for name, value in config.items()} | {"flush.ms": 0}
        if config.get("commit_mode") == "shared":
            settings["drain.ms"] = 1000
        self.done(self.http.post("/v1/topics", json={"name": topic, "config": settings}))

    def type(self, topic: str) -> None:
        """Give the topic its schema now."""
        self.done(self.http.patch(f"/v1/topics/{topic}", json={"config": {"value.schema": "orders"}}))

    def done(self, answer: httpx.Response) -> Any:
        """The body of an answer that refuses nothing."""
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def begin(self) -> str:
        """A transaction."""
        answer = self.http.post("/v1/transactions", json={"transactional_id": secrets.token_hex(6)})
        return str(self.done(answer)["transaction_id"])

    def post(self, topic: str, value: bytes, query: str = "", door: str = "records", **headers: str) -> httpx.Response:
        """A request with one JSON record."""
        body = {"records": [{"value_base64": base64.b64encode(value).decode()}]}
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        return self.http.post(f"/v1/topics/{topic}/{door}{query}", json=body, headers=named)

    def rows(self, topic: str) -> list[dict[str, Any]]:
        """The topic's table: value, column and reason."""
        table = DeltaTable(f"{self.gateway.store}/topics/{topic}").to_pyarrow_table()
        names = [name for name in ("value", "data", "data_error") if name in table.column_names]
        found: list[dict[str, Any]] = table.select(names).to_pylist()
        return found

    def high_watermark(self, topic: str) -> int:
        """The next offset of the only partition."""
        (partition,) = self.done(self.http.get(f"/v1/topics/{topic}"))["partitions"]
        return int(partition["high_watermark"])


@dataclass(frozen=True)
class Door:
    """``put``: put a value into a topic; False: it was refused. ``is_promised``: the record is accepted while the topic has no
    schema, so that it can't be refused any more: ``put`` then gives the topic its schema."""

    operation: str
    what: str
    put: Callable[[House, str, bytes], bool]
    is_promised: bool = False

    def __str__(self) -> str:
        return f"{self.operation} {self.what}"


def _body(kind: str, value: bytes) -> bytes:
    match kind:
        case "application/json":
            return json.dumps({"records": [{"value_base64": base64.b64encode(value).decode()}]}).encode()
        case "application/x-ndjson":
            return json.dumps({"value_base64": base64.b64encode(value).decode()}).encode() + b"\n"
        case "application/vnd.apache.arrow.stream":
            stream, table = io.BytesIO(), pa.table({"value": pa.array([value], pa.binary())})
            with pa.ipc.new_stream(stream, table.schema) as writer:
                writer.write_table(table)
            return stream.getvalue()
        case "application/octet-stream" | "text/plain":
            return value
    raise AssertionError(f"{kind} has no case here")


def _by_type(kind: str, path: str) -> Callable[[House, str, bytes], bool]:
    def put(house: House, topic: str, value: bytes) -> bool:
        answer = house.http.post(
            f"/v1/topics/{topic}/{path}", content=_body(kind, value), headers={"content-type": kind}
        )
        return answer.is_success

    return put


def _in_transaction(house: House, topic: str, value: bytes) -> bool:
    begun = house.begin()
    is_staged = house.post(topic, value, Tidelog_Transaction=begun).is_success
    house.done(house.http.post(f"/v1/transactions/{begun}:commit"))
    return is_staged


def _staged_before(house: House, topic: str, value: bytes) -> bool:
    begun = house.begin()
    house.done(house.post(topic, value, Tidelog_Transaction=begun))
    house.type(topic)
    house.done(house.http.post(f"/v1/transactions/{begun}:commit"))
    return True


def _later(house: House, topic: str, value: bytes) -> bool:
    body = {"records": [{"value_base64": base64.b64encode(value).decode(), "deliver_after_ms": 300}]}
    return house.http.post(f"/v1/topics/{topic}/records", json=body).is_success


def _later_before(house: House, topic: str, value: bytes) -> bool:
    body = {"records": [{"value_base64": base64.b64encode(value).decode(), "deliver_after_ms": 1_500}]}
    house.done(house.http.post(f"/v1/topics/{topic}/records", json=body))
    house.type(topic)
    return True


def _several(house: House, topic: str, value: bytes) -> bool:
    records = [{"value_base64": base64.b64encode(value).decode()}]
    return house.http.post("/v1/records", json={"topics": [{"topic": topic, "records": records}]}).is_success


def _without_answer(house: House, topic: str, value: bytes) -> bool:
    return house.post(topic, value, "?acks=0").is_success


def _rejected(house: House, topic: str, value: bytes, *, letters: str) -> str:
    """A queue whose only record was rejected, so that it is a dead letter; its name."""
    source = f"source-{secrets.token_hex(4)}"
    house.create(source)
    house.done(house.post(source, value))
    queue = f"queue-{secrets.token_hex(4)}"
    settings = {"topics": [source], "start": "earliest", "dead_letter_topic": letters}
    house.done(house.http.put(f"/v1/queues/{queue}", json=settings))
    (one,) = house.done(house.http.post(f"/v1/queues/{queue}:receive", json={"max_records": 1, "max_wait_ms": 9000}))[
        "records"
    ]
    settled = {name: one[name] for name in ("topic", "partition", "offset", "lease")} | {"action": "reject"}
    house.done(house.http.post(f"/v1/queues/{queue}:settle", json={"settlements": [settled]}))
    until(lambda: house.high_watermark(letters) == 1)
    return queue


def _dead_letter(house: House, topic: str, value: bytes) -> bool:
    house.type(topic)
    _rejected(house, topic, value, letters=topic)
    return True


def _redriven(house: House, topic: str, value: bytes) -> bool:
    letters = f"letters-{secrets.token_hex(4)}"
    house.create(letters)
    queue = _rejected(house, topic, value, letters=letters)
    house.type(topic)
    house.done(house.http.post(f"/v1/queues/{queue}:redrive", json={"to_topic": topic, "max_records": 1}))
    return True


def _producer(house: House, **settings: Any) -> Producer:
    return Producer(
        {"bootstrap.servers": house.gateway.kafka, "message.timeout.ms": 10_000, "log_level": 0, **settings}
    )


def _by_kafka(house: House, topic: str, value: bytes) -> bool:
    errors: list[Any] = []
    producer = _producer(house)
    producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(20) == 0
    (error,) = errors
    return error is None


def _by_kafka_in_transaction(house: House, topic: str, value: bytes, *, types: bool = False) -> bool:
    producer = _producer(house, **{"transactional.id": secrets.token_hex(6)})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, value)
    producer.flush(20)
    if types:
        house.type(topic)
    try:
        producer.commit_transaction(20)
    except KafkaException:
        producer.abort_transaction(20)
        return False
    return True


def _by_kafka_staged_before(house: House, topic: str, value: bytes) -> bool:
    return _by_kafka_in_transaction(house, topic, value, types=True)


_RECORDS, _PARTITION = "POST /v1/topics/{topic}/records", "POST /v1/topics/{topic}/partitions/{partition}/records"
DOORS: Final = (
    *(Door(_RECORDS, kind, _by_type(kind, "records")) for kind in PRODUCE_TYPES),
    *(Door(_PARTITION, kind, _by_type(kind, "partitions/0/records")) for kind in PRODUCE_TYPES),
    Door(_RECORDS, "in a transaction", _in_transaction),
    Door(_RECORDS, "later", _later),
    Door(_RECORDS, "later, before the schema", _later_before, is_promised=True),
    Door(_RECORDS, "without an answer", _without_answer),
    Door("POST /v1/records", "", _several),
    Door("POST /v1/transactions/{transaction}:commit", "staged before the schema", _staged_before, is_promised=True),
    Door("POST /v1/queues/{queue}:settle", "a dead letter", _dead_letter, is_promised=True),
    Door("POST /v1/queues/{queue}:redrive", "to another topic", _redriven, is_promised=True),
    Door("kafka produce", "", _by_kafka),
    Door("kafka produce", "in a transaction", _by_kafka_in_transaction),
    Door("kafka end_txn", "staged before the schema", _by_kafka_staged_before, is_promised=True),
)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """One gateway for all cases."""
    folder: Path = tmp_path_factory.mktemp("doors")
    with kafka_gateway(folder / "store", folder / "log") as gateway:
        made = House(gateway)
        yield made
        made.http.close()
        made.registry.close()


def test_each_operation_that_writes_to_a_topic_has_its_door() -> None:
    """Or the reason why no record comes into a topic by it."""
    rows = (*http_rows.ROWS, *registry_rows.ROWS, *kafka_rows.ROWS)
    writing = {row.operation for row in rows if any(right[:2] == ("Write", "topic") for right in row.rights)}
    doors = {door.operation for door in DOORS}
    assert writing - doors == NO_DOOR.keys()
    assert doors - writing == {"POST /v1/queues/{queue}:settle"}, "whose right is the queue's"


@pytest.mark.parametrize("mode", ["own", "shared"])
@pytest.mark.parametrize("door", DOORS, ids=str)
def test_no_unfit_record_comes_in_unjudged(house: House, door: Door, mode: str) -> None:
    """What can be refused is, and is in no table; what was promised is marked, with the reason. A fitting record has its column,
    by each of these doors, whether the topic has commits of its own or not."""
    topics = {}
    for name, value in {"fit": FIT, **UNFIT}.items():
        topics[name] = topic = f"t-{secrets.token_hex(6)}"
        house.create(topic, commit_mode=mode, **({} if door.is_promised else {"value_schema": "orders"}))
        is_taken = door.put(house, topic, value)
        assert is_taken == (door.is_promised or name == "fit"), (name, is_taken)
    for name, topic in topics.items():
        if not (door.is_promised or name == "fit"):
            assert house.high_watermark(topic) == 0
            assert house.rows(topic) == []
            continue
        (row,) = until(lambda topic=topic: house.rows(topic))  # type: ignore[misc]
        assert (row["value"], row["data"]) == ((FIT, {"id": 7, "day": None}) if name == "fit" else (UNFIT[name], None))
        assert (row["data_error"] is None) == (name == "fit"), row
