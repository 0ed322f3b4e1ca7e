"""The simulation of groups can fail: each of these defects, planted into the real gateway, breaks G7 in some history."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from gateway.engine.fetch_answer import FetchFrom
from gateway.engine.shared_commits import SharedCommits
from gateway.groups.calls import classic_members
from gateway.groups.classic import hand_over
from gateway.groups.classic.consumer_protocol import assignment_of
from gateway.groups.classic.group import ClassicGroup
from gateway.groups.membership.live_group import LiveGroup
from gateway.groups.membership.session import Session
from gateway.groups.offsets.committed import CommittedOffsets
from log_format.errors import BackOff
from log_format.groups.changes import CommitOffsets
from log_format.groups.holdings import Holdings
from log_format.groups.row import GroupChanges, GroupRow
from log_format.groups.state import GroupsState, snapshot
from tests.simulation.simulated.faults import Profile
from tests.simulation.simulated.seeds import shows
from tests.simulation.simulated_groups.world import FAULTY, HASTY, PASSING, RENEWED, simulate_groups
from tests.simulation.simulated_service.service import Code

SEEDS_MAX = 150


def _gives_before_it_is_let_go(self: Holdings, _member_id: str, partitions: Any) -> Any:
    return partitions


async def _swallowed(work: Any) -> None:
    await asyncio.gather(work, return_exceptions=True)


def _takes_over_without_grace(self: LiveGroup, row: Any, parts: Any) -> None:
    _begin(self, row, parts)
    for session in self.sessions.values():
        session.seen_ms -= parts.bounds.lease_ms + session.timeout_ms


async def _commits_by_memory(
    self: CommittedOffsets, name: str, offsets: Any, member_id: Any, generation: Any, **arguments: Any
) -> None:
    """Judges the member by what the coordinator has in memory, and writes as if the group had no members."""
    if member_id is None:
        await _commit(self, name, offsets, member_id, generation, **arguments)
        return
    rows = await self.rows(name, offsets, member_id, generation)
    decision = _UnjudgedCommit(group=name, offsets=rows, instead_of=arguments.get("instead_of"))
    await self._table.decide(decision)


class _UnjudgedCommit(CommitOffsets):
    def decide(self, _state: Any, now_ms: int) -> Any:
        return GroupChanges(offsets=tuple(msgspec.structs.replace(row, committed_at_ms=now_ms) for row in self.offsets))


async def _answers_before_the_commit(self: SharedCommits[Any, Any, Any], decision: Any) -> Any:
    if not isinstance(decision, CommitOffsets) or decision.member is None:
        return await _decide(self, decision)
    self._early = asyncio.create_task(_swallowed(_decide(self, decision)))  # type: ignore[attr-defined]
    return self.log.state.group(decision.group)


def _forgets_in_a_rewrite(state: GroupsState) -> GroupChanges:
    """Leaves out the last offset of all."""
    whole = snapshot(state)
    return msgspec.structs.replace(whole, offsets=whole.offsets[:-1])


def _ends_sessions_early(self: Session, now_ms: int) -> int:
    return min(_deadline(self, now_ms), self.seen_ms + self.timeout_ms // 2)


async def _refuses_what_stands(self: CommittedOffsets, *arguments: Any, **more: Any) -> Any:
    await _put(self, *arguments, **more)
    raise BackOff("The store does not show the group again.")


def _counts_those_of_the_topic_before(group: Any, ids: Any) -> Any:
    return {key: row for key, row in sorted(group.offsets.items()) if key[0] in ids}


async def _takes_them_for_whatever_has_the_name(self: CommittedOffsets, name: str, offsets: Any, *more: Any) -> Any:
    return await _rows(self, name, [msgspec.structs.replace(one, topic_id=None) for one in offsets], *more)


def _reads_whatever_has_the_name(**arguments: Any) -> FetchFrom:
    return FetchFrom(**{**arguments, "topic_id": None})


async def _drops_no_position(*_: Any) -> None:
    """Keeps what a poll says, whichever topic it belongs to."""


def _hands_over_nothing(group: ClassicGroup) -> GroupRow:
    row = _row_to_hand_over(group)
    return msgspec.structs.replace(
        row, members=tuple(msgspec.structs.replace(member, target={}) for member in row.members)
    )


def _tells_what_is_to_be_theirs(group: LiveGroup, member_id: str, *more: Any) -> bytes:
    _sync(group, member_id, *more)
    return assignment_of(group.member(member_id).target)


_row_to_hand_over, _sync = hand_over.row_to_hand_over, classic_members.sync
_begin, _rows = LiveGroup.__init__, CommittedOffsets.rows
_commit, _put = CommittedOffsets.commit, CommittedOffsets.put
_decide, _deadline = SharedCommits.decide, Session.deadline_ms


@dataclass(frozen=True, slots=True)
class Planted:
    """A defect, and the histories in which it shows soon."""

    profile: Profile
    targets: tuple[tuple[str, Any], ...]
    first_seed: int = 0
    """Where to begin to look, so that it does not take long."""


PLANTED: dict[str, Planted] = {
    "gives what nobody let go of": Planted(
        PASSING, (("log_format.groups.holdings.Holdings._kept", _gives_before_it_is_let_go),), first_seed=100
    ),
    "fences no coordinator": Planted(
        PASSING, (("log_format.groups.changes._fenced_error", lambda *_: None),), first_seed=14
    ),
    "takes over without grace": Planted(
        PASSING,
        (("gateway.groups.membership.live_group.LiveGroup.__init__", _takes_over_without_grace),),
        first_seed=0,
    ),
    "judges commits by memory only": Planted(
        PASSING, (("gateway.groups.offsets.committed.CommittedOffsets.commit", _commits_by_memory),), first_seed=2
    ),
    "lets anybody commit": Planted(
        PASSING,
        (
            ("log_format.groups.changes.judge_commit", lambda *_: None),
            ("gateway.groups.membership.live_group.LiveGroup.check_commit", lambda *_: None),
        ),
        first_seed=16,
    ),
    "answers before the commit": Planted(
        PASSING, (("gateway.engine.shared_commits.SharedCommits.decide", _answers_before_the_commit),)
    ),
    "forgets an offset in a rewrite": Planted(
        PASSING, (("log_format.groups.changes.snapshot", _forgets_in_a_rewrite),)
    ),
    "refuses a commit that stands": Planted(
        FAULTY,
        (
            ("gateway.groups.offsets.committed.CommittedOffsets.put", _refuses_what_stands),
            ("gateway.asgi.problems._late_refusal", lambda error: error),
        ),
    ),
    "ends sessions early": Planted(
        PASSING,
        (
            ("gateway.groups.membership.session.Session.over_ms", property(lambda self: 0)),
            ("gateway.groups.membership.session.Session.deadline_ms", _ends_sessions_early),
        ),
        first_seed=6,
    ),
    "counts offsets of the topic before": Planted(
        RENEWED, (("gateway.groups.offsets.incarnations.offsets_of_incarnations", _counts_those_of_the_topic_before),)
    ),
    "commits offsets for whatever has the name": Planted(
        HASTY,
        (("gateway.groups.offsets.committed.CommittedOffsets.rows", _takes_them_for_whatever_has_the_name),),
        first_seed=4,
    ),
    "polls whatever has the name": Planted(
        HASTY,
        (
            ("gateway.groups.calls.polling.FetchFrom", _reads_whatever_has_the_name),
            ("gateway.groups.calls.polling.Polling._drop_recreated", _drops_no_position),
        ),
        first_seed=23,
    ),
    "fetches whatever has the name": Planted(
        HASTY, (("gateway.routes.fetch.FetchFrom", _reads_whatever_has_the_name),), first_seed=9
    ),
    "goes over as if classic members read nothing": Planted(
        RENEWED,
        (("gateway.groups.classic.hand_over.row_to_hand_over", _hands_over_nothing),),
        first_seed=17,
    ),
    "tells classic members what others read": Planted(
        RENEWED, (("gateway.groups.calls.classic_members.sync", _tells_what_is_to_be_theirs),), first_seed=1
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name: str) -> None:
    """The simulation sees every one of these defects."""
    planted = PLANTED[name]
    code = Code(planted=planted.targets)
    assert shows(simulate_groups, planted.first_seed, SEEDS_MAX, profile=planted.profile, code=code)
