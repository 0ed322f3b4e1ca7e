"""Several gateways behind one port, and the process that keeps them: spread, restarts, replacement without a failed request."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Self

import httpx
import pytest

from gateway.process.movable_protocol import MOVES_AFTER
from tests.support.gateway_process import SERVE, GatewayProcess, running_gateway
from tests.support.waiting import until

COUNT = 3
PATIENCE_S = 60
FORWARDED = "tidelog_forwarded_requests_total"
MOVED = "tidelog_moved_connections_total"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """Three workers with a page for operators, of all tests that leave three behind: four programs start. In the end SIGTERM
    drains each."""
    directory = tmp_path_factory.mktemp("workers")
    settings = ("--workers", str(COUNT), "--ops-port", "0", "--header-idle-ms", "3000", "--heartbeat-ms", "500")
    with running_gateway(directory / "store", directory / "gateway.log", *settings, command=SERVE) as started:
        yield started


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[GatewayProcess]:
    """Two workers, of a test that ends them: two programs start, behind a supervisor by fork."""
    with running_gateway(tmp_path / "store", tmp_path / "gateway.log", "--workers", "2") as started:
        yield started


def all_known(gateway: GatewayProcess) -> None:
    """Wait until the workers know each other, and no one else."""
    wait_until("all gateways are known", lambda: len(gateway.http.get("/v1/cluster").json()["gateways"]) == COUNT)


def workers(gateway: GatewayProcess) -> set[int]:
    """Process ids of the workers."""
    children = Path(f"/proc/{gateway.process.pid}/task/{gateway.process.pid}/children").read_text()
    return set(map(int, children.split()))


def wait_until(what: str, is_so: Callable[[], object]) -> None:
    until(is_so, PATIENCE_S, what=what)


class Load:
    """Clients that send one record after another, each over a kept connection of its own, with a pause between two; every answer
    but 200 is kept."""

    def __init__(self, url: str, topic: str, clients: int = 8, pause_s: float = 0) -> None:
        self._pause_s = pause_s
        self._path = f"/v1/topics/{topic}/partitions/0/records"
        self.sent = [0] * clients
        self.failures: list[str] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(url, number)) for number in range(clients)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _send(self, url: str, number: int) -> None:
        with httpx.Client(base_url=url, timeout=60, trust_env=False) as http:
            while not self._stop.is_set():
                body = {"records": [{"value": f"{number}-{self.sent[number]}"}]}
                try:
                    answer = http.post(self._path, json=body)
                except httpx.HTTPError as error:
                    self.failures.append(repr(error))
                    return
                if answer.status_code != 200:
                    self.failures.append(answer.text)
                    return
                self.sent[number] += 1
                self._stop.wait(self._pause_s)

    def values(self) -> set[str]:
        return {f"{number}-{index}" for number, count in enumerate(self.sent) for index in range(count)}


def test_no_process_has_a_library_that_it_has_no_use_of(gateway: GatewayProcess) -> None:
    """Wherever pandas is installed beside it, as here: it would take a third of a worker's start, and 40 MB of each."""
    assert find_spec("pandas") is not None
    for process_id in (gateway.process.pid, *workers(gateway)):
        libraries = Path(f"/proc/{process_id}/maps").read_text()
        assert ("/numpy/" in libraries, "/pandas/" in libraries) == (True, False)


def test_connections_are_spread_and_one_page_shows_all(gateway: GatewayProcess) -> None:
    """Each worker serves some; each is a gateway of its own; the operators' page has the samples of all."""
    gateway.topic("spread")
    all_known(gateway)
    with Load(gateway.url, "spread", clients=24) as load:
        wait_until("records are sent", lambda: sum(load.sent) >= 200)
    assert load.failures == []
    with urllib.request.urlopen(f"{gateway.operations_url}/metrics") as answer:
        page = answer.read().decode()
    served = [line for line in page.splitlines() if line.startswith("tidelog_http_requests_total{")]
    assert {line.partition('worker="')[2][0] for line in served} == {"0", "1", "2"}
    assert page.count("# TYPE tidelog_http_requests_total ") == 1
    for _ in range(4):
        # The clients' port has the same page, whichever worker answers.
        of_clients = httpx.get(f"{gateway.url}/metrics", trust_env=False)
        assert of_clients.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        samples = [line for line in of_clients.text.splitlines() if line.startswith("tidelog_http_connections{")]
        assert [line.partition('worker="')[2][0] for line in samples] == ["0", "1", "2"]
    for path in ("/healthz", "/readyz", "/v1/cluster"):
        with urllib.request.urlopen(f"{gateway.operations_url}{path}") as answer:
            assert answer.status == 200
    assert {value for _, value in gateway.read("spread")} == load.values()


def test_workers_are_replaced_without_a_failed_request(gateway: GatewayProcess) -> None:
    """SIGHUP: other processes serve the port, and no client on a kept connection saw anything but 200."""
    gateway.topic("replaced", flush_ms=100)
    before = workers(gateway)
    assert len(before) == COUNT
    with Load(gateway.url, "replaced", pause_s=0.1) as load:
        wait_until("records are sent", lambda: sum(load.sent) >= 50)
        gateway.process.send_signal(signal.SIGHUP)
        wait_until("all workers are replaced", lambda: len(workers(gateway)) == COUNT and not workers(gateway) & before)
        enough = sum(load.sent) + 50
        wait_until("the new ones serve", lambda: load.failures or sum(load.sent) >= enough)
    assert load.failures == []
    stored = [value for _, value in gateway.read("replaced")]
    assert len(stored) == len(set(stored))
    assert set(stored) == load.values()


def test_a_worker_that_dies_is_started_again(gateway: GatewayProcess) -> None:
    """The others go on meanwhile; what was acknowledged is there."""
    gateway.topic("dies")
    assert gateway.produce("dies", "before").status_code == 200
    before = workers(gateway)
    os.kill(min(before), signal.SIGKILL)
    wait_until("another one came", lambda: len(workers(gateway) - before) == 1)
    deadline = time.monotonic() + PATIENCE_S
    for number in range(12):
        # A new connection each time: one of them is the new worker's.
        while True:
            try:
                answer = httpx.get(f"{gateway.url}/v1/topics/dies", timeout=30, trust_env=False)
            except httpx.HTTPError:
                assert time.monotonic() < deadline
                continue
            assert answer.status_code == 200, number
            break
    assert [value for _, value in gateway.read("dies")] == ["before"]


def test_what_can_not_start_says_so_once(tmp_path: Path) -> None:
    """A store that can't be used ends the supervisor, in the gateway's own words."""
    (tmp_path / "file").touch()
    for store, said in [("memory://a", "can't be shared"), (str(tmp_path / "file" / "below"), "TIDELOG_STORE")]:
        with pytest.raises(AssertionError, match=said):
            GatewayProcess(store, tmp_path / "log", "--workers", "2")


def test_they_end_with_their_supervisor(pair: GatewayProcess) -> None:
    """SIGTERM ends a worker that is started again and does not listen yet, too; neither it nor the one that was killed counts as
    a failure. Where the supervisor is killed the workers notice, and end by themselves."""
    before = workers(pair)
    os.kill(min(before), signal.SIGKILL)
    wait_until("a new worker", lambda: len(workers(pair) - before) == 1)
    (begun,) = workers(pair) - before
    assert pair.end() == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in (begun, *before))
    pair.start()
    left = workers(pair)
    assert len(left) == 2
    pair.kill()
    wait_until("the workers end", lambda: not any(Path(f"/proc/{pid}/task").exists() for pid in left))


def test_a_connection_moves_to_the_worker_that_owns_its_topic(gateway: GatewayProcess) -> None:
    """After a few requests none is passed on any more, or few where a busy machine makes a worker look dead for a while. Nothing
    is lost or done twice, and no client sees which worker it is."""
    gateway.topic("moves", flush_ms=20)
    all_known(gateway)
    clients = 12
    before, moved = total(gateway, FORWARDED), total(gateway, MOVED)
    with Load(gateway.url, "moves", clients) as load:
        wait_until("all have moved", lambda: load.failures or min(load.sent) >= 3 * MOVES_AFTER)
        passed_on = total(gateway, FORWARDED)
        enough = sum(load.sent) + 10 * clients
        wait_until("they go on", lambda: load.failures or sum(load.sent) >= enough)
    assert load.failures == []
    assert total(gateway, FORWARDED) <= passed_on + clients
    assert before < passed_on < before + clients * 3 * MOVES_AFTER
    assert total(gateway, MOVED) > moved
    stored = [value for _, value in gateway.read("moves")]
    assert len(stored) == len(set(stored))
    assert set(stored) == load.values()


def test_a_connection_stays_once_its_next_request_has_begun(gateway: GatewayProcess) -> None:
    """The beginning was read by the worker that has it. Without such a beginning the same connection moves."""
    gateway.topic("stays", flush_ms=0)
    all_known(gateway)
    body = b'{"records":[{"value":"x"}]}'
    head = b"POST /v1/topics/stays/records HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    request = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    passed_on, moved = total(gateway, FORWARDED), total(gateway, MOVED)
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(gateway.connect()) for _ in range(12)]
        for connection in connections:
            connection.sendall(request[:20])
        for _ in range(2 * MOVES_AFTER):
            for connection in connections:
                connection.sendall(request[20:] + request[:20])
            assert {answer_of(connection) for connection in connections} == {200}
        assert total(gateway, FORWARDED) > passed_on
        assert total(gateway, MOVED) == moved
        for connection in connections:
            connection.sendall(request[20:])
        assert {answer_of(connection) for connection in connections} == {200}
        wait_until("they move", lambda: total(gateway, MOVED) > moved)
        for connection in connections:
            connection.sendall(request)
        assert {answer_of(connection) for connection in connections} == {200}
    assert len(gateway.read("stays")) == len(connections) * (2 * MOVES_AFTER + 2)


def answer_of(connection: socket.socket) -> int:
    """The status of the next answer, which is read to its end."""
    answer = http.client.HTTPResponse(connection)
    answer.begin()
    answer.read()
    return answer.status


def samples(gateway: GatewayProcess, name: str) -> list[float]:
    """Of one metric, those of all workers, without the times at which counters began."""
    lines = gateway.http.get("/metrics").text.splitlines()
    return [float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name}{{")]


def total(gateway: GatewayProcess, name: str) -> float:
    return sum(samples(gateway, name))
