"""Tokens over time: what a gateway says of one that it does not know yet, and how long one stands that it let in."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.access.admission_check import AdmissionCheck
from gateway.access.authentication import Authentication, Unauthenticated
from gateway.access.caller import Caller
from gateway.access.rights import RENEWED_MS
from gateway.access.token import NewToken, new_token
from gateway.access.watch import AccessWatch
from gateway.engine.waiters import WaiterSlots
from log_format.access.changes import CreateToken, DeleteToken, RotateToken
from log_format.access.row import CredentialRow, Secret
from log_format.errors import BackOff, StoreUnavailable
from tests.support.clocks import ManualClock
from tests.support.engine import Gateway, make_gateway
from tests.support.faulty_store import FaultyStore

DAY_MS = 86_400_000


class Bench:
    """A gateway, and how it lets callers in; another one of the same store, where changes are made."""

    def __init__(self) -> None:
        self.clock, self.store = ManualClock(), FaultyStore()
        self.here, self.there = self._gateway(self.store), self._gateway(FaultyStore(self.store.objects))
        self.clock.pass_ms(1)
        engine = self.here.engine
        self.authentication = Authentication(engine.access_table, engine.rights, bootstrap=None, clock=self.clock)

    def _gateway(self, store: FaultyStore) -> Gateway:
        return make_gateway(store, clock=self.clock, super_users=("User:root",))

    async def look(self) -> None:
        await self.here.engine.access_table.fresh()

    async def create(self) -> NewToken:
        made = new_token()
        row = CredentialRow(
            id=made.id,
            principal="User:alice",
            groups=(),
            description="",
            created_at_ms=0,
            secrets=(self._secret(made),),
        )
        await self.there.engine.access_table.decide(CreateToken(row=row))
        return made

    async def rotate(self, token: NewToken, overlap_ms: int) -> NewToken:
        made = new_token(token.id)
        change = RotateToken(id=token.id, secret=self._secret(made), overlap_ms=overlap_ms)
        await self.there.engine.access_table.decide(change)
        return made

    def _secret(self, token: NewToken) -> Secret:
        return Secret(sha256=token.sha256, created_at_ms=0, expires_at_ms=self.clock.now_ms() + DAY_MS)

    def asked(self, token: NewToken) -> Caller | None:
        return self.authentication.authenticate_now(None, [(b"authorization", b"Bearer " + token.text.encode())])

    async def waited(self, token: NewToken) -> Caller:
        return await self.authentication.authenticate(None, [(b"authorization", b"Bearer " + token.text.encode())])


def down(_operation: str, key: str) -> None:
    raise StoreUnavailable(key, "down", may_have_happened=False)


async def test_a_token_that_an_old_view_lacks_is_not_refused_for_good() -> None:
    """It may have been made or rotated since: 503, by which a client keeps it, and 401 once the table says so."""
    bench = Bench()
    old = await bench.create()
    await bench.look()
    known = bench.asked(old)
    assert known is not None
    unknown = new_token()
    with pytest.raises(Unauthenticated):
        bench.asked(unknown)
    made, rotated = await bench.create(), await bench.rotate(old, DAY_MS)
    bench.store.before = down
    bench.clock.pass_ms(RENEWED_MS + 1)
    assert bench.asked(old) is None, "it looks at the table first"
    assert (await bench.waited(old)).principal == "User:alice"
    for token in (made, rotated, unknown):
        with pytest.raises(BackOff):
            await bench.waited(token)
    bench.store.before = lambda _operation, _key: None
    await bench.look()
    for token in (made, rotated, old):
        assert await bench.waited(token) == bench.asked(token)
    with pytest.raises(Unauthenticated):
        await bench.waited(unknown)


async def test_a_caller_stands_as_long_as_the_secret_that_it_showed() -> None:
    """A rotation gives it an earlier end, which is known at once; a second one and a revocation end it. So it is where another
    gateway let the caller in, which tells the secret's hash."""
    bench = Bench()
    token = await bench.create()
    await bench.look()
    caller = bench.asked(token)
    assert caller is not None
    assert token.text[-20:] not in str(caller)  # a secret may have underscores
    assert caller.secret == token.sha256
    assert caller.secret not in str(caller)
    standing = AdmissionCheck(caller, bench.here.engine.rights, bench.authentication, bench.clock)
    assert standing.ends_within_ms(15_000) == 15_000
    newer = await bench.rotate(token, 2_000)
    await bench.look()
    standing.check()
    assert standing.ends_within_ms(15_000) == 2_000
    bench.clock.pass_ms(2_000)
    with pytest.raises(Unauthenticated):
        standing.check()
    current = bench.asked(newer)
    assert current is not None
    assert bench.authentication.revalidate(current) == current
    await bench.rotate(newer, 0)
    await bench.look()
    with pytest.raises(Unauthenticated):
        bench.authentication.revalidate(current)
    of_older_release = replace(current, secret=None)
    assert bench.authentication.revalidate(of_older_release) == of_older_release
    await bench.there.engine.access_table.decide(DeleteToken(id=token.id))
    await bench.look()
    for one in (current, of_older_release):
        with pytest.raises(Unauthenticated):
            bench.authentication.revalidate(one)


async def test_a_gateway_that_starts_while_the_store_is_down_says_so() -> None:
    """It starts, and knows no token: 503 for each, which says that it is to be shown again; and lets in once it can look."""
    bench = Bench()
    token = await bench.create()
    bench.store.before = down
    watch = AccessWatch(bench.here.engine.access_table, WaiterSlots(1), pause_ms=5)
    await watch.start()
    try:
        for one in (token, new_token()):
            with pytest.raises(BackOff):
                await bench.waited(one)
        bench.store.before = lambda _operation, _key: None
        async with asyncio.timeout(10):
            while not bench.here.engine.rights.is_recent:  # noqa: ASYNC110 - nothing tells of looks
                await asyncio.sleep(0.01)
        assert (await bench.waited(token)).principal == "User:alice"
    finally:
        watch.stop()
