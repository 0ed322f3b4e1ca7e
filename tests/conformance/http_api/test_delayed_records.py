"""docs/http-api.md section 12: delayed records are stored before the answer, and appear once, not before their time."""

from __future__ import annotations

import io
import json
import time
from typing import Any

import pyarrow as pa
import pytest

from tests.support.http_api import Api, Json

DAY_MS = 86_400_000
LATE_MS = 1_000
"""What the contract allows."""
SLACK_MS = 1_500
"""What a busy machine that also runs the test may add."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def sent(answer: Any) -> Json:
    """The answer of a request that scheduled something."""
    assert answer.status_code == 200, answer.text
    body: Json = answer.json()
    return body


def appeared(api: Api, topic: str, count: int, within_ms: int = 6_000) -> list[tuple[Json, int]]:
    """Each record and when it was seen; reads until there are ``count``, and as long again as that took at most a second."""
    seen: list[tuple[Json, int]] = []
    deadline = now_ms() + within_ms
    while len(seen) < count and now_ms() < deadline:
        answer = api.fetch(topic, offset=str(len(seen)), max_wait_ms=200).json()
        seen += [(record, now_ms()) for record in answer["records"]]
    return seen


def headers_of(record: Json) -> dict[str, str]:
    return {header["key"]: header["value"] for header in record["headers"]}


def test_a_delayed_record_appears_once_at_its_time_with_its_header(api: Api) -> None:
    """Stored before the answer; once, not before its time, within a second after it, with `tidelog-scheduled-for`."""
    topic = api.topic()
    began = now_ms()
    record = {"key": "k", "value": "later", "headers": {"a": "b"}, "deliver_after_ms": 3_000}
    answer = sent(api.produce(topic, record, {"value": "now"}))
    assert [each["count"] for each in answer["partitions"]] == [1]
    (scheduled,) = answer["scheduled"]
    assert scheduled.keys() == {"id", "deliver_at", "index"}
    assert scheduled["index"] == 0
    assert began + 3_000 <= scheduled["deliver_at"] <= now_ms() + 3_000
    assert [each["value"] for each in api.records(topic)] == ["now"]
    (_, (later, seen_ms)) = appeared(api, topic, 2)
    assert later["value"] == "later"
    assert later["key"] == "k"
    assert [header["key"] for header in later["headers"]] == ["a", "tidelog-scheduled-for"]
    assert headers_of(later)["tidelog-scheduled-for"] == str(scheduled["deliver_at"])
    assert scheduled["deliver_at"] <= seen_ms <= scheduled["deliver_at"] + LATE_MS + SLACK_MS
    time.sleep(1.5)
    assert len(api.records(topic)) == 2


def test_what_is_due_already_is_appended_at_once(api: Api) -> None:
    """What is due already is appended at once and is in `partitions`."""
    topic = api.topic()
    answer = sent(api.produce(topic, {"value": "a", "deliver_at": 5}, {"value": "b", "deliver_after_ms": 0}))
    assert answer["partitions"] == [{"partition": 0, "base_offset": 0, "last_offset": 1, "count": 2}]
    assert not answer.get("scheduled")
    assert [record["value"] for record in api.records(topic)] == ["a", "b"]


def test_an_absent_timestamp_is_the_due_time_and_a_given_one_stays(api: Api) -> None:
    """Retention goes by timestamps: without one a delayed record has that of its delivery."""
    topic = api.topic()
    due = now_ms() + 500
    sent(api.produce(topic, {"value": "a", "deliver_at": due}, {"value": "b", "deliver_at": due, "timestamp": 7}))
    found = {record["value"]: record["timestamp"] for record, _ in appeared(api, topic, 2)}
    assert found == {"a": due, "b": 7}


@pytest.mark.parametrize("kind", ["ndjson", "int64", "timestamp", "raw"])
def test_every_content_type_can_delay(api: Api, kind: str) -> None:
    """A JSON member, an Arrow column of int64 or timestamp, a query parameter for one record."""
    topic = api.topic()
    due = now_ms() + 1_500
    if kind == "ndjson":
        body = json.dumps({"value": "x", "deliver_at": due}) + "\n"
        answer = api.produce_body(topic, "application/x-ndjson", body)
    elif kind == "raw":
        answer = api.produce_body(topic, "application/octet-stream", b"x", deliver_at=due)
    else:
        column = pa.array([due], pa.int64() if kind == "int64" else pa.timestamp("ms", "UTC"))
        table = pa.table({"value": pa.array([b"x"]), "deliver_at": column})
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        answer = api.produce_body(topic, "application/vnd.apache.arrow.stream", sink.getvalue())
    assert [each["deliver_at"] for each in sent(answer)["scheduled"]] == [due]
    ((record, seen_ms),) = appeared(api, topic, 1)
    assert record["value"] == "x"
    assert seen_ms >= due


@pytest.mark.parametrize(
    ("members", "where"),
    [
        ({"deliver_at": 5, "deliver_after_ms": 5}, "deliver_at"),
        ({"deliver_after_ms": -1}, "deliver_after_ms"),
        ({"deliver_at": "soon"}, "deliver_at"),
        ({"deliver_after_ms": 31 * DAY_MS}, "deliver_after_ms"),
    ],
)
def test_a_wrong_delay_is_refused_by_name(api: Api, members: Json, where: str) -> None:
    """Exactly one of the two, up to `delay.max.ms`: else 400, naming the member."""
    topic = api.topic()
    problem = api.refused(api.produce(topic, {"value": "x"} | members), 400, "INVALID_RECORD")
    assert problem["errors"][0]["where"] == f"/records/0/{where}"
    query = {name: value for name, value in members.items() if isinstance(value, int)}
    if query:
        answer = api.produce_body(topic, "text/plain", "x", **query)
        assert answer.status_code == 400, answer.text
    assert api.records(topic) == []


def test_delay_max_ms_is_a_setting_of_the_topic(api: Api) -> None:
    """`delay.max.ms` is a setting, 30 days by default."""
    topic = api.topic(delay_max_ms=1_000)
    api.refused(api.produce(topic, {"value": "x", "deliver_after_ms": 1_001}), 400, "INVALID_RECORD")
    sent(api.produce(topic, {"value": "x", "deliver_after_ms": 1_000}))
    config = api.http.get(f"/v1/topics/{api.topic()}").json()["config"]
    assert config["delay.max.ms"] == 30 * DAY_MS


def test_waiting_records_are_listed_page_by_page(api: Api) -> None:
    """`GET …/scheduled?after=&limit=` lists by id, in pages."""
    topic = api.topic()
    ids = [
        each["id"]
        for number in range(3)
        for each in sent(
            api.produce(topic, *({"key": f"{number}-{n}", "value": "v", "deliver_after_ms": DAY_MS} for n in range(4)))
        )["scheduled"]
    ]
    path = f"/v1/topics/{topic}/scheduled"
    whole = api.http.get(path).json()
    assert {each["id"] for each in whole["scheduled"]} == set(ids)
    assert all(each.keys() == {"id", "deliver_at", "key"} for each in whole["scheduled"])
    assert [each["id"] for each in whole["scheduled"]] == sorted(ids)
    assert "next" not in whole
    pages: list[str] = []
    query: dict[str, Any] = {"limit": 5}
    while True:
        page = api.http.get(path, params=query).json()
        assert len(page["scheduled"]) <= 5
        pages += [each["id"] for each in page["scheduled"]]
        if "next" not in page:
            break
        query["after"] = page["next"]
    assert pages == sorted(ids)
    api.refused(api.http.get(path, params={"limit": 0}), 400, "INVALID_REQUEST")
    api.refused(api.http.get(path, params={"page": 1}), 400, "INVALID_REQUEST")
    api.refused(api.http.get("/v1/topics/no-such-topic/scheduled"), 404, "UNKNOWN_TOPIC")


def test_a_waiting_record_can_be_looked_at_and_cancelled_once(api: Api) -> None:
    """204, then 404; the record never appears."""
    topic = api.topic()
    record = {"key_base64": "/w==", "value": "v", "headers": {"a": "b"}, "deliver_after_ms": 4_000}
    (scheduled,) = sent(api.produce(topic, record))["scheduled"]
    path = f"/v1/topics/{topic}/scheduled/{scheduled['id']}"
    found = api.http.get(path).json()
    assert (found["id"], found["deliver_at"], found["key_base64"]) == (scheduled["id"], scheduled["deliver_at"], "/w==")
    assert found["record"]["value"] == "v"
    assert found["record"]["headers"] == [{"key": "a", "value": "b"}]
    assert api.http.delete(path).status_code == 204
    api.refused(api.http.delete(path), 404, "UNKNOWN_SCHEDULED")
    api.refused(api.http.get(path), 404, "UNKNOWN_SCHEDULED")
    assert api.http.get(f"/v1/topics/{topic}/scheduled").json()["scheduled"] == []
    time.sleep(5.5)
    assert api.records(topic) == []
    api.refused(api.http.delete(path), 404, "UNKNOWN_SCHEDULED")


def test_a_delivered_record_can_not_be_cancelled(api: Api) -> None:
    """409 `ALREADY_DELIVERED`; what was never sent is 404."""
    topic = api.topic()
    (scheduled,) = sent(api.produce(topic, {"value": "v", "deliver_after_ms": 300}))["scheduled"]
    assert len(appeared(api, topic, 1)) == 1
    path = f"/v1/topics/{topic}/scheduled/{scheduled['id']}"
    api.refused(api.http.delete(path), 409, "ALREADY_DELIVERED")
    api.refused(api.http.get(path), 404, "UNKNOWN_SCHEDULED")
    for wrong in ("nothing", "a-0000000001", scheduled["id"][:-1] + "9"):
        api.refused(api.http.delete(f"/v1/topics/{topic}/scheduled/{wrong}"), 404, "UNKNOWN_SCHEDULED")
        api.refused(api.http.get(f"/v1/topics/{topic}/scheduled/{wrong}"), 404, "UNKNOWN_SCHEDULED")


def test_a_repeated_request_schedules_once(api: Api) -> None:
    """Producer headers make a repeated request schedule once, with the first answer."""
    topic = api.topic()
    identity = api.http.post("/v1/producers", json={}).json()

    def send(sequence: int) -> Any:
        stamp = {"Id": identity["producer_id"], "Epoch": identity["epoch"], "Sequence": sequence}
        return api.http.post(
            f"/v1/topics/{topic}/records",
            json={"records": [{"value": "now"}, {"value": "later", "deliver_after_ms": 700}]},
            headers={f"Tidelog-Producer-{name}": str(value) for name, value in stamp.items()},
        )

    first, again = sent(send(0)), sent(send(0))
    assert not first["duplicate"]
    assert again == first | {"duplicate": True}
    assert sent(send(1))["scheduled"][0]["id"] != first["scheduled"][0]["id"]
    api.refused(send(9), 409, "SEQUENCE_OUT_OF_ORDER")
    values = [record["value"] for record, _ in appeared(api, topic, 4)]
    assert sorted(values) == ["later", "later", "now", "now"]
    assert sent(send(1))["duplicate"]
    time.sleep(1.5)
    assert len(api.records(topic)) == 4


@pytest.mark.parametrize("is_committed", [True, False])
def test_in_a_transaction_records_are_scheduled_when_it_commits(api: Api, is_committed: bool) -> None:
    """Within a transaction: scheduled when it commits, never when it aborts."""
    topic = api.topic()
    begun = api.http.post("/v1/transactions", json={"transactional_id": f"tx-{topic}"}).json()
    headers = {"Tidelog-Transaction": begun["transaction_id"]}
    records = [{"value": "now"}, {"value": "later", "deliver_after_ms": 3_000}]
    answer = api.http.post(f"/v1/topics/{topic}/records", json={"records": records}, headers=headers)
    assert (answer.status_code, answer.json()) == (202, {"staged": 2})
    assert api.http.get(f"/v1/topics/{topic}/scheduled").json()["scheduled"] == []
    ended = api.http.post(f"/v1/transactions/{begun['transaction_id']}:{'commit' if is_committed else 'abort'}")
    assert ended.status_code == 200, ended.text
    assert len(api.http.get(f"/v1/topics/{topic}/scheduled").json()["scheduled"]) == int(is_committed)
    values = [record["value"] for record, _ in appeared(api, topic, 2, 6_000)]
    assert values == (["now", "later"] if is_committed else [])


def test_records_at_once_can_be_delayed(api: Api) -> None:
    """`POST /v1/records` takes delayed records, too."""
    first, second = api.topic(), api.topic()
    topics = [{"topic": name, "records": [{"value": name, "deliver_after_ms": 700}]} for name in (first, second)]
    answer = api.http.post("/v1/records", json={"topics": topics})
    assert answer.status_code == 200, answer.text
    assert answer.json()["topics"] == []
    for name in (first, second):
        assert [record["value"] for record, _ in appeared(api, name, 1)] == [name]


def test_a_topic_made_anew_has_no_delayed_records_of_the_old_one(api: Api) -> None:
    """A topic made anew shares nothing with the old one."""
    topic = api.topic()
    (scheduled,) = sent(api.produce(topic, {"value": "v", "deliver_after_ms": 3_000}))["scheduled"]
    assert api.http.delete(f"/v1/topics/{topic}").status_code == 204
    assert api.http.post("/v1/topics", json={"name": topic}).status_code == 201
    api.refused(api.http.get(f"/v1/topics/{topic}/scheduled/{scheduled['id']}"), 404, "UNKNOWN_SCHEDULED")
    time.sleep(4.5)
    assert api.records(topic) == []


def test_delayed_records_do_not_wait_for_a_slow_flush(api: Api) -> None:
    """Within a second, whatever `flush.ms` is; each in its partition, in order of time."""
    topic = api.topic(8, flush_ms=2_500)
    due = now_ms() + 5_000
    records = [{"value": str(n), "partition": n % 8, "deliver_at": due + 2 * n} for n in range(200)]
    assert len(sent(api.produce(topic, *records))["scheduled"]) == 200
    assert now_ms() < due
    seen: dict[int, list[str]] = {n: [] for n in range(8)}
    while sum(map(len, seen.values())) < 200 and now_ms() < due + 400 + LATE_MS + SLACK_MS:
        for partition in range(8):
            seen[partition] = [record["value"] for record in api.records(topic, partition)]
            assert all(due + 2 * int(value) <= now_ms() for value in seen[partition])
        time.sleep(0.05)
    assert seen == {partition: [str(n) for n in range(partition, 200, 8)] for partition in range(8)}
