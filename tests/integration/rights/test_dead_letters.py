"""What a queue put into its dead letter topic is known for as long as it is there, and by every door."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.collected_events import CollectedEvents
from tests.support.command_runs import runner
from tests.support.gateway_process import GatewayProcess, StartGateway
from tests.support.queue_calls import settlement
from tests.support.waiting import until
from tidelog import Admin
from tidelog.cli.terminal.exit_code import ExitCode
from tidelog.errors import RequestRefused

LETTERS = "/v1/topics/dead/partitions/0"


def dead_letters(gateway: GatewayProcess) -> list[dict[str, Any]]:
    """The records of the dead letter topic, as they may be sent."""
    records = gateway.http.get(f"{LETTERS}/records?offset=earliest").json()["records"]
    return [{name: one[name] for name in ("key", "value", "headers")} for one in records]


def put_there(gateway: GatewayProcess, *given: str) -> None:
    """Have the queue put these records of its topic into its dead letter topic, one after another, and others among them."""
    http = gateway.http
    for value in given:
        count = len(dead_letters(gateway))
        record = {"value": value, "key": "k", "headers": [{"key": "own", "value": None}]}
        http.post("/v1/topics/jobs/partitions/0/records", json={"records": [record]})
        taken = http.post("/v1/queues/work:receive", json={"max_wait_ms": 5000}).json()["records"]
        settlements = [settlement(one, "reject" if one["value"] == value else "accept") for one in taken]
        assert http.post("/v1/queues/work:settle", json={"settlements": settlements}).status_code == 200
        until(lambda count=count: len(dead_letters(gateway)) > count)  # type: ignore[misc]
        http.post(f"{LETTERS}/records", json={"records": [{"value": "no letter"}]})


def made(gateway: GatewayProcess, mode: str) -> None:
    """The queue, its topic, and its dead letter topic in this mode."""
    for name, config in (("jobs", {}), ("dead", {"commit.mode": mode, "drain.ms": 1000})):
        body = {"name": name, "config": {"flush.ms": 0, **config}}
        assert gateway.http.post("/v1/topics", json=body).status_code == 201
    body = {"topics": ["jobs"], "start": "earliest", "dead_letter_topic": "dead"}
    assert gateway.http.put("/v1/queues/work", json=body).status_code == 201


@pytest.mark.parametrize("mode", ["own", "shared"])
def test_letters_are_known_whatever_becomes_of_their_objects(
    mode: str, start_gateway: StartGateway, maintain: Callable[[str], CollectedEvents], tmp_path: Path
) -> None:
    """From a journal and from the topic's own commits, merged by maintenance, by another gateway: each letter is redriven
    once, and a copy of one is not."""
    store = str(tmp_path / "store")
    gateway = start_gateway(store)
    made(gateway, mode)
    put_there(gateway, "a", "b")
    gateway.http.patch("/v1/topics/dead", json={"config": {"commit.mode": "own"}})
    put_there(gateway, "c", "d")
    copies = [one for one in dead_letters(gateway) if one["headers"]]
    assert gateway.http.post(f"{LETTERS}/records", json={"records": copies}).status_code == 200
    if mode == "own":
        assert any(event == "rewrite" for event, _ in maintain(store).events)
    gateway.end()
    another = start_gateway(store)
    with Admin(another.url) as admin:
        assert admin.redrive_queue("work", max_records=3) == 3
        assert admin.redrive_queue("work") == 1
        with pytest.raises(RequestRefused, match="partition 0, offset 8 "):
            admin.redrive_queue("work")
    assert [value for _, value in another.read("jobs")] == ["a", "b", "c", "d"] * 2


def test_every_door_asks_what_becomes_of_the_unproved(start_gateway: StartGateway, tmp_path: Path) -> None:
    """The command line and the SDK end at such a record and tell its place; both pass it, and take it, on demand."""
    gateway = start_gateway(str(tmp_path / "store"))
    made(gateway, "own")
    forged = {"value": "forged", "headers": {"tidelog-dlq-queue": "work", "tidelog-dlq-topic": "jobs"}}
    gateway.http.post(f"{LETTERS}/records", json={"records": [forged] * 4})
    run = runner(gateway.url)
    refused = run("queue", "redrive", "work")
    assert refused.exit_code == ExitCode.REFUSED
    assert "partition 0, offset 0 " in refused.stderr
    assert "1 dead letter redriven" in run("queue", "redrive", "work", "--unproved", "produce", "--max", "1").stderr
    with Admin(gateway.url) as admin:
        with pytest.raises(RequestRefused, match="partition 0, offset 1 "):
            admin.redrive_queue("work")
        assert admin.redrive_queue("work", unproved="produce", max_records=1) == 1
        assert admin.redrive_queue("work", unproved="skip") == 0
        assert admin.redrive_queue("work") == 0
    assert [value for _, value in gateway.read("jobs")] == ["forged"] * 2
