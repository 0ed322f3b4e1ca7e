"""The log of a journal: its table at ``system/journals/<n>/``, and loading a ``JournalState`` from a checkpoint."""

from __future__ import annotations

import pyarrow as pa

from log_format import layout
from log_format.checkpoints.checkpoint import decode_checkpoint
from log_format.checkpoints.memory import decode_memory
from log_format.clock import Clock
from log_format.delta.actions import Add
from log_format.delta.checkpoint_schema import select_actions
from log_format.delta.log import Map, TableLog
from log_format.delta.table import Table
from log_format.errors import CorruptData
from log_format.journal.committed_versions import CommittedVersions
from log_format.journal.object_tags import CommittedObject, decode_object_add
from log_format.journal.state import JournalState
from log_format.store import ObjectStore


def list_journals(store: ObjectStore) -> list[int]:
    """Return the numbers of the store's journals. Raises ``StoreUnavailable``."""
    return sorted(int(name) for name in store.list_directories(layout.JOURNALS) if name.isdecimal())


def journal_table(journal: int) -> Table[JournalState]:
    """Return the description of a journal's table."""

    def state_of(data: bytes, version: int) -> JournalState:
        return _read_checkpoint(data, journal, version)

    return Table(
        root=layout.journal_root(journal),
        label=f"journal {journal}",
        fields={"journal": journal},
        absent=lambda: JournalState(journal=journal),
        read_checkpoint=state_of,
    )


class JournalLogs:
    """The logs of a store's journals, each created when it is first asked for. Creating one reads nothing."""

    def __init__(self, store: ObjectStore, clock: Clock, *, fetch_all: Map = map) -> None:
        self._store = store
        self._clock = clock
        self._fetch_all = fetch_all
        self._logs: dict[int, TableLog[JournalState]] = {}

    def get(self, number: int) -> TableLog[JournalState]:
        """Return the log of this journal."""
        log = self._logs.get(number)
        if log is None:
            log = self._logs[number] = TableLog(
                self._store, journal_table(number), self._clock, fetch_all=self._fetch_all
            )
        return log


def _read_checkpoint(data: bytes, journal: int, version: int) -> JournalState:
    table = decode_checkpoint(data, layout.journal_root(journal), version, with_tombstones=False)
    topics = decode_memory(table).journal
    adds = _adds(table)
    newest_ms = adds[-1].modification_time if adds else 0
    state = JournalState(
        journal=journal,
        version=version,
        topics=topics,
        modification_time_ms=newest_ms,
        committed=CommittedVersions(version),
    )
    try:
        for add in adds:
            state.runs.add(decode_object_add(add), topics)
    except IndexError as problem:
        raise CorruptData(
            f"The checkpoint {version} of journal {journal} has records of unknown partitions."
        ) from problem
    return state


def live_objects(table: pa.Table) -> list[CommittedObject]:
    """Return the objects in a journal's reconciled log (``checkpoint.SCHEMA``), oldest first. Raises ``CorruptData``."""
    return [decode_object_add(add) for add in _adds(table)]


def _adds(table: pa.Table) -> list[Add]:
    adds = [
        Add(
            path=row["path"],
            size=row["size"],
            modification_time=row["modificationTime"],
            data_change=False,
            tags=dict(row["tags"] or ()),
        )
        for row in select_actions(table, "add").to_pylist()
    ]
    return sorted(adds, key=lambda add: add.modification_time)
