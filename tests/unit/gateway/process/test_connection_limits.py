"""How many connections come from each address."""

from __future__ import annotations

import pytest

from gateway.network.client_addresses import LOOPBACK, ClientAddresses, address_key


@pytest.mark.parametrize(
    ("host", "key"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("127.0.0.5", LOOPBACK),
        ("::1", LOOPBACK),
        ("::ffff:127.0.0.1", LOOPBACK),
        ("2001:db8:1:2:aaaa::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:bbbb::2", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("testclient", "testclient"),
    ],
)
def test_what_an_address_counts_as(host: str, key: str) -> None:
    """A customer's IPv6 network is one client, and IPv4 is the same in both of its spellings."""
    assert address_key(host) == key


def test_an_address_has_its_share() -> None:
    """A client past the limit is told by how much, slots come back, and nothing is remembered of clients that left."""
    addresses = ClientAddresses(2)
    assert [addresses.enter("a") for _ in range(4)] == [0, 0, 1, 2]
    assert addresses.enter("b") == 0
    addresses.leave("a")
    addresses.leave("a")
    addresses.leave("a")
    assert addresses.enter("a") == 0
    for address in ("a", "a", "b"):
        addresses.leave(address)
    assert not addresses._counts


def test_loopback_counts_only_when_told() -> None:
    """A proxy on the same machine speaks for many."""
    for counts, expected in ((True, 1), (False, 0)):
        addresses = ClientAddresses(1, loopback_counts=counts)
        addresses.enter(LOOPBACK)
        assert addresses.enter(LOOPBACK) == expected
    assert ClientAddresses(None).enter("a") == 0
