"""A signature made at a tenth of botocore's time is botocore's."""

from __future__ import annotations

from typing import Any

import botocore.auth
import botocore.awsrequest
import botocore.credentials
import pytest
from botocore.compat import HTTPHeaders

from log_format.stores.s3_signature import (
    AUTHORIZATION,
    CONTENT,
    Signer,
    authorization,
    is_alike,
    request_kind,
    with_signed_headers,
)

SIGNER = Signer("access", "secret/+=", "eu-central-1")


def _by_botocore(path: str, headers: dict[str, str], body: bytes, token: str | None) -> HTTPHeaders:
    named = HTTPHeaders.from_dict(headers)
    request: Any = botocore.awsrequest.AWSPreparedRequest("PUT", f"http://store:9000{path}", named, body, False)
    request.params, request.context = {}, {}
    credentials = botocore.credentials.Credentials(SIGNER.access_key, SIGNER.secret_key, token)
    botocore.auth.S3SigV4Auth(credentials, "s3", SIGNER.region).add_auth(request)
    return named


@pytest.mark.parametrize("token", [None, "token/=+"])
@pytest.mark.parametrize("body", [b"", b"x" * 1000], ids=["empty", "some"])
@pytest.mark.parametrize("path", ["/bucket/a", "/bucket/prefix/a%2Bb%20c/%C3%A9~_-.x", "/"])
@pytest.mark.parametrize("more", [{}, {"If-None-Match": "*"}, {"X-Amz-Meta-A": "  two   words "}])
def test_it_is_botocores(more: dict[str, str], path: str, body: bytes, token: str | None) -> None:
    """Over headers in any spelling, keys with any characters, with and without a session's token."""
    headers = {"Host": "store:9000", "User-Agent": "Boto3/1", **more}
    theirs = dict(_by_botocore(path, headers, body, token).items())
    unsigned = {name: value for name, value in theirs.items() if name != AUTHORIZATION}
    assert authorization("PUT", path, unsigned, SIGNER) == theirs[AUTHORIZATION]
    assert is_alike("PUT", path, theirs, body, SIGNER)
    own = with_signed_headers(headers, body, token)
    assert request_kind(own) == request_kind(theirs)
    assert {**own, "X-Amz-Date": ""} == {**unsigned, "X-Amz-Date": ""}


@pytest.mark.parametrize(
    "other",
    [
        {CONTENT: "UNSIGNED-PAYLOAD"},
        {AUTHORIZATION: "AWS4-HMAC-SHA256 Credential=another"},
        {"X-Amz-Date": "20260101T000000Z"},
        {"X-Amz-Meta-More": "1"},
    ],
)
def test_another_signature_is_not_alike(other: dict[str, str]) -> None:
    """A client that signs otherwise keeps its own way."""
    theirs = dict(_by_botocore("/bucket/a", {"Host": "store:9000"}, b"body", None).items())
    assert is_alike("PUT", "/bucket/a", theirs, b"body", SIGNER)
    assert not is_alike("PUT", "/bucket/a", {**theirs, **other}, b"body", SIGNER)
    assert not is_alike("PUT", "/bucket/a", theirs, b"another body", SIGNER)


def test_each_day_has_its_key() -> None:
    """The key that is kept is that of the request's day, region and secret."""
    made = {
        authorization(
            "PUT", "/a", {**with_signed_headers({"Host": "h"}, b"", None), "X-Amz-Date": f"{day}T000000Z"}, signer
        )
        for day in ("20260101", "20260102")
        for signer in (SIGNER, SIGNER._replace(secret_key="other"), SIGNER._replace(region="us-east-1"))
        for _ in range(2)
    }
    assert len(made) == 6
