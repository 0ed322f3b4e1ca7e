"""Three gateways on one store, clients at two of them. The third is preferred, and then it stands still, or its store does.

Requests of the two go on within seconds: nothing waits for a lease to end. What was not sent is done elsewhere, once.
"""

from __future__ import annotations

import itertools
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from log_format.cluster.preferred import preferred_gateway
from tests.support.gateway_process import GatewayProcess, StartGateway
from tests.support.live_gateways import ids, know_each_other, owned_by
from tests.support.minio import Minio
from tests.support.senders import Senders, check_log
from tests.support.store_proxy import Mode, Proxy
from tests.support.waiting import eventually

GOES_ON_SECONDS_MAX = 3.0
"""Until each client has an answer to what it began after the fault; a lease ends after 12 s."""
SENT_SECONDS = 0.5
"""For so long after the fault a request may still be sent to the frozen gateway."""
PARTITIONS = 2
Start = Callable[..., list[GatewayProcess]]


def forwarded(gateway: GatewayProcess, outcome: str) -> float:
    name = f'tidelog_forwarded_requests_total{{outcome="{outcome}"}} '
    lines = gateway.http.get("/metrics").text.splitlines()
    return sum(float(line.split()[1]) for line in lines if line.startswith(name))


@pytest.fixture
def three(tmp_path: Path, start_gateway: StartGateway) -> list[GatewayProcess]:
    """The first is the one that will stand still."""
    # Flushes that always wait for flush.ms: a request's time is then the test's to choose.
    gateways = [start_gateway(str(tmp_path / "store"), "--flush-savings-max-ms", "0") for _ in range(3)]
    assert know_each_other(gateways)
    return gateways


@dataclass
class Stamped:
    """Producers with ids, one at each URL, that never look elsewhere; when each record was begun and acknowledged."""

    urls: list[str]
    topic: str
    places: list[tuple[float, float]] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        self._threads = [threading.Thread(target=self._run, args=(url,)) for url in self.urls]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _run(self, url: str) -> None:
        try:
            with httpx.Client(base_url=url, timeout=60, trust_env=False) as http:
                known = http.post("/v1/producers").json()
                headers = {"Tidelog-Producer-Id": known["producer_id"], "Tidelog-Producer-Epoch": str(known["epoch"])}
                path = f"/v1/topics/{self.topic}/partitions/1/records"
                for number in itertools.count():
                    if self._stopping.is_set():
                        return
                    began = time.monotonic()
                    numbered = headers | {"Tidelog-Producer-Sequence": str(number)}
                    answer = http.post(path, json={"records": [{"value": f"stamped-{number}"}]}, headers=numbered)
                    assert answer.status_code == 200, answer.text
                    self.places.append((began, time.monotonic()))
        except BaseException as error:  # noqa: BLE001 - raised again where the test waits
            self.failures.append(error)


def went_on(sent: list[Any], moment: float, count: int) -> list[float]:
    """For each sender: the seconds from ``moment`` to its first acknowledgement of what it began after it."""
    found: dict[int, float] = {}
    for one in sent:
        name = int(one.values[0].partition("-")[0])
        if one.status == 200 and one.began > moment:
            found.setdefault(name, one.ended - moment)
    assert len(found) == count, "a sender did not go on"
    return [round(found[name], 2) for name in sorted(found)]


@pytest.fixture
def freezing() -> Iterator[Callable[[GatewayProcess], float]]:
    """Freeze a gateway; the moment. It goes on at the test's end at the latest."""
    frozen: list[GatewayProcess] = []

    def freeze(gateway: GatewayProcess) -> float:
        gateway.process.send_signal(signal.SIGSTOP)
        frozen.append(gateway)
        return time.monotonic()

    yield freeze
    for gateway in frozen:
        gateway.process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("mode", ["own", "shared"])
def test_the_others_go_on_when_the_preferred_gateway_is_frozen(
    three: list[GatewayProcess],
    send: Callable[..., Senders],
    freezing: Callable[[GatewayProcess], float],
    mode: str,
) -> None:
    """Plain and stamped producers; 504 only for what was sent before the fault was seen; no record twice, none lost."""
    name = ids(three[0])
    journals = preferred_gateway("journals/0", name.values())
    frozen, *others = sorted(three, key=lambda one: name[one.url] != journals)
    topic = owned_by(frozen)
    frozen.topic(topic, PARTITIONS, flush_ms=20, commit_mode=mode)
    urls = [gateway.url for gateway in others]
    senders = send(urls, topic, 1, 6)
    stamped = Stamped(urls, topic)
    stamped.start()
    try:
        assert eventually(lambda: senders.acknowledged_since(0) > 60 and len(stamped.places) > 10)
        moment = freezing(frozen)
        assert eventually(lambda: senders.acknowledged_since(moment) > 60)
        time.sleep(3)
    finally:
        stamped.stop()
    sent = senders.stop()
    assert not stamped.failures
    waited = went_on(sent, moment, 6)
    longest = max(ended - max(began, moment) for began, ended in stamped.places if ended > moment)
    print("seconds until each went on:", waited, "stamped:", round(longest, 2))
    assert max(waited) <= GOES_ON_SECONDS_MAX
    assert longest <= GOES_ON_SECONDS_MAX
    late = [one for one in sent if one.status == 504 and one.began > moment + SENT_SECONDS]
    assert not late, "what was not sent is of a known outcome"
    assert {one.status for one in sent} <= {200, 504}
    frozen.process.send_signal(signal.SIGCONT)
    assert know_each_other(three)
    check_log([others[0].read(topic)], sent)
    records = others[1].read(topic, 1)
    assert len(records) == len(stamped.places)


def test_requests_that_only_arrive_later_never_wait_for_it(
    three: list[GatewayProcess], freezing: Callable[[GatewayProcess], float]
) -> None:
    """No traffic when it freezes, so nothing was sent to it: each request is answered with 200, and soon."""
    frozen, *others = three
    topic = owned_by(frozen)
    frozen.topic(topic, 1, flush_ms=20)
    for other in others:
        assert other.produce(topic, "before").status_code == 200
    freezing(frozen)
    time.sleep(1)
    with ThreadPoolExecutor(8) as threads:
        began = time.monotonic()
        answers = [threads.submit(others[number % 2].produce, topic, f"value-{number}") for number in range(8)]
        assert [answer.result().status_code for answer in answers] == [200] * 8
    assert time.monotonic() - began <= GOES_ON_SECONDS_MAX


def test_a_groups_members_go_on(three: list[GatewayProcess], freezing: Callable[[GatewayProcess], float]) -> None:
    """The coordinator is frozen: offsets are committed at another one."""
    frozen, *others = three
    topic, group = owned_by(frozen), owned_by(frozen, "groups/")
    frozen.topic(topic, 1, flush_ms=20)
    frozen.produce(topic, "a", "b")
    body = {"offsets": [{"topic": topic, "partition": 0, "offset": 1}]}
    path = f"/v1/groups/{group}/offsets"
    assert others[0].http.put(path, json=body).status_code == 200
    freezing(frozen)
    time.sleep(0.5)
    began = time.monotonic()
    answer = others[1].http.put(path, json=body)
    assert answer.status_code == 200, answer.text
    assert time.monotonic() - began <= GOES_ON_SECONDS_MAX


def test_a_long_poll_that_waits_opens_nothing(three: list[GatewayProcess]) -> None:
    """A poll of a group waits at its coordinator for as long as it says, and so may a slow flush; the gateway stays preferred."""
    owner, other, _ = three
    topic, group = owned_by(owner), owned_by(owner, "groups/")
    owner.topic(topic, 1, flush_ms=4_000)
    path = f"/v1/groups/{group}/poll"
    member = other.http.post(path, json={"topics": [topic], "max_wait_ms": 0}).json()
    known = {"member_id": member["member_id"], "generation": member["generation"]}
    answered = forwarded(other, "answered")
    with ThreadPoolExecutor(2) as threads:
        began = time.monotonic()
        poll = threads.submit(other.http.post, path, json={**known, "max_wait_ms": 6_000})
        produced = threads.submit(other.produce, topic, "x")
        assert produced.result().status_code == 200
        assert time.monotonic() - began > 3
        assert poll.result().status_code == 200, poll.result().text
    assert forwarded(other, "answered") == answered + 2
    assert {
        outcome: forwarded(other, outcome) for outcome in ("lost", "silent", "slow", "unreachable")
    } == dict.fromkeys(("lost", "silent", "slow", "unreachable"), 0.0)


def test_the_others_go_on_when_the_store_is_slow_for_the_preferred_gateway(
    s3_uri: str, minio: Minio, start_gateway: StartGateway, send: Callable[..., Senders]
) -> None:
    """Its event loop turns, and its heartbeats come: only what it should do takes seconds. 504 only for what it was sent."""
    proxy = Proxy(minio.port, delay_seconds=3)
    try:
        slow = start_gateway(s3_uri, environment={"AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.port}"})
        others = [start_gateway(s3_uri) for _ in range(2)]
        assert know_each_other([slow, *others])
        topic = owned_by(slow)
        slow.topic(topic, 1, flush_ms=20)
        urls = [gateway.url for gateway in others]
        senders = send(urls, topic, 1, 6)
        assert eventually(lambda: senders.acknowledged_since(0) > 60)
        proxy.set(Mode.DELAY)
        moment = time.monotonic()
        with ThreadPoolExecutor(8) as threads:
            time.sleep(GOES_ON_SECONDS_MAX)
            late = time.monotonic()
            answers = [threads.submit(others[number % 2].produce, topic, f"late-{number}-0") for number in range(8)]
            assert [answer.result().status_code for answer in answers] == [200] * 8
            assert time.monotonic() - late <= GOES_ON_SECONDS_MAX
        assert eventually(lambda: senders.acknowledged_since(moment) > 60)
        proxy.set(Mode.PASS)
        sent = senders.stop()
        waited = went_on(sent, moment, 6)
        print("seconds until each went on:", waited)
        assert max(waited) <= GOES_ON_SECONDS_MAX
        opened = moment + GOES_ON_SECONDS_MAX
        assert {one.status for one in sent} <= {200, 504}
        assert not [one for one in sent if one.status == 504 and one.began > opened]
        log = [place for place in others[0].read(topic) if not place[1].startswith("late-")]
        assert len({value for _, value in log}) == len(log)
        assert {value for one in sent if one.status == 200 for value in one.values} <= {value for _, value in log}
    finally:
        proxy.close()
