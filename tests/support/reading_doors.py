"""Each door by which records leave a topic, as functions from a topic to the keys and values that its reader gets."""

from __future__ import annotations

import io
import json
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from aiokafka.record.memory_records import MemoryRecords
from confluent_kafka import Consumer as KafkaConsumer
from kio.schema.errors import ErrorCode as KafkaError

from tests.support.command_runs import runner
from tests.support.kafka_frames import Wire
from tests.support.kafka_shares import ShareMember, topic_id
from tests.support.typed_gateway import TypedGateway
from tests.support.waiting import until
from tidelog import Consumer

Records = list[tuple[str, str | None]]
"""Keys and values, by offset."""


@dataclass(frozen=True)
class Place:
    """A topic, and what each door has to give of it."""

    typed: TypedGateway
    topic: str
    wanted: Records

    def get(self, **query: Any) -> bytes:
        """A fetch's body; ``accept``: its type."""
        kind = query.pop("accept", "application/json")
        path = f"/v1/topics/{self.topic}/partitions/0/records"
        params: dict[str, Any] = {"offset": "earliest", "max_records": 1_000} | query
        answer = self.typed.http.get(path, params=params, headers={"Accept": kind})
        assert answer.status_code == 200, answer.text
        return answer.content

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The answer to a call."""
        answer = self.typed.http.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def queue(self, **settings: Any) -> str:
        """A queue of its own on the topic."""
        queue = f"q-{secrets.token_hex(4)}"
        body = {"topics": [self.topic], "start": "earliest"} | settings
        assert self.typed.http.put(f"/v1/queues/{queue}", json=body).status_code == 201
        return queue

    def received(self, queue: str, count: int) -> list[dict[str, Any]]:
        """The queue's next records, by offset."""
        found: list[dict[str, Any]] = []
        while len(found) < count:
            more = self.post(f"/v1/queues/{queue}:receive", {"max_records": 1_000, "max_wait_ms": 9_000})["records"]
            assert more, (len(found), count)
            found += more
        return sorted(found, key=lambda one: int(one["offset"]))


def pairs(records: list[dict[str, Any]]) -> Records:
    """Of records as JSON has them."""
    return [(one["key"], one["value"]) for one in records]


def of_bytes(records: Iterable[tuple[bytes | None, bytes | None]]) -> Records:
    """Of records as a client's have them."""
    return [((key or b"").decode(), None if value is None else value.decode()) for key, value in records]


def of_table(table: pa.Table) -> Records:
    """Of a table with columns of bytes."""
    return of_bytes(zip(table.column("key").to_pylist(), table.column("value").to_pylist(), strict=True))


def _json(place: Place) -> Records:
    return pairs(json.loads(place.get())["records"])


def _lines(place: Place) -> Records:
    return pairs([json.loads(line) for line in place.get(accept="application/x-ndjson").splitlines()])


def _arrow(place: Place) -> Records:
    return of_table(pa.ipc.open_stream(place.get(accept="application/vnd.apache.arrow.stream")).read_all())


def _parquet(place: Place) -> Records:
    return of_table(pq.read_table(io.BytesIO(place.get(accept="application/vnd.apache.parquet"))))


def _events(place: Place) -> Records:
    found: list[dict[str, Any]] = []
    path, kind = f"/v1/topics/{place.topic}/partitions/0/records?offset=earliest", {"Accept": "text/event-stream"}
    with place.typed.http.stream("GET", path, headers=kind) as stream:
        for line in stream.iter_lines():
            if line.startswith("data: "):
                found.append(json.loads(line.removeprefix("data: ")))
                if len(found) == len(place.wanted):
                    break
    return pairs(found)


def _bytes_limit(place: Place) -> Records:
    found: list[dict[str, Any]] = []
    offset, end = "earliest", None
    while offset != end:
        page = json.loads(place.get(offset=offset, max_bytes=100))
        found, offset, end = found + page["records"], page["next_offset"], page["high_watermark"]
    return pairs(found)


def _several(place: Place) -> Records:
    wanted = [{"topic": place.topic, "partition": 0, "offset": "earliest"}]
    return pairs(place.post("/v1/fetch", {"partitions": wanted, "max_records": 1_000})["partitions"][0]["records"])


def _poll(place: Place) -> Records:
    path = f"/v1/groups/g-{secrets.token_hex(4)}/poll"
    body: dict[str, Any] = {"topics": [place.topic], "auto_offset_reset": "earliest", "max_records": 1_000}
    found: list[dict[str, Any]] = []
    while len(found) < len(place.wanted):
        answer = place.post(path, body | {"max_wait_ms": 9_000})
        found += [one for partition in answer["partitions"] for one in partition["records"]]
        body = {name: answer[name] for name in ("member_id", "generation")} | {"max_records": 1_000}
    return pairs(found)


def _received(place: Place) -> Records:
    return pairs(place.received(place.queue(), len(place.wanted)))


def _dead_letters_redriven(place: Place) -> Records:
    """Each record is rejected, read as a dead letter, and redriven into a topic without a schema."""
    letters, target = f"letters-{secrets.token_hex(4)}", f"target-{secrets.token_hex(4)}"
    for topic in (letters, target):
        place.typed.create(topic)
    queue = place.queue(dead_letter_topic=letters)
    rejected = place.received(queue, len(place.wanted))
    names = ("topic", "partition", "offset", "lease")
    settled = [{name: one[name] for name in names} | {"action": "reject"} for one in rejected]
    place.post(f"/v1/queues/{queue}:settle", {"settlements": settled})
    until(lambda: len(place.typed.values(letters, max_records=1_000)) == len(rejected))
    assert _json(Place(place.typed, letters, [])) == place.wanted
    assert place.post(f"/v1/queues/{queue}:redrive", {"to_topic": target})["redriven"] == len(rejected)
    return _json(Place(place.typed, target, []))


def _kafka_client(place: Place) -> Records:
    settings = {"bootstrap.servers": place.typed.gateway.kafka, "group.id": secrets.token_hex(4)}
    consumer = KafkaConsumer(settings | {"auto.offset.reset": "earliest"})
    consumer.subscribe([place.topic])
    found: list[tuple[bytes | None, bytes | None]] = []
    while len(found) < len(place.wanted):
        message = consumer.poll(20)
        assert message is not None
        assert message.error() is None
        found.append((message.key(), message.value()))
    consumer.close()
    return of_bytes(found)


def _kafka_version(version: int) -> Callable[[Place], Records]:
    def read(place: Place) -> Records:
        named = {"topic_id": topic_id(place.typed.gateway, place.topic)} if version >= 13 else {"topic": place.topic}
        found: list[tuple[bytes | None, bytes | None]] = []
        path = f"/v1/topics/{place.topic}/partitions/0/offsets"
        offset = place.typed.http.get(path).json()["log_start_offset"]
        with Wire(place.typed.gateway.kafka) as wire:
            while len(found) < len(place.wanted):
                partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
                topics = [named | {"partitions": [partition]}]
                limits = {"max_wait": 0, "min_bytes": 1, "max_bytes": 8 << 20, "replica_id": -1, "rack_id": ""}
                answer = wire.call("fetch", version, **limits, topics=topics, forgotten_topics_data=())
                (answered,) = answer.responses[0].partitions
                assert (answered.error_code, bool(answered.records)) == (KafkaError.none, True)
                records = MemoryRecords(bytes(answered.records))
                while (batch := records.next_batch()) is not None:
                    for one in batch:
                        found.append((one.key, one.value))
                        offset = one.offset + 1
        return of_bytes(found)

    return read


def _shared(place: Place) -> Records:
    found: dict[int, bytes] = {}
    with ShareMember(place.typed.gateway.kafka, place.queue(), topic_id(place.typed.gateway, place.topic)) as member:
        member.beat(0, [place.topic])

        def are_all() -> bool:
            found.update((one.offset, one.value) for one in member.fetch(max_wait_ms=500).records)
            return len(found) == len(place.wanted)

        until(are_all)
    keys = [key for key, _ in place.wanted]
    return of_bytes(zip(map(str.encode, keys), [found[offset] for offset in sorted(found)], strict=True))


def _sql(place: Place) -> Records:
    asked = {"sql": f'select key, value from "{place.topic}" order by "offset"', "max_records": 1_000}
    return [(row[0], row[1]) for row in place.post("/v1/sql", asked)["rows"]]


def _sdk(place: Place) -> Records:
    settings: Any = {"bootstrap_servers": place.typed.gateway.url, "consumer_timeout_ms": 1_000}
    with Consumer(place.topic, **settings) as consumer:
        return of_bytes((one.key, one.value) for one in consumer)


def _command(*words: str) -> Callable[[Place], Records]:
    def read(place: Place) -> Records:
        ended = runner(place.typed.gateway.url)(words[0], place.topic, *words[1:])
        assert ended.exit_code == 0, ended.output
        return pairs([json.loads(line) for line in ended.stdout.splitlines()])

    return read


def _sql_command(place: Place) -> Records:
    statement = f'select key, value from "{place.topic}" order by "offset"'
    ended = runner(place.typed.gateway.url)("sql", statement, "--json")
    assert ended.exit_code == 0, ended.output
    return pairs([json.loads(line) for line in ended.stdout.splitlines()])


def _needles(records: Records) -> Records:
    return [one for one in records if "needle" in (one[1] or "")]


def _only(key: str) -> Callable[[Records], Records]:
    return lambda records: [one for one in records if one[0] == key]


def _console(place: Place) -> Records:
    return pairs(json.loads(place.get(value_contains="needle"))["records"])


def _keyed(place: Place) -> Records:
    return pairs(json.loads(place.get(key="k1"))["records"])


@dataclass(frozen=True)
class Door:
    """``read``: what it gives of a topic; ``of``: which of the records that are."""

    operation: str
    what: str
    read: Callable[[Place], Records]
    of: Callable[[Records], Records] = list

    def __str__(self) -> str:
        return f"{self.operation} {self.what}"


_RECORDS: Final = "GET /v1/topics/{topic}/partitions/{partition}/records"
DOORS: Final = (
    Door(_RECORDS, "json", _json),
    Door(_RECORDS, "ndjson", _lines),
    Door(_RECORDS, "arrow", _arrow),
    Door(_RECORDS, "parquet", _parquet),
    Door(_RECORDS, "events", _events),
    Door(_RECORDS, "few bytes at once", _bytes_limit),
    Door(_RECORDS, "with a text", _console, _needles),
    Door(_RECORDS, "with a key", _keyed, _only("k1")),
    Door("POST /v1/fetch", "", _several),
    Door("POST /v1/groups/{group}/poll", "", _poll),
    Door("POST /v1/queues/{queue}:receive", "", _received),
    Door("POST /v1/queues/{queue}:redrive", "after :settle", _dead_letters_redriven),
    Door("POST /v1/sql", "", _sql),
    Door("kafka fetch", "by a client", _kafka_client),
    *(Door("kafka fetch", f"version {version}", _kafka_version(version)) for version in (4, 11, 12, 18)),
    Door("kafka share_fetch", "", _shared),
    Door("tidelog", "Consumer", _sdk),
    Door("tidelog", "consume", _command("consume", "--json")),
    Door("tidelog", "consume with a key", _command("consume", "--json", "--key", "k1"), _only("k1")),
    Door("tidelog", "tail", _command("tail", "--json", "--lines", "1000", "--until", "latest")),
    Door("tidelog", "sql", _sql_command),
)
SHARED: Final = "/delta-sharing/shares/{share}/schemas/{schema}/tables/{table}"
NO_DOOR: Final = {
    "GET /v1/topics/{topic}/partitions/{partition}/segments": "names the segments; test_history reads them",
    "GET /iceberg/v1/namespaces/{namespace}/tables/{table}": "names the files of the table, which has columns",
    **dict.fromkeys(
        (
            f"{call} /iceberg/v1/namespaces/{{namespace}}/tables/{{table}}/{path}"
            for call, path in (("POST", "plan"), ("GET", "plan/{plan}"), ("DELETE", "plan/{plan}"), ("POST", "tasks"))
        ),
        "names files of the table",
    ),
    "POST /iceberg/v1/namespaces/{namespace}/tables/{table}/sign": "gives a URL of a file of the table",
    "POST /v1/credentials": "are for readers of the table, which has columns",
    **dict.fromkeys(
        (f"GET {SHARED}/version", f"GET {SHARED}/metadata", f"POST {SHARED}/query"), "names files of the table"
    ),
    "GET /delta-sharing/files/{topic}/{file}": "is a file of the table, which has columns",
    "POST /v1/topics/{topic}:clone": "copies the files, and shows no record",
    "POST /v1/queues/{queue}:settle": "is part of the redrive's case",
    "GET /v1/topics/{topic}/scheduled": "these records are not in the topic yet",
    "GET /v1/topics/{topic}/scheduled/{scheduled}": "this record is not in the topic yet",
    **dict.fromkeys(("POST /v1/records", "PUT /v1/queues/{queue}", "kafka describe_producers"), "gives no record"),
    **dict.fromkeys(("kafka share_group_heartbeat", "kafka consumer_group_heartbeat"), "gives no record"),
    **dict.fromkeys(("kafka share_acknowledge", "POST /v1/groups/{group}/members"), "gives no record"),
    **dict.fromkeys(("POST /v1/transactions/{transaction}:commit", "kafka end_txn"), "sets offsets"),
    **dict.fromkeys(("POST /v1/transactions/{transaction}/offsets", "kafka txn_offset_commit"), "sets offsets"),
    **dict.fromkeys(("PUT /v1/groups/{group}/offsets", "kafka offset_commit"), "sets offsets"),
    **dict.fromkeys(("POST /v1/groups/{group}/offsets:delete", "kafka offset_delete"), "deletes offsets"),
    **dict.fromkeys(("kafka alter_share_group_offsets", "kafka delete_share_group_offsets"), "sets offsets"),
}
"""Operations that need Read on a topic and give no value, and why."""
