"""The HTTP contract over lists in memory, without the HTTP: what the fake gateway serves."""

from __future__ import annotations

import base64
import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa

from tests.support.fake_records import as_json, passes
from tidelog.bodies.chunk import table_from_records
from tidelog.bodies.encode import ARROW
from tidelog.bodies.partitioner import partition_for_key
from tidelog.types.record import Record

DEFAULTS = {"max.message.bytes": 1048576, "message.timestamp.type": "CreateTime", "retention.ms": 604800000}
OWN_COMMITS = {"mode": "own", "since": 1763683200000, "reason": "created so"}
COLUMNS = {"partition", "timestamp", "key", "value", "headers", "offset", "topic", "timestampType"}
"""The last three are ignored."""


class Problem(Exception):
    """An error answer."""

    def __init__(self, status: int, code: str, headers: dict[str, str] | None = None, **fields: Any) -> None:
        super().__init__(code)
        self.status = status
        self.headers = headers or {}
        unsure = code in {"INTERNAL", "OUTCOME_UNKNOWN"}
        self.body = {
            "type": "about:blank",
            "title": code,
            "status": status,
            "detail": f"It is {code}.",
            "error_code": code,
            "retryable": unsure or status in {429, 503},
            "may_have_happened": unsure,
            **fields,
        }


@dataclass
class FakeTopic:
    """Its log starts and its records, a list per partition."""

    partition_count: int
    config: dict[str, Any]
    log_starts: list[int] = field(default_factory=list)
    records: list[list[Record]] = field(default_factory=list)
    requests: dict[str, dict[int, Any]] = field(default_factory=dict)
    """By producer id and sequence: what each idempotent request was answered."""
    commit: dict[str, Any] = field(default_factory=lambda: dict(OWN_COMMITS))
    topic_id: str = field(default_factory=lambda: str(uuid4()))

    def __post_init__(self) -> None:
        self.grow(self.partition_count)

    def grow(self, partition_count: int) -> None:
        self.partition_count = partition_count
        while len(self.records) < partition_count:
            self.records.append([])
            self.log_starts.append(0)


@dataclass
class Asked:
    """A request as it came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


class FakeLog:
    """Topics and every call on them. Safe from any thread as far as tests need it."""

    def __init__(self) -> None:
        self.url = ""
        self.id = "one"
        self.peers: list[FakeLog] = []
        """Other gateways of the same store, which hold the same topics and groups."""
        self.topics: dict[str, FakeTopic] = {}
        self.request_bytes_max = 16 * 1024 * 1024
        self.auto_create_topics = 0
        self.failing_writes: dict[str, Any] | None = None
        """What it says of writes that fail."""
        self.journals: dict[str, Any] | None = None
        """What it says of journals; None: nothing, as a release before them."""
        self.busy_produces: dict[str, int] = {}
        self.most_busy_produces: dict[str, int] = {}
        self.commit_seconds = 0.0
        self.sequence_wait_seconds = 0.3
        self.producer_ids: list[str] = []
        self.damaged: set[tuple[str, int]] = set()
        self.changed = threading.Condition(threading.RLock())
        self.stopping = False

    def carry_out(self, asked: Asked) -> tuple[int, dict[str, str], bytes]:
        names = [unquote(name) for name in asked.path.removeprefix("/v1/").split("/")]
        if len(asked.body) > self.request_bytes_max:
            raise Problem(413, "REQUEST_TOO_LARGE", limit_bytes=self.request_bytes_max)
        match asked.method, names:
            case "GET", ["cluster"]:
                limits = {"request_bytes_max": self.request_bytes_max, "auto_create_topics": self.auto_create_topics}
                gateways = [
                    {"id": one.id, "url": one.url, "started_at": 1, "owned_topics": sorted(one.topics)}
                    for one in (self, *self.peers)
                ]
                told: dict[str, Any] = {"gateways": gateways, "store": "memory://", "version": "1", "limits": limits}
                told["failing_writes"] = self.failing_writes
                return answer_json(200, told | ({} if self.journals is None else {"journals": self.journals}))
            case "POST", ["producers"]:
                with self.changed:
                    self.producer_ids.append(f"producer-{len(self.producer_ids)}")
                    return answer_json(201, {"producer_id": self.producer_ids[-1], "epoch": 0})
            case "POST", ["topics"]:
                return self._create(json.loads(asked.body))
            case "GET", ["topics"]:
                return self._list(asked.query)
            case "GET", ["topics", name]:
                return answer_json(200, self._describe(name))
            case "PATCH", ["topics", name]:
                change = json.loads(asked.body)
                topic = self._topic(name)
                topic.grow(change.get("partition_count", topic.partition_count))
                for key, value in change.get("config", {}).items():
                    topic.config.pop(key, None) if value is None else topic.config.update({key: value})
                return answer_json(200, self._describe(name))
            case "DELETE", ["topics", name]:
                self._topic(name)
                del self.topics[name]
                return 204, {}, b""
            case "POST", ["topics", action] if action.endswith(":delete-records"):
                return self._delete_records(action.removesuffix(":delete-records"), json.loads(asked.body))
            case "POST", ["topics", name, "records"]:
                return self._produce(name, None, asked)
            case "POST", ["topics", name, "partitions", partition, "records"]:
                return self._produce(name, int(partition), asked)
            case "GET", ["topics", name, "partitions", partition, "offsets"]:
                return self._offsets(name, int(partition), asked.query.get("timestamp"))
            case "GET", ["topics", name, "partitions", partition, "records"]:
                return self._fetch_one(name, int(partition), asked)
            case "POST", ["fetch"]:
                return self._fetch_many(json.loads(asked.body))
        raise Problem(404, "NOT_FOUND")

    def _topic(self, name: str) -> FakeTopic:
        if name not in self.topics:
            raise Problem(404, "UNKNOWN_TOPIC", topic=name)
        return self.topics[name]

    def _create(self, body: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        name = body["name"]
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", name):
            raise Problem(400, "INVALID_TOPIC_NAME")
        existing = self.topics.get(name)
        if existing is None:
            self.topics[name] = FakeTopic(body["partition_count"], body["config"])
        elif (existing.partition_count, existing.config) != (body["partition_count"], body["config"]):
            raise Problem(409, "TOPIC_ALREADY_EXISTS")
        return answer_json(201 if existing is None else 200, self._describe(name))

    def _list(self, query: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        names = [name for name in sorted(self.topics) if name.startswith(query.get("prefix", ""))]
        names = [name for name in names if name > query.get("after", "")]
        page: dict[str, Any] = {"topics": [self._describe(name) for name in names[:2]]}
        if len(names) > 2:
            page["next"] = names[1]
        return answer_json(200, page)

    def _describe(self, name: str) -> dict[str, Any]:
        topic = self._topic(name)
        partitions = [
            {
                "partition": partition,
                "log_start_offset": topic.log_starts[partition],
                "high_watermark": len(topic.records[partition]),
                "size_bytes": 10,
            }
            for partition in range(topic.partition_count)
        ]
        return {
            "name": name, "topic_id": topic.topic_id, "partition_count": topic.partition_count, "partitions": partitions,
            "config": {**DEFAULTS, **topic.config}, "table_uri": f"memory:///topics/{name}",
            "table_version": 1, "created_at": 1763683200000, "commit": topic.commit,
        }  # fmt: skip

    def _delete_records(self, name: str, body: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        topic = self._topic(name)
        starts = []
        for place in body["before"]:
            partition, offset = place["partition"], place["offset"]
            end = len(topic.records[partition])
            if offset > end:
                raise Problem(416, "OFFSET_OUT_OF_RANGE", log_start_offset=0, high_watermark=end)
            topic.log_starts[partition] = max(topic.log_starts[partition], end if offset == -1 else offset)
            starts.append({"partition": partition, "log_start_offset": topic.log_starts[partition]})
        return answer_json(200, {"partitions": starts})

    def _produce(self, name: str, partition: int | None, asked: Asked) -> tuple[int, dict[str, str], bytes]:
        with self.changed:
            self.busy_produces[name] = self.busy_produces.get(name, 0) + 1
            self.most_busy_produces[name] = max(self.most_busy_produces.get(name, 0), self.busy_produces[name])
        try:
            time.sleep(self.commit_seconds)
            with self.changed:
                topic = self._topic(name)
                answers, sequence = self._in_order(name, asked.headers)
                if sequence in answers:
                    return answer_json(200, {**answers[sequence], "duplicate": True})
                limit = topic.config.get("max.message.bytes", DEFAULTS["max.message.bytes"])
                appended = records_of(name, topic.partition_count, partition, asked)
                for record in appended:
                    if not 0 <= record.partition < topic.partition_count:
                        raise Problem(404, "UNKNOWN_PARTITION")
                    if len(record.value or b"") + len(record.key or b"") > limit:
                        raise Problem(413, "RECORD_TOO_LARGE", limit_bytes=limit)
                stored = places_of(topic, appended)
                answers[sequence] = {"topic": name, "partitions": stored}
                self.changed.notify_all()
            status, answered, body = answer_json(200, {"topic": name, "partitions": stored, "duplicate": False})
            return status, {**answered, "Tidelog-Partition-Count": str(topic.partition_count)}, body
        finally:
            with self.changed:
                self.busy_produces[name] -= 1

    def _in_order(self, name: str, headers: dict[str, str]) -> tuple[dict[int, Any], int]:
        """What this producer was answered, and this request's sequence; waits for those before it."""
        producer_id = headers.get("tidelog-producer-id")
        if producer_id is None:
            return {}, 0
        if producer_id not in self.producer_ids:
            raise Problem(404, "UNKNOWN_PRODUCER")
        answers = self._topic(name).requests.setdefault(producer_id, {})
        sequence = int(headers["tidelog-producer-sequence"])
        if not self.changed.wait_for(lambda: sequence <= len(answers), self.sequence_wait_seconds):
            raise Problem(409, "SEQUENCE_OUT_OF_ORDER", retryable=True, expected_sequence=len(answers))
        return answers, sequence

    def _offsets(self, name: str, partition: int, timestamp: str | None) -> tuple[int, dict[str, str], bytes]:
        records = self._log(name, partition)
        found: dict[str, Any] = {
            "log_start_offset": self.topics[name].log_starts[partition],
            "high_watermark": len(records),
        }
        if timestamp is not None:
            late = (record.offset for record in records if record.timestamp_ms >= int(timestamp))
            found["offset"] = next(late, None)
        return answer_json(200, found)

    def _log(self, name: str, partition: int) -> list[Record]:
        topic = self._topic(name)
        if not 0 <= partition < topic.partition_count:
            raise Problem(404, "UNKNOWN_PARTITION")
        return topic.records[partition]

    def _readable(self, name: str, partition: int, offset: int, records_max: int, bytes_max: int) -> list[Record]:
        log, start = self._log(name, partition), self._topic(name).log_starts[partition]
        if (name, partition) in self.damaged:
            raise Problem(500, "CORRUPT_SEGMENT", segment="segments/x.parquet")
        if not start <= offset <= len(log):
            status = 410 if offset < start else 416
            raise Problem(status, "OFFSET_OUT_OF_RANGE", log_start_offset=start, high_watermark=len(log))
        found: list[Record] = []
        for record in log[offset : offset + records_max]:
            bytes_max -= len(record.value or b"") + len(record.key or b"")
            if found and bytes_max < 0:
                break
            found.append(record)
        return found

    def _wait(self, wait_ms: int, ready: Callable[[], bool]) -> None:
        with self.changed:
            self.changed.wait_for(lambda: self.stopping or ready(), wait_ms / 1000)

    def _fetch_one(self, name: str, partition: int, asked: Asked) -> tuple[int, dict[str, str], bytes]:
        query = asked.query
        offset, limits = int(query["offset"]), (int(query["max_records"]), int(query["max_bytes"]))
        wanted = {"headers": query["header"].split("\n") if "header" in query else [], "key": query.get("key")}

        def look() -> tuple[list[Record], int]:
            records = self._readable(name, partition, offset, *limits)
            return [record for record in records if passes(record, wanted)], offset + len(records)

        self._wait(int(query["max_wait_ms"]), lambda: len(look()[0]) > 0)
        records, next_offset = look()
        assert asked.headers["accept"] == ARROW
        sink = pa.BufferOutputStream()
        table = table_from_records(records)
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write(table)
        headers = {
            "Content-Type": ARROW,
            "Tidelog-Next-Offset": str(next_offset),
            "Tidelog-High-Watermark": str(len(self._log(name, partition))),
            "Tidelog-Log-Start-Offset": str(self.topics[name].log_starts[partition]),
        }
        return 200, headers, sink.getvalue().to_pybytes()

    def _fetch_many(self, body: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        def look() -> list[dict[str, Any]]:
            found = []
            for place in body["partitions"]:
                named = {"topic": place["topic"], "partition": place["partition"]}
                where = (place["topic"], place["partition"], place["offset"])
                try:
                    records = self._readable(*where, body["max_records"], body["max_bytes"])
                except Problem as problem:
                    found.append({**named, "error": problem.body})
                    continue
                found.append(
                    {
                        **named,
                        "records": [as_json(record) for record in records if passes(record, place.get("filter", {}))],
                        "next_offset": where[2] + len(records),
                        "high_watermark": len(self._log(*where[:2])),
                        "log_start_offset": self.topics[where[0]].log_starts[where[1]],
                    }
                )
            return found

        self._wait(body["max_wait_ms"], lambda: any(each.get("records") or "error" in each for each in look()))
        return answer_json(200, {"partitions": look()})


def answer_json(status: int, body: object) -> tuple[int, dict[str, str], bytes]:
    return status, {"Content-Type": "application/json"}, json.dumps(body).encode()


def places_of(topic: FakeTopic, appended: list[Record]) -> list[dict[str, int]]:
    """Append the records, and say where they are."""
    ranges: dict[int, list[int]] = {}
    for record in appended:
        log = topic.records[record.partition]
        ranges.setdefault(record.partition, [len(log), 0])[1] += 1
        log.append(Record(record.topic, record.partition, len(log), *_rest(record)))
    return [
        {"partition": key, "base_offset": base, "last_offset": base + count - 1, "count": count}
        for key, (base, count) in sorted(ranges.items())
    ]


def _rest(record: Record) -> tuple[Any, ...]:
    return record.timestamp_ms, record.key, record.value, record.headers


def _bytes(record: dict[str, Any], name: str) -> bytes | None:
    if f"{name}_base64" in record:
        return base64.b64decode(record[f"{name}_base64"], validate=True)
    value = record.get(name)
    if value is not None and not isinstance(value, str):
        value = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return None if value is None else value.encode()


def records_of(topic: str, partition_count: int, partition: int | None, asked: Asked) -> list[Record]:
    match asked.headers["content-type"]:
        case "application/json":
            rows = json.loads(asked.body)["records"]
        case "application/x-ndjson":
            rows = []
            for number, line in enumerate(asked.body.splitlines(), 1):
                if line.strip():
                    try:
                        rows.append(json.loads(line))
                    except ValueError as error:
                        found = [{"where": f"line {number}", "what": str(error)}]
                        raise Problem(400, "INVALID_RECORD", errors=found) from error
        case "application/vnd.apache.arrow.stream":
            table = pa.ipc.open_stream(asked.body).read_all()
            if not set(table.column_names) <= COLUMNS:
                unknown = [{"where": f"/{name}", "what": "is not a column of records"} for name in table.column_names]
                raise Problem(400, "INVALID_REQUEST", errors=unknown)
            rows = table.to_pylist()
        case other:
            raise Problem(415, "UNSUPPORTED_MEDIA_TYPE", given=other)
    records = []
    for row in rows:
        key = row["key"] if isinstance(row.get("key"), bytes) else _bytes(row, "key")
        value = row["value"] if isinstance(row.get("value"), bytes) else _bytes(row, "value")
        chosen = partition if partition is not None else row.get("partition")
        if chosen is None:
            chosen = 0 if key is None else partition_for_key(key, partition_count)
        headers = tuple(
            (header["key"], header["value"] if isinstance(header.get("value"), bytes) else _bytes(header, "value"))
            for header in row.get("headers") or ()
        )
        timestamp = row.get("timestamp") if row.get("timestamp") is not None else 1763683200000
        records.append(Record(topic, chosen, 0, timestamp, key, value, headers))
    return records
