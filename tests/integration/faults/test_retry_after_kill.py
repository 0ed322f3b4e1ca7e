"""G5 by the hard way: a gateway is killed with a request under way, and the same request is sent again by the same headers.

Nothing here is left to luck. The gateway dies when the store shows the commit and the client has not read the answer,
or while the records lie in its buffer.
"""

from __future__ import annotations

import json
import signal
from functools import partial
from typing import Any

from log_format import layout
from log_format.stores import open_store
from tests.support.gateway_process import GatewayProcess, StartGateway
from tests.support.waiting import eventually

TOPIC = "log"


class Producer:
    """One producer id; each request bears the next sequence, however often and wherever it is sent."""

    def __init__(self, gateway: GatewayProcess) -> None:
        answer = gateway.http.post("/v1/producers", json={})
        assert answer.status_code == 201, answer.text
        self._identity = answer.json()

    def _request(self, sequence: int) -> tuple[dict[str, str], bytes]:
        headers = {
            "Content-Type": "application/json",
            "Tidelog-Producer-Id": self._identity["producer_id"],
            "Tidelog-Producer-Epoch": str(self._identity["epoch"]),
            "Tidelog-Producer-Sequence": str(sequence),
        }
        return headers, json.dumps({"records": [{"value": f"{sequence}-{index}"} for index in range(2)]}).encode()

    def send(self, gateway: GatewayProcess, sequence: int) -> Any:
        """The answer."""
        headers, body = self._request(sequence)
        answer = gateway.http.post(f"/v1/topics/{TOPIC}/partitions/0/records", headers=headers, content=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def send_and_look_away(self, gateway: GatewayProcess, sequence: int) -> Any:
        """Send it whole and read nothing; the open connection."""
        headers, body = self._request(sequence)
        lines = [f"POST /v1/topics/{TOPIC}/partitions/0/records HTTP/1.1", "Host: gateway"]
        lines += [f"{name}: {value}" for name, value in headers.items()] + [f"Content-Length: {len(body)}", "", ""]
        connection = gateway.connect()
        connection.sendall("\r\n".join(lines).encode() + body)
        return connection


def commits(store_uri: str) -> int:
    store = open_store(store_uri)
    return sum(layout.commit_version(info.key) is not None for info in store.list(layout.log_prefix(TOPIC)))


def has_more_commits(store_uri: str, before: int) -> bool:
    return commits(store_uri) > before


def kill(gateway: GatewayProcess) -> None:
    gateway.process.kill()
    assert gateway.end() == -signal.SIGKILL


def test_committed_but_never_answered(store_uri: str, start_gateway: StartGateway) -> None:
    """Killed between commit and answer, three times: the repeat, through another gateway, gets the first try's offsets."""
    gateway, next_one = start_gateway(store_uri), start_gateway(store_uri)
    gateway.topic(TOPIC)
    producer = Producer(gateway)
    for sequence in range(3):
        before = commits(store_uri)
        with producer.send_and_look_away(gateway, sequence):
            assert eventually(partial(has_more_commits, store_uri, before), 60)
            kill(gateway)
        gateway, next_one = next_one, start_gateway(store_uri)
        again = producer.send(gateway, sequence)
        place = {"partition": 0, "base_offset": 2 * sequence, "last_offset": 2 * sequence + 1, "count": 2}
        assert again["duplicate"] is True
        assert again["partitions"] == [again["partitions"][0] | place]
    # The newest five are known, whichever gateway took them.
    assert [producer.send(next_one, sequence)["duplicate"] for sequence in range(4)] == [True, True, True, False]
    log = [(offset, f"{offset // 2}-{offset % 2}") for offset in range(8)]
    assert gateway.read(TOPIC) == log
    assert next_one.read(TOPIC) == log


def test_buffered_but_never_committed(store_uri: str, start_gateway: StartGateway) -> None:
    """Killed with the request in its buffer: the repeat is the one that counts, and the sequence goes on behind it."""
    gateway = start_gateway(store_uri, "--flush-savings-max-ms", "0")
    gateway.topic(TOPIC, flush_ms=60_000)
    producer = Producer(gateway)
    before = commits(store_uri)
    with producer.send_and_look_away(gateway, 0):
        assert eventually(lambda: gateway.metric("tidelog_buffered_bytes") > 0, 60)
        kill(gateway)
    assert commits(store_uri) == before
    other = start_gateway(store_uri)
    assert other.http.patch(f"/v1/topics/{TOPIC}", json={"config": {"flush.ms": 0}}).status_code == 200
    assert [producer.send(other, sequence)["duplicate"] for sequence in range(2)] == [False, False]
    assert other.read(TOPIC) == [(0, "0-0"), (1, "0-1"), (2, "1-0"), (3, "1-1")]
