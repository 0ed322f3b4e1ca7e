"""docs/http-api/topics.md section 3.9: pins."""

from __future__ import annotations

import time
from typing import Any

from tests.support.http_api import Api


def test_a_pin_has_what_was_acknowledged_before(api: Api) -> None:
    """201 with the version; it is in the list, and holds back nothing while the table has all of its files."""
    topic = api.topic()
    api.produce(topic, {"value": "a"}, {"value": "b"})
    before_ms = int(time.time() * 1000) - 60_000
    answer = api.http.post(f"/v1/topics/{topic}/pins", json={"name": "before-migration"})
    assert answer.status_code == 201, answer.text
    pin = answer.json()
    assert pin["name"] == "before-migration"
    assert pin["expires_at"] is None
    assert pin["created_at"] >= before_ms
    assert pin["held_back_bytes"] == 0
    assert pin["version"] < api.http.get(f"/v1/topics/{topic}").json()["table_version"]
    commits = api.http.get(f"/v1/topics/{topic}/commits").json()["commits"]
    assert sum(commit["records"] for commit in commits if commit["version"] <= pin["version"]) == 2
    assert api.http.get(f"/v1/topics/{topic}/pins").json() == {"pins": [pin], "held_back_bytes": 0}
    described = {name: value for name, value in pin.items() if name != "held_back_bytes"}
    assert api.http.get(f"/v1/topics/{topic}").json()["pins"] == [described]


def test_a_name_stays_with_its_version(api: Api) -> None:
    """409 for another version; 200 with the new expiry for the same one."""
    topic = api.topic()
    pin = api.http.post(f"/v1/topics/{topic}/pins", json={"name": "p", "ttl_ms": 60_000}).json()
    assert pin["expires_at"] > pin["created_at"]
    api.refused(api.http.post(f"/v1/topics/{topic}/pins", json={"name": "p"}), 409, "PIN_ALREADY_EXISTS")
    ends_ms = pin["expires_at"] + 60_000
    body = {"name": "p", "version": pin["version"], "expires_ms": ends_ms}
    answer = api.http.post(f"/v1/topics/{topic}/pins", json=body)
    assert (answer.status_code, answer.json()["expires_at"]) == (200, ends_ms)


def test_an_older_version_by_number_and_by_time(api: Api) -> None:
    """The version that is asked for, or the newest one of a time; none of the future, and none before the topic."""
    topic = api.topic()
    api.produce(topic, {"value": "a"})
    version = api.http.get(f"/v1/topics/{topic}").json()["table_version"]
    time.sleep(1.1)  # Stores give times in whole seconds.
    now_ms = int(time.time() * 1000)
    pins = f"/v1/topics/{topic}/pins"
    by_number = api.http.post(pins, json={"name": "by-number", "version": version})
    assert (by_number.status_code, by_number.json()["version"]) == (201, version), by_number.text
    by_time = api.http.post(pins, json={"name": "by-time", "timestamp": now_ms - 100})
    assert (by_time.status_code, by_time.json()["version"]) == (201, version), by_time.text
    api.refused(api.http.post(pins, json={"name": "x", "version": version + 1_000}), 400, "INVALID_REQUEST")
    api.refused(api.http.post(pins, json={"name": "x", "timestamp": now_ms + 3_600_000}), 400, "INVALID_REQUEST")
    api.refused(api.http.post(pins, json={"name": "x", "timestamp": 1}), 410, "VERSION_GONE")
    assert [pin["name"] for pin in api.http.get(pins).json()["pins"]] == ["by-number", "by-time"]


def test_bodies_that_say_nothing_or_too_much(api: Api) -> None:
    """400 that says where."""
    topic = api.topic()
    for body in (
        {},
        {"name": ""},
        {"name": "a/b"},
        {"name": "x" * 101},
        {"name": "p", "version": 0, "timestamp": 1},
        {"name": "p", "expires_ms": 1, "ttl_ms": 1},
        {"name": "p", "ttl_ms": 0},
        {"name": "p", "until": 1},
    ):
        problem = api.refused(api.http.post(f"/v1/topics/{topic}/pins", json=body), 400, "INVALID_REQUEST")
        assert problem["errors"], body
    assert api.http.get(f"/v1/topics/{topic}/pins").json()["pins"] == []


def test_deleting_a_pin_and_a_topic_with_pins(api: Api) -> None:
    """204, and 404 for one that is not there; a topic with pins is deleted only by force."""
    topic = api.topic()
    for name in ("p", "q"):
        assert api.http.post(f"/v1/topics/{topic}/pins", json={"name": name}).status_code == 201
    assert api.http.delete(f"/v1/topics/{topic}/pins/p").status_code == 204
    api.refused(api.http.delete(f"/v1/topics/{topic}/pins/p"), 404, "UNKNOWN_PIN")
    api.refused(api.http.delete(f"/v1/topics/{topic}"), 409, "TOPIC_HAS_PINS")
    api.refused(api.http.delete(f"/v1/topics/{topic}?force=perhaps"), 400, "INVALID_REQUEST")
    assert api.http.delete(f"/v1/topics/{topic}?delete_pins=true").status_code == 204
    api.refused(api.http.get(f"/v1/topics/{topic}/pins"), 404, "UNKNOWN_TOPIC")
    api.refused(api.http.post(f"/v1/topics/{topic}/pins", json={"name": "p"}), 404, "UNKNOWN_TOPIC")
    api.refused(api.http.delete(f"/v1/topics/{topic}/pins/p"), 404, "UNKNOWN_TOPIC")


def test_a_topic_at_a_journal_is_drained_for_a_pin(api: Api) -> None:
    """A record that was acknowledged a moment ago, and is in no commit of the table yet, is in the pinned version."""
    shared: dict[str, Any] = {"commit.mode": "shared"}
    topic = api.topic(**shared)
    api.produce(topic, {"value": "a"})
    pin = api.http.post(f"/v1/topics/{topic}/pins", json={"name": "p"}).json()
    commits = api.http.get(f"/v1/topics/{topic}/commits").json()["commits"]
    assert sum(commit["records"] for commit in commits if commit["version"] <= pin["version"]) == 1
    api.produce(topic, {"value": "b"})
    assert api.http.get(f"/v1/topics/{topic}/pins").json()["pins"] == [pin]
