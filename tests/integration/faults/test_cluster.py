"""Gateways that know each other: requests passed on and waits with them; gateways killed, frozen and drained.

No client notices.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from log_format.cluster.preferred import preferred_gateway
from tests.support.gateway_process import GatewayProcess, StartGateway
from tests.support.senders import Senders, check_log
from tests.support.waiting import eventually
from tidelog import Producer

BEAT_MS = 300
PARTITIONS = 2
WAITING = 24
"""Readers at one gateway that passes on at random: that all of them stay there is less likely than one in ten million."""
Start = Callable[..., tuple[Any, Any]]


def ids(gateway: GatewayProcess) -> dict[str, str]:
    """Ids by URL of the gateways that this one takes to be alive."""
    return {one["url"]: one["id"] for one in gateway.http.get("/v1/cluster").json()["gateways"]}


def forwarded(gateway: GatewayProcess, outcome: str = "answered") -> float:
    return float(gateway.metric(f'tidelog_forwarded_requests_total{{outcome="{outcome}"}}'))


def waiting(*gateways: Any) -> list[float]:
    """Long polls and event streams that each gateway holds."""
    return [gateway.metric("tidelog_waiting_polls") for gateway in gateways]


def event_ids(lines: Iterator[str], count: int) -> list[int]:
    """The ids of the next ``count`` events of a stream."""
    found: list[int] = []
    while len(found) < count:
        line = next(lines)
        if line.startswith("id: "):
            found.append(int(line[4:]))
    return found


@pytest.fixture
def two(tmp_path: Path, start_gateway: StartGateway) -> Start:
    """Start two gateways that know each other; the first is the one that the topic ``log`` prefers."""

    def start(*more: str) -> tuple[Any, Any]:
        settings = ("--heartbeat-ms", str(BEAT_MS), *more)
        gateways = [start_gateway(str(tmp_path / "store"), *settings) for _ in range(2)]
        assert eventually(lambda: all(len(ids(gateway)) == 2 for gateway in gateways))
        by_url = ids(gateways[0])
        best = preferred_gateway("log", by_url.values())
        owner = next(gateway for gateway in gateways if by_url[gateway.url] == best)
        other = next(gateway for gateway in gateways if gateway is not owner)
        owner.topic("log", PARTITIONS, flush_ms=5)
        return owner, other

    return start


def test_a_forwarded_answer_is_the_owners(two: Start) -> None:
    """Status, body and headers of successes and errors are those that the owner gives to a direct request."""
    owner, other = two()
    target = "/v1/topics/log/partitions/0/records"
    for path, body, more in [
        (target, b'{"records":[{"value":"x"}]}', {}),
        (target, b'{"records":[{"valu":"x"}]}', {}),
        (target, b"not json", {"Content-Type": "application/x-ndjson"}),
        ("/v1/topics/log/partitions/7/records", b'{"records":[]}', {}),
        (target, b'{"records":[]}', {"Tidelog-Expected-Offset": "77"}),
        (target, b'{"records":[{"value":"x"}]}', {"Tidelog-Expected-Offset": "77"}),
        (target, b"x", {"Content-Encoding": "gzip"}),
    ]:
        headers = {"Content-Type": "application/json", "X-Request-Id": "mine", **more}
        direct, passed_on = (one.http.post(path, content=body, headers=headers) for one in (owner, other))
        assert direct.status_code == passed_on.status_code
        names = {"content-type", "x-request-id", "content-length", "retry-after", "vary", "content-encoding"}
        assert {name: direct.headers.get(name) for name in names} == {
            name: passed_on.headers.get(name) for name in names
        }
        if direct.status_code != 200:
            assert direct.json() == passed_on.json()
    assert forwarded(other) == 7
    assert "outcome=" not in owner.http.get("/metrics").text.partition("tidelog_forwarded_requests_total{")[2]


def test_a_page_of_one_gateway_reaches_the_other(two: Start) -> None:
    """Which page asks is judged where a request arrives: the gateway's own passes on to the owner, another's goes nowhere."""
    _, other = two()
    for origin, status in ((other.url, 200), ("https://evil.example", 400)):
        answer = other.http.post(
            "/v1/topics/log/partitions/0/records", json={"records": [{"value": origin}]}, headers={"Origin": origin}
        )
        assert answer.status_code == status, answer.text
    assert forwarded(other) == 1
    assert [value for _, value in other.read("log")] == [other.url]


def test_a_killed_owner_is_replaced_at_once(two: Start, send: Callable[..., Senders]) -> None:
    """kill -9: requests that were not sent to it yet are served where they arrive; those under way are in doubt, no more."""
    owner, other = two()
    senders = send([other.url], "log", PARTITIONS, 4)
    time.sleep(0.5)
    owner.process.kill()
    assert owner.end() == -signal.SIGKILL
    killed = time.monotonic()
    while senders.acknowledged_since(killed) < 20 and time.monotonic() < killed + 30:
        time.sleep(0.05)
    sent = senders.stop()
    assert sum(one.status == 200 and one.began > killed for one in sent) >= 20
    assert {one.status for one in sent} <= {200, 504}
    check_log([other.read("log", partition) for partition in range(PARTITIONS)], sent)


def test_a_frozen_owner_that_comes_back(two: Start, send: Callable[..., Senders]) -> None:
    """SIGSTOP for longer than the lease: the other takes over; awake again, nothing is lost, doubled or out of place.

    What was in doubt may come late, behind what its sender sent after it; all else keeps its order.
    """
    owner, other = two()
    senders = send([other.url], "log", PARTITIONS, 4)
    assert eventually(lambda: senders.acknowledged_since(0) > 10)
    owner.process.send_signal(signal.SIGSTOP)
    try:
        stopped = time.monotonic()
        assert eventually(lambda: len(ids(other)) == 1)
        assert eventually(lambda: senders.acknowledged_since(stopped) > 10)
    finally:
        owner.process.send_signal(signal.SIGCONT)
    woke = time.monotonic()
    assert eventually(lambda: len(ids(other)) == 2)
    assert eventually(lambda: senders.acknowledged_since(woke) > 10)
    sent = senders.stop()
    assert {one.status for one in sent} <= {200, 503, 504}
    earlier, logs = ([each.read("log", partition) for partition in range(PARTITIONS)] for each in (owner, other))
    # A request in doubt may be committed in between.
    assert earlier == [log[: len(before)] for log, before in zip(logs, earlier, strict=True)]
    in_doubt = {value for one in sent if one.status == 504 for value in one.values}
    for log in logs:
        values = [value for _, value in log]
        assert [offset for offset, _ in log] == list(range(len(log)))
        assert len(set(values)) == len(values)
        for name in range(4):
            own = [value for value in values if value.startswith(f"{name}-") and value not in in_doubt]
            assert own == sorted(own)
    for one in sent:
        if one.status == 200:
            (place,) = one.answer["partitions"]
            stored = logs[one.partition][place["base_offset"] : place["last_offset"] + 1]
            assert tuple(value for _, value in stored) == one.values


def test_a_drain_fails_no_request(two: Start, send: Callable[..., Senders]) -> None:
    """SIGTERM of the owner under load: none but DRAINING at the HTTP level, and only from itself; none at all in the SDK."""
    owner, other = two()
    failures: list[BaseException] = []
    produced = [0]
    stopping = threading.Event()

    def produce() -> None:
        try:
            with Producer([owner.url, other.url]) as producer:
                while not stopping.is_set():
                    producer.send("log", value="sdk", partition=1).result(60)
                    produced[0] += 1
        except BaseException as error:  # noqa: BLE001 - raised again where the test waits
            failures.append(error)

    clients = [threading.Thread(target=produce) for _ in range(2)]
    for client in clients:
        client.start()
    senders = send([owner.url, other.url], "log", 1, 4, until=lambda one: one.status == 503)
    try:
        assert eventually(lambda: senders.acknowledged_since(0) > 20 and produced[0] > 5)
        assert owner.end() == 0, owner.log()
        ended, before = time.monotonic(), produced[0]
        assert eventually(lambda: senders.acknowledged_since(ended) > 20 and produced[0] > before + 5)
    finally:
        stopping.set()
        for client in clients:
            client.join()
    assert not failures
    sent = senders.stop()
    assert [one.answer["error_code"] for one in sent if one.status != 200] == ["DRAINING"] * 2
    check_log([other.read("log", 0)], sent)


def test_who_wrongly_believes_to_be_preferred_finds_out_by_its_conflicts(
    tmp_path: Path, start_gateway: StartGateway, send: Callable[..., Senders]
) -> None:
    """A gateway that came and is preferred is seen by the other one long before its next look, for the commits that it loses."""
    names = ("first", "second")
    topic = next(f"log-{number}" for number in range(100) if preferred_gateway(f"log-{number}", names) == "second")
    first, second = (
        start_gateway(str(tmp_path / "store"), "--heartbeat-ms", "30000", "--gateway-id", name) for name in names
    )
    assert eventually(lambda: len(ids(second)) == 2)
    assert len(ids(first)) == 1
    first.topic(topic, flush_ms=5)
    # Each hears as much as the other: the gateway that is slower to commit loses again and again.
    senders = send([first.url, second.url], topic, 1, 6)
    assert eventually(lambda: len(ids(first)) == 2)
    began = time.monotonic()
    assert eventually(lambda: senders.acknowledged_since(began) > 10)
    assert eventually(lambda: 'tidelog_forwarded_requests_total{outcome="answered"}' in first.http.get("/metrics").text)
    assert {one.status for one in senders.stop()} <= {200, 503}


def test_owners_spread_a_topic_by_partition(two: Start, send: Callable[..., Senders]) -> None:
    """``owners`` 2: each commits its own partitions, wherever requests arrive, both at once to one log."""
    gateways = two()
    gateways[0].topic("spread", 4, flush_ms=5, owners=2)
    senders = send([gateway.url for gateway in gateways], "spread", 4, 6)
    assert eventually(lambda: senders.acknowledged_since(0) > 40)
    sent = senders.stop()
    assert {one.status for one in sent} <= {200, 503}
    check_log([gateways[0].read("spread", partition) for partition in range(4)], sent)
    by_url = ids(gateways[0])
    owners = []
    for partition in range(4):
        owner = preferred_gateway("spread", by_url.values(), owners=2, partition=partition)
        owners.append(next(gateway for gateway in gateways if by_url[gateway.url] == owner))
        before = owners[-1].metric("tidelog_appended_records_total")
        for gateway in gateways:
            assert gateway.produce("spread", "more", partition=partition).status_code == 200
        assert owners[-1].metric("tidelog_appended_records_total") == before + 2
    assert owners[0] is owners[2] is not owners[1] is owners[3]


def test_long_polls_wait_at_another_gateway(two: Start) -> None:
    """A poll that was passed on is answered as soon as the record is there, whichever gateway took it."""
    asked, other = two("--forwarding", "random")
    with ThreadPoolExecutor(WAITING) as threads:
        polls = [threads.submit(asked.fetch, "log", offset=0, max_wait_ms=60_000) for _ in range(WAITING)]
        assert eventually(lambda: sum(waiting(asked, other)) == WAITING)
        assert all(waiting(asked, other))
        produced = time.monotonic()
        assert asked.produce("log", "x").status_code == 200
        answers = [poll.result() for poll in polls]
    assert time.monotonic() - produced < 50, "they waited for their time to pass"
    for answer in answers:
        assert [(one["offset"], one["value"]) for one in answer.json()["records"]] == [(0, "x")]
    assert eventually(lambda: not any(waiting(asked, other)))


def test_event_streams_come_through_another_gateway_and_end_with_their_clients(two: Start) -> None:
    """Events pass the hop one by one as they happen; a client that hangs up ends its stream behind the hop, too."""
    asked, other = two("--forwarding", "random")
    path, headers = "/v1/topics/log/partitions/0/records?offset=0", {"Accept": "text/event-stream"}
    with ExitStack() as opened:
        streams = [opened.enter_context(asked.http.stream("GET", path, headers=headers)) for _ in range(WAITING)]
        followed = [stream.iter_lines() for stream in streams]
        for values, next_offsets in (("a", (1,)), ("bc", (2, 3))):
            assert asked.produce("log", *values).status_code == 200
            assert {tuple(event_ids(lines, len(values))) for lines in followed} == {next_offsets}
        assert eventually(lambda: sum(waiting(asked, other)) == WAITING)
        assert all(waiting(asked, other))
    assert eventually(lambda: not any(waiting(asked, other)))


def test_one_of_three_is_killed(
    s3_uri: str,
    start_gateway: StartGateway,
    send: Callable[..., Senders],
) -> None:
    """On S3: the two that are left go on with the topic that the third owned; what any of them acknowledged is there, once."""
    gateways = [start_gateway(s3_uri, "--heartbeat-ms", str(BEAT_MS)) for _ in range(3)]
    assert eventually(lambda: all(len(ids(gateway)) == 3 for gateway in gateways))
    by_url = ids(gateways[0])
    best = preferred_gateway("log", by_url.values())
    killed = next(number for number in range(3) if by_url[gateways[number].url] == best)
    left = [gateway for number, gateway in enumerate(gateways) if number != killed]
    left[0].topic("log", PARTITIONS, flush_ms=5)
    senders = send([gateway.url for gateway in gateways], "log", PARTITIONS, 6)
    assert eventually(lambda: senders.acknowledged_since(0) > 30)
    gateways[killed].process.kill()
    assert gateways[killed].end() == -signal.SIGKILL
    moment = time.monotonic()
    assert eventually(lambda: all(len(ids(gateway)) == 2 for gateway in left))
    assert eventually(lambda: senders.acknowledged_since(moment) > 30)
    sent = senders.stop()
    to_those_left = [one for one in sent if int(one.values[0].partition("-")[0]) % 3 != killed]
    assert {one.status for one in to_those_left} <= {200, 503, 504}
    logs = [left[0].read("log", partition) for partition in range(PARTITIONS)]
    assert logs == [left[1].read("log", partition) for partition in range(PARTITIONS)]
    check_log(logs, sent)
