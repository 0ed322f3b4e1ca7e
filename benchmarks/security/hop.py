"""What a hop between gateways costs.

CPU of one request that is passed on: made by the sender, checked by the receiver, its body hashed by both. What a head that
proves nothing costs is taken off, and the way through the network is not part of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.harness.cpu import best_cpu_us, repeated
from benchmarks.harness.options import Options
from benchmarks.harness.report import Table, held
from gateway.access.caller import Caller
from gateway.access.rights import OPEN
from gateway.cluster.keys import ClusterKeys
from gateway.cluster.peers import Peer, Peers
from gateway.forwarding.arrival import ArrivalMiddleware, sealed
from gateway.forwarding.forwarded_headers import forwarded_request_headers
from gateway.forwarding.hop import HEADER, Hops
from log_format.clock import SystemClock

CALLS = 2_000
ROUNDS = 15
TARGET_US = 25
CALLER = Caller("User:billing", ("Group:writers", "Group:readers"), "token", "x" * 16, 1 << 41)
HEADERS = [
    (b"host", b"10.0.0.1:8080"),
    (b"content-type", b"application/json"),
    (b"accept", b"*/*"),
    (b"accept-encoding", b"gzip, zstd"),
    (b"tidelog-producer-id", b"p" + b"0" * 53),
    (b"tidelog-producer-epoch", b"0"),
    (b"tidelog-producer-sequence", b"12345"),
]


class Still(SystemClock):
    """What was made before a round has not expired in it."""

    def now_ms(self) -> int:
        return 1 << 40


def measure(_options: Options) -> Iterator[Table]:
    """Yield one table: microseconds by the body's size."""
    table = Table(
        "A hop between gateways",
        [
            "body",
            "made, µs",
            "checked, µs",
            "both, µs",
            "of these the body's hash, µs",
            f"bound {TARGET_US} µs, without it",
        ],
    )
    for size in (0, 1_000, 10_000, 100_000):
        made, checked = _costs(b"x" * size)
        bare_made, bare_checked = _costs(b"")
        both = made + checked
        table.add(
            f"{size:,} bytes",
            f"{made:.1f}",
            f"{checked:.1f}",
            f"{both:.1f}",
            f"{both - bare_made - bare_checked:.1f}",
            held(bare_made + bare_checked <= TARGET_US),
        )
    yield table


def _costs(body: bytes) -> tuple[float, float]:
    peers = Peers(Still())
    peers.keys = ClusterKeys("cluster", (b"k" * 64,), is_from_file=True)
    sender, receiver = (Hops(peers, Still(), instance=name) for name in ("sender", "receiver"))
    peer = Peer("b", "http://10.0.0.2:8080", "receiver")
    scope: dict[str, Any] = {
        "type": "http",
        "method": "POST",
        "raw_path": b"/v1/topics/flights/partitions/3/records",
        "query_string": b"",
        "headers": HEADERS,
        "tidelog.request_id": "0" * 32,
    }

    def head() -> bytes:
        made = sender.head(peer, sealed(scope), body, passed=1, caller=CALLER, revision=7)
        assert made is not None
        return made

    def bare() -> bytes:
        headers = [(b"host", b"10.0.0.2:8080"), *forwarded_request_headers(HEADERS), (b"x-request-id", b"0" * 32)]
        lines = [b"POST " + scope["raw_path"] + b" HTTP/1.1", *(name + b": " + value for name, value in headers)]
        return b"\r\n".join(lines) + b"\r\n\r\n"

    made_us = _best_us(repeated(head)) - _best_us(repeated(bare))
    arriving = iter([_header(head()) for _ in range(CALLS * ROUNDS)])
    message = {"type": "http.request", "body": body, "more_body": False}

    async def receive() -> Any:
        return message

    async def read(_scope: Any, checked: Any, _send: Any) -> None:
        await checked()

    middleware = ArrivalMiddleware(read, receiver, OPEN, read)
    absent: Any = None

    async def check(count: int) -> None:
        for _ in range(count):
            arrived = scope | {"headers": [*HEADERS, (HEADER, next(arriving))]}
            await middleware(arrived, receive, absent)

    return made_us, _best_us(lambda count: asyncio.run(check(count)))


def _header(head: bytes) -> bytes:
    return next(line for line in head.split(b"\r\n") if line.startswith(HEADER)).partition(b": ")[2]


def _best_us(run: Callable[[int], object]) -> float:
    return best_cpu_us(run, calls=CALLS, rounds=ROUNDS)
