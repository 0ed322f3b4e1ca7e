"""What authentication and authorization cost: CPU of a request with and without, turn by turn in one process.

By hand: the application is called without a socket, with a route that does nothing, so that the difference is all there is. Over
HTTP: two gateway processes, the same requests in turn, CPU read from the system.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import http.client
import secrets
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from fastapi import APIRouter
from starlette.responses import Response

from benchmarks.harness import processes
from benchmarks.harness.cpu import best_cpu_us, repeated
from benchmarks.harness.options import Options
from benchmarks.harness.report import Table, held
from benchmarks.harness.stores import directory
from benchmarks.security.access_state import ACLS, add_acls
from gateway.access.authentication import Authentication
from gateway.access.json_web_token import JwtRules, Key, verify_token
from gateway.access.jwt_callers import JwtCallers
from gateway.access.needs import Need, needs
from gateway.access.token import new_token
from gateway.app import create_app
from gateway.gateway import Gateway
from gateway.process.assembly import assemble
from gateway.routes.typed_route import TypedRoute
from gateway.settings.settings import Settings
from log_format.access.acls import Acl
from log_format.access.changes import AddAcls, CreateToken
from log_format.access.row import CredentialRow, Secret
from log_format.clock import SystemClock

REQUESTS: Final = 2_000
TOPICS: Final = 1_000
BOUND_US: Final = 15
COLD_US_MAX: Final = 1_000
_FOREVER_MS: Final = 1 << 50

router = APIRouter(route_class=TypedRoute)


@router.get("/v1/nothing/{topic}")
@needs(Need("Read", "topic", path="topic"))
async def nothing() -> Response:
    """Answer at once."""
    return Response(b"")


@dataclasses.dataclass
class _Way:
    """A gateway, and how it is asked."""

    name: str
    app: Any
    headers: list[tuple[bytes, bytes]]
    topics: Sequence[str] = ("t",)
    spent_us: list[float] = dataclasses.field(default_factory=list)

    async def round(self, count: int) -> None:
        """Ask so often, and note the CPU of one request."""
        began = time.process_time()
        for index in range(count):
            await _asked(self.app, self.headers, self.topics[index % len(self.topics)])
        self.spent_us.append((time.process_time() - began) / count * 1e6)


async def _asked(app: Any, headers: list[tuple[bytes, bytes]], topic: str) -> None:
    path = f"/v1/nothing/{topic}"
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"localhost"), *headers],
        "client": ("127.0.0.1", 1),
    }

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        assert message["type"] != "http.response.start" or message["status"] == 200, message

    await app(scope, receive, send)


@contextlib.asynccontextmanager
async def _gateway(**settings: Any) -> Any:
    gateway = assemble(Settings(store=f"memory://{secrets.token_hex(8)}", log_level="error", **settings))
    await gateway.engine.start()
    try:
        yield gateway
    finally:
        await gateway.engine.drain()
        gateway.codec_pool.shutdown()


async def _token(gateway: Gateway) -> bytes:
    made = new_token()
    secret = Secret(sha256=made.sha256, created_at_ms=0, expires_at_ms=_FOREVER_MS)
    row = CredentialRow(
        id=made.id,
        principal="User:alice",
        groups=("Group:a", "Group:b"),
        description="",
        created_at_ms=0,
        secrets=(secret,),
    )
    table = gateway.engine.access_table
    await table.decide(CreateToken(row=row))
    await table.decide(AddAcls(acls=(Acl("Group:b", "Read", "topic", "t", "prefix"),)))
    return made.text.encode()


_RULES: Final = JwtRules(
    issuer="https://i", audience="tidelog", algorithms={"RS256"}, principal_claim="sub", groups_claim="groups"
)


def _jwt() -> tuple[str, Key]:
    key = rsa.generate_private_key(65537, 2048)
    claims = {"iss": "https://i", "aud": "tidelog", "exp": time.time() + 3_600, "sub": "alice", "groups": ["a", "b"]}
    return jwt.encode(claims, key, "RS256", headers={"kid": "k"}), Key("k", "RSA", None, key.public_key())


def _with_jwts(gateway: Gateway, key: Key) -> Gateway:
    jwts = JwtCallers(_RULES, fetch_keys=lambda: [key], executor=ThreadPoolExecutor(1), clock=SystemClock())
    engine = gateway.engine
    found = Authentication(engine.access_table, engine.rights, bootstrap=None, jwts=jwts, clock=SystemClock())
    return dataclasses.replace(gateway, authentication=found)


def _bearer(credential: bytes) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", b"Bearer " + credential)]


def measure(options: Options) -> Iterator[Table]:
    """Yield two tables: a request by hand, and over HTTP."""
    yield asyncio.run(_by_hand(max(5, int(options.seconds * 5))))
    yield _over_http(options.seconds)


async def _by_hand(rounds: int) -> Table:
    async with _gateway() as off, _gateway(auth="on") as few, _gateway(auth="on") as many:
        token, other = await _token(few), await _token(many)
        await add_acls(many)
        text, key = _jwt()
        topics = [f"t{number}" for number in range(TOPICS)]
        ways = [
            _Way("auth off", create_app(off, (router,)), []),
            _Way("token", create_app(few, (router,)), _bearer(token)),
            _Way("JWT, verified before", create_app(_with_jwts(few, key), (router,)), _bearer(text.encode())),
            _Way(f"token, {ACLS:,} ACLs", create_app(many, (router,)), _bearer(other)),
            _Way(f"token, {TOPICS:,} topics in turn", create_app(few, (router,)), _bearer(token), topics),
        ]
        for _ in range(rounds + 1):
            for way in ways:
                await way.round(REQUESTS)
    table = Table(
        "Access, by hand: CPU of a request",
        ["way", "µs, median", "above auth off, µs", f"bound {BOUND_US} µs"],
    )
    base = ways[0].spent_us[1:]
    for way in ways:
        more = statistics.median(mine - other for mine, other in zip(way.spent_us[1:], base, strict=True))
        verdict = "" if way is ways[0] else held(more <= BOUND_US)
        table.add(way.name, f"{statistics.median(way.spent_us[1:]):.1f}", f"{more:.1f}", verdict)
    cold = best_cpu_us(
        repeated(lambda: verify_token(text, [key], _RULES, int(time.time() * 1000))), calls=500, rounds=2
    )
    table.add(
        "JWT, not verified before", "", f"{cold:.0f} of a thread", f"{held(cold <= COLD_US_MAX)} ({COLD_US_MAX:,} µs)"
    )
    return table


def _over_http(seconds: float) -> Table:
    table = Table(
        "Access over HTTP: CPU of the gateway for GET /v1/whoami", ["way", "µs, median of turns", "above auth off, µs"]
    )
    with tempfile.TemporaryDirectory() as name, directory() as one, directory() as two:
        made, path = new_token("bootstrap"), Path(name) / "token"
        path.write_text(made.text)
        path.chmod(0o600)
        settings = ("--auth", "on", "--bootstrap-token-file", str(path))
        with processes.gateway(one) as off, processes.gateway(two, settings=settings) as on:
            spent: dict[str, list[float]] = {"auth off": [], "token": []}
            for _ in range(max(4, int(seconds * 2))):
                spent["auth off"].append(_turn(off, {}))
                spent["token"].append(_turn(on, {"authorization": f"Bearer {made.text}"}))
    pairs = zip(spent["token"], spent["auth off"], strict=True)
    table.add("auth off", f"{statistics.median(spent['auth off']):.0f}", "")
    more = statistics.median(mine - other for mine, other in pairs)
    table.add("token", f"{statistics.median(spent['token']):.0f}", f"{more:.0f}")
    return table


def _turn(server: processes.Server, headers: dict[str, str]) -> float:
    wire = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    began = server.cpu_seconds()
    for _ in range(REQUESTS):
        wire.request("GET", "/v1/whoami", headers=headers)
        answer = wire.getresponse()
        answer.read()
        assert answer.status == 200
    wire.close()
    return (server.cpu_seconds() - began) / REQUESTS * 1e6
