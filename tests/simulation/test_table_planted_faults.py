"""The simulation of topics that are used as tables can fail: each of these defects, planted into the real code, breaks a promise
in one of its histories."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pytest

from compaction.collection import Deletion
from compaction.log_cleanup import plan_log
from compaction.table_retention import expired_files
from log_format.checkpoints.advanced_checkpoint import AdvancedCheckpoint
from log_format.delta.actions import Add
from log_format.delta.change import Proposal
from log_format.scheduled.scheduled_object import ScheduledObject
from log_format.topic.archiving import ArchiveExpired, ArchivingResult
from log_format.topic.clone import CloneTopic, cloned_add
from log_format.topic.erasure_changes import FinishErasures
from log_format.topic.erasures import Erasure
from log_format.topic.live_segments import LiveSegment, live_segments
from log_format.topic.pin_changes import DropExpiredPins
from log_format.topic.retention import ApplyRetention
from log_format.topic.state import TopicState
from tests.simulation.simulated.faults import HOUR_MS, Profile
from tests.simulation.simulated.seeds import shows
from tests.simulation.simulated_service.service import Code
from tests.simulation.simulated_table.world import CALM, LONG, simulate_table

SEEDS_MAX = 40

_archive, _finish = ArchiveExpired.propose, FinishErasures.propose
_drop_pins, _retention = DropExpiredPins.propose, ApplyRetention.propose
_put_archive = AdvancedCheckpoint.put_archive


def _nothing(*_: Any, **__: Any) -> Any:
    return []


def _no_paths(*_: Any, **__: Any) -> set[str]:
    return set()


def _never(*_: Any, **__: Any) -> bool:
    return False


def _does_nothing(*_: Any, **__: Any) -> None:
    return None


def _keeps_all_pinned(_self: Any, _state: TopicState, pinned: set[str], _removed: Any) -> set[str]:
    """Pins win over requests to erase."""
    return pinned


def _archives_without_a_tag(add: Add) -> Add:
    """The segment is named again as it is."""
    return msgspec.structs.replace(add, data_change=False)


def _removes_what_it_archives(self: ArchiveExpired, state: TopicState, now_ms: int) -> Proposal[ArchivingResult]:
    """Retention of a topic without an archive."""
    if not state.exists or state.topic_id != self.topic_id:
        return _archive(self, state, now_ms)
    config = state.config.altered({"table.retention.ms": None, "table.retention.bytes": None})
    plain = _retention(ApplyRetention(topic_id=self.topic_id), replace(state, config=config), now_ms)
    result = ArchivingResult(log_starts=plain.result.log_starts, archived_count=0)
    return Proposal(operation=plain.operation, actions=plain.actions, result=result)


def _copies_a_changed_part(self: AdvancedCheckpoint) -> bool:
    """Part 2 is the one before, whatever commits did to the archive."""
    return bool(self.archive.segment_count)


def _copies_no_part(self: AdvancedCheckpoint, version: int) -> Any:
    """The archive is as it was, so nothing is put."""
    return self.archive if self.is_archive_same else _put_archive(self, version)


def _cleans_up_pins(*stored: Any, **how: Any) -> list[Deletion]:
    """Clean-up of a log without pins."""
    return plan_log(*stored, **(how | {"pinned": ()}))


def _drops_pins_early(self: DropExpiredPins, state: TopicState, now_ms: int) -> Any:
    """By a clock that is hours ahead."""
    return _drop_pins(self, state, now_ms + 5 * HOUR_MS)


def _skips_the_newest(reconciled: Any, *, has_stats: bool = False) -> list[LiveSegment]:
    """An erasure reads all but the newest segment."""
    return live_segments(reconciled, has_stats=has_stats)[:-1]


def _is_done_unread(self: FinishErasures, state: TopicState, now_ms: int) -> Proposal[bool]:
    """A request is done, whatever segments were read."""
    paths = [segment.path for segment in state.manifest.segments()]
    return _finish(replace(self, clean=paths), state, now_ms)


def _skips_the_archive(_self: Any, state: TopicState, *_: Any) -> int:
    """An erasure believes that it has read the archive."""
    return state.archive.version


def _no_end(_self: TopicState, _partition: int) -> int:
    """What a gateway has in memory is always the table's."""
    return 0


def _clones_with_all_tags(add: Add, path: str) -> Add:
    return msgspec.structs.replace(cloned_add(add, path), tags=add.tags)


def _keeps_ends(_self: CloneTopic, erasure: Any) -> Any:
    """A request that came after the cloned version goes along as it is."""
    return erasure


def _expires_at_once(pieces: Any, retention: Any, **how: Any) -> Any:
    """Rows leave the table when they have left the log."""
    limited = None if retention.retention_ms is None else 0
    return expired_files(pieces, retention._replace(retention_ms=limited), **how)


def _is_before_by_clocks(one: ScheduledObject, erasure: Erasure) -> bool:
    """The object's gateway and the request's each had a clock."""
    return one.index.made_ms <= erasure.requested_ms


@dataclass(frozen=True, slots=True)
class Planted:
    """A defect, and the histories in which it shows soon: a profile, and where to begin."""

    profile: Profile
    targets: tuple[tuple[str, Any], ...]
    first_seed: int = 0


_ERASURES, _FILES = "compaction.erasures", "compaction.erased_files"
_CLONING = "log_format.checkpoints.cloning"

PLANTED: dict[str, Planted] = {
    "clocks order delayed records and requests": Planted(
        CALM, (("log_format.scheduled.erasing._is_before", _is_before_by_clocks),), first_seed=2
    ),
    "archives without a tag": Planted(
        CALM, (("log_format.topic.archiving.archived", _archives_without_a_tag),), first_seed=2
    ),
    "removes what it archives": Planted(
        CALM, (("log_format.topic.archiving.ArchiveExpired.propose", _removes_what_it_archives),), first_seed=2
    ),
    "a checkpoint keeps a changed archive": Planted(
        CALM,
        (
            (
                "log_format.checkpoints.advanced_checkpoint.AdvancedCheckpoint.is_archive_same",
                property(_copies_a_changed_part),
            ),
        ),
        first_seed=2,
    ),
    "a checkpoint lacks its archive": Planted(
        CALM,
        (("log_format.checkpoints.advanced_checkpoint.AdvancedCheckpoint.put_archive", _copies_no_part),),
        first_seed=2,
    ),
    "rows leave the archive early": Planted(
        LONG, (("compaction.retention_upkeep.expired_files", _expires_at_once),), first_seed=5
    ),
    "clean-up forgets pins": Planted(CALM, (("compaction.topic_upkeep.plan_log", _cleans_up_pins),), first_seed=3),
    "the collector forgets pins": Planted(CALM, (("compaction.pin_upkeep.PinUpkeep.paths", _no_paths),), first_seed=10),
    "pins expire early": Planted(
        LONG, (("log_format.topic.pin_changes.DropExpiredPins.propose", _drops_pins_early),), first_seed=4
    ),
    "memory outlives an erasure": Planted(
        CALM,
        (
            ("gateway.engine.tail_cache.TailCache.drop_erased", _does_nothing),
            ("log_format.topic.state.TopicState.table_end", _no_end),
        ),
        first_seed=1,
    ),
    "an erasure skips the newest segment": Planted(
        CALM,
        (
            (f"{_ERASURES}.live_segments", _skips_the_newest),
            ("log_format.topic.erasure_changes.FinishErasures.propose", _is_done_unread),
        ),
        first_seed=1,
    ),
    "an erasure skips the archive": Planted(
        LONG, (("compaction.archive_erasures.ArchiveErasures.run", _skips_the_archive),), first_seed=23
    ),
    "a request is over, and pins keep its files": Planted(
        CALM,
        ((f"{_FILES}._may_hold", _never), (f"{_FILES}.ErasedFiles.still_pinned", _keeps_all_pinned)),
        first_seed=3,
    ),
    "a request forgets the journals": Planted(CALM, ((f"{_FILES}.ErasedFiles._undrained", _nothing),), first_seed=5),
    "a clone forgets requests": Planted(CALM, ((f"{_CLONING}._still_there", _nothing),)),
    "a clone's requests reach beyond its end": Planted(
        CALM, (("log_format.topic.clone.CloneTopic._within", _keeps_ends),), first_seed=1
    ),
    "a clone takes the archive's tags": Planted(
        LONG, ((f"{_CLONING}.cloned_add", _clones_with_all_tags),), first_seed=23
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name: str) -> None:
    """The simulation sees every one of these defects."""
    planted = PLANTED[name]
    code = Code(planted=planted.targets)
    assert shows(simulate_table, planted.first_seed, SEEDS_MAX, profile=planted.profile, code=code)
