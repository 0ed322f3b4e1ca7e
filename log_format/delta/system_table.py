"""How a system table is written: a commit adds one data file whose tag has the changes; a rewrite puts all into one file.

Shared by ``system/transactions`` and ``system/consumer_offsets``, which define their rows.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from log_format.delta.actions import Action, Add, MetaData, Remove
from log_format.delta.actions import Protocol as TableProtocol
from log_format.delta.change import Proposal
from log_format.delta.table import NO_LOG
from log_format.errors import CorruptData
from log_format.ids import NewId


class SystemTableState(Protocol):
    """What a writer needs to know of a state."""

    @property
    def version(self) -> int:
        """``NO_LOG`` before the first commit."""
        ...

    @property
    def files(self) -> Mapping[str, int]:
        """Sizes of the live data files by path."""
        ...

    @property
    def modification_time_ms(self) -> int:
        """The newest one of the files."""
        ...


T = TypeVar("T")
StateT_contra = TypeVar("StateT_contra", bound=SystemTableState, contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The content of a data file and the tags of its ``add``."""

    data: bytes
    row_count: int
    tags: dict[str, str | None]


@dataclass(slots=True)
class StagedRows:
    """The data file of a commit, for the committer."""

    path: str
    data: bytes
    uploaded_at_ms: int | None = None
    is_too_old: bool = False


def data_file(
    state: SystemTableState, contents: Contents, path: str, now_ms: int, *, data_change: bool
) -> tuple[StagedRows, Add]:
    """The file and its ``add``, whose time is above all earlier ones: the order of times is the order of commits."""
    add = Add(
        path=path,
        size=len(contents.data),
        modification_time=max(now_ms, state.modification_time_ms + 1),
        data_change=data_change,
        stats=json.dumps({"numRecords": contents.row_count}),
        tags=contents.tags,
    )
    return StagedRows(path=path, data=contents.data), add


def with_table(
    state: SystemTableState, add: Add, *, name: str, schema: str, new_id: NewId, now_ms: int
) -> list[Action]:
    """The actions of a commit with ``add``; the first commit also makes the table. ``schema``: as Delta writes it."""
    if state.version != NO_LOG:
        return [add]
    metadata = MetaData(
        id=new_id(),
        name=name,
        schema_string=schema,
        configuration={"delta.enableExpiredLogCleanup": "false"},
        created_time=now_ms,
    )
    return [TableProtocol(), metadata, add]


class CompactTable(Generic[StateT_contra]):
    """Replace all data files by one with the current rows. The result is how many were replaced."""

    def __init__(self, new_id: NewId, *, files_min: int) -> None:
        self._new_id = new_id
        self._files_min = files_min

    @abstractmethod
    def contents(self, state: StateT_contra) -> Contents:
        """The rows that give ``state``."""

    def propose(self, state: StateT_contra, now_ms: int) -> Proposal[int]:
        """One ``add`` and a ``remove`` for each live file; nothing with fewer than ``files_min`` files."""
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


def decoded_tag(table: str, path: str, tags: Mapping[str, str | None], name: str, decode: Callable[[str], T]) -> T:
    """The tag ``name`` of the ``add`` of ``path``; ``table`` is named in errors. Raises ``CorruptData``."""
    tag = tags.get(name)
    try:
        if tag is None:
            raise ValueError(f"it has no tag {name}")
        return decode(tag)
    except ValueError as problem:
        raise CorruptData(f"The entry for {path} of {table} can't be used: {problem}.", object=path) from problem
