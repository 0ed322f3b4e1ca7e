"""Kafka's own examples: each member gets here what Kafka's documentation says, and no more partitions move."""

from __future__ import annotations

from typing import get_args

import pytest

from gateway.groups.assignment.assignors import ASSIGNORS, Subscriber, assign
from log_format.groups.holdings import partition_keys
from log_format.groups.row import Partitions
from tests.support.documents import pages
from tidelog.consumer.consumer import Consumer
from tidelog.consumer.settings import Assignor

Given = dict[str, str]
"""What each member gets, as Kafka's documentation writes it: ``t0p0 t1p2``."""


def _partitions(text: str) -> Partitions:
    found: dict[str, list[int]] = {}
    for one in text.split():
        topic, number = one.split("p")
        found.setdefault(topic, []).append(int(number))
    return {topic: tuple(sorted(numbers)) for topic, numbers in sorted(found.items())}


def _member(name: str, topics: str, before: str = "", instance_id: str | None = None) -> Subscriber:
    return Subscriber(
        member_id=name, instance_id=instance_id, topics=frozenset(topics.split()), before=_partitions(before)
    )


def _assigned(assignor: str, members: list[Subscriber], counts: dict[str, int]) -> Given:
    found = assign(assignor, members, counts)
    return {
        name: " ".join(f"{topic}p{number}" for topic, number in partition_keys(given)) for name, given in found.items()
    }


def _moved(before: Given, after: Given) -> set[str]:
    """Partitions that another member has than before, of those whose member is still there."""
    holder = {one: name for name, given in before.items() for one in given.split()}
    return {
        one
        for name, given in after.items()
        for one in given.split()
        if one in holder and holder[one] != name and holder[one] in after
    }


@pytest.mark.parametrize(
    ("counts", "subscriptions", "wanted"),
    [
        pytest.param(
            {"t0": 3, "t1": 3},
            {"C0": "t0 t1", "C1": "t0 t1"},
            {"C0": "t0p0 t0p1 t1p0 t1p1", "C1": "t0p2 t1p2"},
            id="RangeAssignor's documentation: uneven in each topic",
        ),
        pytest.param(
            {"t0": 10},
            {"C0": "t0", "C1": "t0", "C2": "t0"},
            {"C0": "t0p0 t0p1 t0p2 t0p3", "C1": "t0p4 t0p5 t0p6", "C2": "t0p7 t0p8 t0p9"},
            id="ten partitions for three",
        ),
        pytest.param({"t0": 1}, {"C0": "t0", "C1": "t0"}, {"C0": "t0p0", "C1": ""}, id="more members than partitions"),
        pytest.param(
            {"t0": 3, "t1": 2},
            {"C0": "t0", "C1": "t0 t1", "C2": "t0"},
            {"C0": "t0p0", "C1": "t0p1 t1p0 t1p1", "C2": "t0p2"},
            id="testMultipleConsumersMixedTopics",
        ),
        pytest.param({}, {"C0": "t0"}, {"C0": ""}, id="a topic that is not there"),
    ],
)
def test_range(counts: dict[str, int], subscriptions: Given, wanted: Given) -> None:
    """Topic by topic in pieces, the first members one more where it does not come out even."""
    members = [_member(name, topics) for name, topics in subscriptions.items()]
    assert _assigned("range", members, counts) == wanted


@pytest.mark.parametrize(
    ("counts", "subscriptions", "wanted"),
    [
        pytest.param(
            {"t0": 3, "t1": 3},
            {"C0": "t0 t1", "C1": "t0 t1"},
            {"C0": "t0p0 t0p2 t1p1", "C1": "t0p1 t1p0 t1p2"},
            id="RoundRobinAssignor's documentation: the same subscriptions",
        ),
        pytest.param(
            {"t0": 1, "t1": 2, "t2": 3},
            {"C0": "t0", "C1": "t0 t1", "C2": "t0 t1 t2"},
            {"C0": "t0p0", "C1": "t1p0", "C2": "t1p1 t2p0 t2p1 t2p2"},
            id="RoundRobinAssignor's documentation: different subscriptions",
        ),
        pytest.param(
            {"t0": 3, "t1": 2},
            {"C0": "t0", "C1": "t0 t1", "C2": "t0"},
            {"C0": "t0p0", "C1": "t0p1 t1p0 t1p1", "C2": "t0p2"},
            id="testMultipleConsumersMixedTopics",
        ),
        pytest.param({"t0": 2, "t9": 3}, {"C0": "t0"}, {"C0": "t0p0 t0p1"}, id="a topic that nobody wants"),
    ],
)
def test_roundrobin(counts: dict[str, int], subscriptions: Given, wanted: Given) -> None:
    """All partitions in order, each to the next member that wants its topic."""
    members = [_member(name, topics) for name, topics in subscriptions.items()]
    assert _assigned("roundrobin", members, counts) == wanted


def test_sticky_keeps_what_it_can_when_a_member_goes() -> None:
    """StickyAssignor's first example: of six partitions of the members that stay, none moves, and both end with four."""
    before = {"C0": "t0p0 t1p1 t3p0", "C1": "t0p1 t2p0 t3p1", "C2": "t1p0 t2p1"}
    topics = "t0 t1 t2 t3"
    members = [_member(name, topics, before[name]) for name in ("C0", "C2")]
    after = _assigned("sticky", members, {"t0": 2, "t1": 2, "t2": 2, "t3": 2})
    assert _moved(before, after) == set()
    assert sorted(len(given.split()) for given in after.values()) == [4, 4]


def test_sticky_with_different_subscriptions() -> None:
    """StickyAssignor's second example: each reads what only it wants; with C0 gone five stay and t0p0 goes to C1."""
    counts = {"t0": 1, "t1": 2, "t2": 3}
    wants = {"C0": "t0", "C1": "t0 t1", "C2": "t0 t1 t2"}
    first = _assigned("sticky", [_member(name, topics) for name, topics in wants.items()], counts)
    assert first == {"C0": "t0p0", "C1": "t1p0 t1p1", "C2": "t2p0 t2p1 t2p2"}
    members = [_member(name, wants[name], first[name]) for name in ("C1", "C2")]
    assert _assigned("sticky", members, counts) == {"C1": "t0p0 t1p0 t1p1", "C2": "t2p0 t2p1 t2p2"}


@pytest.mark.parametrize(
    ("before", "counts", "moved"),
    [
        pytest.param({"C0": "t0p0 t0p1 t0p2 t0p3", "C1": ""}, {"t0": 4}, 2, id="one joins one"),
        pytest.param({"C0": "t0p0 t0p1 t0p2", "C1": "t0p3 t0p4 t0p5", "C2": ""}, {"t0": 6}, 2, id="one joins two"),
        pytest.param({"C0": "t0p0 t0p1 t0p2 t0p3", "C1": "t0p4 t0p5 t0p6", "C2": ""}, {"t0": 7}, 2, id="uneven"),
        pytest.param({"C0": "t0p0 t0p1", "C1": "t0p2"}, {"t0": 3}, 0, id="as even as it gets"),
        pytest.param({"C0": "t0p0 t0p1", "C1": "t0p2 t0p3"}, {"t0": 8}, 0, id="partitions added"),
        pytest.param({"C0": "t0p0 t0p1 t0p2", "C1": "t0p3"}, {"t0": 3}, 1, id="partitions gone"),
    ],
)
def test_sticky_moves_no_more_than_it_must(before: Given, counts: dict[str, int], moved: int) -> None:
    """Movements counted; afterwards no member has two more than another."""
    members = [_member(name, "t0", given) for name, given in before.items()]
    after = _assigned("sticky", members, counts)
    assert len(_moved(before, after)) == moved
    sizes = [len(given.split()) for given in after.values()]
    assert (sum(sizes), max(sizes) - min(sizes) <= 1) == (counts["t0"], True)


@pytest.mark.parametrize("assignor", sorted(ASSIGNORS))
def test_static_members_keep_their_order(assignor: str) -> None:
    """They come first, by instance id, whatever member ids their instances were given: so a restart moves nothing."""
    counts = {"t0": 7}
    once = [_member("m3", "t0", instance_id="a"), _member("m1", "t0", instance_id="b"), _member("m0", "t0")]
    again = [_member("m8", "t0", instance_id="a"), _member("m9", "t0", instance_id="b"), _member("m0", "t0")]
    first, second = _assigned(assignor, once, counts), _assigned(assignor, again, counts)
    assert (first["m3"], first["m1"], first["m0"]) == (second["m8"], second["m9"], second["m0"])
    assert len(first["m3"].split()) == 3
    if assignor == "range":
        assert first == {"m3": "t0p0 t0p1 t0p2", "m1": "t0p3 t0p4", "m0": "t0p5 t0p6"}


@pytest.mark.parametrize("assignor", sorted(ASSIGNORS))
def test_the_order_in_which_members_are_named_does_not_matter(assignor: str) -> None:
    """Two gateways that hold the same members in another order decide the same."""
    members = [_member("C1", "t0 t1", "t0p0"), _member("C0", "t1"), _member("C2", "t0", "t0p1")]
    counts = {"t0": 5, "t1": 4}
    assert _assigned(assignor, members, counts) == _assigned(assignor, members[::-1], dict(reversed(counts.items())))


def test_the_client_and_the_documents_name_every_assignor() -> None:
    """The SDK's type, its consumer's docstring, and docs/http-api.md section 7.1."""
    (row,) = [line for line in pages("http-api").splitlines() if line.startswith("| `assignor` |")]
    assert set(get_args(Assignor)) == set(ASSIGNORS)
    assert all(f"`{name}`" in row and f'``"{name}"``' in (Consumer.__doc__ or "") for name in ASSIGNORS)
