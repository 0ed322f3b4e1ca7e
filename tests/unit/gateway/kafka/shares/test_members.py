"""Members of share groups: they join, are told what they read, are fenced by their epochs, and are forgotten when silent."""

from __future__ import annotations

from uuid import UUID

import pytest

from gateway.kafka.shares.members import (
    MEMBER_BYTES,
    MEMBERS_MAX,
    TOPIC_BYTES,
    FencedShareMember,
    ShareGroup,
    ShareMember,
    ShareMembers,
    TooManyShareMembers,
    UnknownShareMember,
    update_assignment,
)
from tests.support.kafka_shares import Counted

SESSION_MS = 1_000
ONE = (UUID(int=1), 3)


def member(member_id: str = "m", *topics: str, owner: str = "User:a") -> ShareMember:
    return ShareMember(
        member_id=member_id, owner=owner, client_id="", client_host="", rack_id=None, topics=topics or ("t",)
    )


def joined(members: ShareMembers, one: ShareMember, now_ms: int = 0) -> ShareGroup:
    group = members.join("g", one, now_ms)
    group.known_assignment = {"t": ONE}
    update_assignment(group, one)
    return group


def test_a_member_is_told_its_partitions_once() -> None:
    """And again when they have changed; epochs that it was not given fence it."""
    members, one = ShareMembers(SESSION_MS, Counted()), member()
    group = joined(members, one)
    assert (one.assigned, one.epoch > 0) == ({"t": ONE}, True)
    epoch = one.epoch
    assert not update_assignment(group, one)
    assert one.epoch == epoch
    group.known_assignment = {"t": (UUID(int=1), 4)}
    assert update_assignment(group, one)
    assert one.epoch > epoch
    members.renew(one, epoch, 0)  # the answer may have been lost
    members.renew(one, one.epoch, 0)
    for wrong in (0, epoch - 1, one.epoch + 1):
        with pytest.raises(FencedShareMember):
            members.renew(one, wrong, 0)


def test_a_member_reads_nothing_of_topics_that_are_not_there() -> None:
    """It is a member all the same, with an epoch of its own."""
    members, one = ShareMembers(SESSION_MS, Counted()), member("m", "t", "missing")
    joined(members, one)
    assert one.assigned == {"t": ONE}
    nothing = member("n", "missing")
    group = joined(members, nothing)
    assert (nothing.assigned, nothing.epoch) == ({}, group.epoch)
    assert nothing.epoch > 0, "0 would be a member that joins"


def test_a_silent_member_is_forgotten() -> None:
    """With its memory; one that goes on is not."""
    memory = Counted()
    members = ShareMembers(SESSION_MS, memory)
    joined(members, member("early"))
    late = member("late")
    joined(members, late, 500)
    members.renew(late, late.epoch, 900)
    group = members.group("g", SESSION_MS)
    assert group is not None
    assert list(group.members) == ["late"]
    with pytest.raises(UnknownShareMember):
        members.member("g", "early", "User:a", SESSION_MS)
    assert members.group("g", 900 + SESSION_MS) is None
    assert memory.used == 0


def test_an_id_is_its_principals() -> None:
    """Another principal neither finds it nor joins with it."""
    members = ShareMembers(SESSION_MS, Counted())
    joined(members, member())
    with pytest.raises(UnknownShareMember):
        members.member("g", "m", "User:b", 0)
    with pytest.raises(UnknownShareMember):
        members.join("g", member(owner="User:b"), 0)
    joined(members, member())  # the same one joins anew


def test_members_and_their_topics_are_bounded() -> None:
    """By memory for all groups, by number for one; what leaves gives its memory back."""
    memory = Counted(MEMBER_BYTES + 3 * TOPIC_BYTES)
    members = ShareMembers(SESSION_MS, memory)
    one = member("m", "a", "b")
    group = joined(members, one)
    with pytest.raises(TooManyShareMembers):
        members.join("g", member("n"), 0)
    members.subscribe(group, one, ("a", "b", "c"))
    with pytest.raises(TooManyShareMembers):
        members.subscribe(group, one, ("a", "b", "c", "d"))
    members.subscribe(group, one, ())
    members.leave("g", group, one)
    members.leave("g", group, one)
    assert memory.used == 0
    many = ShareMembers(SESSION_MS, Counted())
    for number in range(MEMBERS_MAX):
        many.join("g", member(str(number)), 0)
    with pytest.raises(TooManyShareMembers):
        many.join("g", member("one more"), 0)
    assert many.join("another", member("one more"), 0)
