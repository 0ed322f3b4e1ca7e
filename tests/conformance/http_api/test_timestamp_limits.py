"""``message.timestamp.before.max.ms`` and ``.after.max.ms``, as in Kafka (docs/http-api.md section 3.6)."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

from tests.support.http_api import Api

ARROW = "application/vnd.apache.arrow.stream"
HOUR_MS = 3_600_000
LIMITS = {"message.timestamp.before.max.ms": 24 * HOUR_MS, "message.timestamp.after.max.ms": HOUR_MS}


def _stream(times: list[int | None]) -> bytes:
    table = pa.table({"value": [b"x"] * len(times), "timestamp": pa.array(times, pa.timestamp("ms"))})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


@pytest.mark.parametrize("ahead_ms", [-48 * HOUR_MS, 2 * HOUR_MS])
def test_a_time_out_of_range_is_refused_by_name(api: Api, ahead_ms: int) -> None:
    """In every body: 400 ``INVALID_RECORD`` that says which record and what is taken; nothing of the request is there."""
    topic = api.topic(**LIMITS)
    now_ms = int(time.time() * 1000)
    wrong = now_ms + ahead_ms
    good = {"value": "x", "timestamp": now_ms}
    lines = f'{{"value": "a"}}\n\n{{"value": "b", "timestamp": {wrong}}}\n'
    for answer, where in (
        (api.produce(topic, good, {"value": "x", "timestamp": wrong}, {"value": "x"}), "/records/1/timestamp"),
        (api.produce(topic, {"value": "x", "timestamp": wrong}), "/records/0/timestamp"),
        (api.produce_body(topic, "application/x-ndjson", lines), "line 3"),
        (api.produce_body(topic, ARROW, _stream([now_ms, None, wrong])), "/records/2/timestamp"),
        (api.http.post(f"/v1/topics/{topic}/records?timestamp={wrong}", content=b"x", headers={"content-type": "text/plain"}),
         "timestamp"),
    ):  # fmt: skip
        problem = api.refused(answer, 400, "INVALID_RECORD")
        assert problem["errors"][0]["where"] == where
        assert str(wrong) in problem["errors"][0]["what"]
        assert "message.timestamp.after.max.ms" in problem["errors"][0]["what"]
    assert api.records(topic) == []
    assert api.produce(topic, good, {"value": "no time"}).status_code == 200
    assert api.produce_body(topic, ARROW, _stream([now_ms, None])).status_code == 200
    assert len(api.records(topic)) == 4


def test_without_limits_any_time_is_taken(api: Api) -> None:
    """As by default, and with the gateway's own time; they are shown only where they were set."""
    topic = api.topic()
    assert not LIMITS.keys() & api.http.get(f"/v1/topics/{topic}").json()["config"].keys()
    times = [0, int(time.time() * 1000) + 1_000 * 24 * HOUR_MS]
    assert api.produce(topic, *({"value": "x", "timestamp": each} for each in times)).status_code == 200
    stamped = api.topic(**LIMITS, message_timestamp_type="LogAppendTime")
    assert api.produce(stamped, *({"value": "x", "timestamp": each} for each in times)).status_code == 200
    shown = api.http.get(f"/v1/topics/{stamped}").json()["config"]
    assert {name: shown[name] for name in LIMITS} == LIMITS
    none = api.http.patch(f"/v1/topics/{stamped}", json={"config": {"message.timestamp.after.max.ms": -1}})
    api.refused(none, 400, "INVALID_CONFIG")
