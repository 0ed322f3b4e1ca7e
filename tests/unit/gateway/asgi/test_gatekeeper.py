"""What is refused before any route is asked: other hosts, and what pages of other origins make browsers send."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.asgi.gatekeeper import GatekeeperMiddleware
from gateway.network.hosts import AllowedHosts
from log_format.errors import ErrorCode, RequestRefused
from tests.support.awaited import run


def refused(method: str, path: str, headers: dict[str, str]) -> str | None:
    """The header for which a request to a gateway on loopback is refused; None: it reaches its route."""
    reached: list[str] = []

    async def app(scope: Any, *_: Any) -> None:
        reached.append(scope["path"])

    hosts = AllowedHosts(host="127.0.0.1", names=None, advertised_url=None)
    gatekeeper = GatekeeperMiddleware(app, draining=lambda: False, hosts=hosts)
    sent = [(name.encode(), value.encode()) for name, value in ({"host": "gateway"} | headers).items()]
    absent: Any = None
    refusal: RequestRefused | None = None
    try:
        run(gatekeeper({"type": "http", "method": method, "path": path, "headers": sent}, absent, absent))
    except RequestRefused as raised:
        refusal = raised
    if refusal is None:
        assert reached == [path]
        return None
    assert not reached
    assert refusal.code is ErrorCode.INVALID_REQUEST
    return str(refusal.fields["errors"][0]["where"])


OWN = {"origin": "http://gateway"}
EVIL = {"origin": "https://evil.example"}


@pytest.mark.parametrize(
    ("method", "headers", "where"),
    [
        ("POST", {}, None),
        ("POST", OWN, None),
        ("POST", {"origin": "https://gateway:443", "host": "gateway"}, None),
        ("POST", {"origin": "http://[::1]:8080", "host": "[::1]:8080"}, None),
        ("POST", {"origin": "https://front.example", "sec-fetch-site": "same-origin"}, None),
        ("POST", {"sec-fetch-site": "none"}, None),
        ("POST", EVIL, "Origin"),
        ("DELETE", EVIL, "Origin"),
        ("PUT", EVIL | {"host": "evil"}, "Origin"),
        ("POST", {"origin": "null"}, "Origin"),
        ("POST", {"origin": "http://gateway.evil.example"}, "Origin"),
        ("POST", {"origin": "http://gateway:8080"}, "Origin"),
        ("POST", {"origin": "file://gateway"}, "Origin"),
        ("POST", {"sec-fetch-site": "cross-site"}, "Sec-Fetch-Site"),
        ("POST", OWN | {"sec-fetch-site": "same-site"}, "Sec-Fetch-Site"),
        (
            "POST",
            {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"},
            "Sec-Fetch-Site",
        ),
        ("GET", EVIL, "Origin"),
        ("GET", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, "Sec-Fetch-Site"),
        ("GET", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}, None),
    ],
)
def test_pages_of_other_origins_are_refused(method: str, headers: dict[str, str], where: str | None) -> None:
    """No web page but the gateway's own makes it do anything; what no browser sends, and a followed link, is served."""
    assert refused(method, "/v1/topics", headers) == where
    assert refused("GET", "/healthz", headers) is None


@pytest.mark.parametrize("path", ["/v1/topics", "/healthz", "/docs", "/nowhere"])
def test_a_web_site_can_not_pass_for_the_gateway(path: str) -> None:
    """A name that an attacker's name server lets point here is refused, whatever is asked for."""
    rebound = {"host": "rebound.evil.example:8080", "origin": "http://rebound.evil.example:8080"}
    assert refused("GET", path, rebound) == "Host"
    assert refused("POST", path, rebound | {"sec-fetch-site": "same-origin"}) == "Host"
