"""Answers of a server, or of what stands before it, that do not have the bytes that were asked for."""

from __future__ import annotations

import pytest

from log_format.errors import StoreReason, StoreUnavailable
from log_format.stores.s3 import S3Store
from tests.support.clocks import ManualClock
from tests.support.fake_s3 import Answer, FakeS3

WHOLE = Answer(body=b"0123456789")


def partial(content_range: str, body: bytes) -> Answer:
    return Answer(status=206, body=body, headers=(("Content-Range", content_range),))


@pytest.fixture(params=["by boto3", "by the wire"])
def store(request: pytest.FixtureRequest, server: FakeS3) -> S3Store:
    """Its hot requests go by boto3, or by ``s3_wire``."""
    made = S3Store("bucket", "prefix", retry_ms_max=60_000, clock=ManualClock())
    if request.param == "by the wire":
        answers, server.answers = server.answers, [Answer()]
        made.put("first", b"x")
        server.answers, server.requests = answers, []
    return made


def test_a_server_that_ignores_ranges_gives_the_range_all_the_same(store: S3Store, server: FakeS3) -> None:
    """HTTP lets it answer with the whole object; no caller takes that for the range."""
    server.answers = [WHOLE]
    assert store.get_range("a", 2, 5) == b"234"
    assert store.get_range("a", 8, 20) == b"89"
    assert store.get_range("a", 10, 20) == b""


@pytest.mark.parametrize(
    "answer",
    [
        partial("bytes 2-3/10", b"23"),
        partial("bytes 0-2/10", b"012"),
        partial("bytes 2-4/10", b"23"),
        partial("lines 2-4/10", b"234"),
    ],
    ids=["shorter", "elsewhere", "not-as-told", "no-bytes"],
)
def test_another_range_is_no_answer(store: S3Store, server: FakeS3, answer: Answer) -> None:
    """It would be taken for damage of the object. It is asked for again, and in the end the store is to blame."""
    server.answers = [answer, partial("bytes 2-4/10", b"234")]
    assert store.get_range("a", 2, 5) == b"234"
    server.answers = [answer]
    with pytest.raises(StoreUnavailable) as caught:
        store.get_range("a", 2, 5)
    assert not caught.value.may_have_happened


@pytest.mark.parametrize(
    ("status", "code", "reason"),
    [
        (403, "AccessDenied", StoreReason.ACCESS_DENIED),
        (403, "SignatureDoesNotMatch", StoreReason.ACCESS_DENIED),
        (400, "ExpiredToken", StoreReason.ACCESS_DENIED),
        (403, "RequestTimeTooSkewed", StoreReason.CLOCK),
        (507, "XMinioStorageFull", StoreReason.NO_SPACE),
        (503, "SlowDown", StoreReason.BUSY),
        (500, "InternalError", StoreReason.FAILED),
        (500, "host 10.0.0.7 is down", StoreReason.FAILED),
    ],
)
def test_a_refusal_says_why(store: S3Store, server: FakeS3, status: int, code: str, reason: StoreReason) -> None:
    """In a class that every caller may know; of the server's own words only a plain code goes further."""
    body = f"<Error><Code>{code}</Code><Message>at host-7</Message></Error>".encode()
    server.answers = [Answer(status=status, body=body)]
    with pytest.raises(StoreUnavailable) as caught:
        store.put_if_absent("a", b"x")
    assert caught.value.reason is reason
    assert "host" not in caught.value.detail


def test_a_body_of_unknown_length_is_no_answer(store: S3Store, server: FakeS3) -> None:
    """Nobody could tell whether it was cut off."""
    server.answers = [Answer(body=b"01234", is_unmeasured=True)]
    with pytest.raises(StoreUnavailable):
        store.get("a")
    with pytest.raises(StoreUnavailable):
        store.get_range("a", 0, 5)


@pytest.mark.parametrize("key", ["a//b", "a/%01", "a/../b", "a/" + "x" * 300, ".tmp/a"])
def test_what_is_no_key_is_not_listed(store: S3Store, server: FakeS3, key: str) -> None:
    """Other programs put it there. Whoever deletes or reads what is listed would end at it, each time again."""
    listed = "".join(
        f"<Contents><Key>prefix/{each}</Key><Size>1</Size><LastModified>2026-10-21T07:28:00.000Z</LastModified></Contents>"
        for each in (key, "fine/a")
    )
    below = "".join(
        f"<CommonPrefixes><Prefix>prefix/{each}/</Prefix></CommonPrefixes>" for each in (key.partition("/b")[0], "fine")
    )
    head = "<ListBucketResult><IsTruncated>false</IsTruncated><EncodingType>url</EncodingType>"
    server.answers = [Answer(body=f"{head}{listed}{below}</ListBucketResult>".encode())]
    assert [info.key for info in store.list("")] == ["fine/a"]
    assert list(store.list_directories("")) == ["fine"]
