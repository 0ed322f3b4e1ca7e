"""The simulation of typed topics can fail, at journals and by maintenance, too: each defect, planted into the real code, breaks a
promise in one of its histories."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from compaction.fill_columns import _judge, fill_columns
from compaction.rewrite import _scan
from gateway.typed_topics.reader_cache import ReaderCache
from log_format.records.document_schemas import are_judged, with_schema_rows
from log_format.records.typed_columns import DATA, DATA_ERROR, without_typed_columns
from log_format.schemas.columns.subject_readers import StoredReaders
from log_format.topic.late_columns import late_columns
from tests.simulation.simulated.faults import Profile
from tests.simulation.simulated.seeds import shows
from tests.simulation.simulated_service.service import Code
from tests.simulation.simulated_typed.world import BACKFILLED, CALM, simulate_typed

SEEDS_MAX = 60

_newest = StoredReaders.newest
_type_records = ReaderCache.type_records


def _never(*_: Any, **__: Any) -> bool:
    return False


def _nothing(*_: Any) -> list[Any]:
    return []


def _forgets_the_judgement(records: pa.Table, _schemas: Any) -> pa.Table:
    """A drain takes documents for ones that nobody judged, and asks the newest version."""
    return with_schema_rows(records, None)


def _reads_the_registry_once(self: StoredReaders, subjects: Any, **how: Any) -> Any:
    """What a process of maintenance, or a gateway that knows too little, reads of the registry once, it keeps."""
    seen = self.__dict__.setdefault("planted", {})
    if subjects not in seen:
        seen[subjects] = _newest(self, subjects, **how)
    return seen[subjects]


def _judges_by_old_readers(self: ReaderCache, subjects: Any, records: pa.Table) -> Any:
    """A drain judges promised records by readers that it made once, though it decodes the others as the door judged them."""
    if are_judged(records, value=bool(subjects.value), key=bool(subjects.key)):
        return _type_records(self, subjects, records)
    seen = self.__dict__.setdefault("planted", {})
    if subjects not in seen:
        seen[subjects] = self._stored.newest(subjects, is_late=True)
    return seen[subjects].typed(records)[0]


def _typed_by_nobody(records: pa.Table, subjects: Any, columns: Any, _type_records: Any) -> pa.Table:
    """A drain that decodes nothing."""
    return late_columns(records, subjects, columns, None)


def _without_columns(*arguments: Any) -> Iterator[pa.Table]:
    """A rewrite reads the columns that every topic has."""
    for table in _scan(*arguments):
        yield table.drop_columns([name for name in (DATA, DATA_ERROR) if name in table.schema.names])


def _without_reasons(*arguments: Any) -> Iterator[pa.Table]:
    """A rewrite loses ``data_error``."""
    for table in _scan(*arguments):
        yield table.drop_columns([DATA_ERROR]) if DATA_ERROR in table.schema.names else table


def _mixes_rows(*arguments: Any) -> Iterator[pa.Table]:
    """A rewrite gives each record its neighbour's columns."""
    for table in _scan(*arguments):
        at = table.schema.get_field_index(DATA)
        if at < 0:
            yield table
            continue
        column = table.column(at).combine_chunks()
        turned = pa.concat_arrays([column.slice(1), column.slice(0, 1)])
        yield table.set_column(at, table.schema.field(at), turned)


def _marks_what_fits(records: pa.Table, readers: Any) -> pa.Table:
    """A backfill marks each record."""
    judged = _judge(records, readers)
    at = judged.schema.get_field_index(DATA_ERROR)
    reasons = pa.array(["unfit"] * judged.num_rows)
    return judged.set_column(at, judged.schema.field(at), reasons)


def _judges_again(records: pa.Table, readers: Any, _judged: Any) -> pa.Table:
    """A backfill judges again what has a reason or columns."""
    return fill_columns(without_typed_columns(records), readers, ())


@dataclass(frozen=True, slots=True)
class Planted:
    """A defect, and the histories in which it shows soon: a profile, and where to begin."""

    profile: Profile
    targets: tuple[tuple[str, Any], ...]
    first_seed: int = 0


_MOVER, _READER = "gateway.engine.topic_mover", "log_format.journal.reader"

PLANTED: dict[str, Planted] = {
    "drains by the newest version": Planted(
        CALM,
        (
            (f"{_MOVER}.with_schema_rows", _forgets_the_judgement),
            (f"{_READER}.with_schema_rows", _forgets_the_judgement),
        ),
    ),
    "drains promised records by what it knew once": Planted(
        CALM, (("gateway.typed_topics.reader_cache.ReaderCache.type_records", _judges_by_old_readers),), first_seed=1
    ),
    "drains by a registry that it read once": Planted(
        CALM,
        (("log_format.schemas.columns.subject_readers.StoredReaders.newest", _reads_the_registry_once),),
        first_seed=1,
    ),
    "drains without judging": Planted(CALM, (("log_format.journal.drain.late_columns", _typed_by_nobody),)),
    "drains without widening the table": Planted(CALM, (("log_format.journal.drain.columns_actions", _nothing),)),
    "changes schemas before the drain": Planted(
        CALM, (("gateway.engine.administration.names_schemas", _never),), first_seed=5
    ),
    "merges without columns": Planted(CALM, (("compaction.rewrite._scan", _without_columns),)),
    "merges without reasons": Planted(CALM, (("compaction.rewrite._scan", _without_reasons),)),
    "mixes columns in a merge": Planted(CALM, (("compaction.rewrite._scan", _mixes_rows),)),
    "marks what fits afterwards": Planted(BACKFILLED, (("compaction.fill_columns._judge", _marks_what_fits),)),
    "judges again what was judged": Planted(CALM, (("compaction.rewrite.fill_columns", _judges_again),), first_seed=1),
    "rewrites without widening the table": Planted(
        BACKFILLED, (("log_format.topic.rewrite.columns_actions", _nothing),), first_seed=3
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name: str) -> None:
    """The simulation sees every one of these defects."""
    planted = PLANTED[name]
    code = Code(planted=planted.targets)
    assert shows(simulate_typed, planted.first_seed, SEEDS_MAX, profile=planted.profile, code=code)
