"""Each door by which records leave a topic that leaves values out (``value.keep=false``): all give the same keys and values, from
memory, from segments, after merges, deletions and compactions of keys, and from a copy.

Of Avro, with all ways in; of Protobuf and of JSON Schema with choices and rules, merged and with a record in memory.
The doors are all operations that need Read on a topic (tests/support/rights), so a new one fails here until it has its case.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from compaction.job import Job
from compaction.workers import LocalWorkers
from log_format.clock import SystemClock
from log_format.inspection.backup import copy_log
from log_format.inspection.verify import verify_topic
from log_format.stores import open_store
from tests.support.collected_events import CollectedEvents
from tests.support.history_readers import answered, wait_for_readers
from tests.support.kafka_gateway import kafka_gateway
from tests.support.large_transaction import PARTITIONS, send_all, transactional
from tests.support.left_out_formats import FORMATS, Format, framed
from tests.support.reading_doors import DOORS, NO_DOOR, Door, Place, Records
from tests.support.registry import record
from tests.support.rights import http_rows, iceberg_rows, kafka_rows, registry_rows, sharing_rows
from tests.support.typed_gateway import TypedGateway, typed_on
from tests.support.waiting import until
from tidelog import Consumer

ORDER: Final = record("Order", id="long", amount="double", note=(["null", "string"], None))
MEMBERS: Final = pa.struct({"id": "int64", "amount": "float64", "note": "string"})
PADS: Final = 32
"""Records in requests of their own, so that there are enough segments for a merge."""
FIRST: Final[Records] = [
    *((f"pad{number}", f'{{"id":{number},"amount":0.5}}') for number in range(PADS)),
    ("k1", '{"id":1,"amount":1.5,"note":"needle"}'),
    ("k2", '{"id":2,"amount":2}'),
    ("k3", None),
    ("k4", '{"id":4,"amount":1000}'),
    ("k5", '{"id":5,"amount":1.0,"note":null}'),
    ("k6", '{"id":"x"}'),
    ("k7", '{"id":7,"amount":7}'),
    ("k8", '{"id":8,"amount":8}'),
    ("k9", '{"id": 9, "amount": 9}'),
    ("k10", '{"id":10,"amount":10}'),
    ("k1", '{"id":11,"amount":11}'),
    ("k2", None),
]
LAST: Final = ("last", '{"id":99,"amount":99,"note":"needle"}')
PAD_KEYS: Final = frozenset(f"pad{number}" for number in range(PADS))
LEFT_OUT: Final = {name: one.left_out | (PAD_KEYS if "k1" in one.left_out else set()) for name, one in FORMATS.items()}
"""Keys of the records whose newest value the table leaves out."""
COMPACT: Final = {"cleanup_policy": "compact", "delete_retention_ms": "0"}
DELETED: Final = 10
"""Records that are deleted in one place."""
PLACES: Final = ("memory", "segments", "merged", "trimmed", "compacted", "copy")
LEFT_OUT.update(dict.fromkeys(PLACES, PAD_KEYS | {"k1", "k4", "last"}))


def compacted(records: Records) -> Records:
    """The newest record of each key, without tombstones."""
    newest = {key: number for number, (key, _) in enumerate(records)}
    return [one for number, one in enumerate(records) if newest[one[0]] == number and one[1] is not None]


def fill(typed: TypedGateway, topic: str, **config: str) -> None:
    """A topic with ``FIRST``, by each way in."""
    settings: dict[str, Any] = {
        "value_schema": "orders",
        "value_keep": "false",
        "data_on_error": "mark",
        "flush_ms": "0",
    }
    typed.create(topic, **settings | config)
    for number in range(PADS):
        columns(typed, topic, (f"pad{number}", {"id": number, "amount": 0.5}))
    needle, plain = {"id": 1, "amount": 1.5, "note": "needle"}, {"id": 2, "amount": 2.0, "note": None}
    columns(typed, topic, ("k1", needle), ("k2", plain), ("k3", None))
    documents(typed, topic, k4='{"amount": 1e3, "id": 4}')
    documents(typed, topic, k5='{"id":5,"amount":1.0,"note":null}')
    documents(typed, topic, k6='{"id":"x"}')
    begun = typed.http.post("/v1/transactions", json={"transactional_id": secrets.token_hex(6)}).json()
    transaction = begun["transaction_id"]
    columns(typed, topic, ("k7", {"id": 7, "amount": 7.0}), **{"Tidelog-Transaction": transaction})
    assert typed.http.post(f"/v1/transactions/{transaction}:commit").status_code == 200
    assert len(typed.values(topic, max_records=1_000)) == PADS + 7
    documents(typed, topic, members=', "deliver_after_ms": 200', k8='{"id":8,"amount":8}')
    until(lambda: len(typed.values(topic, max_records=1_000)) == PADS + 8)
    client = Producer({"bootstrap.servers": typed.gateway.kafka, "compression.type": "gzip"})
    client.produce(topic, b'{"id": 9, "amount": 9}', b"k9")
    assert client.flush(30) == 0
    body = {"topics": [{"topic": topic, "records": [{"key": "k10", "value": {"id": 10, "amount": 10}}]}]}
    assert typed.http.post("/v1/records", json=body).status_code == 200
    columns(typed, topic, ("k1", {"id": 11, "amount": 11.0}))
    columns(typed, topic, ("k2", None))


def fill_format(typed: TypedGateway, topic: str, made: Format) -> Place:
    """A topic of the format, with what it sends: merged."""
    schema_id = typed.registry.register(topic, made.schema, schemaType=made.kind)
    typed.create(topic, value_schema=topic, value_keep="false", data_on_error="mark", flush_ms=0)
    (pad, text) = made.rows["k1"]
    for key in (pads := [f"pad{number}" for number in range(PADS)]):
        columns(typed, topic, (key, pad), members=made.members)
    columns(typed, topic, *((key, row) for key, (row, _) in made.rows.items()), members=made.members)
    client = Producer({"bootstrap.servers": typed.gateway.kafka})
    for key, value in made.sent.items():
        if value == framed(value, schema_id):
            documents(typed, topic, **{key: value})
        else:
            client.produce(topic, framed(value, schema_id).encode(), key)
            assert client.flush(30) == 0
    maintain(typed, topic)
    return Place(typed, topic, made.wanted(schema_id, [(key, text) for key in pads]))


def columns(
    typed: TypedGateway,
    topic: str,
    *records: tuple[str, dict[str, Any] | None],
    members: pa.DataType = MEMBERS,
    **headers: str,
) -> None:
    """Append records as columns, in one request."""
    data = pa.array([value for _, value in records], members)
    answer = typed.columns(topic, {"key": [key for key, _ in records], "data": data}, **headers)
    assert answer.is_success, answer.text


def documents(typed: TypedGateway, topic: str, members: str = "", **values: str) -> None:
    """Append JSON documents as they are written."""
    records = ",".join(f'{{"key":"{key}","value":{value}{members}}}' for key, value in values.items())
    body, kind = f'{{"records":[{records}]}}', {"Content-Type": "application/json"}
    answer = typed.http.post(f"/v1/topics/{topic}/records", content=body, headers=kind)
    assert answer.is_success, answer.text


def maintain(typed: TypedGateway, topic: str) -> None:
    """One round over the topic, which is proved afterwards."""
    store = open_store(typed.gateway.store)
    workers, report = LocalWorkers(store), CollectedEvents()
    job = Job(store=store, workers=workers, clock=SystemClock(), report=report, only=[topic])
    assert job.run_round(collect=False).failed_topics == 0
    assert verify_topic(store, topic).ok


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Place]]:
    """Topics of one gateway, and of another one on a copy of its store."""
    folder: Path = tmp_path_factory.mktemp("left-out")
    store, copy = str(folder / "store"), str(folder / "copy")
    with kafka_gateway(store, folder / "log") as gateway, typed_on(gateway) as typed:
        typed.registry.register("orders", ORDER)
        made: dict[str, Place] = {}
        for name in ("segments", "merged", "trimmed", "compacted"):
            fill(typed, name, **(COMPACT if name == "compacted" else {}))
            if name != "segments":
                maintain(typed, name)
            columns(typed, name, (LAST[0], {"id": 99, "amount": 99.0, "note": "needle"}))
            made[name] = Place(typed, name, [*FIRST, LAST])
        before = {"before": [{"partition": 0, "offset": DELETED}]}
        assert typed.http.post("/v1/topics/trimmed:delete-records", json=before).status_code == 200
        made["trimmed"] = Place(typed, "trimmed", made["trimmed"].wanted[DELETED:])
        made["compacted"] = Place(typed, "compacted", compacted(made["compacted"].wanted))
        for name in ("trimmed", "compacted", "compacted"):
            maintain(typed, name)
        made |= {name: fill_format(typed, name, one) for name, one in FORMATS.items()}
        gateway.end()
        gateway.start()
        fill(typed, "memory")
        made["memory"] = Place(typed, "memory", FIRST)
        for name, one in FORMATS.items():
            columns(typed, name, ("gone", None), members=one.members)
        assert not any(one.problems for one in copy_log(open_store(store), open_store(copy), SystemClock()))
        with kafka_gateway(copy, folder / "log2") as other, typed_on(other) as copied:
            yield made | {"copy": Place(copied, "merged", made["merged"].wanted)}


def test_each_operation_that_reads_a_topic_has_its_door() -> None:
    """Or the reason why it gives no value."""
    rows = (*http_rows.ROWS, *registry_rows.ROWS, *iceberg_rows.ROWS, *sharing_rows.ROWS, *kafka_rows.ROWS)
    reading = {row.operation for row in rows if any(right[:2] == ("Read", "topic") for right in row.rights)}
    assert reading - {door.operation for door in DOORS} == NO_DOOR.keys()


@pytest.mark.parametrize("name", [*PLACES, *FORMATS])
def test_values_are_left_out_of_the_tables(places: dict[str, Place], name: str) -> None:
    """The cases are of values that are not stored; merges, deletions and compactions have rewritten the segments."""
    place = places[name]
    rows = place.typed.table(place.topic).select(["key", "value", "data"]).to_pylist()
    newest = {row["key"].decode(): row["value"] is None and row["data"] is not None for row in rows}
    assert {key for key, is_left_out in newest.items() if is_left_out} == LEFT_OUT[name] & {
        key for key, _ in place.wanted
    }
    assert len(rows) == len(place.wanted)
    is_rewritten = name not in {"memory", "segments"}
    assert (len(place.typed.files(place.topic)) == 2) == is_rewritten


@pytest.mark.parametrize("name", [*PLACES, *FORMATS])
@pytest.mark.parametrize("door", DOORS, ids=str)
def test_every_value_leaves_by_each_door(places: dict[str, Place], door: Door, name: str) -> None:
    """Documents of columns, values that are stored, and tombstones, in order."""
    place = places[name]
    wanted = door.of(place.wanted)
    assert door.read(Place(place.typed, place.topic, wanted)) == wanted


def test_consumers_far_behind_get_every_value(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One reads the segments itself, by plans; others get them from the processes that read old records."""
    store = str(tmp_path / "store")
    notes = [secrets.token_hex(150) for _ in range(30_000)]
    rows = pa.array([{"id": number, "amount": 0.5, "note": note} for number, note in enumerate(notes)], MEMBERS)
    wanted = [f'{{"id":{number},"amount":0.5,"note":"{note}"}}' for number, note in enumerate(notes)]
    with (
        kafka_gateway(store, tmp_path / "log", "--tail-cache-bytes-max", "0") as gateway,
        typed_on(gateway) as typed,
        caplog.at_level(logging.INFO, "tidelog.consumer"),
    ):
        typed.registry.register("orders", ORDER)
        typed.create("t", value_schema="orders", value_keep="false")
        for first in range(0, len(rows), 10_000):
            assert typed.columns("t", {"data": rows.slice(first, 10_000)}).is_success
        settings: Any = {"bootstrap_servers": gateway.url, "consumer_timeout_ms": 2_000, "store": store}
        with Consumer("t", **settings) as consumer:
            assert [(record.value or b"").decode() for record in consumer] == wanted
        assert caplog.text == ""
        wait_for_readers(gateway)
        before = answered(gateway)
        page = typed.values("t", offset=5_000, max_records=5_000)
        assert page == wanted[5_000 : 5_000 + len(page)]
        assert answered(gateway) == before + 1


def test_a_large_transaction_of_a_kafka_client_keeps_its_bytes(tmp_path: Path) -> None:
    """More than one piece, with columns and with values, which readers get as they were sent."""
    sent = [
        json.dumps({"id": number, "amount": 1.0, "note": secrets.token_hex(32 * 1024)}).encode()
        for number in range(1_200)
    ]
    with kafka_gateway(tmp_path / "store", tmp_path / "log") as gateway, typed_on(gateway) as typed:
        typed.registry.register("orders", ORDER)
        typed.create("t", partition_count=PARTITIONS, value_schema="orders", value_keep="false")
        producer = transactional(gateway)
        send_all(producer, "t", sent)
        producer.commit_transaction(300)
        table = typed.table("t")
        assert sorted(table.column("value").to_pylist()) == sorted(sent)
        assert sorted(one["id"] for one in table.column("data").to_pylist()) == list(range(len(sent)))
        assert len(typed.files("t")) > 1
        for partition in range(PARTITIONS):
            path = f"/v1/topics/t/partitions/{partition}/records"
            (first, *_) = typed.http.get(path, params={"offset": 0}).json()["records"]
            assert first["value"].encode() == sent[partition]
