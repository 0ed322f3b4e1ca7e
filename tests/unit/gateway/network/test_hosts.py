"""Which names a gateway answers to."""

from __future__ import annotations

import pytest

from gateway.network.hosts import AllowedHosts, is_loopback

SITE = b"rebound.evil.example"


@pytest.mark.parametrize(
    ("listens_on", "names", "allowed", "refused"),
    [
        pytest.param(
            "127.0.0.1",
            None,
            [
                b"localhost",
                b"LOCALHOST:8080",
                b"127.0.0.1:9",
                b"[::1]:8080",
                b"10.0.0.7",
                b"gateway-1:8080",
                b"a.localhost",
            ],
            [
                SITE,
                SITE + b":8080",
                b"localhost.evil.example",
                b"127.0.0.1.evil.example",
                b"",
                b"a b",
                b"x:y",
                b"@localhost",
            ],
            id="loopback",
        ),
        pytest.param(
            "0.0.0.0",
            None,
            [SITE, b"gateway.internal:8080", b"10.0.0.7:8080", b"x"],
            [b"", b"a b", b"a/b", b"[::1", b"x" * 300],
            id="anywhere",
        ),
        pytest.param(
            "0.0.0.0",
            "log.example.com, .svc.cluster.local",
            [
                b"log.example.com",
                b"Log.Example.com.:80",
                b"tidelog.ns.svc.cluster.local:8080",
                b"10.0.0.7",
                b"localhost",
            ],
            [SITE, b"example.com", b"x.log.example.com", b"svc.cluster.local.evil.example", b"gateway"],
            id="listed",
        ),
    ],
)
def test_names(listens_on: str, names: str | None, allowed: list[bytes], refused: list[bytes]) -> None:
    """A host that can't be a web site's name always passes; of the others listed ones, or all where no list is possible."""
    hosts = AllowedHosts(host=listens_on, names=names, advertised_url="http://advertised.example:8080")
    assert hosts.allow(b"advertised.example:8080")
    assert [host for host in allowed if not hosts.allow(host)] == []
    assert [host for host in refused if hosts.allow(host)] == []


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("gw", False),
    ],
)
def test_loopback(host: str, expected: bool) -> None:
    """Only what is certainly this machine's own counts."""
    assert is_loopback(host) is expected
