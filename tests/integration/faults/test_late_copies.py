"""A topic is deleted and made anew while a gateway, or its store, stands still with a request for the former topic in its hands.

Whoever sent that has gone on: it was answered elsewhere, or gave up. It does nothing to the new topic when the gateway goes on.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway_process import GatewayProcess, StartGateway
from tests.support.live_gateways import know_each_other, owned_by
from tests.support.minio import Minio
from tests.support.store_proxy import Mode, Proxy
from tests.support.waiting import eventually

SLOW_SECONDS = 4
LATER_SECONDS = 1.5
"""So long a gateway that goes on has for what it finds."""


@pytest.fixture
def two(tmp_path: Path, start_gateway: StartGateway) -> Iterator[list[GatewayProcess]]:
    """The first is the one that will stand still. It goes on at the test's end at the latest."""
    gateways = [start_gateway(str(tmp_path / "store"), "--flush-savings-max-ms", "0") for _ in range(2)]
    assert know_each_other(gateways)
    yield gateways
    gateways[0].process.send_signal(signal.SIGCONT)


def stamped(gateway: GatewayProcess) -> dict[str, str]:
    """The headers of the first request of a new producer."""
    known = gateway.http.post("/v1/producers").json()
    return {
        "Tidelog-Producer-Id": known["producer_id"],
        "Tidelog-Producer-Epoch": str(known["epoch"]),
        "Tidelog-Producer-Sequence": "0",
    }


def produce(gateway: GatewayProcess, topic: str, value: str, headers: dict[str, str]) -> int:
    path = f"/v1/topics/{topic}/partitions/0/records"
    return gateway.http.post(path, json={"records": [{"value": value}]}, headers=headers).status_code


def passed_on(gateway: GatewayProcess, outcome: str) -> float:
    """Requests that it passed on with this outcome."""
    name = f'tidelog_forwarded_requests_total{{outcome="{outcome}"}} '
    lines = gateway.http.get("/metrics").text.splitlines()
    return sum(float(line.split()[1]) for line in lines if line.startswith(name))


def made_anew(gateway: GatewayProcess, topic: str, *values: str) -> None:
    assert gateway.http.delete(f"/v1/topics/{topic}").status_code == 204
    gateway.topic(topic)
    if values:
        assert gateway.produce(topic, *values).status_code == 200


def is_read_as(gateways: list[GatewayProcess], topic: str, *values: str) -> bool:
    """Whether the topic has these records, for long enough."""
    time.sleep(LATER_SECONDS)
    return all([value for _, value in one.read(topic)] == list(values) for one in gateways)


def test_a_copy_that_was_passed_on_to_a_frozen_gateway(two: list[GatewayProcess]) -> None:
    """The other gateway gives it up and appends the records itself; the copy does not come into the topic made anew."""
    frozen, other = two
    topic = owned_by(frozen)
    frozen.topic(topic)
    before, headers = stamped(other), stamped(other)
    assert produce(other, topic, "before", before) == 200
    frozen.process.send_signal(signal.SIGSTOP)
    assert produce(other, topic, "late", headers) == 200
    assert passed_on(other, "lost") == 1, "it was not passed on"
    made_anew(other, topic, "new")
    frozen.process.send_signal(signal.SIGCONT)
    assert is_read_as([other, frozen], topic, "new")


def test_a_copy_that_waits_for_a_slow_store(s3_uri: str, minio: Minio, start_gateway: StartGateway) -> None:
    """The gateway has begun with it, and goes on once its store answers: the topic that was meant is no more."""
    proxy = Proxy(minio.port, delay_seconds=SLOW_SECONDS)
    try:
        slow = start_gateway(s3_uri, environment={"AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.port}"})
        other = start_gateway(s3_uri)
        assert know_each_other([slow, other])
        topic = owned_by(slow)
        slow.topic(topic)
        before, headers = stamped(other), stamped(other)
        assert produce(other, topic, "before", before) == 200
        proxy.set(Mode.DELAY)
        assert produce(other, topic, "late", headers) == 200
        assert passed_on(other, "lost") == 1, "it was not passed on"
        made_anew(other, topic, "new")
        proxy.set(Mode.PASS)
        time.sleep(SLOW_SECONDS)
        assert eventually(lambda: slow.fetch(topic).status_code == 200)
        assert is_read_as([other, slow], topic, "new")
    finally:
        proxy.close()


def test_what_either_gateway_knows_may_be_old(two: list[GatewayProcess]) -> None:
    """The topic is made anew by one of them: what the other passes on, or is passed, is for the new one, and is done once."""
    owner, other = two
    topic = owned_by(owner)
    owner.topic(topic)
    assert produce(other, topic, "before", stamped(other)) == 200
    made_anew(owner, topic)
    assert [produce(other, topic, value, stamped(other)) for value in ("a", "b")] == [200, 200]
    assert (passed_on(other, "replaced"), passed_on(other, "answered")) == (1, 2)
    assert is_read_as(two, topic, "a", "b")
    made_anew(other, topic)
    assert [produce(other, topic, value, stamped(other)) for value in ("c", "d")] == [200, 200]
    assert (passed_on(other, "replaced"), passed_on(other, "answered")) == (1, 4)
    assert is_read_as(two, topic, "c", "d")


def _produce(_topic: str, _headers: dict[str, str]) -> tuple[str, str, Any, dict[str, str]]:
    return "POST", f"/v1/topics/{_topic}/records", {"records": [{"value": "late"}]}, _headers


def _delete(topic: str, _headers: dict[str, str]) -> tuple[str, str, Any, dict[str, str]]:
    return "DELETE", f"/v1/topics/{topic}", None, {}


def _delete_records(topic: str, _headers: dict[str, str]) -> tuple[str, str, Any, dict[str, str]]:
    return "POST", f"/v1/topics/{topic}:delete-records", {"before": [{"partition": 0, "offset": 1}]}, {}


@pytest.mark.parametrize("asked", [_produce, _delete, _delete_records], ids=["produce", "delete", "delete records"])
def test_a_request_whose_client_has_gone(
    two: list[GatewayProcess], asked: Callable[[str, dict[str, str]], tuple[str, str, Any, dict[str, str]]]
) -> None:
    """A client that asked the frozen gateway, gave up, and asks another one: what it has closed is not done any more."""
    frozen, other = two
    topic = owned_by(frozen)
    frozen.topic(topic)
    assert produce(frozen, topic, "before", stamped(other)) == 200
    method, path, body, headers = asked(topic, stamped(other))
    data = b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json"]
    lines += [f"Content-Length: {len(data)}", *(f"{name}: {value}" for name, value in headers.items())]
    with frozen.connect() as late:
        late.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert late.recv(1 << 16).startswith(b"HTTP/1.1 200")
        frozen.process.send_signal(signal.SIGSTOP)
        late.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + data)
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(other.http.request, method, path, json=body, headers=headers).result()
    assert answer.status_code < 300, answer.text
    if method == "DELETE":
        other.topic(topic)
        assert other.produce(topic, "new").status_code == 200
    else:
        made_anew(other, topic, "new")
    frozen.process.send_signal(signal.SIGCONT)
    assert is_read_as([other, frozen], topic, "new")
