"""Refusal of requests that a web page of another origin makes a browser send.

A browser sends such requests without asking, also from inside the network and to loopback. The page can't read the answer, but a
record would be appended anyway. Browsers tell where a request comes from, and pages can't change that:

1. ``Sec-Fetch-Site`` decides if it is sent: ``same-origin`` (the gateway's own pages) and ``none`` (typed by a person) pass.
2. Otherwise ``Origin``, if it is sent, must name the request's host. The scheme may differ: TLS may end before the gateway.
3. A request with neither header passes: it comes from no browser, or is a harmless kind from an old browser.

Reads are refused too, since they cost memory and connections. Links that a person follows pass, and so do paths outside ``/v1``.
A proxy that admits another origin on purpose removes both headers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from starlette.types import Scope

from gateway.problem import refused

ORIGIN: Final = b"origin"
SITE: Final = b"sec-fetch-site"
_MODE: Final = b"sec-fetch-mode"
_DESTINATION: Final = b"sec-fetch-dest"
_OWN_SITES: Final = (b"same-origin", b"none")
_SAFE_METHODS: Final = ("GET", "HEAD", "OPTIONS")
Headers = Iterable[tuple[bytes, bytes]]
_DEFAULT_PORTS: Final = {b"http": b":80", b"https": b":443"}


def refuse_cross_site(scope: Scope) -> None:
    """Raise ``RequestRefused`` (``INVALID_REQUEST``) for a request that a page of another origin made."""
    header, foreign = _find_foreign_header(scope["headers"])
    if foreign is None:
        return
    if scope["method"] in _SAFE_METHODS:
        followed = (_MODE, b"navigate") in scope["headers"] and (_DESTINATION, b"document") in scope["headers"]
        if followed or not scope["path"].startswith("/v1/"):
            return
    raise refused(
        "A web page of another origin made this request; the gateway serves pages of its own origin only. Send it from a program"
        f" that is not a browser, or let the proxy in front of the gateway remove {header}.",
        [(header, f"names another origin: {foreign[:200].decode('latin-1')}")],
    )


def _find_foreign_header(headers: Headers) -> tuple[str, bytes | None]:
    """Return the header that decides, and its value if that is foreign. If the header is sent several times, each must be of
    the own origin."""
    sites = [value for name, value in headers if name == SITE]
    if sites:
        return "Sec-Fetch-Site", next((site for site in sites if site not in _OWN_SITES), None)
    host = next((value.lower() for name, value in headers if name == b"host"), b"")
    origins = (value for name, value in headers if name == ORIGIN)
    return "Origin", next((origin for origin in origins if not _is_own(origin.lower(), host)), None)


def _is_own(origin: bytes, host: bytes) -> bool:
    scheme, separator, authority = origin.partition(b"://")
    port = _DEFAULT_PORTS.get(scheme)
    if not (separator and authority and port):
        return False
    return authority.removesuffix(port) == host.removesuffix(port)
