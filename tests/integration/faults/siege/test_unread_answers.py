"""Clients that ask for much and read nothing hold up themselves: others are answered meanwhile."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import urllib3

from tests.support.attacks.connections import readers_that_do_not_read
from tests.support.gateway_process import GatewayProcess, StartGateway
from tests.support.waiting import eventually


@pytest.mark.parametrize(
    ("address", "within_seconds", "size_min"), [("127.0.0.2", 2, 1_000_000), ("127.0.0.1", 5, 1_000)]
)
def test_who_reads_is_served_beside_those_who_do_not(
    tmp_path: Path, start_gateway: StartGateway, address: str, within_seconds: float, size_min: int
) -> None:
    """A client at another address gets its megabyte at once; one at the same, as behind a balancer, some records in seconds."""
    gateway = start_gateway(str(tmp_path / "store"), "--tail-cache-bytes-max", "0")
    gateway.topic("large")
    for _ in range(10):
        assert gateway.produce("large", *["x" * 1_000] * 900).status_code == 200
    query = "partitions/0/records?offset=earliest&max_records=100000"
    with (
        readers_that_do_not_read(gateway, f"/v1/topics/large/{query}&max_bytes={8 << 20}"),
        urllib3.PoolManager(retries=False, timeout=30, source_address=(address, 0)) as http,
    ):
        assert eventually(lambda: gateway.metric("tidelog_answer_memory_bytes") > 32 << 20)
        waited: list[float] = []
        for _ in range(3):
            began = time.monotonic()
            answer = http.request("GET", f"{gateway.url}/v1/topics/large/{query}")
            waited.append(time.monotonic() - began)
            assert answer.status == 200, (answer.data, waited)
            assert answer.json()["records"]
            assert len(answer.data) >= size_min, waited
        # The machine's own hiccups come and go: the median counts.
        assert sorted(waited)[1] < within_seconds, waited


def test_nobody_is_cut_at_the_beginning(tmp_path: Path, start_gateway: StartGateway) -> None:
    """A connection that the gateway looks at for the first time in the middle of an answer has ``write_stall_ms`` too."""
    gateway = start_gateway(str(tmp_path / "store"))
    gateway.topic("large")
    assert gateway.produce("large", *["x" * 1_000] * 900).status_code == 200
    path = "/v1/topics/large/partitions/0/records?offset=earliest&max_records=1000"
    with readers_that_do_not_read(gateway, path, count=10):
        assert eventually(lambda: gateway.metric("tidelog_answer_memory_bytes") > 5 << 20)
        time.sleep(1)
        assert "does not read" not in gateway.log()


def test_who_does_not_read_is_cut_when_others_wait(tmp_path: Path, start_gateway: StartGateway) -> None:
    """A large unread answer loses its memory to others after some seconds, but only when another request waits for it.

    An answer that its client reads slowly comes whole all the same.
    """
    gateway = start_gateway(str(tmp_path / "store"), "--tail-cache-bytes-max", "0")
    gateway.topic("large")
    for _ in range(10):
        assert gateway.produce("large", *["x" * 1_000] * 900).status_code == 200
    path = "/v1/topics/large/partitions/0/records?offset=earliest&max_records=100000&max_bytes="
    with (
        readers_that_do_not_read(gateway, f"{path}{8 << 20}", count=1),
        ThreadPoolExecutor(1) as pool,
    ):
        time.sleep(4)
        slow = pool.submit(_read_slowly, gateway, f"{path}{8 << 20}")
        assert eventually(lambda: gateway.metric("tidelog_answer_memory_bytes") > 32 << 20)
        sizes = [0]
        until = time.monotonic() + 20
        while sizes[-1] < 1 << 20 and time.monotonic() < until:
            sizes.append(len(gateway.http.get(f"{path}{2 << 20}").content))
        assert sizes[-1] > 1 << 20, sizes
        assert eventually(lambda: "while others wait for memory" in gateway.log(), 5)
        assert gateway.log().count("while others wait for memory") == 1
        assert slow.result() > 8 << 20


def _read_slowly(gateway: GatewayProcess, path: str) -> int:
    received = 0
    with gateway.connect() as reader:
        reader.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        while piece := reader.recv(64 * 1024, socket.MSG_WAITALL):
            received += len(piece)
            time.sleep(0.025)
    return received
