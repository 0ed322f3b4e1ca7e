"""Work that a queue without a dead letter topic gives up: whoever looks after it learns which records that were."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.access import bootstrap_file
from tests.support.command_runs import runner
from tests.support.gateway_process import GatewayProcess, running_gateway
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """One that asks for tokens: only those have an audit trail that somebody reads."""
    directory = tmp_path_factory.mktemp("dropped")
    path, token = bootstrap_file(directory)
    settings = ("--auth", "on", "--bootstrap-token-file", str(path))
    with running_gateway(directory / "store", directory / "log", *settings) as started:
        started.http.headers["authorization"] = f"Bearer {token}"
        yield started


def rejected(gateway: GatewayProcess, queue: str, count: int) -> list[dict[str, Any]]:
    """Take so many records and reject them."""
    body = {"max_records": count, "max_wait_ms": 5_000}
    records = gateway.http.post(f"/v1/queues/{queue}:receive", json=body).json()["records"]
    settlements = [
        {
            "topic": one["topic"],
            "partition": 0,
            "offset": one["offset"],
            "lease": one["lease"],
            "action": "reject",
            "reason": "no such user",
        }
        for one in records
    ]
    answer = gateway.http.post(f"/v1/queues/{queue}:settle", json={"settlements": settlements})
    assert answer.status_code == 200, answer.text
    return list(records)


def audited(gateway: GatewayProcess, queue: str) -> list[dict[str, Any]]:
    """The events of the trail about the queue's dropped records."""
    found: list[dict[str, Any]] = []
    described = gateway.http.get("/v1/topics/__audit").json()
    for one in described.get("partitions", ()):
        path = f"/v1/topics/__audit/partitions/{one['partition']}/records?offset=earliest"
        found += [json.loads(record["value"]) for record in gateway.http.get(path).json()["records"]]
    return [event for event in found if event["kind"] == "dropped" and event["resource"] == queue]


def test_dropped_records_are_described_and_audited(gateway: GatewayProcess) -> None:
    """By offset, with count, deliveries and reason: over HTTP, by the command line, and in the trail that a restart leaves."""
    http = gateway.http
    assert http.post("/v1/topics", json={"name": "jobs", "config": {"flush.ms": 0}}).status_code == 201
    records = {"records": [{"value": str(number)} for number in range(5)]}
    assert http.post("/v1/topics/jobs/partitions/0/records", json=records).status_code == 200
    assert http.put("/v1/queues/work", json={"topics": ["jobs"], "start": "earliest"}).status_code == 201
    described = http.get("/v1/queues/work").json()["dropped"]
    assert (described["records"], described["newest"]) == (0, [])
    assert len(rejected(gateway, "work", 2)) == 2
    described = http.get("/v1/queues/work").json()["dropped"]
    assert described["records"] == 2
    places = [(one["topic"], one["first_offset"], one["last_offset"]) for one in described["newest"]]
    assert places in ([("jobs", 0, 1)], [("jobs", 0, 0), ("jobs", 1, 1)])
    assert {(one["deliveries"], one["reason"]) for one in described["newest"]} == {(1, "no such user")}
    assert described["since"] <= described["newest"][0]["at"]
    shown = runner(gateway.url)("queue", "describe", "work", TIDELOG_TOKEN=http.headers["authorization"].split()[1])
    assert shown.exit_code == 0, shown.output
    assert "2 records dropped since" in shown.stdout
    assert "jobs/0" in shown.stdout
    assert "no such user" in shown.stdout
    assert eventually(lambda: sum(one["count"] for one in audited(gateway, "work")) == 2, 20)
    (first, *_) = audited(gateway, "work")
    assert (first["operation"], first["route"], first["resource_type"]) == ("no such user", "jobs/0", "group")
    assert first["request_id"] in ("0-1", "0-0")


def test_with_a_dead_letter_topic_nothing_is_dropped(gateway: GatewayProcess) -> None:
    """It goes there: the description and the trail say nothing."""
    http = gateway.http
    for topic in ("tasks", "dead"):
        assert http.post("/v1/topics", json={"name": topic, "config": {"flush.ms": 0}}).status_code == 201
    assert http.post("/v1/topics/tasks/partitions/0/records", json={"records": [{"value": "1"}]}).status_code == 200
    settings = {"topics": ["tasks"], "start": "earliest", "dead_letter_topic": "dead"}
    assert http.put("/v1/queues/kept", json=settings).status_code == 201
    rejected(gateway, "kept", 1)
    assert eventually(lambda: http.get("/v1/topics/dead").json()["partitions"][0]["high_watermark"] == 1, 20)
    assert http.get("/v1/queues/kept").json()["dropped"]["records"] == 0
    assert audited(gateway, "kept") == []
