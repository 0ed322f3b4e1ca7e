"""Description of a table for its log: its root, its name in errors, and how its state is made.

One implementation of log and committer, with the same rules, serves topics and all system tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from log_format.delta.actions import Commit

NO_LOG: Final = -1
"""Version of a table without commits."""


class TableState(Protocol):
    """The result of replaying a table's log up to one version."""

    @property
    def version(self) -> int:
        """Version of the newest commit applied; ``NO_LOG`` without one."""
        ...

    def apply(self, commit: Commit, version: int) -> Self:
        """Return the state after the next commit. Raises ``CorruptData``."""
        ...


StateT = TypeVar("StateT", bound=TableState)
StateT_co = TypeVar("StateT_co", bound=TableState, covariant=True)


class TableDescription(Protocol[StateT_co]):
    """Protocol of a table's description."""

    @property
    def root(self) -> str:
        """Key prefix of all objects of the table, ending with a slash."""
        ...

    @property
    def label(self) -> str:
        """Name of the table in errors."""
        ...

    @property
    def fields(self) -> Mapping[str, Any]:
        """Fields of every error about the table."""
        ...

    @property
    def absent(self) -> Callable[[], StateT_co]:
        """Function that returns the state before the first commit."""
        ...

    @property
    def read_checkpoint(self) -> Callable[[bytes, int], StateT_co]:
        """Function from a checkpoint's bytes and version to the state. Raises ``CorruptData``."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(Generic[StateT]):
    """The description of a table that is made by hand, since a store has few of them. ``TableDescription`` explains
    the fields."""

    root: str
    label: str
    fields: Mapping[str, Any]
    absent: Callable[[], StateT]
    read_checkpoint: Callable[[bytes, int], StateT]
