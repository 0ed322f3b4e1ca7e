"""Requirements on a request's head beyond its grammar, and what the head says about the body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

LONG_BODY_BYTES: Final = 64 * 1024
"""Length from which a body bypasses the parser: a new parser for the next request costs less than parsing the body."""

_UPGRADE_HEADERS: Final = frozenset({b"connection", b"upgrade", b"http2-settings"})

Headers = Sequence[tuple[bytes, bytes]]
"""Headers with lower-case names."""


def fault_of(version: str, url: bytes, headers: Headers, hosts: Sequence[bytes]) -> tuple[str, str] | None:
    """Return why the request is refused, and the header at fault or nothing; None if it is not refused.

    ``hosts``: values of its Host headers. The parser has already refused requests with both a length and chunks.
    """
    if version not in ("1.1", "1.0"):
        return f"HTTP/{version} is not supported, only HTTP/1.1 and HTTP/1.0.", ""
    if len(hosts) != 1 and (hosts or version == "1.1"):
        return f"The request has {len(hosts)} Host headers; it needs one.", "Host"
    if version == "1.0" and any(name == b"transfer-encoding" for name, _ in headers):
        return "HTTP/1.0 has no Transfer-Encoding.", "Transfer-Encoding"
    if url[0] not in b"/*":
        # A whole URL, as proxies get it. If its host differs from Host, one of both was not checked.
        authority = url.partition(b"://")[2].partition(b"/")[0]
        if [authority.lower()] != [host.lower() for host in hosts]:
            return "The request's target and its Host header name different hosts.", "Host"
    return None


def long_body_bytes(headers: Headers) -> int:
    """Return the length of a body of ``LONG_BODY_BYTES`` or more that is framed by its length alone; 0 for any other."""
    if any(name == b"transfer-encoding" for name, _ in headers):
        return 0
    lengths = [value for name, value in headers if name == b"content-length"]
    if len(lengths) != 1 or not lengths[0].isdigit() or len(lengths[0]) > 18:
        return 0
    length = int(lengths[0])
    return length if length >= LONG_BODY_BYTES else 0


def head_without_upgrade(method: bytes, url: bytes, version: str, headers: Headers) -> bytes:
    """Return the head of a request that offers another protocol, without the offer."""
    kept = [(name, value) for name, value in headers if name not in _UPGRADE_HEADERS]
    tokens = [token.strip() for name, value in headers if name == b"connection" for token in value.split(b",")]
    tokens = [token for token in tokens if token.lower() in (b"close", b"keep-alive")]
    if tokens:
        kept.append((b"connection", b", ".join(tokens)))
    lines = [method + b" " + url + b" HTTP/" + version.encode("ascii"), *(name + b": " + value for name, value in kept)]
    return b"\r\n".join(lines) + b"\r\n\r\n"
