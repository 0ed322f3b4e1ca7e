"""Presigned URLs of a bucket's objects, many at once: botocore signs one a second, the others are signed as it did.

botocore takes a third of a millisecond for each, which a table of 100,000 files would take half a minute of a processor for. A
URL of this module counts only if it makes botocore's own URL, too; otherwise botocore signs each.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlsplit

import boto3
import botocore.auth
import botocore.awsrequest
import botocore.exceptions

from log_format.stores.s3_signature import Signer, presigned

Headers = Mapping[str, str] | None
_SECONDS_MAX: Final = 1.0
"""How much earlier than its making a URL may begin, and so end."""


@dataclass(frozen=True, slots=True)
class _Signed:
    """A URL that botocore has signed, and what it takes to sign others alike. ``signer`` None: they are not alike."""

    url: str
    base: str
    """Path before the key."""
    at_s: float
    valid_s: int
    secret: tuple[str, str, str | None] | None
    signer: Signer | None


class PresignedUrls:
    """URLs of one bucket, for ``session``'s credentials. Safe from any thread."""

    def __init__(self, client: Any, bucket: str, session: boto3.Session) -> None:
        self._client = client
        self._bucket = bucket
        self._session = session
        self._last: _Signed | None = None

    def sign(self, key: str, valid_s: int, method: str = "GET", headers: Headers = None) -> str:
        """Return a URL for a GET of the object, or another request with these headers, by signature version 4. Raises as botocore
        does without credentials."""
        if method != "GET" or headers:
            return self._sign_request(self.sign(key, valid_s).partition("?")[0], valid_s, method, headers)
        last, secret, now_s = self._last, self._secret(), time.monotonic()
        is_fresh = last is not None and now_s - last.at_s < _SECONDS_MAX
        if (
            last is not None
            and is_fresh
            and last.signer is not None
            and (last.valid_s, last.secret) == (valid_s, secret)
        ):
            return presigned(last.url, last.base + _quoted(key), last.signer)
        parameters = {"Bucket": self._bucket, "Key": key}
        url: str = self._client.generate_presigned_url("get_object", Params=parameters, ExpiresIn=valid_s)
        path = urlsplit(url).path
        base, signer = path.removesuffix(_quoted(key)), None
        if secret is not None and base != path:
            signer = Signer(*secret[:2], self._client.meta.region_name or "us-east-1")
            signer = signer if _is_alike(url, path, signer) else None
        self._last = _Signed(url, base, now_s, valid_s, secret, signer)
        return url

    def _sign_request(self, url: str, valid_s: int, method: str, headers: Headers) -> str:
        """Return the URL for one kind of request that has these headers."""
        request = botocore.awsrequest.AWSRequest(method, url, dict(headers or {}))
        credentials = self._session.get_credentials()
        if credentials is None:
            raise botocore.exceptions.NoCredentialsError
        region = self._client.meta.region_name or "us-east-1"
        botocore.auth.S3SigV4QueryAuth(credentials, "s3", region, expires=valid_s).add_auth(request)
        return str(request.url)

    def _secret(self) -> tuple[str, str, str | None] | None:
        credentials = self._session.get_credentials()
        if credentials is None:
            return None
        frozen = credentials.get_frozen_credentials()
        return str(frozen.access_key), str(frozen.secret_key), frozen.token


def _is_alike(url: str, path: str, signer: Signer) -> bool:
    try:
        return presigned(url, path, signer) == url
    except StopIteration:  # another kind of signature
        return False


def _quoted(key: str) -> str:
    return quote(key, safe="/~")
