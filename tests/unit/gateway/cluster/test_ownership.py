"""Which gateway is preferred, by what one gateway knows of its peers."""

from __future__ import annotations

import pytest

from gateway.cluster.ownership import Mode, Ownership
from gateway.cluster.peers import REST_MS, Peer, Peers
from log_format.cluster.preferred import preferred_gateway
from tests.support.clocks import ManualClock
from tests.support.heartbeats import heartbeat

NAMES = [f"name-{number}" for number in range(50)]


def peers_of(clock: ManualClock, *names: str) -> Peers:
    peers = Peers(clock)
    peers.take_in(heartbeat(name, url=f"http://{name}/") for name in names)
    return peers


def test_gateways_that_know_each_other_agree() -> None:
    """Each says of itself what the others say of it, for topics, partitions and groups."""
    ids = ("a", "b", "c")
    views = {
        own: Ownership(own, peers_of(ManualClock(), *(other for other in ids if other != own)), "preferred")
        for own in ids
    }
    for name in NAMES:
        for of in ("of_topic", "of_group"):
            found = {own: getattr(view, of)(name) for own, view in views.items()}
            (owner,) = (own for own, peer in found.items() if peer is None)
            assert all(peer in (None, Peer(owner, f"http://{owner}", f"{owner}-1")) for peer in found.values())
        best = preferred_gateway(name, ids, owners=2, partition=1)
        found = {own: view.of_partition(name, 1, 2) for own, view in views.items()}
        assert {own if peer is None else peer.id for own, peer in found.items()} == {best}
        assert sum(view.coordinates(name) for view in views.values()) == 1


def test_a_peer_of_a_release_without_hops_is_sent_nothing() -> None:
    """It would refuse them."""
    peers = peers_of(ManualClock(), "b")
    peers.take_in([heartbeat("b"), heartbeat("c", hops=False)])
    assert list(peers.candidates()) == ["b"]
    assert peers.count == 2


def test_a_group_is_no_topic_of_its_name() -> None:
    """Their owners are drawn apart: else the gateway of a busy topic would have the group of the same name, too."""
    view = Ownership("a", peers_of(ManualClock(), "b"), "preferred")
    assert [view.of_topic(name) for name in NAMES] != [view.of_group(name) for name in NAMES]


@pytest.mark.parametrize(("mode", "adopts"), [("preferred", True), ("random", True), ("off", False)])
def test_who_does_not_pass_requests_on_keeps_its_groups(mode: Mode, adopts: bool) -> None:
    """It coordinates what it is asked about, and takes no group from another unasked."""
    view = Ownership("a", peers_of(ManualClock(), "b"), mode)
    assert view.adopts_groups is adopts
    assert all(view.coordinates(name) for name in NAMES) is not adopts


@pytest.mark.parametrize(("mode", "looks"), [("preferred", True), ("random", False), ("off", False)])
def test_conflicts_make_it_look_where_owners_commit(mode: Mode, looks: bool) -> None:
    """Without preferred gateways conflicts are to be expected, and show nothing."""
    view = Ownership("a", peers_of(ManualClock(), "b"), mode)
    view.contended.set()
    assert view.peers.looks_old.is_set() is looks


def test_alone_it_owns_everything() -> None:
    """Also at random."""
    view = Ownership("a", Peers(ManualClock()), "random")
    assert (view.of_topic("t"), view.of_partition("t", 3, 4), view.of_group("g"), view.at_random()) == (None,) * 4


def test_a_peer_that_failed_rests() -> None:
    """It is passed over for a while, here; it is live all the same. A new start of it ends the rest."""
    clock = ManualClock()
    peers = peers_of(clock, "b", "c")
    peers.rest("b")
    assert peers.looks_old.is_set()
    clock.sleep_ms(REST_MS - 1)
    peers.take_in([heartbeat("b"), heartbeat("c")])
    assert (list(peers.candidates()), peers.count, peers.is_live("b")) == (["c"], 2, True)
    clock.sleep_ms(1)
    assert list(peers.candidates()) == ["b", "c"]
    peers.rest("b")
    peers.take_in([heartbeat("b", instance="b-2"), heartbeat("c")])
    assert list(peers.candidates()) == ["b", "c"]
    peers.take_in([heartbeat("c")])
    assert (list(peers.candidates()), peers.is_live("b")) == (["c"], False)
