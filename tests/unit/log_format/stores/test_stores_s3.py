"""What ``S3Store`` sends, and what it makes of each answer, against a server that misbehaves as it is told."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Callable
from typing import Any

import boto3
import botocore.awsrequest
import pytest
from botocore.compat import HTTPHeaders

from log_format.errors import ObjectExists, ObjectMissing, StoreUnavailable
from log_format.limits import STORE_ATTEMPTS_MAX
from log_format.store import ObjectStore
from log_format.stores.s3 import S3Store
from tests.support.clocks import ManualClock
from tests.support.fake_s3 import FINE, Answer, FakeS3, NoBody, error

LISTING = b"""<?xml version="1.0"?><ListBucketResult><IsTruncated>false</IsTruncated><EncodingType>url</EncodingType>
<Contents><Key>prefix/a%2Bb</Key><Size>3</Size><LastModified>2026-10-21T07:28:00.000Z</LastModified></Contents>
<Contents><Key>prefix/marker/</Key><Size>0</Size><LastModified>2026-10-21T07:28:00.000Z</LastModified></Contents>
</ListBucketResult>"""


CLOSED = Answer(closes=True)
STALLED = Answer(stalls=True)
BROKEN = Answer(body=b"12345", breaks_off=True)


@pytest.fixture(scope="module")
def session() -> boto3.Session:
    """Shared, since a session reads its description of S3 from files."""
    return boto3.Session()


@pytest.fixture(params=["by boto3", "by the wire"])
def store(request: pytest.FixtureRequest, server: FakeS3, session: boto3.Session) -> S3Store:
    """A store on the fake server whose pauses take no time. It waits for an answer as long as a busy machine may need, but where
    none will come.

    boto3 sends its first hot request, and ``s3_wire`` those after it.
    """
    stalls = request.node.callspec.params.get("answer") is STALLED
    made = S3Store(
        "bucket",
        "prefix",
        read_timeout_ms=1_000 if stalls else 30_000,
        retry_ms_max=60_000,
        session=session,
        clock=ManualClock(),
    )
    if request.param == "by the wire":
        answers, server.answers = server.answers, [Answer()]
        made.put("first", b"x")
        server.answers, server.requests = answers, []
    return made


Operation = Callable[[ObjectStore], object]
HEAD = pytest.param(lambda store: store.head("a"), id="head")
READS = [
    pytest.param(lambda store: store.get("a"), id="get"),
    pytest.param(lambda store: store.get_range("a", 0, 5), id="get_range"),
    HEAD,
    pytest.param(lambda store: list(store.list("")), id="list"),
    pytest.param(lambda store: list(store.list_directories("")), id="list_directories"),
]
REPEATABLE_WRITES = [
    pytest.param(lambda store: store.put("a", b"x"), id="put"),
    pytest.param(lambda store: store.delete("a"), id="delete"),
]
ALL = [*READS, *REPEATABLE_WRITES, pytest.param(lambda store: store.put_if_absent("a", b"x"), id="put_if_absent")]
AMBIGUOUS = [
    pytest.param(error(500, "InternalError"), id="500"),
    pytest.param(error(503, "SlowDown"), id="slow-down"),
    pytest.param(Answer(status=502, body=b"<html>bad gateway</html>"), id="502-of-a-proxy"),
    pytest.param(Answer(status=504), id="504"),
    pytest.param(CLOSED, id="closed"),
    pytest.param(STALLED, id="time-out"),
]
PASSING = [
    pytest.param(error(409, "ConditionalRequestConflict"), id="409"),
    pytest.param(error(400, "RequestTimeout"), id="request-not-read-in-time"),
    pytest.param(error(429, "TooManyRequests"), id="429"),
]
LASTING = [
    pytest.param(error(403, "AccessDenied"), "don't allow", id="access-denied"),
    pytest.param(error(403, "InvalidAccessKeyId"), "unknown", id="unknown-key"),
    pytest.param(error(404, "NoSuchBucket"), "bucket does not exist", id="no-bucket"),
    pytest.param(error(507, "XMinioStorageFull"), "full", id="507"),
    pytest.param(error(400, "QuotaExceeded"), "full", id="quota"),
    pytest.param(error(501, "NotImplemented"), "does not offer", id="501"),
    pytest.param(error(400, "InvalidRequest"), "InvalidRequest", id="400"),
]


@pytest.mark.parametrize("answer", AMBIGUOUS)
def test_put_if_absent_is_sent_once_when_it_may_have_happened(store: S3Store, server: FakeS3, answer: Answer) -> None:
    """No answer, or a server's failure, says nothing of what happened: one request, and the caller is told so."""
    server.answers = [answer]
    with pytest.raises(StoreUnavailable) as raised:
        store.put_if_absent("a", b"x")
    assert raised.value.may_have_happened is True
    assert raised.value.key == "a"
    assert len(server.requests) == 1


@pytest.mark.parametrize("answer", PASSING)
def test_put_if_absent_is_sent_again_when_nothing_was_written(store: S3Store, server: FakeS3, answer: Answer) -> None:
    """A refusal that passes by itself is not seen; when it does not pass, nothing has happened, for certain."""
    server.answers = [answer, answer, Answer()]
    store.put_if_absent("a", b"x")
    assert len(server.requests) == 3
    server.answers = [answer]
    with pytest.raises(StoreUnavailable) as raised:
        store.put_if_absent("a", b"x")
    assert raised.value.may_have_happened is False
    assert len(server.requests) == 3 + STORE_ATTEMPTS_MAX


def test_put_if_absent_stops_at_the_first_ambiguous_answer(store: S3Store, server: FakeS3) -> None:
    """A refusal, then silence: two requests, and it may have happened."""
    server.answers = [error(409, "ConditionalRequestConflict"), CLOSED]
    with pytest.raises(StoreUnavailable) as raised:
        store.put_if_absent("a", b"x")
    assert raised.value.may_have_happened is True
    assert len(server.requests) == 2


def test_an_existing_object(store: S3Store, server: FakeS3) -> None:
    """412 is an answer, not a failure."""
    server.answers = [error(412, "PreconditionFailed")]
    with pytest.raises(ObjectExists) as raised:
        store.put_if_absent("a", b"x")
    assert raised.value.key == "a"
    assert len(server.requests) == 1


@pytest.mark.parametrize("operation", REPEATABLE_WRITES)
@pytest.mark.parametrize("answer", [*AMBIGUOUS, *PASSING])
def test_writes_that_may_be_repeated_are(store: S3Store, server: FakeS3, operation: Operation, answer: Answer) -> None:
    """put and delete do the same twice as once, so they are sent again whatever came."""
    server.answers = [answer, Answer(status=204)]
    operation(store)
    assert len(server.requests) == 2


@pytest.mark.parametrize("operation", READS)
@pytest.mark.parametrize("answer", AMBIGUOUS)
def test_reads_are_repeated(store: S3Store, server: FakeS3, operation: Operation, answer: Answer) -> None:
    """A read is sent again whatever came."""
    server.answers = [answer, Answer(body=LISTING)]
    operation(store)
    assert len(server.requests) == 2


@pytest.mark.parametrize("operation", READS[:2])
def test_a_body_that_breaks_off_is_read_again(store: S3Store, server: FakeS3, operation: Operation) -> None:
    """A body shorter than was said is never taken for the object."""
    server.answers = [BROKEN, BROKEN, FINE]
    assert operation(store) == b"12345"
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("operation", "may_have_happened"),
    [*[(read.values[0], False) for read in READS], *[(write.values[0], True) for write in REPEATABLE_WRITES]],
)
def test_retries_end(store: S3Store, server: FakeS3, operation: Operation, may_have_happened: bool) -> None:
    """Against a server that only fails every operation ends, and says truly whether it may have happened."""
    server.answers = [error(503, "ServiceUnavailable")]
    with pytest.raises(StoreUnavailable) as raised:
        operation(store)
    assert raised.value.may_have_happened is may_have_happened
    assert len(server.requests) == STORE_ATTEMPTS_MAX


@pytest.mark.parametrize("operation", [operation for operation in ALL if operation is not HEAD])
@pytest.mark.parametrize(("answer", "message"), LASTING)
def test_what_does_not_pass_is_reported_at_once(
    store: S3Store, server: FakeS3, operation: Operation, answer: Answer, message: str
) -> None:
    """A refusal that only an operator can mend: one request, nothing has happened, and a detail that helps."""
    server.answers = [answer]
    with pytest.raises(StoreUnavailable, match=message) as raised:
        operation(store)
    assert raised.value.may_have_happened is False
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [403, 501, 507])
def test_head_is_refused_by_status_alone(store: S3Store, server: FakeS3, status: int) -> None:
    """An answer to HEAD has no body and so no code; it is told from a missing object all the same."""
    server.answers = [Answer(status=status)]
    with pytest.raises(StoreUnavailable, match=str(status)) as raised:
        store.head("a")
    assert raised.value.may_have_happened is False
    assert len(server.requests) == 1


@pytest.mark.parametrize("operation", ALL)
def test_a_server_that_is_not_there(monkeypatch: pytest.MonkeyPatch, operation: Operation) -> None:
    """Nothing could be sent: all is tried again, and nothing has happened."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{unused.getsockname()[1]}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "user")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "password")
        clock = ManualClock()
        with pytest.raises(StoreUnavailable, match="can't be reached") as raised:
            operation(S3Store("bucket", retry_ms_max=60_000, clock=clock))
        assert "127.0.0.1" not in raised.value.detail
    assert raised.value.may_have_happened is False
    assert clock.elapsed_ms > 0


def test_without_credentials(server: FakeS3, monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing credentials are named, nothing is sent, nothing is tried again."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(StoreUnavailable, match="credentials") as raised:
        S3Store("bucket").put_if_absent("a", b"x")
    assert raised.value.may_have_happened is False
    assert server.requests == []


@pytest.mark.parametrize(
    "answer", [AMBIGUOUS[0], *AMBIGUOUS[-2:], PASSING[-1], *[one.values[0] for one in LASTING[:3]]]
)
def test_an_error_keeps_to_itself_where_the_store_is(
    server: FakeS3, session: boto3.Session, caplog: pytest.LogCaptureFixture, answer: Any
) -> None:
    """A gateway's clients are told what failed, not of which server, bucket, key or user: the log is."""
    server.answers = [answer]
    store = S3Store("hidden-bucket", "hidden", read_timeout_ms=200, session=session, clock=ManualClock())
    with pytest.raises(StoreUnavailable) as raised:
        store.put_if_absent("secret/key", b"x")
    detail = raised.value.detail
    assert not [word for word in ("hidden", "secret", "127.0.0.1", "http") if word in detail], detail
    assert "hidden" in caplog.text
    assert "secret/key" in caplog.text


def test_missing_objects(store: S3Store, server: FakeS3) -> None:
    """404 for the object is an answer, not a failure; deleting what is not there is none either."""
    server.answers = [error(404, "NoSuchKey")]
    reads: list[Any] = READS[:3]
    for operation in reads:
        with pytest.raises(ObjectMissing):
            operation.values[0](store)
    store.delete("a")
    assert len(server.requests) == 4


def test_a_range_past_the_end(store: S3Store, server: FakeS3) -> None:
    """416 means that there is nothing there; ranges are half-open here and closed on the wire."""
    server.answers = [error(416, "InvalidRange")]
    assert store.get_range("a", 10, 20) == b""
    assert server.requests[0][2]["range"] == "bytes=10-19"


def test_what_is_sent(store: S3Store, server: FakeS3) -> None:
    """The bucket is in the path, the body is signed, the condition is there; no checksum, no waiting for 100 Continue."""
    server.answers = [Answer()]
    store.put_if_absent("a+b c/é", b"payload")
    store.put("a", b"payload")
    [(method, path, headers, body), (_, _, other_headers, _)] = server.requests
    assert (method, path, body) == ("PUT", "/bucket/prefix/a%2Bb%20c/%C3%A9", b"payload")
    assert headers["if-none-match"] == "*"
    assert headers["x-amz-content-sha256"] == hashlib.sha256(b"payload").hexdigest()
    assert not [name for name in headers if "checksum" in name or name in {"expect", "transfer-encoding"}]
    assert "if-none-match" not in other_headers


def test_at_amazon(monkeypatch: pytest.MonkeyPatch) -> None:
    """At Amazon's own endpoint the bucket is in the host name, and bodies are signed over TLS, too."""
    sent: list[botocore.awsrequest.AWSPreparedRequest] = []

    def answer(request: botocore.awsrequest.AWSPreparedRequest, **_: object) -> botocore.awsrequest.AWSResponse:
        sent.append(request)
        return botocore.awsrequest.AWSResponse(request.url, 200, HTTPHeaders(), NoBody())

    session = boto3.Session(aws_access_key_id="user", aws_secret_access_key="password", region_name="eu-central-1")
    store = S3Store("some-bucket", "prefix", session=session)
    store._client.meta.events.register("before-send.s3.PutObject", answer)  # type: ignore[arg-type]
    store.put_if_absent("a", b"payload")
    [request] = sent
    assert request.url == "https://some-bucket.s3.eu-central-1.amazonaws.com/prefix/a"
    assert request.headers["X-Amz-Content-SHA256"] == hashlib.sha256(b"payload").hexdigest().encode()


def test_a_listing_hides_what_is_no_object(store: S3Store, server: FakeS3) -> None:
    """Keys come decoded and relative to the prefix; the markers that consoles leave for empty directories are hidden."""
    server.answers = [Answer(body=LISTING)]
    [found] = store.list("")
    assert (found.key, found.size_bytes, found.modified_at_ms) == ("a+b", 3, 1792567680000)


def test_a_listing_that_can_hold_nothing_sends_nothing(store: S3Store, server: FakeS3) -> None:
    """When all keys of the prefix come before the start there is nothing to ask."""
    assert list(store.list("a/", start_after="b")) == []
    assert server.requests == []
