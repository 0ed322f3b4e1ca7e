"""What LeaveGroup costs where a request names many members, and a group has many: each is found by its id and by its instance id.

Who may read the group could otherwise keep the gateway busy for half a minute.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.groups.calls.classic import ClassicCalls
from gateway.groups.classic.member import ClassicJoinRequest, Member
from gateway.groups.classic.roster import Roster
from log_format.cluster.proof import NOBODY
from log_format.errors import ErrorCode, RequestRefused
from tests.support.cpu_time import is_cheap

MEMBERS = 2_000
NAMED = 20_000


def member(number: int) -> Member:
    wish = ClassicJoinRequest(
        member_id="",
        instance_id=f"i{number}",
        client_id=None,
        client_host="",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=(("range", b""),),
        reader=None,
    )
    return Member(member_id=f"m{number}", wish=wish, seen_ms=0, former_ids=(f"f{number}",))


def test_of_a_group_to_which_the_gateway_assigns() -> None:
    """By id, by instance id, by both where they are one member's; others are refused."""
    members = [member(one).row(1, "range", b"") for one in range(MEMBERS)]
    left: list[str] = []

    async def leave(member_ids: list[str]) -> None:
        left.extend(member_ids)

    group: Any = SimpleNamespace(name="g", row=SimpleNamespace(members=members), leave=leave)

    async def claimed(_name: str) -> Any:
        return group

    calls = ClassicCalls(SimpleNamespace(claimed=claimed), SimpleNamespace())  # type: ignore[arg-type]
    strangers: list[tuple[str, str | None]] = [(f"x{one}", f"j{one}") for one in range(NAMED)]
    assert is_cheap(lambda: asyncio.run(calls.leave("g", strangers, NOBODY)), 0.25)
    assert left == []
    some = [("m1", None), ("", "i2"), ("m3", "i3"), ("m4", "i5"), ("x", None), ("", "j")]
    refusals = asyncio.run(calls.leave("g", some, NOBODY))
    assert left == ["m1", "m2", "m3"]
    assert [refusal is None for refusal in refusals] == [True, True, True, False, False, False]


def test_of_a_classic_group() -> None:
    """A former id of a static member is told so, until the member has gone; an id that never was is unknown."""
    roster = Roster("g", [member(one) for one in range(MEMBERS)])

    def look() -> None:
        for one in range(NAMED):
            with suppress(RequestRefused):
                roster.find(f"x{one}", None)

    assert is_cheap(look, 0.25)
    for name, code in (("f1", ErrorCode.FENCED_MEMBER), ("x", ErrorCode.UNKNOWN_MEMBER)):
        with pytest.raises(RequestRefused) as refused:
            roster.find(name, None)
        assert refused.value.code is code
    roster.replace(roster.find("m1", None), member(MEMBERS))
    with pytest.raises(RequestRefused) as refused:
        roster.find("f1", None)
    assert refused.value.code is ErrorCode.UNKNOWN_MEMBER
