"""JWTs over time: keys that rotate or are withdrawn, an issuer that is down or is asked too often, what is remembered."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import pytest

from gateway.access.caller import Caller, InvalidCredential
from gateway.access.issuer_keys import ANSWER_BYTES_MAX, IssuerUnavailable, fetch_keys
from gateway.access.json_web_token import JwtRules, Key, UnknownKey, parse_keys
from gateway.access.jwt_callers import (
    KEYS_RENEWED_MS,
    KEYS_TRUSTED_MS,
    NO_KEYS_PAUSE_MS,
    REMEMBERED_MS,
    UNKNOWN_KEY_PAUSE_MS,
    JwtCallers,
)
from log_format.errors import BackOff
from tests.support.clocks import ManualClock
from tests.support.issuer import AUDIENCE, Issuer, running_issuer
from tests.support.waiting import turns_up


class CountingExecutor(ThreadPoolExecutor):
    """Notes which functions run in its thread."""

    def __init__(self) -> None:
        super().__init__(1)
        self.ran: list[str] = []

    def submit(self, call: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.ran.append(getattr(call, "__name__", "fetch"))
        return super().submit(call, *args, **kwargs)


class Bench:
    def __init__(self) -> None:
        self.issuer = Issuer()
        self.issuer.url = "https://issuer"
        self.clock = ManualClock()
        self.executor = CountingExecutor()
        self.is_down = False
        rules = JwtRules(
            issuer=self.issuer.url,
            audience=AUDIENCE,
            algorithms=frozenset({"RS256"}),
            principal_claim="sub",
            groups_claim="groups",
        )
        self.callers = JwtCallers(rules, fetch_keys=self._fetch, executor=self.executor, clock=self.clock)

    def _fetch(self) -> Sequence[Key]:
        self.issuer.asked += 1
        if self.is_down:
            raise IssuerUnavailable("down")
        return parse_keys(json.loads(self.issuer.key_set()))

    def token(self, *, left_ms: int = 3_600_000, **more: Any) -> bytes:
        return self.issuer.token(exp=(self.clock.now_ms() + left_ms) / 1000, **more).encode()

    async def caller(self, token: bytes) -> Caller:
        return self.callers.find_known(token) or await self.callers.verify(token)


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.executor.shutdown()


async def test_a_verified_token_is_remembered_for_a_minute_and_never_past_its_end(bench: Bench) -> None:
    """Verifying costs much more than a request may; remembering must not prolong."""
    long, short = bench.token(), bench.token(left_ms=5_000)
    for token in (long, short):
        assert (await bench.caller(token)).principal == "User:alice"
        assert bench.callers.find_known(token) is not None
    verified = bench.executor.ran.count("verify_token")
    assert (await bench.caller(long)).authentication == "jwt"
    assert bench.executor.ran.count("verify_token") == verified == 2
    bench.clock.pass_ms(5_000)
    assert bench.callers.find_known(short) is None
    bench.clock.pass_ms(REMEMBERED_MS - 5_001)
    assert bench.callers.find_known(long) is not None
    bench.clock.pass_ms(1)
    assert bench.callers.find_known(long) is None
    bench.clock.pass_ms(6_000)
    with pytest.raises(InvalidCredential):
        await bench.caller(short)


async def test_a_new_key_is_learned_when_a_token_names_it(bench: Bench) -> None:
    """The issuer rotates: the first token by the new key passes, and the old key's do, too, while the issuer has it."""
    old = bench.token()
    await bench.caller(old)
    bench.clock.pass_ms(UNKNOWN_KEY_PAUSE_MS)
    bench.issuer.rotate("second")
    assert (await bench.caller(bench.token())).principal == "User:alice"
    assert (await bench.caller(old)).principal == "User:alice"
    assert bench.issuer.asked == 2


async def test_unknown_keys_ask_at_most_once_in_half_a_minute(bench: Bench) -> None:
    """However many come at once; all that wait get the one answer."""
    await bench.caller(bench.token())
    bench.clock.pass_ms(UNKNOWN_KEY_PAUSE_MS)
    tokens = [bench.token(header={"kid": f"unknown-{number}"}) for number in range(20)]
    refused = await asyncio.gather(*(bench.caller(token) for token in tokens), return_exceptions=True)
    assert {type(one) for one in refused} == {UnknownKey}
    assert bench.issuer.asked == 2
    bench.clock.pass_ms(UNKNOWN_KEY_PAUSE_MS - 1)
    with pytest.raises(UnknownKey):
        await bench.caller(tokens[0])
    assert bench.issuer.asked == 2
    bench.clock.pass_ms(1)
    with pytest.raises(UnknownKey):
        await bench.caller(tokens[0])
    assert bench.issuer.asked == 3


async def test_a_withdrawn_key_ends(bench: Bench) -> None:
    """Keys in use are asked for again; the request that finds them old does not wait for that."""
    stolen = bench.token()
    await bench.caller(stolen)
    bench.issuer.rotate("second")
    del bench.issuer.keys["first"]
    bench.clock.pass_ms(KEYS_RENEWED_MS + 1)
    assert (await bench.caller(stolen)).principal == "User:alice"
    await turns_up(lambda: bench.issuer.asked == 2 and bench.callers._asking is None)
    bench.clock.pass_ms(REMEMBERED_MS)
    with pytest.raises(InvalidCredential):
        await bench.caller(stolen)


async def test_while_there_are_no_keys_it_is_not_known_who_comes(bench: Bench) -> None:
    """503, and the issuer is asked again soon, but not by each request."""
    bench.is_down = True
    token = bench.token()
    for _ in range(5):
        with pytest.raises(BackOff):
            await bench.caller(token)
    assert bench.issuer.asked == 1
    bench.is_down = False
    bench.clock.pass_ms(NO_KEYS_PAUSE_MS)
    assert (await bench.caller(token)).principal == "User:alice"


async def test_keys_outlive_an_outage_of_a_day(bench: Bench) -> None:
    """Not of more: the issuer may have withdrawn them."""
    await bench.caller(bench.token())
    bench.is_down = True
    bench.clock.pass_ms(KEYS_TRUSTED_MS)
    assert (await bench.caller(bench.token())).principal == "User:alice"
    bench.clock.pass_ms(UNKNOWN_KEY_PAUSE_MS)
    with pytest.raises(BackOff):
        await bench.caller(bench.token())


async def test_nothing_is_verified_on_the_loop(bench: Bench) -> None:
    """The signature and the head, which anyone may send, are for a thread; what looks like no JWT is refused at once."""
    seen: list[str] = []
    submit = bench.executor.submit

    def noting(call: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        def run(*given: Any) -> Any:
            seen.append(threading.current_thread().name)
            return call(*given)

        return submit(run, *args, **kwargs)

    executor: Executor = bench.executor
    executor.submit = noting  # type: ignore[method-assign]
    await bench.caller(bench.token())
    assert len(seen) == 2
    assert threading.main_thread().name not in seen
    for text in (b"", b"a", b"a.b", b"a.b.c.d", b"a.b.c ", b"a.b.\xff", b"..", b"a..c"):
        with pytest.raises(InvalidCredential):
            await bench.caller(text)
    assert len(seen) == 2


def test_keys_that_can_not_serve_are_left_out() -> None:
    """A symmetric key, one for encryption, one of an unknown kind: the others go on."""
    issuer = Issuer()
    good = json.loads(issuer.key_set())["keys"][0]
    others: list[Any] = [
        {"kty": "oct", "k": "c2VjcmV0", "kid": "a"},
        good | {"use": "enc", "kid": "b"},
        {"kty": "quantum", "kid": "c"},
        {"kty": ["RSA"]},
        {"kty": "RSA", "n": "!", "e": "AQAB"},
        {"kty": "EC", "crv": "P-9", "x": "a", "y": "a"},
        "no key",
        None,
    ]
    assert [key.id for key in parse_keys({"keys": [*others, good]})] == ["first"]
    documents: tuple[object, ...] = (None, [], {}, {"keys": None}, {"keys": [good] * 101})
    for document in documents:
        with pytest.raises(ValueError, match="JWKS"):
            parse_keys(document)


@pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")
def test_a_short_key_proves_nothing() -> None:
    """RSA below 2048 bits can be broken."""
    bench = Bench()
    bench.issuer.rotate("short", bits=1024)
    with pytest.raises(InvalidCredential):
        asyncio.run(bench.caller(bench.token()))
    bench.executor.shutdown()


def test_what_an_issuer_may_not_answer() -> None:
    """Too much, for another issuer, a redirect, no JSON: none of it is taken for keys."""
    with running_issuer() as issuer:
        assert [key.id for key in fetch_keys(issuer.url)] == ["first"]
        for answer, status, named in (
            (b" " * (ANSWER_BYTES_MAX + 1), 200, None),
            (b"{", 200, None),
            (b"[" * 50_000, 200, None),
            (None, 302, None),
            (None, 500, None),
            (None, 200, "https://another"),
        ):
            issuer.answer, issuer.status, issuer.named = answer, status, named
            with pytest.raises(IssuerUnavailable):
                fetch_keys(issuer.url)
    with pytest.raises(IssuerUnavailable):
        fetch_keys(issuer.url)
