"""Writing a system table: each commit adds one data file whose tag has the changes; compaction puts all rows into one file.

All system tables share this. Each defines its own rows.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, ClassVar, Final, Generic, Self, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from log_format.delta.actions import PROTOCOL, Action, Add, Commit, MetaData, Remove
from log_format.delta.change import Proposal
from log_format.delta.table import NO_LOG
from log_format.delta.table_schema import schema_string
from log_format.errors import CorruptData, TidelogError
from log_format.ids import NewId


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemTableState:
    """State common to all system tables, at one version (``NO_LOG`` before the first commit). Immutable."""

    version: int = NO_LOG
    files: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Path -> size in bytes of each live data file, oldest first."""
    modification_time_ms: int = 0
    """Largest modification time of the files."""

    @abstractmethod
    def with_adds(self, adds: Iterable[Add]) -> Self:
        """Return the state after the changes in the tags of these ``add``; version and files stay. Raises ``CorruptData``."""

    def apply(self, commit: Commit, version: int) -> Self:
        """Return the state after the next commit. Raises ``CorruptData``."""
        if version != self.version + 1:
            raise ValueError(f"commit {version} does not follow version {self.version}")
        return self.with_adds(add for add in commit.adds if add.data_change).with_files(commit.adds, commit.removes)

    def with_files(self, adds: Sequence[Add], removes: Iterable[Remove] = ()) -> Self:
        """Return the state at the next version, which adds and removes these files."""
        files = dict(self.files)
        for remove in removes:
            files.pop(remove.path, None)
        files.update({add.path: add.size for add in adds})
        return replace(
            self,
            version=self.version + 1,
            files=MappingProxyType(files),
            modification_time_ms=max([self.modification_time_ms, *(add.modification_time for add in adds)]),
        )


T = TypeVar("T")
DecisionT = TypeVar("DecisionT")
OutcomeT = TypeVar("OutcomeT")
ChangesT = TypeVar("ChangesT")
StateT_contra = TypeVar("StateT_contra", bound=SystemTableState, contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableContents:
    """The bytes of a data file, and the tags of its ``add``."""

    data: bytes
    row_count: int
    tags: dict[str, str | None]


@dataclass(slots=True)
class StagedRows:
    """The data file of a commit, before its upload by the committer."""

    path: str
    data: bytes
    uploaded_at_ms: int | None = None
    is_too_old: bool = False


def data_bytes(rows: pa.Table) -> bytes:
    """Encode these rows as a data file."""
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="zstd", store_schema=False)
    return bytes(sink.getvalue().to_pybytes())


DOCUMENTS_SCHEMA: Final = pa.schema(
    [
        ("kind", pa.string()),
        ("name", pa.string()),
        ("document", pa.string()),
        ("changed_at", pa.timestamp("us", tz="UTC")),
    ]
)
"""Columns of a table of documents: a row for each changed one."""
DocumentRow = tuple[str, str, str | None]
"""Kind, name and JSON of a document; None: it was deleted."""


def documents_contents(rows: Sequence[DocumentRow], now_ms: int, tags: dict[str, str | None]) -> TableContents:
    """Return the contents of a data file with these documents, ``DOCUMENTS_SCHEMA``, changed at ``now_ms``."""
    columns: dict[str, list[Any]] = {
        "kind": [kind for kind, _, _ in rows],
        "name": [name for _, name, _ in rows],
        "document": [document for _, _, document in rows],
        "changed_at": [now_ms * 1000] * len(rows),
    }
    return TableContents(data=data_bytes(pa.table(columns, schema=DOCUMENTS_SCHEMA)), row_count=len(rows), tags=tags)


def data_file(
    state: SystemTableState, contents: TableContents, path: str, now_ms: int, *, data_change: bool
) -> tuple[StagedRows, Add]:
    """Return a data file and its ``add``.

    Args:
        state: the table; the file's time is above all its earlier ones, so that the order of times is that of commits.
        contents: content and tags of the file.
        path: path relative to the table.
        now_ms: present time, in ms since the epoch.
        data_change: whether the rows are new in the table.
    """
    add = Add(
        path=path,
        size=len(contents.data),
        modification_time=max(now_ms, state.modification_time_ms + 1),
        data_change=data_change,
        stats=json.dumps({"numRecords": contents.row_count}),
        tags=contents.tags,
    )
    return StagedRows(path=path, data=contents.data), add


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemTable:
    """What distinguishes a system table. ``directory``: that of its data files, relative to the table."""

    name: str
    schema: pa.Schema
    directory: str


class Decide(ABC, Generic[StateT_contra, DecisionT, OutcomeT]):
    """A change that commits several decisions. The result has an outcome for each."""

    table: ClassVar[SystemTable]

    def __init__(self, decisions: Sequence[DecisionT], new_id: NewId) -> None:
        assert decisions
        self._decisions = tuple(decisions)
        self._new_id = new_id

    @abstractmethod
    def judge(
        self, decisions: Sequence[DecisionT], state: StateT_contra, now_ms: int
    ) -> tuple[list[OutcomeT], TableContents | None]:
        """Return an outcome for each decision, judged with the decisions before it applied, and the rows that they write
        together; None if they write none."""

    def propose(self, state: StateT_contra, now_ms: int) -> Proposal[Sequence[OutcomeT]]:
        """Propose one ``add`` with the rows; no actions if no decision needs a row. Refusals are in the result.

        The first commit also creates the table.
        """
        outcomes, contents = self.judge(self._decisions, state, now_ms)
        if contents is None:
            return Proposal(operation="WRITE", actions=(), result=outcomes)
        path = f"{self.table.directory}/{self._new_id()}.parquet"
        file, add = data_file(state, contents, path, now_ms, data_change=True)
        actions: list[Action] = [add]
        if state.version == NO_LOG:
            actions = [PROTOCOL, table_metadata(self.table.name, self.table.schema, self._new_id(), now_ms), add]
        return Proposal(operation="WRITE", actions=actions, result=outcomes, segment=file)


def judge_in_order(
    decisions: Iterable[DecisionT],
    decide: Callable[[DecisionT], ChangesT | TidelogError],
    take: Callable[[ChangesT], None],
    subject: Callable[[DecisionT], T],
) -> tuple[list[T | TidelogError], list[ChangesT]]:
    """Judge decisions, each with the changes of those before it applied.

    Args:
        decisions: in the order of their commit.
        decide: returns what a decision writes, perhaps nothing, or its refusal.
        take: applies changes that are not empty.
        subject: returns the state of what a decision changes. It is the outcome as of that decision: a later one of the same
            commit may delete the subject without undoing this one.

    Returns:
        An outcome for each decision, and the changes that are not empty.
    """
    outcomes: list[T | TidelogError] = []
    written: list[ChangesT] = []
    for decision in decisions:
        changes = decide(decision)
        if isinstance(changes, TidelogError):
            outcomes.append(changes)
            continue
        if changes:
            take(changes)
            written.append(changes)
        outcomes.append(subject(decision))
    return outcomes, written


def table_metadata(name: str, schema: pa.Schema, table_id: str, now_ms: int) -> MetaData:
    """Return the metadata of a new system table."""
    return MetaData(
        id=table_id,
        name=name,
        schema_string=schema_string(schema),
        configuration={"delta.enableExpiredLogCleanup": "false"},
        created_time=now_ms,
    )


class CompactTable(Generic[StateT_contra]):
    """A change that replaces all data files by one with the current rows. The result is how many files were replaced."""

    def __init__(self, new_id: NewId, *, files_min: int) -> None:
        self._new_id = new_id
        self._files_min = files_min

    @abstractmethod
    def contents(self, state: StateT_contra) -> TableContents:
        """Return the rows that give ``state``."""

    def propose(self, state: StateT_contra, now_ms: int) -> Proposal[int]:
        """Propose one ``add``, and a ``remove`` for each live file; no actions with fewer than ``files_min`` files."""
        if len(state.files) < self._files_min:
            return Proposal(operation="OPTIMIZE", actions=(), result=0)
        path = f"compacted/{self._new_id()}.parquet"
        file, add = data_file(state, self.contents(state), path, now_ms, data_change=False)
        removes = [
            Remove(
                path=path,
                deletion_timestamp=now_ms,
                data_change=False,
                extended_file_metadata=True,
                partition_values={},
                size=size,
            )
            for path, size in state.files.items()
        ]
        return Proposal(operation="OPTIMIZE", actions=[add, *removes], result=len(removes), segment=file)


def decode_add_tag(table: str, path: str, tags: Mapping[str, str | None], name: str, decode: Callable[[str], T]) -> T:
    """Decode the tag ``name`` of the ``add`` of ``path``; ``table`` is named in errors. Raises ``CorruptData``."""
    tag = tags.get(name)
    try:
        if tag is None:
            raise ValueError(f"it has no tag {name}")
        return decode(tag)
    except ValueError as problem:
        raise CorruptData(f"The entry for {path} of {table} can't be used: {problem}.", object=path) from problem
