"""Readers of history: processes beside a gateway that answer fetches of old records as it would by itself."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

import httpx
import pytest

from gateway.catch_up_reads.settings import READER_BYTES
from tests.support.gateway_process import GatewayProcess, running_gateway
from tests.support.history_readers import (
    COUNT,
    LAST_CHUNK,
    NO_TAIL,
    PATH,
    PATIENCE_S,
    TYPES,
    answered,
    fetched,
    fill,
    is_alive,
    readers,
    sockets_of,
    wait_for_another,
    wait_for_readers,
    wait_until,
)

UNFELT_S = 5
"""Shorter than a gateway waits for a reader that says nothing, and than clients wait for a turn."""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """Without readers, on a directory."""
    path = tmp_path_factory.mktemp("filled")
    with running_gateway(path / "store", path / "gateway.log", *NO_TAIL, "--readers", "0") as started:
        fill(started)
        yield started


@pytest.fixture(scope="module")
def gateway(filled: GatewayProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """With a reader, as by default, on the same store."""
    log = tmp_path_factory.mktemp("readers") / "gateway.log"
    with running_gateway(filled.store, log, *NO_TAIL) as started:
        wait_for_readers(started)
        yield started


@pytest.mark.parametrize("encoding", [None, "gzip", "zstd"])
@pytest.mark.parametrize("accept", TYPES)
def test_a_reader_answers_as_the_gateway(
    filled: GatewayProcess, gateway: GatewayProcess, accept: str, encoding: str | None
) -> None:
    """The same records, bytes and headers, in each format, from any offset and with any limits, up to the end."""
    before = answered(gateway)
    for offset, count, size in (
        (0, 700, 1 << 20),
        (2_999, 5_000, 1 << 20),
        (11_111, 100_000, 1 << 22),
        (23_000, 9_999, 1 << 22),
    ):
        query = {"offset": offset, "max_records": count, "max_bytes": size}
        plain, by_reader = (fetched(one, accept, encoding, **query) for one in (filled, gateway))
        assert plain.status_code == by_reader.status_code == 200
        assert plain.content == by_reader.content, query
        for name in (
            "content-type",
            "content-encoding",
            "vary",
            *(each for each in plain.headers if "tidelog" in each),
        ):
            if name != "tidelog-request-id":
                assert plain.headers.get(name) == by_reader.headers.get(name), name
    after = answered(gateway)
    assert after == before + 4


def test_what_is_small_filtered_or_at_the_end_is_not_a_readers(gateway: GatewayProcess) -> None:
    """Such fetches are answered by the gateway, and none of them waits for a reader."""
    before = answered(gateway)
    for query in (
        {"offset": 0, "max_records": 10, "max_bytes": 10_000},
        {"offset": 0, "key": "k1"},
        {"offset": COUNT},
        {"offset": "latest"},
    ):
        answer = fetched(gateway, TYPES[0], None, **query)
        assert answer.status_code == 200, answer.text
    assert gateway.http.get(PATH, params={"offset": COUNT + 1}).status_code == 416
    assert answered(gateway) == before


def test_a_gateway_has_no_reader_until_a_client_is_far_behind(filled: GatewayProcess, tmp_path: Path) -> None:
    """Neither clients near the tail nor small fetches start a process. The first fetch from far behind is the gateway's work."""
    with running_gateway(filled.store, tmp_path / "gateway.log", *NO_TAIL) as gateway:
        for query in (
            {"offset": 0, "max_records": 10, "max_bytes": 10_000},
            {"offset": COUNT - 2_000},
            {"offset": COUNT},
        ):
            assert fetched(gateway, TYPES[0], None, **query).status_code == 200
        assert readers(gateway) == []
        first = fetched(gateway, TYPES[0], None, offset=0, max_records=1_000, max_bytes=1 << 20)
        assert len(first.json()["records"]) == 1_000
        assert answered(gateway) == 0
        wait_until("its reader is started", lambda: readers(gateway))


def test_a_reader_keeps_to_its_memory(gateway: GatewayProcess) -> None:
    """With more clients than it serves at once, each with an address of its own and the largest answers. It has no library of no
    use to it."""
    wait_for_readers(gateway)
    (pid,) = readers(gateway)

    def read(number: int, accept: str) -> None:
        own_address = httpx.HTTPTransport(local_address=f"127.0.0.{number + 2}")
        for _ in range(4):
            with httpx.Client(base_url=gateway.url, timeout=PATIENCE_S, transport=own_address) as client:
                query = {"offset": 0, "max_records": 100_000, "max_bytes": 1 << 23}
                assert client.get(PATH, params=query, headers={"Accept": accept}).status_code == 200

    with ThreadPoolExecutor(6) as clients:
        list(clients.map(read, range(6), TYPES * 2))
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    peak = next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))
    assert 0 < peak < READER_BYTES
    assert "/pandas/" not in Path(f"/proc/{pid}/maps").read_text()
    assert readers(gateway) == [pid]


def read_all(gateway: GatewayProcess) -> int:
    """Records read from the start, with a new try for each 503."""
    offset = read = 0
    deadline = time.monotonic() + PATIENCE_S
    while offset < COUNT:
        assert time.monotonic() < deadline
        try:
            answer = fetched(gateway, TYPES[0], None, offset=offset, max_records=2_000, max_bytes=1 << 22)
        except httpx.RemoteProtocolError:
            continue  # cut in the middle
        if answer.status_code == 503:
            problem = answer.json()
            assert (problem["retryable"], problem["may_have_happened"]) == (True, False)
            time.sleep(0.05)
            continue
        assert answer.status_code == 200, answer.text
        found = answer.json()
        assert [record["offset"] for record in found["records"]] == list(range(offset, found["next_offset"]))
        read += len(found["records"])
        offset = found["next_offset"]
    return read


def test_a_reader_that_is_killed_is_started_again_and_no_record_is_lost(gateway: GatewayProcess) -> None:
    """Its fetches are refused and may be tried again, or the gateway serves them."""
    for _ in range(3):
        (pid,) = readers(gateway)
        os.kill(pid, signal.SIGKILL)
        assert read_all(gateway) == COUNT
        wait_for_another(gateway, pid)
        wait_for_readers(gateway)


def asked_without_reading(gateway: GatewayProcess) -> socket.socket:
    """A client that asks for eight megabytes and takes nothing."""
    client = gateway.connect()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    head = f"GET {PATH}?offset=0&max_records=100000&max_bytes=8000000 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    client.sendall(head.encode())
    return client


def test_an_answer_is_cut_when_its_reader_is_killed_in_the_middle(gateway: GatewayProcess) -> None:
    """A client must not take half an answer for a whole one."""
    wait_for_readers(gateway)
    with asked_without_reading(gateway) as client:
        assert client.recv(100).startswith(b"HTTP/1.1 200")
        time.sleep(0.5)
        (pid,) = readers(gateway)
        os.kill(pid, signal.SIGKILL)
        rest = b""
        with contextlib.suppress(ConnectionResetError):
            while not rest.endswith(LAST_CHUNK) and (piece := client.recv(1 << 16)):
                rest = (rest + piece)[-100:]
        assert not rest.endswith(LAST_CHUNK)
    wait_for_readers(gateway)


def test_clients_that_do_not_read_do_not_hold_up_another(gateway: GatewayProcess) -> None:
    """Six of them have all of a reader's turns; they are cut once another client waits. For them, too, their connections end,
    though the reader had their sockets."""
    wait_for_readers(gateway)
    (pid,) = readers(gateway)
    with contextlib.ExitStack() as stack:
        stalled = [stack.enter_context(asked_without_reading(gateway)) for _ in range(6)]
        wait_until("two are answered", lambda: sockets_of(pid) == 5)
        began = time.monotonic()
        assert read_all(gateway) == COUNT
        assert time.monotonic() - began < 40
        wait_until("all others were cut", lambda: sockets_of(pid) == 1)
        for client in stalled:
            client.settimeout(PATIENCE_S)
            rest = b""
            with contextlib.suppress(ConnectionResetError):
                while piece := client.recv(1 << 16):
                    rest = (rest + piece)[-100:]
            assert not rest.endswith(LAST_CHUNK)
    assert readers(gateway) == [pid]


def test_a_client_that_goes_away_leaves_nothing_at_the_reader(gateway: GatewayProcess) -> None:
    """The reader writes no more to it, and its turn is free."""
    wait_for_readers(gateway)
    (pid,) = readers(gateway)
    wait_until("the reader has no task", lambda: sockets_of(pid) == 1)
    with asked_without_reading(gateway) as client:
        assert client.recv(100).startswith(b"HTTP/1.1 200")
        assert sockets_of(pid) > 1
    wait_until("the reader has no task", lambda: sockets_of(pid) == 1)
    assert readers(gateway) == [pid]


def written_bytes(gateway: GatewayProcess) -> int:
    """By the gateway's process, to files and sockets."""
    lines = Path(f"/proc/{gateway.process.pid}/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar:"))


def next_body(answers: BinaryIO) -> bytes:
    """Of the next answer on the connection."""
    fields = http.client.parse_headers(io.BytesIO(b"".join(iter(answers.readline, b"\r\n")).partition(b"\r\n")[2]))
    if fields["transfer-encoding"] != "chunked":
        return answers.read(int(fields["content-length"]))
    body = b""
    while size := int(answers.readline(), 16):
        body += answers.read(size)
        assert answers.readline() == b"\r\n"
    assert answers.readline() == b"\r\n"
    return body


def test_answers_go_from_the_reader_to_the_client_in_the_order_of_its_requests(gateway: GatewayProcess) -> None:
    """Also those sent ahead, with small ones in between. The gateway writes little of them."""
    wait_for_readers(gateway)
    large = f"GET {PATH}?offset=0&max_records=100000&max_bytes=3000000 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    small = f"GET {PATH}?offset=5&max_records=1&max_bytes=100 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    before, written_before = answered(gateway), written_bytes(gateway)
    with gateway.connect() as client:
        client.sendall((large + small) * 2 + large)
        with client.makefile("rb") as answers:
            bodies = [json.loads(next_body(answers)) for _ in range(5)]
    counts = [len(body["records"]) for body in bodies]
    assert counts[1::2] == [1, 1]
    assert counts[0] == counts[2] == counts[4] > 1_000
    assert [body["records"][0]["offset"] for body in bodies] == [0, 5, 0, 5, 0]
    assert answered(gateway) == before + 3
    assert written_bytes(gateway) - written_before < 3_000_000


@pytest.mark.parametrize(("version", "field"), [("1.1", "Connection: close"), ("1.0", "Accept: */*")])
def test_a_connection_that_ends_with_its_answer(gateway: GatewayProcess, version: str, field: str) -> None:
    """The client gets the whole answer, then the end. HTTP/1.0 takes the way through the gateway."""
    wait_for_readers(gateway)
    before = answered(gateway)
    with gateway.connect() as client:
        query = "offset=0&max_records=100000&max_bytes=3000000"
        client.sendall(f"GET {PATH}?{query} HTTP/{version}\r\nHost: 127.0.0.1\r\n{field}\r\n\r\n".encode())
        answer = http.client.HTTPResponse(client)
        answer.begin()
        records = json.loads(answer.read())["records"]
        assert client.recv(1) == b""
    assert [record["offset"] for record in records] == list(range(len(records)))
    assert len(records) > 1_000
    assert answered(gateway) == before + 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_no_reader_outlives_its_gateway(filled: GatewayProcess, tmp_path: Path, number: int) -> None:
    """However it ends; and an answer under way is finished when it drains."""
    with running_gateway(filled.store, tmp_path / "gateway.log", *NO_TAIL, "--readers", "2") as gateway:
        wait_for_readers(gateway, 2)
        pids = readers(gateway)
        assert len(pids) == 2
        niceness = os.getpriority(os.PRIO_PROCESS, gateway.process.pid)
        assert {os.getpriority(os.PRIO_PROCESS, pid) for pid in pids} == {min(19, niceness + 10)}
        gateway.process.send_signal(number)
        status = gateway.process.wait(PATIENCE_S)
        gateway.kill()  # closes what this process has of it
        assert status == (-9 if number == signal.SIGKILL else 0)
        wait_until("no reader is left", lambda: not any(map(is_alive, pids)))


def test_a_reader_yields_to_its_gateway_and_hears_no_ctrl_c(gateway: GatewayProcess) -> None:
    """Linux may weigh sessions apart, so the two share one: its nice value counts. A terminal's keys reach a process group."""
    (reader,) = readers(gateway)
    own = gateway.process.pid
    niceness = os.getpriority(os.PRIO_PROCESS, own)
    assert os.getpriority(os.PRIO_PROCESS, reader) == min(19, niceness + 10)
    assert os.getsid(reader) == os.getsid(own)
    assert os.getpgid(reader) == reader != os.getpgid(own)
    (ignored,) = re.findall(r"SigIgn:\s*(\w+)", Path(f"/proc/{reader}/status").read_text())
    assert int(ignored, 16) >> (signal.SIGTTOU - 1) & 1, "it would stop when it logs to a terminal that has tostop"


def test_a_signal_to_all_processes_lets_an_answer_end(filled: GatewayProcess, tmp_path: Path) -> None:
    """As a service manager sends it: the reader goes on until its gateway has drained."""
    with running_gateway(filled.store, tmp_path / "gateway.log", *NO_TAIL) as gateway:
        wait_for_readers(gateway)
        with asked_without_reading(gateway) as client:
            assert client.recv(100).startswith(b"HTTP/1.1 200")
            for pid in (*readers(gateway), gateway.process.pid):
                os.kill(pid, signal.SIGTERM)
            time.sleep(0.3)
            rest = b""
            while not rest.endswith(LAST_CHUNK) and (piece := client.recv(1 << 16)):
                rest = (rest + piece)[-100:]
            assert rest.endswith(LAST_CHUNK)
        assert gateway.process.wait(PATIENCE_S) == 0
        gateway.kill()


@pytest.mark.parametrize("damage", ["deleted", "bit"])
def test_a_damaged_segment_is_named_and_nothing_else_suffers(tmp_path: Path, damage: str) -> None:
    """500 ``CORRUPT_SEGMENT`` with its name for the records in it; the reader lives on, and the others are read."""
    with running_gateway(tmp_path / "store", tmp_path / "gateway.log", *NO_TAIL) as gateway:
        fill(gateway)
        wait_for_readers(gateway)
        before = readers(gateway)
        segments = sorted((tmp_path / "store/topics/t/segments").iterdir(), key=lambda path: path.stat().st_mtime_ns)
        if damage == "deleted":
            segments[2].unlink()
        else:
            data = bytearray(segments[2].read_bytes())
            data[60] ^= 1
            segments[2].write_bytes(data)
        first = 2 * COUNT // 8
        answer = fetched(gateway, TYPES[0], None, offset=first, max_records=1_000, max_bytes=1 << 22)
        problem = answer.json()
        assert (answer.status_code, problem["error_code"]) == (500, "CORRUPT_SEGMENT"), answer.text
        assert segments[2].name in problem["segment"]
        assert problem["topic"] == "t"
        below = fetched(gateway, TYPES[0], None, offset=0, max_records=100_000, max_bytes=1 << 24)
        assert below.json()["next_offset"] == first
        above = fetched(gateway, TYPES[0], None, offset=first + COUNT // 8, max_records=1_000, max_bytes=1 << 22)
        assert len(above.json()["records"]) == 1_000
        assert longest_wait_beside(gateway, first) < UNFELT_S
        assert readers(gateway) == before


def longest_wait_beside(gateway: GatewayProcess, damaged: int) -> float:
    """Seconds of the slowest of some small requests and whole reads, while four clients ask for a damaged segment in a loop."""
    is_over = threading.Event()

    def ask() -> int:
        count = 0
        with httpx.Client(base_url=gateway.url, timeout=PATIENCE_S) as client:
            while not is_over.is_set():
                query = {"offset": damaged, "max_records": 1_000, "max_bytes": 1 << 22}
                assert client.get(PATH, params=query).json()["error_code"] == "CORRUPT_SEGMENT"
                count += 1
        return count

    sends: tuple[Callable[[], httpx.Response], ...] = (
        lambda: gateway.http.post(PATH, json={"records": [{"value": "new"}]}),
        lambda: fetched(gateway, TYPES[0], None, offset=0, max_records=1_000, max_bytes=1 << 22),
        lambda: gateway.http.get(PATH, params={"offset": "latest"}),
    )
    took = []
    with ThreadPoolExecutor(4) as clients:
        asking = [clients.submit(ask) for _ in range(4)]
        try:
            for _ in range(10):
                for send in sends:
                    began = time.monotonic()
                    assert send().status_code == 200
                    took.append(time.monotonic() - began)
        finally:
            is_over.set()
        assert all(each.result() for each in asking)
    return max(took)
