"""The simulation of topics as tables with conditions, layouts, other writers and restored copies can fail: each of these defects,
planted into the real code, breaks a promise in one of its histories."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from compaction.layout_rewrite import LayoutTask, lay_out
from log_format.ids import NewId
from log_format.store import ObjectStore
from log_format.topic.erasures import Erasure
from log_format.topic.rewrite import NewSegment
from log_format.topic.state import TopicState
from tests.simulation.simulated.seeds import shows
from tests.simulation.simulated_service.service import Code
from tests.simulation.simulated_table.wider_world import BRIEF, simulate_wider_table

SEEDS_MAX = 20


def _nobody(records: pa.Table, *_: Any) -> Any:
    """A condition holds for no record."""
    return np.zeros(records.num_rows, np.bool_)


def _never(*_: Any) -> bool:
    return False


def _nothing(*_: Any) -> Iterator[Erasure]:
    yield from ()


def _leaves_the_table(self: Any) -> TopicState:
    """Maintenance does not look at what others committed."""
    state: TopicState = self._log.refresh()
    return state


async def _leaves_it_to_others(*_: Any) -> None:
    """A gateway does not put back what it finds."""


def _lays_out_all_but_one(store: ObjectStore, task: LayoutTask, new_id: NewId) -> Sequence[NewSegment]:
    """A rewrite leaves the first of its files out."""
    return lay_out(store, replace(task, sources=task.sources[1:]) if len(task.sources) > 1 else task, new_id)


@dataclass(frozen=True, slots=True)
class Planted:
    """A defect, and where the histories begin in which it shows soon."""

    targets: tuple[tuple[str, Any], ...]
    first_seed: int = 0


PLANTED: dict[str, Planted] = {
    "a condition means nobody": Planted((("log_format.topic.erasures._find_holding", _nobody),)),
    "statistics rule out what may be meant": Planted(
        (("compaction.filtered_segments.FilteredSegments._may_hold", _never),)
    ),
    "a restored copy knows no later requests": Planted(
        (("log_format.inspection.restored_erasures.RestoredErasures._missing", _nothing),)
    ),
    "foreign commits stay": Planted(
        (
            ("compaction.topic_upkeep.TopicUpkeep._restore_table", _leaves_the_table),
            ("gateway.engine.foreign_watch.ForeignWatch._put_back", _leaves_it_to_others),
        )
    ),
    "a layout leaves a file out": Planted((("compaction.workers.lay_out", _lays_out_all_but_one),), first_seed=2),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name: str) -> None:
    """The simulation sees every one of these defects."""
    planted = PLANTED[name]
    code = Code(planted=planted.targets)
    assert shows(simulate_wider_table, planted.first_seed, SEEDS_MAX, profile=BRIEF, code=code)
