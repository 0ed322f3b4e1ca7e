"""Real gateways that share a journal: records stay where they arrive, no client can speak for a gateway, and a frozen owner."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from log_format.cluster.preferred import preferred_gateway
from tests.support.gateway_process import GatewayProcess, running_gateways
from tests.support.waiting import until

IDS = ("one", "two")


@pytest.fixture
def gateways(tmp_path: Path) -> Iterator[list[GatewayProcess]]:
    """The journal's owner, and another."""
    with running_gateways() as started:
        names = sorted(IDS, key=lambda name: name != preferred_gateway("journals/0", IDS))
        started += [
            GatewayProcess(
                tmp_path / "store", tmp_path / f"log-{name}", "--gateway-id", name, "--heartbeat-ms", "500",
            )
            for name in names
        ]  # fmt: skip
        until(lambda: all(len(gateway.http.get("/v1/cluster").json()["gateways"]) >= 2 for gateway in started), 20)
        yield started


def metric(gateway: GatewayProcess, name: str) -> float:
    """The sum over all labels."""
    lines = gateway.http.get("/metrics").text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


def topics_of(gateway: GatewayProcess, owner: str, count: int) -> list[str]:
    """Topics at the journal whose requests the other gateway would pass on."""
    names = (f"t{number}" for number in range(100))
    owned = [name for name in names if preferred_gateway(name, IDS) == owner]
    return [gateway.topic(name, commit_mode="shared") for name in owned[:count]]


def test_records_stay_where_they_arrive(gateways: list[GatewayProcess]) -> None:
    """Only what an object is called goes to the owner, which makes all commits."""
    owner, other = gateways
    (name,) = topics_of(owner, preferred_gateway("journals/0", IDS) or "", 1)
    body = {"records": [{"value": "v" * 1000}]}
    deadline = time.monotonic() + 10
    forwarded = -1.0
    while forwarded != metric(other, "tidelog_forwarded_requests_total"):  # until it knows of the topic
        assert time.monotonic() < deadline
        forwarded = metric(other, "tidelog_forwarded_requests_total")
        assert other.http.post(f"/v1/topics/{name}/records", json=body).status_code == 200
        time.sleep(0.1)
    appended = metric(owner, "tidelog_appended_records_total"), metric(other, "tidelog_appended_records_total")
    commits = metric(owner, "tidelog_commit_attempts_count"), metric(other, "tidelog_commit_attempts_count")
    for number in range(10):
        assert other.http.post(f"/v1/topics/{name}/records", json=body).status_code == 200
        assert len(owner.read(name)) == len(other.read(name)) == owner.read(name)[-1][0] + 1, number
    assert metric(other, "tidelog_forwarded_requests_total") == forwarded
    assert metric(other, "tidelog_appended_records_total") - appended[1] == 10
    assert metric(owner, "tidelog_appended_records_total") == appended[0]
    assert metric(owner, "tidelog_commit_attempts_count") - commits[0] >= 10
    assert metric(other, "tidelog_commit_attempts_count") == commits[1]


def test_a_journal_in_use_tells_which_topics_are_there(gateways: list[GatewayProcess]) -> None:
    """So not even the first request for a topic is passed on, though the gateway has not looked at that topic yet."""
    owner, other = gateways
    names = topics_of(owner, preferred_gateway("journals/0", IDS) or "", 6)
    body = {"records": [{"value": "v"}]}
    for name in names:
        assert owner.http.post(f"/v1/topics/{name}/records", json=body).status_code == 200
    assert other.read(names[0]), "it looks at this topic, and so at the journal"
    for name in names:
        assert other.http.post(f"/v1/topics/{name}/records", json=body).status_code == 200
        assert len(owner.read(name)) == 2
    assert metric(other, "tidelog_forwarded_requests_total") == 0


def test_no_client_speaks_for_a_gateway(gateways: list[GatewayProcess]) -> None:
    """Without a hop there is no such route, and a hop of a client's own making is refused."""
    owner, _ = gateways
    for path in (
        "/gateways/journal-offers",
        "/gateways/journal-news",
        "/gateways/queue-takes",
        "/gateways/queue-settlements",
    ):
        answer = owner.http.post(path, content=b"[0,1]")
        assert (answer.status_code, answer.json()["error_code"]) == (404, "NOT_FOUND")
        for hop in (b"", b"e30=." + b"0" * 64, b"\xff"):
            answer = owner.http.post(path, content=b"[0,1]", headers={b"tidelog-hop": hop})
            assert (answer.status_code, answer.json()["errors"][0]["where"]) == (400, "Tidelog-Hop")
    assert "gateways/" not in owner.http.get("/openapi.json").text


def test_a_frozen_owner_costs_a_wait_and_no_record(gateways: list[GatewayProcess]) -> None:
    """The sender gives up and commits by itself; the owner wakes up and takes nothing twice."""
    owner, other = gateways
    (name,) = topics_of(other, preferred_gateway("journals/0", IDS) or "", 1)
    assert other.http.get(f"/v1/topics/{name}/partitions/0/records?offset=earliest").status_code == 200
    assert other.produce(name, "before").status_code == 200
    os.kill(owner.process.pid, signal.SIGSTOP)
    try:
        started = time.monotonic()
        assert other.produce(name, "frozen").status_code == 200
        assert other.produce(name, "still frozen").status_code == 200
        assert time.monotonic() - started < 25
    finally:
        os.kill(owner.process.pid, signal.SIGCONT)
    time.sleep(1)
    assert other.produce(name, "after").status_code == 200
    values = [value for _, value in owner.read(name)]
    assert values == ["before", "frozen", "still frozen", "after"] == [value for _, value in other.read(name)]


def woken_after(writer: GatewayProcess, reader: GatewayProcess, name: str, offset: int) -> float:
    """Seconds from an acknowledgement at one gateway to the answer at the other, where a reader waits."""
    found: list[float] = []

    def read() -> None:
        with httpx.Client(base_url=reader.url, timeout=20) as client:
            wanted = {"offset": offset, "max_wait_ms": 5_000}
            answer = client.get(f"/v1/topics/{name}/partitions/0/records", params=wanted)
            assert len(answer.json()["records"]) == 1
            found.append(time.monotonic())

    waiting = threading.Thread(target=read)
    waiting.start()
    time.sleep(0.3)
    assert writer.produce(name, "next").status_code == 200
    produced = time.monotonic()
    waiting.join(30)
    return found[0] - produced


def test_news_reach_a_waiting_reader_before_it_looks(gateways: list[GatewayProcess]) -> None:
    """A look comes once a second; news within a tenth of one, on a machine that has time."""
    owner, other = gateways
    (name,) = topics_of(owner, preferred_gateway("journals/0", IDS) or "", 1)
    assert owner.produce(name, "first").status_code == 200
    assert len(other.read(name)) == 1
    waits = [woken_after(owner, other, name, 1 + turn) for turn in range(6)]
    assert sorted(waits)[3] < 0.2, waits
