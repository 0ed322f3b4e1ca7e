"""The service simulation can fail: each of these defects, planted into the real gateway, breaks a guarantee in some history.

Where ``test_planted_faults`` plants into the log's core, these are mistakes of whole gateways: what they answer, when, and from
what they know.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from gateway.applied_transactions import finisher
from gateway.engine.fetch_answer import FetchFrom
from gateway.engine.group_commit import GroupCommit
from gateway.engine.open_topic import OpenTopic
from gateway.engine.tail_cache import TailCache
from gateway.engine.writer import Writer
from log_format.delta.committer import Committer, _Holder
from log_format.errors import BackOff
from log_format.topic.append import Append, Batch
from log_format.topic.append_outcome import Duplicate
from log_format.topic.producers import NO_PRODUCERS, SequenceCheck
from log_format.transactions import finishing
from log_format.transactions.staged_records import StagedRecords
from tests.simulation.simulated.faults import CALM, CROWDED, FAULTY, HOSTILE, SECOND_MS, Profile
from tests.simulation.simulated.seeds import shows
from tests.simulation.simulated_service.service import Code
from tests.simulation.simulated_service.world import QUIET, RENEWED, simulate_service

SEEDS_MAX = 300
ASLEEP = replace(RENEWED, name="asleep", pause=0.2, pause_at_request=0.05, pause_ms_max=15 * SECOND_MS)
"""Gateways fall asleep between a decision and what follows from it, and topics are made anew meanwhile."""


def _acknowledges_before_the_commit(self: Committer[Any], proposal: Any, *rest: Any) -> bool:
    return True if proposal.operation == "WRITE" else _publish(self, proposal, *rest)


def _says_that_nothing_happened(self: Committer[Any], version: int) -> BackOff:
    return BackOff("not committed")


def _takes_a_412_for_its_own(self: Committer[Any], key: str, commit_id: str) -> _Holder:
    return _Holder.OURS


def _takes_a_412_for_foreign(self: Committer[Any], key: str, commit_id: str) -> _Holder:
    return _Holder.FOREIGN


async def _answers_from_memory(self: OpenTopic, arrival_ms: int) -> Any:
    if not self.state.exists:
        return await _fresh(self, arrival_ms)
    return self.state


_publish = Committer._publish
_fresh = OpenTopic.fresh
_commit_flush = Writer._commit
_propose = Append.propose
_take_tail = TailCache.add
_judge_stamp = SequenceCheck.judge
_by_topic = finishing._group_by_topic
_append_decided = finisher._FinishingOperations.append
_proposed: dict[Append, Any] = {}


async def _settles_before_the_commit(self: Writer, flush: Any) -> Any:
    """Settles a flush as soon as its segment is up and its turn has come."""
    for pending in flush.group.pending:
        state = self._table.state
        if state.exists and max(p for p, _ in pending.item.counts) < state.partition_count:
            proposal = _propose(Append([pending.item], lambda: "x"), state, 0)
            if not isinstance(proposal.result[0], Exception):
                pending.settle(proposal.result[0])
    return await _commit_flush(self, flush)


def _proposes_once(self: Append, state: Any, now_ms: int) -> Any:
    """Commits behind others what it had in mind before them."""
    if self not in _proposed:
        _proposed[self] = _propose(self, state, now_ms)
    return _proposed[self]


def _shifts_the_tail(self: TailCache, topic_id: str, records: Any, runs: Any, nbytes: int, originals: Any) -> None:
    """Shows each partition's flush one offset later than it is."""
    offsets = records.column("offset").to_pylist()
    shifted = records.set_column(1, records.schema.field("offset"), [[offset + 1 for offset in offsets]])
    _take_tail(self, topic_id, shifted, runs, nbytes, originals)


def _appends_duplicates(self: SequenceCheck, stamp: Any) -> Any:
    verdict = _judge_stamp(self, stamp)
    return None if isinstance(verdict, Duplicate) else verdict


def _sleeps_in(self: GroupCommit[Any, Any]) -> None:
    """Believes for a moment after a group that it still bars the way: a request that comes then waits for the one after it."""
    asyncio.get_running_loop().call_later(0.05, lambda: setattr(self, "_next_is_allowed", True))


def _first_topic_only(row: Any) -> Any:
    return _by_topic(row)[:1]


def _reads_whatever_has_the_name(**arguments: Any) -> FetchFrom:
    return FetchFrom(**{**arguments, "topic_id": None})


async def _appends_to_whatever_has_the_name(self: Any, row: Any, requests: Sequence[StagedRecords]) -> Any:
    """A decided transaction's records go to the topic that has the name by now."""
    topic = await self.parts.topics.fresh(requests[0].topic, self.parts.clock.monotonic_ms())
    now = topic.state.topic_id
    return await _append_decided(self, row, [replace(one, topic_id=now or one.topic_id) for one in requests])


def _unnamed(**arguments: Any) -> Batch:
    return Batch(**{**arguments, "transaction": None})


@dataclass(frozen=True, slots=True)
class Planted:
    """A defect, the guarantee that it breaks, and the histories in which that shows soon: a profile, and where to begin."""

    guarantee: str
    target: str
    replacement: Any
    profile: Profile
    first_seed: int = 0


PLANTED: dict[str, Planted] = {
    "acknowledges before the commit": Planted(
        "G1", "log_format.delta.committer.Committer._publish", _acknowledges_before_the_commit, CALM
    ),
    "acknowledges when the segment is up": Planted(
        "G1", "gateway.engine.writer.Writer._commit", _settles_before_the_commit, FAULTY
    ),
    "takes a 412 for its own": Planted(
        "G1", "log_format.delta.committer.Committer._read_back", _takes_a_412_for_its_own, CROWDED
    ),
    "skips re-validation": Planted("G2", "log_format.topic.append.Append.propose", _proposes_once, CROWDED),
    "answers from memory": Planted("G4", "gateway.engine.open_topic.OpenTopic.fresh", _answers_from_memory, CROWDED),
    "shows records in another place": Planted("G4", "gateway.engine.tail_cache.TailCache.add", _shifts_the_tail, CALM),
    "takes a 412 for foreign": Planted(
        "G5", "log_format.delta.committer.Committer._read_back", _takes_a_412_for_foreign, FAULTY, first_seed=1
    ),
    "forgets producers at a checkpoint": Planted(
        "G5", "log_format.checkpoints.memory.decode_producers", lambda _data: NO_PRODUCERS, FAULTY, first_seed=11
    ),
    "forgets producers at a takeover": Planted(
        "G5", "log_format.topic.stamped_requests.decode_stamped_requests", lambda _commit: [], FAULTY
    ),
    "appends duplicates": Planted(
        "G5", "log_format.topic.producers.SequenceCheck.judge", _appends_duplicates, FAULTY, first_seed=4
    ),
    "applies a decided transaction twice": Planted(
        "G6", "log_format.transactions.finishing.Batch", _unnamed, FAULTY, first_seed=7
    ),
    "applies a decided transaction in part": Planted(
        "G6", "log_format.transactions.finishing._group_by_topic", _first_topic_only, CALM
    ),
    "commits into whatever has the name": Planted(
        "G6",
        "gateway.applied_transactions.finisher._FinishingOperations.append",
        _appends_to_whatever_has_the_name,
        ASLEEP,
        first_seed=132,
    ),
    "fetches whatever has the name": Planted(
        "G4", "gateway.routes.fetch.FetchFrom", _reads_whatever_has_the_name, RENEWED, first_seed=6
    ),
    "leaves a batch lying as a run ends": Planted(
        "quiet", "gateway.engine.group_commit.GroupCommit._on_next_allowed", _sleeps_in, QUIET
    ),
    "says that nothing happened": Planted(
        "G8", "log_format.delta.committer.Committer._unknown", _says_that_nothing_happened, HOSTILE, first_seed=215
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name: str) -> None:
    """The simulation sees every one of these defects."""
    planted = PLANTED[name]
    _proposed.clear()
    code = Code(planted=((planted.target, planted.replacement),))
    assert shows(simulate_service, planted.first_seed, SEEDS_MAX, profile=planted.profile, code=code)
