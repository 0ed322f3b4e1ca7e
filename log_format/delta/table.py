"""What a log needs to know of its table: its root, its name in errors, how its state is made.

One log, one committer and one set of rules serve topics, transactions and consumer offsets alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from log_format.delta.actions import Commit

NO_LOG: Final = -1
"""The version of a table without commits."""


class TableState(Protocol):
    """The result of replaying a table's log up to one version."""

    @property
    def version(self) -> int:
        """Of the newest commit applied; ``NO_LOG`` without one."""
        ...

    def apply(self, commit: Commit, version: int) -> Self:
        """The state after the next commit. Raises ``CorruptData``."""
        ...


StateT = TypeVar("StateT", bound=TableState)
StateT_co = TypeVar("StateT_co", bound=TableState, covariant=True)


class TableDescription(Protocol[StateT_co]):
    """One table."""

    @property
    def root(self) -> str:
        """The key prefix of all its objects, ending with a slash."""
        ...

    @property
    def label(self) -> str:
        """Its name in errors."""
        ...

    @property
    def fields(self) -> Mapping[str, Any]:
        """They go into every error about it."""
        ...

    @property
    def absent(self) -> Callable[[], StateT_co]:
        """The state before the first commit."""
        ...

    @property
    def read_checkpoint(self) -> Callable[[bytes, int], StateT_co]:
        """The state in a checkpoint's bytes at its version. Raises ``CorruptData``."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(Generic[StateT]):
    """A table of which a store has few: see ``TableDescription``."""

    root: str
    label: str
    fields: Mapping[str, Any]
    absent: Callable[[], StateT]
    read_checkpoint: Callable[[bytes, int], StateT]
