"""The rows of clients that only send requests."""

from __future__ import annotations

import gzip
import secrets
import time
from itertools import count

import httpx
import psutil

from tests.attacks.target import Attack, Row, Target
from tests.support.attacks.bodies import ARROW, BODIES, BODY_BYTES, RECORDS, empty_gzip_members, empty_headers
from tests.support.attacks.connections import (
    READERS,
    TWO_READINGS,
    answer_to,
    authorization,
    half_requests,
    read_slowly,
    readers_that_do_not_read,
)
from tests.support.attacks.lists import METADATA_PARTITIONS, PARTITIONS, commit_metadata, wanted, wide_pattern

CPU_SECONDS_MAX = 5.0
SERVED_SECONDS_MAX = 5.0


def _one_partition_many_times(target: Target) -> Attack:
    http, body = target.gateway.http, wanted("t", [0] * PARTITIONS)
    target.gateway.topic("t")
    return lambda: _expect(http.post("/v1/fetch", json=body), 400)


def _wide_patterns(target: Target) -> Attack:
    number = count()

    def attack() -> None:
        wide = wide_pattern(next(number))
        for pattern, status in ((wide, 201), (wide + "(", 400)):
            _expect(target.gateway.http.post("/v1/groups/g/members", json={"topic_pattern": pattern}), status)

    return attack


def _much_metadata(target: Target) -> Attack:
    target.gateway.topic("t", 4_000)
    number = count()

    def attack() -> None:
        names = [f"g{next(number)}" for _ in range(6)]
        found = [
            commit_metadata(target.gateway.http, one, METADATA_PARTITIONS, "x" * 4_000).status_code for one in names
        ]
        assert set(found) <= {200, 503}, found
        assert 503 in found, "groups grow without an end"

    return attack


def _empty_headers(target: Target) -> Attack:
    gateway = target.gateway
    gateway.topic("t", max_message_bytes=BODY_BYTES)
    content = {"content-type": ARROW}
    for _ in range(20):
        _expect(gateway.http.post(RECORDS, content=empty_headers(65_536), headers=content), 200)
    too_many = empty_headers(1_900_000)

    def attack() -> None:
        _expect(gateway.http.post(RECORDS, content=too_many, headers=content), 400)
        read_slowly(gateway, f"{RECORDS}?offset=earliest", 12, 3)

    return attack


def _bodies_that_become_much(target: Target) -> Attack:
    target.gateway.topic("t")
    sent = [(path, kind, gzip.compress(make(), 1), status) for path, kind, make, status in BODIES.values()]

    def attack() -> None:
        for path, kind, body, status in sent:
            headers = {"content-type": kind, "content-encoding": "gzip"}
            _expect(target.gateway.http.post(path, content=body, headers=headers), status)

    return attack


def _web_pages(target: Target) -> Attack:
    """Even with the user's credential, and as simple requests that a browser sends without asking."""
    gateway = target.gateway
    gateway.topic("t")
    calls = (
        ("/v1/topics", b'{"name":"tnew"}'),
        (RECORDS, b'{"records":[{"value":"v"}]}'),
        ("/v1/topics/t:delete-records", b'{"before":[]}'),
        ("/v1/groups/g/members", b'{"topics":["t"]}'),
        ("/v1/transactions", b'{"transactional_id":"x"}'),
    )
    as_json = {"content-type": "application/json"}
    pages: tuple[dict[str, str], ...] = (
        {},
        {"content-type": "text/plain", "origin": "https://evil"},
        as_json | {"origin": "https://evil"},
        as_json | {"sec-fetch-site": "cross-site"},
        as_json | {"host": "evil.example"},
        as_json | {"host": "evil.example", "origin": "https://evil.example"},
    )

    def attack() -> None:
        for headers in pages:
            for path, body in calls:
                answer = gateway.http.post(path, content=body, headers=headers)
                assert answer.status_code in (400, 415), (headers, path, answer.text)
        assert [one["name"] for one in gateway.http.get("/v1/topics").json()["topics"]] == ["t"]
        assert gateway.read("t") == []

    return attack


def _half_requests(target: Target) -> Attack:
    gateway = target.gateway
    gateway.topic("t")

    def attack() -> None:
        with half_requests(gateway, RECORDS):
            for path in ("/readyz", "/metrics"):
                _expect(httpx.get(gateway.operations_url + path, timeout=10, trust_env=False), 200)

    return attack


def _empty_gzip_members(target: Target) -> Attack:
    target.gateway.topic("t")
    body = empty_gzip_members()
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    process = psutil.Process(target.gateway.process.pid)

    def attack() -> None:
        before = sum(process.cpu_times()[:2])
        _expect(target.gateway.http.post(RECORDS, content=body, headers=headers), 400)
        spent = sum(process.cpu_times()[:2]) - before
        assert spent < CPU_SECONDS_MAX, f"it took {spent:.1f} CPU-s"

    return attack


def _much_state(target: Target) -> Attack:
    gateway, number = target.gateway, count()

    def attack() -> None:
        for _ in range(30):
            gateway.topic(f"t{next(number)}", 10_000)
        for _ in range(20):
            body = {"transactional_id": f"x{next(number)}" * 20}
            assert gateway.http.post("/v1/producers", json=body).status_code in (200, 201)
        metrics = httpx.get(f"{gateway.operations_url}/metrics", timeout=10, trust_env=False).text
        used = next(line for line in metrics.splitlines() if line.startswith('tidelog_state_bytes{of="topics"}'))
        assert float(used.split()[1]) <= 4 << 20, used

    return attack


def _trailers(target: Target) -> Attack:
    gateway = target.gateway

    def attack() -> None:
        name = gateway.topic(f"t{secrets.token_hex(4)}")
        head = f"POST /v1/topics/{name}/partitions/0/records HTTP/1.1\r\nHost: x\r\n{authorization(gateway)}"
        framing = "Content-Type: text/plain\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n1\r\nx\r\n0\r\n"
        trailers = "Tidelog-Expected-Offset: 77\r\nContent-Encoding: gzip\r\nAuthorization: Bearer x\r\n\r\n"
        answer = answer_to(gateway, f"{head}{framing}{trailers}".encode())
        assert answer.startswith(b"HTTP/1.1 200 "), answer
        # And no trailer lets in a client that has shown no credential.
        shown = f"POST {RECORDS} HTTP/1.1\r\nHost: x\r\n{framing}{authorization(gateway)}\r\n"
        assert answer_to(gateway, shown.encode()).startswith(b"HTTP/1.1 401 ")

    return attack


def _readers_that_do_not_read(target: Target) -> Attack:
    gateway = target.gateway
    gateway.topic("t")
    for _ in range(10):
        _expect(gateway.produce("t", *["x" * 1_000] * 900), 200)
    path = f"{RECORDS}?offset=earliest&max_records=100000&max_bytes={8 << 20}"

    def attack() -> None:
        with readers_that_do_not_read(gateway, path, READERS):
            waited = []
            for _ in range(3):
                began = time.monotonic()
                _expect(target.operator.http.get(path), 200)
                waited.append(time.monotonic() - began)
        assert sorted(waited)[1] < SERVED_SECONDS_MAX, f"another waited {waited} s"

    return attack


def _two_readings(target: Target) -> Attack:
    def attack() -> None:
        for request in TWO_READINGS:
            answer = answer_to(target.gateway, request)
            assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.0 400 ")), (request[:80], answer[:80])

    return attack


def _expect(answer: httpx.Response, status: int) -> None:
    assert answer.status_code == status, (answer.request.url, answer.status_code, answer.text[:300])


ROWS = (
    Row(1, "a fetch of one partition 10,000 times", _one_partition_many_times),
    Row(2, "a topic pattern of 190 wide ranges", _wide_patterns),
    Row(3, "groups with 16 MB of metadata each", _much_metadata),
    Row(4, "records of empty headers, read slowly", _empty_headers, ("--tail-cache-bytes-max", "0")),
    Row(5, "JSON and Arrow that become much", _bodies_that_become_much),
    Row(6, "pages of other sites", _web_pages),
    Row(8, "2,100 half requests and event streams", _half_requests, is_seen_by_operators=True),
    Row(9, "16 MiB of empty gzip members", _empty_gzip_members),
    Row(10, "topics of 10,000 partitions, transactional ids", _much_state, ("--manifest-bytes-max", str(4 << 20))),
    Row(11, "trailers of a chunked body", _trailers),
    Row(12, "400 readers that do not read", _readers_that_do_not_read, ("--tail-cache-bytes-max", "0")),
    Row(16, "heads that two programs read in two ways", _two_readings),
)
