"""URLs at which a client reads a table's files: the store's presigned ones, or the gateway's own where the store signs none.

The gateway's own URL is ``…/files/<topic>/<path>?sp=r&grant=…&signature=…``.

1. The grant names the caller and when it ends. The signature, an HMAC by the cluster's key, covers topic, path and grant, as a
   list of three texts. So a URL opens one file, at each gateway of the cluster, and nobody without the key makes one, nor makes
   a text that a gateway signed as one part mean two.
2. It shows no secret: the caller's credential is not in it.
3. At each GET the caller's right is judged again (``files``), so a URL ends with the right or the token.

A store's presigned URL is out of our hands once it is given: it ends after ``VALID_S``.
"""

from __future__ import annotations

import binascii
import hmac
import re
from base64 import b64decode, urlsafe_b64encode
from dataclasses import replace
from typing import Final
from urllib.parse import quote

import msgspec
from starlette.requests import Request

from gateway.access.caller import Caller
from gateway.delta_sharing.actions import SignedUrl
from gateway.sharing_problem import PREFIX
from log_format.clock import Clock
from log_format.errors import DECODE_ERRORS
from log_format.layout import COMPACTED, SEGMENTS, topic_root
from log_format.store import ObjectStore, SignsReads

VALID_S: Final = 900
"""Seconds for which a URL is valid."""
FILES: Final = f"{PREFIX}/files/"
_READ: Final = "sp=r"
"""Permission in the form of another store's signed URLs: Delta Kernel reads only URLs that it knows for signed ones."""
PURPOSE: Final = b"tidelog shared file"
"""Purpose for which a key is derived from the cluster's."""
GRANT_CHARACTERS_MAX: Final = 16 * 1024


HEAD_ONLY: Final = "HEAD"


class Grant(msgspec.Struct, frozen=True, array_like=True):
    """Who may read a file, until when (ms since the epoch). A token's secret is not named: any of the token's will do.

    ``only``: the one value of the header ``Range`` with which it may be read, or ``HEAD_ONLY``; None: all of it may be.
    """

    caller: Caller
    expires_at_ms: int
    only: str | None = None


_ENCODER: Final = msgspec.json.Encoder()
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_DECODER: Final = msgspec.json.Decoder(Grant)


class StoreUrls:
    """URLs of a store that signs them."""

    def __init__(self, store: SignsReads, topic: str, clock: Clock) -> None:
        self._store = store
        self._root = topic_root(topic)
        self._clock = clock

    def sign(self, path: str) -> SignedUrl:
        """Return a file's URL (``actions.Sign``). Raises ``StoreUnavailable``."""
        expires_at_ms = self._clock.now_ms() + VALID_S * 1000
        url = self._store.read_url(self._root + path, VALID_S)
        assert url is not None, "the store signs"
        return SignedUrl(url, expires_at_ms)


class GatewayUrls:
    """URLs of the gateway itself. ``base``: its address as the client knows it, without a path; ``only``: as in ``Grant``."""

    def __init__(
        self, base: str, key: bytes, topic: str, caller: Caller, clock: Clock, *, only: str | None = None
    ) -> None:
        self._prefix = f"{base}{FILES}{quote(topic, safe='')}/"
        self._key = key
        self._topic = topic
        self._caller = replace(caller, secret=None)
        self._clock = clock
        self._only = only
        self._granted = (0, "")

    def sign(self, path: str) -> SignedUrl:
        """Return a file's URL (``actions.Sign``)."""
        expires_at_ms, grant = self._grant()
        signature = _mac(self._key, self._topic, path, grant)
        return SignedUrl(f"{self._prefix}{quote(path)}?{_READ}&grant={grant}&signature={signature}", expires_at_ms)

    def _grant(self) -> tuple[int, str]:
        """Return a grant that ends after ``VALID_S``; it is made anew once a second, not for each file."""
        expires_at_ms = (self._clock.now_ms() // 1000 + VALID_S) * 1000
        if self._granted[0] != expires_at_ms:
            text = (
                urlsafe_b64encode(_ENCODER.encode(Grant(self._caller, expires_at_ms, self._only))).decode().rstrip("=")
            )
            self._granted = (expires_at_ms, text)
        return self._granted


def base_url(request: Request) -> str:
    """Return the gateway's address as the client knows it. A proxy that ends TLS says so in ``X-Forwarded-Proto``: a client that
    says it falsely gets URLs that don't work."""
    forwarded = request.headers.get("x-forwarded-proto")
    scheme = forwarded if forwarded in ("http", "https") else request.url.scheme
    return f"{scheme}://{request.url.netloc}"


def signs(store: ObjectStore) -> SignsReads | None:
    """Return the store if it signs URLs. A store in front of one that does not is one that signs nothing."""
    return store if isinstance(store, SignsReads) and store.read_url("probe", VALID_S) is not None else None


def is_file_path(path: str) -> bool:
    """Return whether a path can be that of a table's file: below the folders of data, and nowhere else."""
    is_plain = not any(part in ("", ".", "..") for part in path.split("/")) and _CONTROL.search(path) is None
    return is_plain and path.startswith((SEGMENTS, COMPACTED)) and path.endswith(".parquet")


def granted(key: bytes, topic: str, path: str, grant: str, signature: str) -> Grant | None:
    """Return the grant of a URL that a gateway of this cluster has signed; None if none has. It may have ended."""
    if len(grant) > GRANT_CHARACTERS_MAX or not hmac.compare_digest(
        _mac(key, topic, path, grant).encode(), signature.encode(errors="replace")
    ):
        return None
    try:
        return _DECODER.decode(b64decode(grant + "=" * (-len(grant) % 4), altchars=b"-_", validate=True))
    except (*DECODE_ERRORS, binascii.Error):
        return None


def _mac(key: bytes, topic: str, path: str, grant: str) -> str:
    """Return the signature, 64 hexadecimal digits."""
    return hmac.digest(
        key, _ENCODER.encode([part.encode(errors="replace") for part in (topic, path, grant)]), "sha256"
    ).hex()
