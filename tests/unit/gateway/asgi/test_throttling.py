"""A request counts once: where its client arrived, also when another gateway serves it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from gateway.access.caller import CALLER, Caller
from gateway.access.needs import Need, Needs
from gateway.asgi.throttling import CONNECTION, HOP, ThrottlingMiddleware
from gateway.http.dispatch import FOUND
from gateway.quotas.limits import CONNECTIONS, FETCH_BYTES, PRODUCE_BYTES, REQUESTS, STREAMS
from gateway.quotas.quotas import Connection, Quotas, Throttled
from gateway.quotas.sharing import QuotaSharing
from gateway.quotas.spending import SPENT_HEADER, charge_reported, spending_of
from tests.support.awaited import Sent, unread
from tests.support.clocks import ManualClock

ALICE = "User:alice"


class Bench:
    """A gateway's quotas behind the middleware; ``app`` is what serves the request."""

    def __init__(self, **limits: int) -> None:
        self.clock = ManualClock()
        self.quotas = Quotas({ALICE: limits}.get, QuotaSharing(old_after_ms=1), clock=self.clock)
        self.sent = Sent()

    def scope(self, *rates: str, need: Need | None = None, more: dict[str, object] | None = None) -> Scope:
        route = SimpleNamespace(spends=rates, needs=Needs(() if need is None else (need,)))
        return {"type": "http", CALLER: Caller(ALICE), FOUND: object(), "route": route, **(more or {})}

    async def ask(self, scope: Scope, app: Any) -> None:
        await ThrottlingMiddleware(app, quotas=self.quotas)(scope, unread, self.sent.add)


def serving(quota: str, amount: int) -> Any:
    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        spending = spending_of(scope)
        assert spending is not None
        assert spending.measures(quota)
        spending.spend(quota, amount)
        await send({"type": "http.response.start", "status": 200, "headers": []})

    return app


def passing_on(told: bytes) -> Any:
    """Another gateway serves it, and tells of that."""

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        spending = spending_of(scope)
        assert spending is not None
        charge_reported(spending, told)

    return app


async def quiet(_scope: Scope, _receive: Receive, _send: Send) -> None:
    """Serve it."""


async def test_what_a_request_used_is_counted_here() -> None:
    """The next is refused before anything of it is read; requests of other kinds pass."""
    bench = Bench(**{PRODUCE_BYTES: 100})
    await bench.ask(bench.scope(PRODUCE_BYTES), serving(PRODUCE_BYTES, 1_000))
    with pytest.raises(Throttled):
        await bench.ask(bench.scope(PRODUCE_BYTES), serving(PRODUCE_BYTES, 1))
    await bench.ask(bench.scope(), serving(PRODUCE_BYTES, 0))


async def test_a_request_that_was_passed_on_is_told_and_not_counted() -> None:
    """The gateway that serves it refuses nothing and says what was used; the one where the client arrived counts it."""
    there, here = Bench(**{PRODUCE_BYTES: 100, REQUESTS: 1}), Bench(**{PRODUCE_BYTES: 100, REQUESTS: 1})
    for _ in range(5):
        await there.ask(there.scope(PRODUCE_BYTES, more={HOP: object()}), serving(PRODUCE_BYTES, 250))
    assert there.quotas.pause_ms(ALICE, PRODUCE_BYTES) == 0
    (told,) = [value for name, value in there.sent[0]["headers"] if name == SPENT_HEADER]
    await here.ask(here.scope(PRODUCE_BYTES), passing_on(told))
    assert here.quotas.pause_ms(ALICE, PRODUCE_BYTES) == 1_500


@pytest.mark.parametrize(
    "told", [b"", b"=", b"produce_bytes_per_s", b"produce_bytes_per_s=-1", b"other=5", b"\xff=\xff,,"]
)
async def test_what_is_no_amount_is_not_counted(told: bytes) -> None:
    """A gateway of another release, or a broken answer, costs a client nothing."""
    bench = Bench(**{PRODUCE_BYTES: 1})
    await bench.ask(bench.scope(), passing_on(told))
    assert bench.quotas.pause_ms(ALICE, PRODUCE_BYTES) == 0


async def test_a_stream_counts_until_its_request_ends_however() -> None:
    """Also where it is cut off by an error."""
    bench = Bench(**{STREAMS: 1})

    async def stream(scope: Scope, _receive: Receive, _send: Send) -> None:
        spending = spending_of(scope)
        assert spending is not None
        spending.begin_stream()
        assert bench.quotas.open_count(ALICE, STREAMS) == 1
        with pytest.raises(Throttled):
            spending.begin_stream()
        raise ConnectionResetError

    for _ in range(2):
        with pytest.raises(ConnectionResetError):
            await bench.ask(bench.scope(FETCH_BYTES), stream)
    assert bench.quotas.open_count(ALICE, STREAMS) == 0


async def test_administration_of_access_is_never_throttled() -> None:
    """So that a quota that is too small can be mended by those whom it holds."""
    bench = Bench(**{REQUESTS: 1, CONNECTIONS: 1})
    await bench.ask(bench.scope(more={CONNECTION: Connection()}), serving(REQUESTS, 100))
    with pytest.raises(Throttled):
        await bench.ask(bench.scope(more={CONNECTION: Connection()}), serving(REQUESTS, 0))
    administration = bench.scope(need=Need("Alter", "cluster"), more={CONNECTION: Connection()})
    await bench.ask(administration, quiet)


async def test_requests_without_a_caller_pass() -> None:
    """Probes have no principal."""
    bench = Bench(**{REQUESTS: 1})

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        assert spending_of(scope) is None

    for _ in range(10):
        await bench.ask({"type": "http"}, app)
