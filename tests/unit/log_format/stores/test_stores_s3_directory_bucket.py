"""What ``S3Store`` sends to a directory bucket (S3 Express One Zone), and how it reads listings that have no order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.compat import HTTPHeaders

from log_format.stores.s3 import S3Store

HOST = "https://fast--euw1-az1--x-s3.s3express-euw1-az1.eu-west-1.amazonaws.com"
SESSION = b"""<CreateSessionResult><Credentials><SessionToken>token</SessionToken><SecretAccessKey>s</SecretAccessKey>
<AccessKeyId>k</AccessKeyId><Expiration>2099-10-21T07:28:00Z</Expiration></Credentials></CreateSessionResult>"""


class Bucket:
    """Answers a store's requests in turn, the first of which opens the session, and keeps them."""

    def __init__(self, *answers: bytes) -> None:
        self.requests: list[AWSPreparedRequest] = []
        self._answers = (SESSION, *answers)
        session = boto3.Session(aws_access_key_id="user", aws_secret_access_key="password", region_name="eu-west-1")
        self.store = S3Store("fast--euw1-az1--x-s3", "log", session=session)
        self.store._client.meta.events.register("before-send.s3", self._answer)  # type: ignore[arg-type]

    def _answer(self, request: AWSPreparedRequest, **_: object) -> AWSResponse:
        self.requests.append(request)
        return AWSResponse(request.url, 200, HTTPHeaders(), _Body(self._answers[len(self.requests) - 1]))


class _Body:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def stream(self, *_: object, **__: object) -> Iterator[bytes]:
        return iter((self._data,))


@pytest.fixture(autouse=True)
def at_amazon(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other endpoint is set."""
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)


def test_it_is_spoken_to_in_its_zone() -> None:
    """In a session of its own, and with the condition and the signed body that any other bucket gets."""
    bucket = Bucket(b"")
    bucket.store.put_if_absent("a", b"payload")
    opened, put = bucket.requests
    assert (opened.url, put.url) == (f"{HOST}/?session", f"{HOST}/log/a")
    assert put.headers["If-None-Match"] == b"*"
    assert put.headers["x-amz-s3session-token"] == b"token"
    assert put.headers["X-Amz-Content-SHA256"] == hashlib.sha256(b"payload").hexdigest().encode()


def test_only_other_buckets_list_from_a_key_on() -> None:
    """So the head of a log is probed for here, as on a directory, and listed from the newest checkpoint on elsewhere."""
    session = boto3.Session(aws_access_key_id="user", aws_secret_access_key="password", region_name="eu-west-1")
    assert not Bucket().store.lists_from_key
    assert S3Store("bucket", session=session).lists_from_key


def test_a_listing_is_sorted_as_a_whole() -> None:
    """It is asked for a whole directory and from no key on; what was asked for comes in order, whatever page it was on."""
    bucket = Bucket(_page(b"log/d/x9", b"log/d/x1", b"log/d/y", more=True), _page(b"log/d/x5", b"log/d/", b"log/d/x2"))
    assert [found.key for found in bucket.store.list("d/x", start_after="d/x1")] == ["d/x2", "d/x5", "d/x9"]
    queries = [parse_qs(urlsplit(request.url).query) for request in bucket.requests[1:]]
    assert [query["prefix"] for query in queries] == [["log/d/"], ["log/d/"]]
    assert not any("start-after" in query for query in queries)


def test_directories_are_sorted_as_a_whole() -> None:
    """The names below a directory come in order, whatever page they were on."""
    bucket = Bucket(_page(more=True, directories=(b"log/t/c/", b"log/t/a/")), _page(directories=(b"log/t/b/",)))
    assert list(bucket.store.list_directories("t/")) == ["a", "b", "c"]


def _page(*keys: bytes, more: bool = False, directories: tuple[bytes, ...] = ()) -> bytes:
    found = b"".join(
        b"<Contents><Key>%s</Key><Size>3</Size><LastModified>2026-10-21T07:28:00.000Z</LastModified></Contents>" % key
        for key in keys
    )
    found += b"".join(b"<CommonPrefixes><Prefix>%s</Prefix></CommonPrefixes>" % name for name in directories)
    found += b"<NextContinuationToken>t</NextContinuationToken>" if more else b""
    return b"<ListBucketResult><IsTruncated>%s</IsTruncated>%s</ListBucketResult>" % (
        b"true" if more else b"false",
        found,
    )
