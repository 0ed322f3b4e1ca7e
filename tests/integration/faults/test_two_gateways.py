"""Two gateways on one store: one truth, whichever gateway writes, however late a frozen one wakes up."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import urllib3

from tests.support.gateway_process import StartGateway
from tests.support.senders import Senders, check_log
from tests.support.waiting import eventually

PARTITIONS = 2
SECONDS = 3


def test_both_write_at_once(store_uri: str, start_gateway: StartGateway, send: Callable[..., Senders]) -> None:
    """G3: each acknowledged record is at its offset, once. G4: the moment it is acknowledged the other gateway shows it."""
    gateways = [start_gateway(store_uri), start_gateway(store_uri)]
    gateways[0].topic("log", PARTITIONS, flush_ms=5)
    seen_by_other = threading.Semaphore(0)

    def read_through_the_other(name: int, sent: Any) -> None:
        if sent.status != 200:
            return
        (place,) = sent.answer["partitions"]
        url = f"{gateways[(name + 1) % 2].url}/v1/topics/log/partitions/{sent.partition}/records"
        with urllib3.PoolManager(retries=False) as http:
            answer = http.request("GET", f"{url}?offset={place['base_offset']}&max_records={place['count']}")
        assert answer.status == 200, answer.data
        assert tuple(record["value"] for record in answer.json()["records"]) == sent.values
        seen_by_other.release()

    urls = [gateway.url for gateway in gateways]
    senders = send(urls, "log", PARTITIONS, 8, after_each=read_through_the_other)
    time.sleep(SECONDS)
    sent = senders.stop()
    logs = [gateways[0].read("log", partition) for partition in range(PARTITIONS)]
    assert logs == [gateways[1].read("log", partition) for partition in range(PARTITIONS)]
    check_log(logs, sent)
    acknowledged = sum(one.status == 200 for one in sent)
    assert acknowledged > 20
    for _ in range(acknowledged):
        assert seen_by_other.acquire(blocking=False)
    # A gateway that lost too many races in a row may say so; nothing else may go wrong.
    assert {one.status for one in sent} <= {200, 503}


def test_a_gateway_that_slept_through_a_topics_end(
    store_uri: str, start_gateway: StartGateway, send: Callable[..., Senders]
) -> None:
    """G3: stopped while it is sent records, it goes on in the topic that was made anew; of the old one nothing is there,
    and what it acknowledged to requests that came after the old topic's end is.
    """
    # Neither sends the other anything: what is sent to one that sleeps is in doubt, and that is another test's.
    awake, sleeper = (start_gateway(store_uri, "--forwarding", "off") for _ in range(2))
    awake.topic("log", 2)
    senders = send([sleeper.url], "log", 2, 6)
    assert eventually(lambda: senders.acknowledged_since(0) > 20)
    if store_uri.startswith("s3://"):
        # MinIO keeps an object locked while a PUT of it is unfinished: stopped right then, the sleeper would block the others.
        senders.pause()
    sleeper.process.send_signal(signal.SIGSTOP)
    try:
        senders.resume()
        assert awake.http.delete("/v1/topics/log").status_code == 204
        time.sleep(0.2)
        deleted = time.monotonic()
        awake.topic("log", 2)
        assert awake.produce("log", "new").status_code == 200
    finally:
        woke = time.monotonic()
        sleeper.process.send_signal(signal.SIGCONT)
    assert eventually(lambda: senders.acknowledged_since(woke) > 20), sleeper.log()[-2000:]
    sent = senders.stop()
    # 404: it looked when the topic was gone; 503: it was replaced twice, or the look failed.
    assert {one.status for one in sent} <= {200, 404, 503}
    logs = [awake.read("log", partition) for partition in range(2)]
    assert logs == [sleeper.read("log", partition) for partition in range(2)]
    assert logs[0][0] == (0, "new")
    for log in logs:
        assert [offset for offset, _ in log] == list(range(len(log)))
    values = [value for log in logs for _, value in log]
    assert len(set(values)) == len(values)
    old = {value for one in sent if one.ended < deleted for value in one.values}
    refused = {value for one in sent if one.is_refused for value in one.values}
    assert old
    assert not (old | refused) & set(values)
    for one in sent:
        if one.status == 200 and one.ended > deleted:
            (place,) = one.answer["partitions"]
            stored = [value for _, value in logs[one.partition][place["base_offset"] : place["last_offset"] + 1]]
            # An answer to what was committed to the old topic may have slept, too.
            assert tuple(stored) == one.values or one.began < deleted
    assert set(values) - {"new"} <= {value for one in sent for value in one.values}


def test_sigterm_while_producers_send(
    tmp_path: Path,
    start_gateway: StartGateway,
    send: Callable[..., Senders],
) -> None:
    """Every request is answered, with 200 or 503 ``DRAINING``; what was acknowledged is there; the status is 0."""
    gateway = start_gateway(str(tmp_path / "store"))
    gateway.topic("log", PARTITIONS, flush_ms=250)
    senders = send([gateway.url], "log", PARTITIONS, 8, until=lambda sent: sent.status != 200)
    assert eventually(lambda: senders.acknowledged_since(0) > 16)
    told = time.monotonic()
    assert gateway.end() == 0, gateway.log()
    sent = senders.join()
    assert {one.status for one in sent} == {200, 503}
    refused = [one for one in sent if one.status == 503]
    assert len(refused) == 8
    assert all(one.answer["error_code"] == "DRAINING" and int(one.retry_after or 0) >= 1 for one in refused)
    assert any(one.began < told < one.ended and one.status == 200 for one in sent), "nothing was buffered"
    again = start_gateway(str(tmp_path / "store"))
    check_log([again.read("log", partition) for partition in range(PARTITIONS)], sent)
