"""The simulation of typed topics can fail: each of these defects, planted into the real code, breaks a promise in one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest

from gateway.typed_topics.reader_cache import ReaderCache
from log_format.topic.append import settings_error
from log_format.topic.batch import Batch
from log_format.topic.state import TopicState
from tests.simulation.simulated.faults import FAULTY, Profile
from tests.simulation.simulated.seeds import shows
from tests.simulation.simulated_service.service import Code
from tests.simulation.simulated_typed.world import CALM, CROWDED, MARKED, simulate_typed

SEEDS_MAX = 60

_settings_error = settings_error
_of = ReaderCache.of


def _takes_unjudged_batches(batch: Batch, state: TopicState) -> Any:
    """A batch that was routed before the topic had its schema."""
    if batch.typed is None:
        promised = batch.with_typed(batch.typed, batch.subjects)
        promised.subjects = state.config.subjects
        return _settings_error(promised, state)
    return _settings_error(batch, state)


def _takes_marked_batches(batch: Batch, state: TopicState) -> Any:
    """A batch that was judged while the topic marked."""
    if batch.has_marks and state.config.choice("data.on.error") != "mark":
        return None
    return _settings_error(batch, state)


def _widens_nothing(*_: Any) -> list[Any]:
    return []


def _knows_no_versions(subjects: Any, _state: Any) -> Any:
    """Readers that are made once for a topic's subjects."""
    return subjects, (), ()


def _loses_marks(_misfits: Any, count: int) -> Any:
    return pa.nulls(count, pa.string())


async def _does_not_look(*_: Any) -> None:
    return None


def _checks_nothing(*_: Any) -> None:
    return None


def _is_never_stored(*_: Any) -> bool:
    return False


async def _judges_by_old_readers(self: ReaderCache, subjects: Any) -> Any:
    """A gateway that read the registry once, and never looks again."""
    seen = self.__dict__.setdefault("planted", {})
    if subjects not in seen:
        seen[subjects] = await _of(self, subjects)
    return seen[subjects]


@dataclass(frozen=True, slots=True)
class Planted:
    """A defect, and the histories in which it shows soon: a profile, and where to begin."""

    profile: Profile
    targets: tuple[tuple[str, Any], ...]
    first_seed: int = 0


_APPEND, _CACHE = "log_format.topic.append", "gateway.typed_topics.reader_cache"

PLANTED: dict[str, Planted] = {
    "takes batches that nobody judged": Planted(
        CROWDED, ((f"{_APPEND}.settings_error", _takes_unjudged_batches),), first_seed=46
    ),
    "takes marked records where they are refused by now": Planted(
        MARKED, ((f"{_APPEND}.settings_error", _takes_marked_batches),), first_seed=0
    ),
    "commits columns without widening the table": Planted(
        CALM, ((f"{_APPEND}.columns_actions", _widens_nothing),), first_seed=0
    ),
    "keeps readers when versions come and go": Planted(CALM, ((f"{_CACHE}._key", _knows_no_versions),), first_seed=1),
    "never reads the registry again": Planted(CALM, ((f"{_CACHE}.ReaderCache.of", _judges_by_old_readers),)),
    "loses the marks": Planted(CALM, (("log_format.schemas.columns.codec._errors", _loses_marks),)),
    "refuses by what it knew": Planted(CALM, ((f"{_CACHE}.ReaderCache.newer", _does_not_look),), first_seed=22),
    "registers what columns can't take": Planted(
        CALM, (("gateway.schemas.schema_registry.check_columns", _checks_nothing),), first_seed=2
    ),
    "refuses the repeat of what is stored": Planted(
        replace(FAULTY, name="many repeats", fault=0.4, turns=8),
        (("gateway.routes.batch._is_duplicate", _is_never_stored),),
        first_seed=17,
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name: str) -> None:
    """The simulation sees every one of these defects."""
    planted = PLANTED[name]
    code = Code(planted=planted.targets)
    assert shows(simulate_typed, planted.first_seed, SEEDS_MAX, profile=planted.profile, code=code)
