"""The keys of an OpenID Connect issuer, fetched by discovery. Blocks.

1. An answer of more than ``ANSWER_BYTES_MAX``, one that takes longer than ``FETCH_MS_MAX``, and a redirect are errors.
2. The discovery document must be about the very issuer in the settings, and its keys must be reached as safely as the issuer.

Source: OpenID Connect Discovery 1.0, section 4; RFC 7517.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import urllib3

from gateway.access.json_web_token import Key, parse_keys

ANSWER_BYTES_MAX: Final = 64 * 1024
FETCH_MS_MAX: Final = 5_000
_PIECE_BYTES: Final = 8 * 1024
_DISCOVERY: Final = "/.well-known/openid-configuration"


class IssuerUnavailable(Exception):
    """The issuer did not return its keys."""


def fetch_keys(issuer: str) -> Sequence[Key]:
    """Fetch the issuer's present keys. Raise ``IssuerUnavailable``."""
    deadline_s = time.monotonic() + FETCH_MS_MAX / 1000
    with urllib3.PoolManager(num_pools=2, maxsize=1, retries=False) as pool:
        document = _fetched(pool, issuer.rstrip("/") + _DISCOVERY, deadline_s)
        found = document.get("jwks_uri") if isinstance(document, dict) else None
        if not isinstance(document, dict) or document.get("issuer") != issuer or not isinstance(found, str):
            raise IssuerUnavailable("its discovery document is about another issuer, or names no keys")
        if urlsplit(found).scheme not in ("https", urlsplit(issuer).scheme):
            raise IssuerUnavailable("its keys are at an address without TLS, unlike the issuer's own")
        try:
            return parse_keys(_fetched(pool, found, deadline_s))
        except ValueError as error:
            raise IssuerUnavailable(str(error)) from error


def _fetched(pool: urllib3.PoolManager, url: str, deadline_s: float) -> Any:
    try:
        left_s = max(0.001, deadline_s - time.monotonic())
        answer = pool.request(
            "GET",
            url,
            headers={"accept": "application/json", "accept-encoding": "identity"},
            timeout=urllib3.Timeout(total=left_s),
            redirect=False,
            preload_content=False,
            decode_content=False,
        )
        try:
            if answer.status != 200:
                raise IssuerUnavailable(f"{url} answers {answer.status}")
            return json.loads(_body(answer, url, deadline_s))
        finally:
            answer.close()
    except (urllib3.exceptions.HTTPError, OSError, ValueError, RecursionError) as error:
        raise IssuerUnavailable(f"{url}: {type(error).__name__}: {error}") from error


def _body(answer: urllib3.BaseHTTPResponse, url: str, deadline_s: float) -> bytes:
    data = b""
    while piece := answer.read1(_PIECE_BYTES):
        data += piece
        if len(data) > ANSWER_BYTES_MAX:
            raise IssuerUnavailable(f"{url} answers with more than {ANSWER_BYTES_MAX} bytes")
        if time.monotonic() > deadline_s:
            raise IssuerUnavailable(f"{url} takes longer than {FETCH_MS_MAX} ms")
    return data
