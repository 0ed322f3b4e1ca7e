"""Settings of queues: made, replaced, refused by name (docs/http-api.md section 11.1)."""

from __future__ import annotations

import secrets

import pytest

from tests.support.http_api import Api, Json
from tests.support.queue_calls import Queue, values


def test_a_queue_is_made_with_defaults_described_listed_and_deleted(api: Api) -> None:
    """A queue is made with defaults described listed and deleted."""
    topic, name = api.topic(), f"queue-{secrets.token_hex(6)}"
    made = api.http.put(f"/v1/queues/{name}", json={"topics": [topic]})
    assert made.status_code == 201
    settings = {
        "topics": [topic],
        "start": "latest",
        "lock_ms": 30000,
        "max_deliveries": 5,
        "dead_letter_topic": None,
        "backoff_ms": [],
        "max_in_flight": 2000,
        "order": "none",
        "expired": "drop",
        "filter": None,
    }
    assert made.json() == {"queue": name, **settings}
    found = api.http.get(f"/v1/queues/{name}").json()
    assert {key: found[key] for key in settings} == settings
    assert [(one["topic"], one["partition"]) for one in found["partitions"]] == [(topic, 0)]
    assert {"start_offset", "in_flight", "delayed", "lag"} <= found["partitions"][0].keys()
    listed = api.http.get("/v1/queues", params={"limit": 10000}).json()["queues"]
    assert name in [one["queue"] for one in listed]
    assert api.http.delete(f"/v1/queues/{name}").status_code == 204
    api.refused(api.http.get(f"/v1/queues/{name}"), 404, "UNKNOWN_QUEUE")
    api.refused(api.http.delete(f"/v1/queues/{name}"), 404, "UNKNOWN_QUEUE")


def test_all_calls_of_an_unknown_queue_are_404(api: Api) -> None:
    """All calls of an unknown queue are 404."""
    calls: dict[str, Json] = {"receive": {}, "settle": {"settlements": []}, "redrive": {}}
    for verb, body in calls.items():
        api.refused(api.http.post(f"/v1/queues/none-{verb}:{verb}", json=body), 404, "UNKNOWN_QUEUE")


def test_put_replaces_all_settings_and_keeps_an_absent_start(api: Api) -> None:
    """Put replaces all settings and keeps an absent start."""
    queue = Queue(api, lock_ms=5000, max_deliveries=2)
    again = queue.put(topics=[queue.topic])
    assert again.status_code == 200
    assert (again.json()["lock_ms"], again.json()["max_deliveries"]) == (30000, 5)
    assert again.json()["start"] == "earliest"
    api.refused(queue.put(topics=[queue.topic], start="latest"), 409, "QUEUE_ALREADY_EXISTS")
    assert queue.put(topics=[queue.topic], start="earliest").status_code == 200


def test_topics_must_exist_the_dead_letter_topic_too(api: Api) -> None:
    """Topics must exist the dead letter topic too."""
    topic = api.topic()
    for settings in ({"topics": ["no-such-topic"]}, {"topics": [topic], "dead_letter_topic": "no-such-topic"}):
        api.refused(api.http.put("/v1/queues/new", json=settings), 404, "UNKNOWN_TOPIC")
    api.refused(api.http.get("/v1/queues/new"), 404, "UNKNOWN_QUEUE")


@pytest.mark.parametrize(
    ("settings", "where"),
    [
        ({"lock_ms": 999}, "/lock_ms"),
        ({"lock_ms": 43_200_001}, "/lock_ms"),
        ({"max_deliveries": 0}, "/max_deliveries"),
        ({"max_deliveries": 1001}, "/max_deliveries"),
        ({"order": "value"}, "/order"),
        ({"expired": "keep"}, "/expired"),
        ({"start": "middle"}, "/start"),
        ({"start": {"timestamp": -1}}, "/start/timestamp"),
        ({"backoff_ms": [-1]}, "/backoff_ms/0"),
        ({"filter": {"headers": ["nocolon"]}}, "/filter/headers/0"),
        ({"filter": {"headers": [f"a:{n}" for n in range(17)]}}, "/filter/headers"),
        ({"topics": []}, "/topics"),
        ({"locks": 1}, "/locks"),
    ],
)
def test_settings_out_of_range_are_refused_by_name(api: Api, settings: Json, where: str) -> None:
    """Settings out of range are refused by name."""
    answer = api.http.put("/v1/queues/new", json={"topics": [api.topic()]} | settings)
    problem = api.refused(answer, 400, "INVALID_REQUEST")
    assert where in [error["where"] for error in problem["errors"]], problem


def test_a_start_is_the_end_the_beginning_or_a_time(api: Api) -> None:
    """A start is the end the beginning or a time."""
    topic = api.topic()
    for number in range(4):
        api.produce(topic, {"value": str(number), "timestamp": 1_700_000_000_000 + number * 1000})
    for start, expected in (
        ("latest", []),
        ("earliest", ["0", "1", "2", "3"]),
        ({"timestamp": 1_700_000_002_000}, ["2", "3"]),
    ):
        name = f"queue-{secrets.token_hex(6)}"
        assert api.http.put(f"/v1/queues/{name}", json={"topics": [topic], "start": start}).json()["start"] == start
        found = api.http.post(f"/v1/queues/{name}:receive", json={}).json()["records"]
        assert values(found) == expected
