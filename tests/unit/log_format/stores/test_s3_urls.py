"""Presigned URLs that are made many at once are botocore's, byte for byte."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest
from botocore.config import Config

from log_format.stores.s3_urls import PresignedUrls

KEYS = ("log/topics/t/segments/a.parquet", "log/topics/t.1~x/compacted/b c=\u00e9+%2F'().parquet", "k")


def client_of(session: boto3.Session, endpoint_url: str | None) -> Any:
    return session.client(
        "s3", endpoint_url=endpoint_url, region_name="eu-central-1", config=Config(signature_version="s3v4")
    )


def session_of(token: str | None, secret: str = "secret") -> boto3.Session:
    return boto3.Session(aws_access_key_id="key", aws_secret_access_key=secret, aws_session_token=token)


@pytest.mark.parametrize("token", [None, "a/session+token=="])
@pytest.mark.parametrize("endpoint_url", [None, "http://127.0.0.1:9000"])
def test_they_are_those_of_botocore(token: str | None, endpoint_url: str | None) -> None:
    """In the bucket's own host and in a path, with and without a session, for keys with anything in them."""
    session = session_of(token)
    client = client_of(session, endpoint_url)
    calls: list[str] = []
    urls = PresignedUrls(Counting(client, calls), "bucket", session)
    urls.sign("first", 900)
    for key in KEYS:
        while True:
            theirs = client.generate_presigned_url("get_object", Params={"Bucket": "bucket", "Key": key}, ExpiresIn=900)
            ours = urls.sign(key, 900)
            if date_of(ours) == date_of(theirs):
                break
            urls.sign(key, 901)  # botocore signs anew
            urls.sign(key, 900)
        assert ours == theirs
    assert len(calls) < 10


def test_others_than_the_last_are_signed_by_botocore() -> None:
    """Another life, or credentials that have changed; and each where its signature is of another kind."""
    session, calls = session_of(None), list[str]()
    client = client_of(session, None)
    urls = PresignedUrls(Counting(client, calls), "bucket", session)
    for valid_s in (900, 900, 60, 60):
        urls.sign("k", valid_s)
    assert len(calls) == 2
    urls._session = session_of(None, secret="changed")
    urls.sign("k", 60)
    assert len(calls) == 3
    old = session.client("s3", region_name="eu-central-1", config=Config(signature_version="s3"))
    urls = PresignedUrls(Counting(old, calls := []), "bucket", session)
    for _ in range(3):
        assert "Signature=" in urls.sign("k", 900)
    assert len(calls) == 3


class Counting:
    """A client that notes the keys that it signs."""

    def __init__(self, client: Any, calls: list[str]) -> None:
        self._client, self._calls, self.meta = client, calls, client.meta

    def generate_presigned_url(self, *arguments: Any, **more: Any) -> str:
        self._calls.append(more["Params"]["Key"])
        url: str = self._client.generate_presigned_url(*arguments, **more)
        return url


def date_of(url: str) -> list[str]:
    return parse_qs(urlsplit(url).query)["X-Amz-Date"]
