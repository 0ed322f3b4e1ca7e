"""The simulation can fail: each of these defects, planted into the code under test, breaks a guarantee in some history.

Each is a mistake that was made in a system like this one, or could be made in this one. A defect that no history shows within
``SEEDS_MAX`` seeds means that the simulation has gone blind.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from log_format import layout
from log_format.checkpoints.checkpoint import write_checkpoint
from log_format.checkpoints.topic_log import TopicLog
from log_format.delta.actions import decode_commit
from log_format.delta.change import Proposal
from log_format.delta.committer import Committed, Committer, _Holder
from log_format.errors import BackOff, OutcomeUnknown, StoreUnavailable
from log_format.store import ObjectStore
from log_format.topic.append import Append
from log_format.topic.change import Change, StagedSegment
from log_format.topic.partition_offsets import Offsets
from log_format.topic.state import TopicState
from tests.simulation.simulated.faults import (
    CALM,
    CROWDED,
    DROWSY,
    FAULTY,
    HOSTILE,
    SLEEPY,
    SLEEPY_ON_A_DIRECTORY,
    Profile,
)
from tests.simulation.simulated.gateway import Code
from tests.simulation.simulated.log_world import simulate
from tests.simulation.simulated.seeds import shows

SEEDS_MAX = 300
MEDDLED = replace(CROWDED, administration=1.0)
"""Topics are altered while records come."""


class AcknowledgesAnyHolder(Committer[TopicState]):
    """Takes a 412 for its own success without reading back whose object is there."""

    def _read_back(self, key: str, commit_id: str) -> _Holder:
        return _Holder.OURS


class BelievesItLost(Committer[TopicState]):
    """Takes a 412 or a lost answer for another writer's commit, and commits again behind it."""

    def _read_back(self, key: str, commit_id: str) -> _Holder:
        return _Holder.FOREIGN


class AcknowledgesBeforeCommit(Committer[TopicState]):
    """Answers when the segment is up; the commit never comes."""

    def _publish(self, proposal: Any, commit_id: str, state: TopicState, *_: Any) -> bool:
        return True


class ForgetsTheSegment(Committer[TopicState]):
    """Commits without having put what it commits."""

    def _is_segment_ready(self, staged: Any) -> bool:
        return True


class SkipsValidation(Committer[TopicState]):
    """Tries at the next version what it had in mind for the one before: old offsets, old topic."""

    def commit(self, change: Change[Any]) -> Committed[Any, Any]:
        return super().commit(_ProposedOnce(change))


class _ProposedOnce:
    def __init__(self, change: Change[Any]) -> None:
        self._change = change
        self._proposal: Proposal[Any] | None = None

    def propose(self, state: TopicState, now_ms: int) -> Proposal[Any]:
        if self._proposal is None:
            self._proposal = self._change.propose(state, now_ms)
        return self._proposal


class IgnoresTheIncarnation(Committer[TopicState]):
    """Appends to whatever bears the topic's name by now."""

    def commit(self, change: Change[Any]) -> Committed[Any, Any]:
        return super().commit(_ForAnyTopic(change) if isinstance(change, Append) else change)


class _ForAnyTopic:
    def __init__(self, append: Append) -> None:
        self._append = append

    def propose(self, state: TopicState, now_ms: int) -> Proposal[Any]:
        for batch in self._append.batches:
            if state.topic_id is not None and max(batch.partitions) < state.partition_count:
                batch.topic_id = state.topic_id
        return self._append.propose(state, now_ms)


class IgnoresNewPartitions(Committer[TopicState]):
    """Appends what was routed by another partition count: a key's records go to two partitions, and lose their order."""

    def commit(self, change: Change[Any]) -> Committed[Any, Any]:
        if isinstance(change, Append):
            change = _WithoutCounts(change)
        return super().commit(change)


class _WithoutCounts:
    def __init__(self, append: Append) -> None:
        self._append = append

    def propose(self, state: TopicState, now_ms: int) -> Proposal[Any]:
        counts = [batch.partition_count for batch in self._append.batches]
        for batch in self._append.batches:
            batch.partition_count = None
        proposal = self._append.propose(state, now_ms)
        for batch, count in zip(self._append.batches, counts, strict=True):
            batch.partition_count = count
        return proposal


class TrustsItsPut(Committer[TopicState]):
    """Never asks whether it put into a hole that log clean-up had left."""

    def _may_be_cleaned(self, version: int, since_ms: int) -> bool:
        return False


class RefusesWhatMayLand(Committer[TopicState]):
    """Says that nothing happened while its put may still arrive."""

    def _unknown(self, version: int) -> OutcomeUnknown:
        return BackOff("not committed")  # type: ignore[return-value]


class RefusesByAnOldHead(Committer[TopicState]):
    """Judges requests by what it saw last, although others have committed since."""

    def _look_if_old(self) -> bool:
        super()._look_if_old()
        return True


class ShowsBeforeCommit(Committer[TopicState]):
    """Advances the high watermark before the commit stands (KafScale, Nisshi)."""

    def __init__(self, log: TopicLog, **arguments: Any) -> None:
        super().__init__(log, **arguments)
        self._store = _Announcing(log)


class _Announcing:
    def __init__(self, log: TopicLog) -> None:
        self._log = log

    def put_if_absent(self, key: str, data: bytes) -> None:
        version = layout.commit_version(key)
        assert version is not None
        self._log.apply(decode_commit(data, key), version)
        self._log.store.put_if_absent(key, data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log.store, name)


class TrustsItsHead(TopicLog):
    """Takes a version that was cleaned away for one that never was, and what landed there for a commit."""

    def may_be_cleaned(self, version: int) -> bool:
        return False


class LooksNoMore(TopicLog):
    """Answers from memory."""

    def refresh(self) -> TopicState:
        return self.state if self.state.exists else super().refresh()


class SkipsUnreadableCommits(TopicLog):
    """Takes a get that failed for the end of the log."""

    def _get_commit(self, version: int) -> Any:
        try:
            return super()._get_commit(version)
        except StoreUnavailable:
            return None


class KeepsItsSegment(Append):
    """Commits the segment that it encoded first, although its partitions have moved on."""

    def _stage(self, standing: Any, state: TopicState, next_offsets: Offsets) -> StagedSegment:
        return self._staged if self._staged is not None else super()._stage(standing, state, next_offsets)


class LetsEverybodyIn(Append):
    """Takes only its first batch into the segment, and acknowledges all of them."""

    def _stage(self, standing: Any, state: TopicState, next_offsets: Offsets) -> StagedSegment:
        return super()._stage(standing[:1], state, next_offsets)


def _claims_too_much(store: ObjectStore, topic: str, version: int, now_ms: int) -> None:
    """Writes the checkpoint of one version under the name of the next."""
    write_checkpoint(_OneUp(store), topic, version, now_ms)


class _OneUp:
    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def put_if_absent(self, key: str, data: bytes) -> None:
        version = layout.checkpoint_version(key)
        if version is not None:
            key = key.replace(f"{version:020d}", f"{version + 1:020d}")
        self._store.put_if_absent(key, data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@dataclass(frozen=True, slots=True)
class Planted:
    """A defect, the guarantee that it breaks, and the histories in which that shows soon: a profile, and where to begin."""

    guarantee: str
    code: Code
    profile: Profile
    first_seed: int = 0


PLANTED: dict[str, Planted] = {
    "acknowledges before the commit": Planted("G1", Code(committer=AcknowledgesBeforeCommit), CALM),
    "acknowledges any holder": Planted("G1", Code(committer=AcknowledgesAnyHolder), CROWDED),
    "commits without the segment": Planted("G1", Code(committer=ForgetsTheSegment), CALM),
    "acknowledges what is not in the segment": Planted("G1", Code(append=LetsEverybodyIn), CROWDED),
    "skips validation": Planted("G2", Code(committer=SkipsValidation), CROWDED),
    "keeps its segment": Planted("G2", Code(append=KeepsItsSegment), CROWDED),
    "ignores new partitions": Planted("G2", Code(committer=IgnoresNewPartitions), MEDDLED),
    "ignores the incarnation": Planted("G3", Code(committer=IgnoresTheIncarnation), FAULTY),
    "trusts its put after a sleep": Planted("G3", Code(committer=TrustsItsPut), DROWSY, first_seed=61),
    "trusts its head after a sleep": Planted("G4", Code(log=TrustsItsHead), SLEEPY),
    "trusts its head and its hint": Planted("G4", Code(log=TrustsItsHead), SLEEPY_ON_A_DIRECTORY),
    "shows before the commit": Planted("G4", Code(committer=ShowsBeforeCommit), CROWDED),
    "answers from memory": Planted("G4", Code(log=LooksNoMore), CALM),
    "takes a failed get for the end": Planted("G4", Code(log=SkipsUnreadableCommits), FAULTY),
    "a checkpoint claims too much": Planted("G4", Code(write_checkpoint=_claims_too_much), FAULTY),
    "believes that it lost": Planted("once", Code(committer=BelievesItLost), FAULTY),
    "refuses what may land": Planted("G8", Code(committer=RefusesWhatMayLand), HOSTILE),
    "refuses by an old head": Planted("G8", Code(committer=RefusesByAnOldHead), FAULTY),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name: str) -> None:
    """The simulation sees every one of these defects."""
    planted = PLANTED[name]
    assert shows(simulate, planted.first_seed, SEEDS_MAX, profile=planted.profile, code=planted.code)
