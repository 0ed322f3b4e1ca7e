"""The judge of groups can fail: each kind of contradiction, in a history made by hand, is found; one without any passes."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.torture.tortured.group_history import Commit, MemberHistory, Told, contradictions, unlike_the_table


def _told(started: float, *partitions: int, is_out: bool = False) -> Told:
    return Told(started=started, ended=started + 0.5, partitions=frozenset(partitions), is_out=is_out)


def _member(name: str, *told: Told, session_seconds: float = 10.0) -> MemberHistory:
    sent = [one.started for one in told]
    return MemberHistory(member_id=name, session_seconds=session_seconds, sent=sent, told=list(told))


def test_an_orderly_hand_over_passes() -> None:
    """A member lets go by its next request, and then another one gets the partition; a silent member's session ends."""
    old = _member("old", _told(1, 0, 1), _told(2, 0), _told(3, 0))
    new = _member("new", _told(2.1), _told(3.1, 1))
    third = _member("third", _told(13.0, 0))
    old.processed = [(1.6, 1, 0), (1.6, 1, 1)]
    old.commits = [Commit(started=2, ended=2.5, offsets={1: 2})]
    new.commits = [Commit(started=4, ended=4.5, offsets={1: 2})]
    assert contradictions([old, new, third], {1: 2}) == []


@pytest.mark.parametrize(
    ("members", "what"),
    [
        pytest.param([_member("a", _told(1, 0)), _member("b", _told(2, 0))], "held by a", id="both are told"),
        pytest.param(
            [_member("a", _told(1, 0), _told(2), _told(5)), _member("b", _told(3, 0))],
            "held by a until 5",
            id="given away before it was let go of",
        ),
        pytest.param(
            [_member("a", _told(1, 0), _told(9, is_out=True)), _member("b", _told(7, 0))],
            "held by a until 9.5",
            id="given away before its holder was told that it is out",
        ),
        pytest.param(
            [_member("a", _told(1, 0)), _member("b", _told(10.4, 0))],
            "held by a until 11",
            id="given away before the session was over",
        ),
    ],
)
def test_two_holders_are_found(members: list[MemberHistory], what: str) -> None:
    """By whatever mistake a partition gets to two."""
    found = contradictions(members, {})
    assert len(found) == 1
    assert what in found[0]


def test_an_offset_that_goes_back_is_found() -> None:
    """A zombie's commit that was taken; not one that its sender lost sight of."""
    good, zombie = _member("good"), _member("zombie")
    good.processed = [(0.5, 0, number) for number in range(9)]
    good.commits = [Commit(started=1, ended=2, offsets={0: 8})]
    zombie.commits = [Commit(started=3, ended=4, offsets={0: 5})]
    assert contradictions([good, zombie], {0: 8}) == ["partition 0 goes back from 8 of good to 5 of zombie"]
    good.commits.insert(0, Commit(started=0.6, ended=None, offsets={0: 4}))
    assert contradictions([good, zombie], {0: 8}) == []


def test_a_record_that_was_skipped_is_found() -> None:
    """No member processed the record before the commit that passes it."""
    member = _member("a")
    member.processed = [(0.5, 0, 0), (3.0, 0, 1), (0.5, 0, 2)]
    member.commits = [Commit(started=1, ended=2, offsets={0: 3})]
    assert contradictions([member], {0: 3}) == ["0/1 is below the committed 3, and nobody had processed it"]


def test_a_commit_that_is_gone_is_found() -> None:
    """Acknowledged, and not in the group's offsets in the end."""
    member = _member("a")
    member.processed = [(0.5, 0, number) for number in range(3)]
    member.commits = [Commit(started=1, ended=2, offsets={0: 3})]
    for committed in ({}, {0: 2}):
        assert contradictions([member], committed) == ["partition 0: 3 of a is acknowledged and not there"]


def test_a_refused_commit_that_stands_is_found() -> None:
    """Once for each acknowledgement, and perhaps for each doubt: a row more is one that was refused."""
    member = _member("a")
    member.commits = [Commit(started=1, ended=2, offsets={0: 3})]
    member.refused = [{0: 3}, {0: 5}]
    assert unlike_the_table([member], Counter({("a", 0, 3): 1})) == []
    assert len(unlike_the_table([member], Counter({("a", 0, 3): 2}))) == 1
    assert len(unlike_the_table([member], Counter({("a", 0, 3): 1, ("a", 0, 5): 1}))) == 1
    assert unlike_the_table([member], Counter()) == ["('a', 0, 3) was acknowledged 1 times, and stands 0 times"]
    member.commits.append(Commit(started=3, ended=None, offsets={0: 5}))
    assert unlike_the_table([member], Counter({("a", 0, 3): 1, ("a", 0, 5): 1})) == []
