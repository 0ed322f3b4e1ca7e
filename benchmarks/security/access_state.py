"""What many ACLs cost a gateway that starts, and how soon a revoked token ends at every gateway.

ACLs: written through one gateway's table, loaded by another from the store. Revocation: four gateways on one directory, asked
again and again from the answer of the revocation on; at once after other changes, and after so long a quiet that looks are rare.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import secrets
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from benchmarks.harness import processes
from benchmarks.harness.options import Options
from benchmarks.harness.report import Table, held
from benchmarks.harness.stores import directory
from gateway.access.token import new_token
from gateway.access.watch import LOOK_PAUSE_MS, QUIET_LOOKS
from gateway.gateway import Gateway
from gateway.process.assembly import assemble
from gateway.settings.settings import Settings
from log_format.access.acls import Acl
from log_format.access.changes import AddAcls

ACLS: Final = 100_000
ACLS_SECONDS_MAX: Final = 1.0
ACLS_BYTES_MAX: Final = 50 * 1_000_000
GATEWAYS: Final = 4
REVOCATION_SECONDS_MAX: Final = 5.0
ROUNDS: Final = 5
GIVE_UP_SECONDS: Final = 30.0
_QUIET_SECONDS: Final = (QUIET_LOOKS + 5) * LOOK_PAUSE_MS / 1000


def measure(_options: Options) -> Iterator[Table]:
    """Yield two tables: many ACLs, and revocation."""
    table = Table(f"Access: {ACLS:,} ACLs, loaded by a gateway", ["what", "measured", "bound", ""])
    with directory() as store:
        asyncio.run(_written(store))
        cpu_seconds, _ = asyncio.run(_loaded(store, is_traced=False))
        _, size_bytes = asyncio.run(_loaded(store, is_traced=True))
    table.add("CPU, s", f"{cpu_seconds:.2f}", f"{ACLS_SECONDS_MAX:.0f}", held(cpu_seconds <= ACLS_SECONDS_MAX))
    table.add("memory, MB", f"{size_bytes / 1e6:.0f}", ACLS_BYTES_MAX // 1_000_000, held(size_bytes <= ACLS_BYTES_MAX))
    yield table
    table = Table(f"Access: revocation at {GATEWAYS} gateways", ["when", "seconds until all refuse", "bound", ""])
    for when, seconds in _revocations():
        bound = f"{REVOCATION_SECONDS_MAX:.0f}"
        table.add(when, f"{seconds:.1f}", bound, held(seconds <= REVOCATION_SECONDS_MAX))
    yield table


async def _written(store: str) -> None:
    gateway = assemble(Settings(store=store, auth="on", log_level="error"))
    await add_acls(gateway)
    gateway.codec_pool.shutdown()


async def add_acls(gateway: Gateway) -> None:
    """Add ``ACLS`` ACLs to a gateway's table."""
    for first in range(0, ACLS, 10_000):
        acls = tuple(
            Acl(f"User:u{n % 5_000}", "Read", "topic", f"team-{n}", "prefix") for n in range(first, first + 10_000)
        )
        await gateway.engine.access_table.decide(AddAcls(acls=acls))


async def _loaded(store: str, *, is_traced: bool) -> tuple[float, int]:
    """Measure CPU seconds or bytes of the first look at the table. Tracing takes time, so each is measured by itself."""
    gateway = assemble(Settings(store=store, auth="on", log_level="error"))
    if is_traced:
        tracemalloc.start()
    began = time.process_time()
    state = await gateway.engine.access_table.fresh()
    spent, kept = time.process_time() - began, 0
    if is_traced:
        kept = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
    assert len(state.acls.entries) == ACLS
    gateway.codec_pool.shutdown()
    return spent, kept


def _revocations() -> Iterator[tuple[str, float]]:
    with tempfile.TemporaryDirectory() as name, directory() as store, ExitStack() as stack:
        made, path, key = new_token("bootstrap"), Path(name) / "token", Path(name) / "key"
        for file, text in ((path, made.text), (key, secrets.token_hex(32))):
            file.touch(mode=0o600)
            file.write_text(text)
        settings = ("--auth", "on", "--bootstrap-token-file", str(path), "--cluster-key-file", str(key))
        ports = [stack.enter_context(processes.gateway(store, settings=settings)).port for _ in range(GATEWAYS)]
        worst = max(_revocation(ports, made.text) for _ in range(ROUNDS))
        yield f"worst of {ROUNDS}, one after another", worst
        yield f"after {_QUIET_SECONDS:.0f} s without a change", _revocation(ports, made.text, _QUIET_SECONDS)


def _revocation(ports: list[int], operator: str, quiet_seconds: float = 0.0) -> float:
    """Measure the seconds from the answer at the first gateway until the last one refuses the token."""
    _, token = _asked(ports[0], operator, "POST", "/v1/access/tokens", {"principal": "User:bench"})
    _until(ports, token["token"], 200)
    time.sleep(quiet_seconds)
    status, _ = _asked(ports[0], operator, "DELETE", f"/v1/access/tokens/{token['id']}")
    assert status == 204
    return _until(ports, token["token"], 401)


def _until(ports: list[int], token: str, status: int) -> float:
    began, left = time.monotonic(), list(ports)
    while left:
        left = [port for port in left if _asked(port, token, "GET", "/v1/whoami")[0] != status]
        assert time.monotonic() - began < GIVE_UP_SECONDS, f"gateways do not answer {status}"
        time.sleep(0.02)
    return time.monotonic() - began


def _asked(port: int, token: str, method: str, path: str, body: object | None = None) -> tuple[int, Any]:
    wire = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    wire.request(method, path, body=None if body is None else json.dumps(body), headers=headers)
    answer = wire.getresponse()
    text = answer.read()
    wire.close()
    return answer.status, json.loads(text) if text else None
