"""``s3_wire`` sends what boto3 sends, and leaves to boto3 what it has not learned."""

from __future__ import annotations

import hashlib
import socket
from pathlib import Path
from typing import Any

import boto3
import botocore
import botocore.awsrequest
import botocore.credentials
import pytest
from botocore.compat import HTTPHeaders

from log_format.errors import ObjectExists, StoreUnavailable
from log_format.stores.s3 import S3Store
from tests.support.clocks import ManualClock
from tests.support.fake_s3 import FINE, Answer, FakeS3, NoBody, error

KEY = "a+b c/é~_-.x"
BOTO3_ONLY = {"amz-sdk-invocation-id", "amz-sdk-request"}
"""Headers by which boto3 counts its own retries, which are off."""


def _store(session: boto3.Session | None = None) -> S3Store:
    return S3Store("bucket", "prefix", read_timeout_ms=2_000, session=session, clock=ManualClock())


def _scope(headers: dict[str, str]) -> list[str]:
    """Access key, day, region, service of the signature."""
    return headers["authorization"].removeprefix("AWS4-HMAC-SHA256 Credential=").partition(",")[0].split("/")


def _signed(headers: dict[str, str]) -> list[str]:
    """Names of the headers that the signature covers."""
    return headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")


def _by_boto3(server: FakeS3) -> list[bool]:
    """Of each request that came, whether boto3 made it."""
    return [headers.keys() >= BOTO3_ONLY for _, _, headers, _ in server.requests]


@pytest.mark.parametrize("operation", ["put", "put_if_absent", "get", "get_range"])
def test_the_second_request_is_as_boto3s_first(server: FakeS3, operation: str) -> None:
    """Method, path, body and headers are the same, but for the signature's time and boto3's count of retries."""
    arguments: dict[str, tuple[Any, ...]] = {"put": (b"x" * 9,), "put_if_absent": (b"",), "get_range": (3, 9)}
    server.answers = [Answer() if operation.startswith("put") else FINE]
    store = _store()
    for _ in range(2):
        getattr(store, operation)(KEY, *arguments.get(operation, ()))
    assert _by_boto3(server) == [True, False]
    [first, second] = server.requests
    assert (first[0], first[1], first[3]) == (second[0], second[1], second[3])
    assert first[2].keys() - BOTO3_ONLY == second[2].keys()
    same = first[2].keys() - BOTO3_ONLY - {"authorization", "x-amz-date"}
    assert {name: first[2][name] for name in same} == {name: second[2][name] for name in same}
    assert _scope(first[2]) == _scope(second[2])
    own = {name for name in _signed(second[2]) if name not in BOTO3_ONLY}
    assert own == {name for name in _signed(first[2]) if name not in BOTO3_ONLY}


@pytest.mark.parametrize("operation", ["put", "put_if_absent"])
def test_later_puts_are_as_boto3s_first(server: FakeS3, operation: str) -> None:
    """Sent over the same connection, without botocore: method, path, body and headers are the same, and so is the signature's
    scope."""
    server.keeps_open, server.answers = True, [Answer()]
    store = _store()
    for _ in range(4):
        getattr(store, operation)(KEY, b"x" * 9)
    [first, *others] = server.requests
    assert server.connections == 1
    for other in others:
        assert (first[0], first[1], first[3]) == (other[0], other[1], other[3])
        assert first[2].keys() - BOTO3_ONLY == other[2].keys()
        same = first[2].keys() - BOTO3_ONLY - {"authorization", "x-amz-date"}
        assert {name: first[2][name] for name in same} == {name: other[2][name] for name in same}
        assert _scope(first[2]) == _scope(other[2])
    assert store._wire is not None
    assert store._wire._learned is not None
    assert len(store._wire._learned.alike) == 1


def _warm(server: FakeS3) -> S3Store:
    """A store whose puts of both kinds go without botocore, over one connection."""
    server.keeps_open, server.answers = True, [Answer()]
    store = _store()
    for _ in range(3):
        store.put(KEY, b"x")
        store.put_if_absent(KEY, b"x")
    return store


@pytest.mark.parametrize(
    ("answer", "may_have_happened"),
    [
        pytest.param(Answer(closes=True), True, id="closed"),
        pytest.param(Answer(breaks_off=True), True, id="broken-off"),
        pytest.param(error(500, "InternalError"), True, id="500"),
        pytest.param(error(403, "AccessDenied"), False, id="403"),
        pytest.param(Answer(body=b"<Error><Code>InternalError</Code></Error>"), True, id="below-200"),
    ],
)
def test_a_later_put_that_fails(server: FakeS3, answer: Answer, may_have_happened: bool) -> None:
    """It says whether it may have happened, as boto3's would, and the next one goes well."""
    store = _warm(server)
    server.answers = [answer]
    with pytest.raises(StoreUnavailable) as raised:
        store.put_if_absent(KEY, b"x")
    assert raised.value.may_have_happened is may_have_happened
    server.answers = [Answer()]
    store.put_if_absent(KEY, b"x")
    assert _by_boto3(server) == [True, *[False] * (len(server.requests) - 1)]


def test_a_client_that_signs_otherwise(server: FakeS3, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One that leaves bodies unsigned keeps botocore's way."""
    (tmp_path / "config").write_text("[default]\ns3 =\n  payload_signing_enabled = false\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    store = _warm(server)
    assert {headers["x-amz-content-sha256"] for _, _, headers, _ in server.requests} == {"UNSIGNED-PAYLOAD"}
    assert store._wire is not None
    assert store._wire._learned is not None
    assert store._wire._learned.alike == set()


def test_a_later_put_that_finds_an_object(server: FakeS3) -> None:
    """412 is an answer; the connection goes on."""
    store = _warm(server)
    connections = server.connections
    server.answers = [error(412, "PreconditionFailed")]
    with pytest.raises(ObjectExists):
        store.put_if_absent(KEY, b"x")
    server.answers = [Answer()]
    store.put(KEY, b"x")
    assert server.connections == connections


def test_a_later_put_that_is_redirected(server: FakeS3) -> None:
    """boto3 follows, and what it sends is learned anew."""
    store = _warm(server)
    server.answers = [error(301, "PermanentRedirect", ("x-amz-bucket-region", "eu-north-1")), Answer()]
    server.answers.insert(1, server.answers[0])
    count = len(server.requests)
    store.put_if_absent(KEY, b"x")
    store.put_if_absent(KEY, b"x")
    assert [_scope(headers)[2] for _, _, headers, _ in server.requests[count:]][-2:] == ["eu-north-1"] * 2


def test_a_connection_that_was_closed_meanwhile(server: FakeS3) -> None:
    """Nothing is sent on it: another one is opened, and no put fails."""
    store = _warm(server)
    assert store._wire is not None
    pool = store._wire._learned.exchange._pool  # type: ignore[union-attr]
    connection = pool._get_conn()
    connection.sock.shutdown(socket.SHUT_RDWR)
    pool._put_conn(connection)
    count, connections = len(server.requests), server.connections
    store.put_if_absent(KEY, b"x")
    assert len(server.requests) == count + 1
    assert server.connections == connections + 1


def test_credentials_that_change(server: FakeS3, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request is signed with the credentials of its moment, and their session token goes along."""
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token-1")
    session = boto3.Session()
    store = _store(session)
    server.keeps_open, server.answers = True, [Answer()]
    store.put(KEY, b"x")
    credentials = session.get_credentials()
    assert credentials is not None
    credentials.access_key, credentials.token = "user-2", "token-2"
    store.put(KEY, b"x")
    credentials.access_key, credentials.token = "user-3", "token-3"
    store.put(KEY, b"x")
    signed = [(_scope(headers)[0], headers["x-amz-security-token"]) for _, _, headers, _ in server.requests]
    assert signed == [("user", "token-1"), ("user-2", "token-2"), ("user-3", "token-3")]
    assert _by_boto3(server) == [True, False, False]


def test_credentials_that_are_not_to_be_had(server: FakeS3) -> None:
    """A refresh that fails is no failure of the store: nothing has happened, and it is tried again."""

    class Failing(botocore.credentials.Credentials):
        def get_frozen_credentials(self) -> Any:
            raise botocore.exceptions.CredentialRetrievalError(provider="test", error_msg="none")

    session = boto3.Session()
    store = _store(session)
    server.answers = [Answer()]
    store.put(KEY, b"x")
    session._session._credentials = Failing("a", "b")  # type: ignore[attr-defined]
    with pytest.raises(StoreUnavailable, match="can't be obtained") as raised:
        store.put_if_absent(KEY, b"x")
    assert raised.value.may_have_happened is False
    assert raised.value.may_pass is True
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "redirect",
    [
        pytest.param(error(400, "AuthorizationHeaderMalformed", ("x-amz-bucket-region", "eu-north-1")), id="400"),
        pytest.param(error(301, "PermanentRedirect", ("x-amz-bucket-region", "eu-north-1")), id="301"),
        pytest.param(error(307, "TemporaryRedirect", ("x-amz-bucket-region", "eu-north-1")), id="307"),
    ],
)
def test_a_bucket_in_another_region(server: FakeS3, monkeypatch: pytest.MonkeyPatch, redirect: Answer) -> None:
    """A redirect is followed by boto3, and later requests are signed for the bucket's region at once."""
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    store = _store()
    server.answers = [Answer()]
    store.put_if_absent("first", b"x")
    server.answers = [redirect, error(301, "PermanentRedirect", ("x-amz-bucket-region", "eu-north-1")), Answer()]
    store.put_if_absent("second", b"x")
    store.put_if_absent("third", b"x")
    assert [_scope(headers)[2] for _, _, headers, _ in server.requests] == [
        *["us-west-2"] * 3,
        *["eu-north-1"] * 2,
    ]
    assert _by_boto3(server) == [True, False, True, True, False]


def test_an_error_below_status_200(server: FakeS3) -> None:
    """S3 may answer 200 and then report a failure in the body: it may have happened, whichever way the request went."""
    store = _store()
    for _ in range(2):
        server.answers = [Answer(body=b"<Error><Code>InternalError</Code></Error>")]
        with pytest.raises(StoreUnavailable) as raised:
            store.put_if_absent(KEY, b"x")
        assert raised.value.may_have_happened is True
        server.answers = [Answer()]
        store.put(KEY, b"x")
    assert _by_boto3(server)[-2:] == [False, False]


def test_what_is_not_signed_so_is_left_to_boto3(server: FakeS3) -> None:
    """An unsigned client stays one."""
    store = _store()
    store._client.meta.events.register("choose-signer.s3", lambda **_: botocore.UNSIGNED)
    for _ in range(3):
        assert store.get(KEY) == b"12345"
    assert _by_boto3(server) == [True, True, True]
    assert not [headers for _, _, headers, _ in server.requests if "authorization" in headers]


def test_a_proxy(server: FakeS3, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy that the environment names gets both ways' requests."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://store.invalid")
    monkeypatch.setenv("HTTP_PROXY", server.url)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    store = _store()
    for _ in range(2):
        assert store.get("a") == b"12345"
    assert [path for _, path, _, _ in server.requests] == ["http://store.invalid/bucket/prefix/a"] * 2
    assert _by_boto3(server) == [True, False]


def test_a_bucket_in_the_host_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """At Amazon's own endpoint both ways send to the bucket's host over TLS, with the body's hash in the signature."""
    sent: list[botocore.awsrequest.AWSPreparedRequest] = []

    class Http:
        def send(self, request: botocore.awsrequest.AWSPreparedRequest) -> botocore.awsrequest.AWSResponse:
            sent.append(request)
            return botocore.awsrequest.AWSResponse(request.url, 200, HTTPHeaders(), NoBody())

    session = boto3.Session(aws_access_key_id="user", aws_secret_access_key="password", region_name="eu-central-1")
    store = S3Store("some-bucket", "some-bucket", session=session)
    assert store._wire is not None
    monkeypatch.setattr(store._wire, "_http", Http())
    monkeypatch.setattr(store._client._endpoint, "http_session", Http())  # type: ignore[attr-defined]
    store.put("some-bucket/a", b"payload")
    store.put("some-bucket/a", b"payload")
    assert [request.url for request in sent] == [
        "https://some-bucket.s3.eu-central-1.amazonaws.com/some-bucket/some-bucket/a"
    ] * 2
    signed = hashlib.sha256(b"payload").hexdigest()
    assert [sent[0].headers["X-Amz-Content-SHA256"], sent[1].headers["X-Amz-Content-SHA256"]] == [
        signed.encode(),
        signed,
    ]
    assert "amz-sdk-request" in sent[0].headers
    assert "amz-sdk-request" not in sent[1].headers
