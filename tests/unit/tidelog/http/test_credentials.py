"""The token of a client: where it comes from, which gateways get it, and that no text holds it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

import tidelog.aio
from tests.support.fake_gateway import Exchange, FakeGateway
from tests.support.waiting import eventually
from tidelog import Admin, Consumer, Producer, limits
from tidelog.deadline import Deadline
from tidelog.errors import DeliveryFailed, GatewayError, OutcomeUnknown, Throttled, Unauthenticated, Unauthorized
from tidelog.http import token_source
from tidelog.http.credentials import Credentials, is_loopback
from tidelog.http.transport import Request, Transport

OLD, NEW = "tl_one_old-secret", "tl_one_new-secret"
READ = Request(method="GET", target="/v1/topics", repeatable=True, reads=True)


@pytest.fixture(autouse=True)
def _no_token_around(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TIDELOG_TOKEN", "TIDELOG_TOKEN_FILE", "TIDELOG_CERT_FILE", "TIDELOG_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def guarded(gateway: FakeGateway) -> FakeGateway:
    """A gateway that takes one token."""
    gateway.tokens = {NEW}
    return gateway


def sent(gateway: FakeGateway) -> list[str]:
    """The tokens that came, in order."""
    return [asked.headers.get("authorization", "-").removeprefix("Bearer ") for asked in gateway.asked]


def test_every_client_sends_its_token_with_every_request(guarded: FakeGateway, tmp_path: Path) -> None:
    """Producer, consumer in a group, admin and transactions: no request goes without."""
    guarded.create("t")
    file = tmp_path / "token"
    file.write_text(NEW + "\n")
    with Producer(guarded.url, token=NEW) as producer:
        producer.send("t", b"a").result(30)
    with Producer(guarded.url, token_file=file, transactional_id="x") as producer, producer.transaction():
        producer.send("t", b"b")
    with Consumer("t", bootstrap_servers=guarded.url, group="g", token=lambda: NEW) as consumer:
        assert eventually(lambda: consumer.poll(200))
    with Admin(guarded.url, token_file=str(file)) as admin:
        admin.cluster()

    async def twins() -> None:
        async with tidelog.aio.Admin(guarded.url, token=NEW) as admin:
            await admin.list_topics()
        async with tidelog.aio.Producer(guarded.url, token_file=file) as producer:
            await (await producer.send("t", b"c"))
        async with tidelog.aio.Consumer("t", bootstrap_servers=guarded.url, token=NEW) as consumer:
            await consumer.poll(500)

    asyncio.run(twins())
    assert set(sent(guarded)) == {NEW}


def test_the_environment_has_the_token(guarded: FakeGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``TIDELOG_TOKEN`` or ``TIDELOG_TOKEN_FILE``; an argument wins over both; the two together are refused."""
    file = tmp_path / "token"
    file.write_text(f"  {NEW}\n")
    monkeypatch.setenv("TIDELOG_TOKEN", NEW)
    with Admin(guarded.url) as admin:
        admin.list_topics()
    monkeypatch.setenv("TIDELOG_TOKEN", OLD)
    with Admin(guarded.url, token_file=file) as admin:
        admin.list_topics()
    monkeypatch.setenv("TIDELOG_TOKEN_FILE", str(file))
    with pytest.raises(ValueError, match="both set"):
        Admin(guarded.url)
    monkeypatch.delenv("TIDELOG_TOKEN")
    with Admin(guarded.url) as admin:
        admin.list_topics()
    with pytest.raises(ValueError, match="both given"):
        Admin(guarded.url, token=NEW, token_file=file)


@pytest.mark.parametrize(
    "url", ["http://gateway.example:8080", "gateway.example", "http://10.0.0.1", "http://[fd00::1]:1"]
)
def test_no_token_goes_over_plain_http_to_another_machine(url: str) -> None:
    """The client is refused when it is made, whatever the token's source."""
    for source in ({"token": NEW}, {"token": lambda: NEW}, {"token_file": "/nowhere"}):
        for client in (Admin, Producer):
            with pytest.raises(ValueError, match="plain HTTP") as raised:
                client(["http://127.0.0.1:1", url], **source)
            assert NEW not in str(raised.value)
    Admin(url).close()
    Admin(url.replace("http:", "https:") if "://" in url else f"https://{url}", token=NEW).close()


@pytest.mark.parametrize(
    ("host", "is_here"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("localhost", True), ("::1", True), ("localhost.example", False),
     ("0.0.0.0", False), ("127.0.0.1.example", False), ("", False), ("10.0.0.1", False)],
)  # fmt: skip
def test_what_this_machine_is(host: str, is_here: bool) -> None:
    """Names and addresses of loopback, and nothing that begins like them."""
    assert is_loopback(host) is is_here


def test_learned_addresses_get_the_token_only_where_they_are_trusted() -> None:
    """The host must be one that the user gave or trusts, and the address TLS or loopback. Without a token any will do."""
    given = ["https://log.example.com"]
    some = Credentials(token=NEW, trusted_hosts=[".gateways.example.com", "10.0.0.7"])
    for url, trusted in {
        "https://log.example.com:9443": True,
        "https://a.gateways.example.com": True,
        "https://A.GATEWAYS.example.com": True,
        "https://10.0.0.7:8080": True,
        "https://gateways.example.com": False,
        "https://xgateways.example.com": False,
        "https://10.0.0.8": False,
        "https://log.example.com.evil.example": False,
        "https://evil.example/log.example.com": False,
        "http://a.gateways.example.com": False,
        "http://127.0.0.1:8080": False,
    }.items():
        assert some.trusts(url, given) is trusted, url
    assert Credentials().trusts("http://evil.example", given)
    assert Credentials(token=NEW).trusts("http://127.0.0.1:2", ["http://127.0.0.1:1"])


def test_a_learned_address_that_is_not_trusted_sees_no_request(
    two_gateways: tuple[FakeGateway, FakeGateway], client_threads: Callable[[], list[str]]
) -> None:
    """A gateway names ``localhost`` as another gateway's host: a client with a token keeps to ``127.0.0.1``."""
    one, two = two_gateways
    two.url = two.url.replace("127.0.0.1", "localhost")
    one.create("t")
    for trusted, seen in (((), False), (("localhost",), True)):
        with Producer(one.url, token=NEW, trusted_hosts=trusted) as producer:
            producer.send("t", b"v").result(30)
            assert eventually(lambda: one.count("GET /v1/cluster"))
            assert eventually(lambda: "tidelog-owners" not in client_threads())
        assert bool(two.asked) is seen
        assert set(sent(two)) == ({NEW} if seen else set())


def test_a_rotated_file_is_read_again_after_a_refusal(guarded: FakeGateway, tmp_path: Path) -> None:
    """One 401 and the request goes again with the file's new token; numbered records are stored once and in order."""
    guarded.tokens = {OLD}
    file = tmp_path / "token"
    file.write_text(OLD)
    topic = guarded.create("t")
    with Producer(guarded.url, token_file=file, linger_ms=0) as producer:
        futures = [producer.send("t", str(number).encode()) for number in range(50)]
        assert futures[0].result(30).offset == 0
        (tmp_path / "new").write_text(NEW)
        (tmp_path / "new").replace(file)
        guarded.tokens = {NEW}
        futures += [producer.send("t", str(number).encode()) for number in range(50, 100)]
        assert [future.result(30).offset for future in futures] == list(range(100))
    assert [record.value for record in topic.records[0]] == [str(number).encode() for number in range(100)]


def test_a_refused_token_is_asked_for_once(guarded: FakeGateway) -> None:
    """A callable that goes on giving a bad token gets one more call, and the request is not sent for ever."""
    given = iter([OLD, "tl_one_third", "tl_one_fourth", "tl_one_fifth"])
    transport = Transport(guarded.url, token=lambda: next(given))
    with pytest.raises(Unauthenticated) as raised:
        transport.call(READ, Deadline(5_000))
    assert sent(guarded) == [OLD, "tl_one_third"]
    assert not raised.value.may_have_happened
    assert not raised.value.retryable
    transport.close()


def test_a_token_that_never_changes_is_sent_once(guarded: FakeGateway) -> None:
    """A 401 for a text is final at once."""
    transport = Transport(guarded.url, token=OLD)
    with pytest.raises(Unauthenticated):
        transport.call(READ, Deadline(5_000))
    assert sent(guarded) == [OLD]
    transport.close()


def test_a_refusal_after_a_lost_answer_leaves_the_outcome_unknown(guarded: FakeGateway) -> None:
    """The 401 is about the second try only: the first may have stored the records."""
    guarded.create("t")
    with Producer(guarded.url, token=NEW, linger_ms=0) as producer:
        producer.send("t", b"first").result(30)

        def lose(exchange: Exchange) -> None:
            exchange.gateway.carry_out(exchange.asked)
            guarded.tokens = set()
            exchange.hang_up()

        guarded.misbehave("POST .*/records", lose)
        with pytest.raises(OutcomeUnknown):
            producer.send("t", b"second").result(30)
        with pytest.raises(DeliveryFailed):
            producer.flush()


def test_a_new_token_waits_until_every_gateway_knows_it(tmp_path: Path) -> None:
    """A changed file is used after ``settles_ms``; what is no token leaves the old one in use."""
    file = tmp_path / "token"
    file.write_text(OLD)

    def version() -> object:
        return file.stat().st_mtime_ns

    source = token_source.TokenSource(file.read_text, what="it", version=version, look_ms=0, settles_ms=200)
    assert source.current() == OLD
    file.write_text(NEW)
    os.utime(file, ns=(1, 1))
    assert source.current() == OLD
    assert eventually(lambda: source.current() == NEW)
    file.write_text("")
    os.utime(file, ns=(2, 2))
    assert source.current() == NEW
    file.unlink()
    assert source.current() == NEW
    assert not source.renewed(NEW)


@pytest.mark.parametrize(
    "bad", ["", " \n", "two words", "line\nline", "ctrl\x01", "ümlaut", "x" * (limits.TOKEN_BYTES_MAX + 1)]
)
def test_what_is_no_token(bad: str, tmp_path: Path) -> None:
    """It is refused with the source's name, and is not in the error."""
    file = tmp_path / "token"
    file.write_text(bad)
    with pytest.raises(Unauthenticated, match=r"has no valid token|has no token|can.t be read") as raised:
        Transport("http://127.0.0.1:9", token_file=file).call(READ, Deadline(100))
    assert str(file) in raised.value.detail
    if bad.strip():
        assert bad not in "".join(traceback.format_exception(raised.value))
        with pytest.raises(ValueError, match="has no valid token"):
            Admin("http://127.0.0.1:9", token=bad)


def test_what_a_callable_raises_is_told_without_its_words(guarded: FakeGateway) -> None:
    """Its message may hold a secret: the detail has the error's kind, and the cause is the error."""

    def give() -> str:
        raise RuntimeError(f"no {NEW} here")

    with Producer(guarded.url, token=give) as producer:
        error = producer.send("t", b"v").exception(30)
        assert isinstance(error, Unauthenticated)
        assert error.detail == "the callable given as token can't be read: RuntimeError"
        assert isinstance(error.__cause__, RuntimeError)
        with pytest.raises(DeliveryFailed):
            producer.flush()


def test_no_text_holds_the_token(guarded: FakeGateway, caplog: pytest.LogCaptureFixture) -> None:
    """Neither what clients look like, nor their logs at the lowest level, nor any error."""
    caplog.set_level(logging.DEBUG)
    texts = []
    admin, producer = Admin(guarded.url, token=OLD), Producer(guarded.url, token=OLD)
    consumer = Consumer("t", bootstrap_servers=guarded.url, token=OLD)
    for client, call in (
        (admin, admin.list_topics),
        (producer, lambda: producer.send("t", b"v").result(30)),
        (consumer, lambda: consumer.poll(100)),
    ):
        texts += [repr(client), str(client)]
        with pytest.raises(GatewayError) as raised:
            call()
        texts += ["".join(traceback.format_exception(raised.value)), repr(raised.value.fields)]
        with contextlib.suppress(DeliveryFailed):
            client.close()
    credentials = Credentials(token=OLD)
    texts += [repr(credentials), repr(credentials.__dict__), caplog.text]
    with pytest.raises(Exception):  # noqa: B017 - a lock can't be pickled, and with it no token
        pickle.dumps(credentials)
    assert OLD not in "".join(texts)


def test_a_throttled_request_waits_as_long_as_the_gateway_says(gateway: FakeGateway) -> None:
    """``retry_after_ms`` is exact, the header is rounded up; the wait is within the request's time, and at this gateway."""
    throttle = gateway.refuse(429, "THROTTLED", retry_after=1, retry_after_ms=300, quota="produce_bytes_per_s")
    gateway.create("t")
    gateway.misbehave("POST .*/records", throttle)
    with Producer(gateway.url) as producer:
        began = Deadline(300)
        later = Deadline(900)
        assert producer.send("t", b"v").result(30).offset == 0
        assert began.passed
        assert not later.passed


def test_a_throttled_request_ends_when_its_time_is_not_enough(gateway: FakeGateway) -> None:
    """It is raised at once, with the quota's name: waiting longer than the deadline helps no one."""
    gateway.misbehave(
        "GET /v1/topics",
        gateway.refuse(429, "THROTTLED", retry_after=60, retry_after_ms=60_000, quota="requests_per_s"),
    )
    transport = Transport(gateway.url)
    soon = Deadline(2_000)
    with pytest.raises(Throttled) as raised:
        transport.call(READ, Deadline(5_000))
    assert not soon.passed
    assert (raised.value.quota, raised.value.retry_after_ms) == ("requests_per_s", 60_000)
    transport.close()


def test_throttling_does_not_send_a_client_to_another_gateway(two_gateways: tuple[FakeGateway, FakeGateway]) -> None:
    """The quota holds at all gateways."""
    one, two = two_gateways
    one.misbehave(
        "GET /v1/topics", one.refuse(429, "THROTTLED", retry_after=1, retry_after_ms=100, quota="requests_per_s")
    )
    transport = Transport([one.url, two.url])
    assert transport.call(READ, Deadline(5_000)).url == one.url
    assert not two.asked
    transport.close()


def test_a_denial_names_what_is_missing(gateway: FakeGateway) -> None:
    """``Unauthorized`` has the operation, the resource's type and name; nothing is repeated."""
    gateway.create("t")
    gateway.misbehave(
        "POST .*/records",
        gateway.refuse(403, "UNAUTHORIZED", operation="Write", resource_type="topic", resource="t"),
    )
    with Producer(gateway.url) as producer:
        error = producer.send("t", b"v").exception(30)
        assert isinstance(error, Unauthorized)
        assert (error.operation, error.resource_type, error.resource) == ("Write", "topic", "t")
        with pytest.raises(DeliveryFailed):
            producer.flush()
    assert gateway.count("POST .*/records") == 1


def test_unknown_arguments_are_refused() -> None:
    """As before there were arguments for connections."""
    for client in (Admin, Producer):
        with pytest.raises(TypeError, match="passwort"):
            client("http://127.0.0.1:9", passwort="x")  # type: ignore[call-arg]
