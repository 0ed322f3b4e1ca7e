"""Many tiny records of a schema with thousands of members: the columns that they do not fill have a bound, too."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Final

import httpx
from confluent_kafka import KafkaError, Producer
from deltalake import DeltaTable

from log_format.records.typed_columns import CELLS_MAX
from tests.support.kafka_gateway import kafka_gateway
from tests.support.registry import Registry, record
from tests.support.waiting import until
from tidelog import Producer as OwnProducer

_WIDTH: Final = 4_000
_WIDE: Final = record("Wide", **{f"c{number}": (["null", "long"], None) for number in range(_WIDTH)})
_MEASURE: Final = """
import json, resource, sys
from log_format.schemas.columns.codec import RecordReaders, SchemaReader, SubjectReader
from log_format.schemas.schema import Schema, SchemaType
from tests.support.records import records_of

schema, value, count = sys.argv[1], bytes.fromhex(sys.argv[2]), int(sys.argv[3])
reader = SchemaReader(Schema(type=SchemaType.AVRO, text=open(schema).read()))
readers = RecordReaders(SubjectReader("s", [(1, reader)]), None)
assert not readers.typed(records_of([value] * 20, [None] * 20, 0))[1]
records = records_of([value] * count, [None] * count, 0)
assert readers.takes(count, count * len(value))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert not readers.typed(records)[1]
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_more_records_than_columns_have_room_for_are_refused(tmp_path: Path) -> None:
    """By HTTP with the number that is taken, by Kafka's protocol as a batch that is too large; what is below is stored, also in a
    topic that shares a journal."""
    taken = CELLS_MAX // _WIDTH
    with kafka_gateway(tmp_path / "store", tmp_path / "log") as gateway, httpx.Client(timeout=60) as http:
        with closing(Registry(f"{gateway.url}/registry")) as registry:
            registry.register("wide", _WIDE)
        for mode in ("own", "shared"):
            config: dict[str, str | int] = {"value.schema": "wide", "commit.mode": mode, "flush.ms": 0}
            if mode == "shared":
                config["drain.ms"] = 1000
            assert http.post(f"{gateway.url}/v1/topics", json={"name": mode, "config": config}).status_code == 201

        def sent(topic: str, count: int) -> httpx.Response:
            body = b'{"value":{}}\n' * count
            headers = {"content-type": "application/x-ndjson"}
            return http.post(f"{gateway.url}/v1/topics/{topic}/records", content=body, headers=headers)

        refused = sent("own", taken + 1)
        assert (refused.status_code, refused.json()["records_max"]) == (413, taken), refused.text
        assert "send at most 1,048 at once" in refused.json()["detail"]
        for mode in ("own", "shared"):
            assert sent(mode, taken).is_success
            until(lambda mode=mode: _rows(gateway.store, mode) == taken)  # type: ignore[misc]
        errors: list[KafkaError | None] = []
        settings = {"bootstrap.servers": gateway.kafka, "linger.ms": 500, "batch.num.messages": 10_000, "log_level": 0}
        producer = Producer(settings)
        for _ in range(taken + 1):
            producer.produce("own", b"{}", on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(60) == 0
        assert {error.code() for error in errors if error is not None} == {KafkaError.MSG_SIZE_TOO_LARGE}
        with OwnProducer(gateway.url, linger_ms=500) as own:  # splits the request
            placed = [own.send("own", b"{}") for _ in range(taken + 1)]
        assert len({(one.result().partition, one.result().offset) for one in placed}) == taken + 1


def _rows(store: str, topic: str) -> int:
    count: int = DeltaTable(f"{store}/topics/{topic}").to_pyarrow_table(columns=["offset"]).num_rows
    return count


def test_absent_members_take_no_more_than_twice_the_memory_of_present_ones(tmp_path: Path) -> None:
    """As many tiny documents as are taken, beside as many values of Avro that have each member, of a byte."""
    schema = tmp_path / "wide.avsc"
    schema.write_text(_WIDE)
    count = CELLS_MAX // _WIDTH
    tiny = _peak(schema, b"{}", count)
    full = _peak(schema, json.dumps({f"c{number}": 1 for number in range(_WIDTH)}).encode(), count)
    assert tiny <= 2 * full, (tiny, full)


def _peak(schema: Path, value: bytes, count: int) -> int:
    command = [sys.executable, "-c", _MEASURE, str(schema), value.hex(), str(count)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
