"""What a log needs to know of its table: where it lies, what errors call it, how its state is made.

Topics, transactions and consumers' offsets are tables alike: one log, one committer, one set of rules serves them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from log_format.delta.actions import Commit

NO_LOG: Final = -1
"""The version of a table that has no commit yet."""


class TableState(Protocol):
    """What replaying a table's log up to one version gives."""

    @property
    def version(self) -> int:
        """Of the newest commit applied; ``NO_LOG`` when there is none."""
        ...

    def apply(self, commit: Commit, version: int) -> Self:
        """The state after the next commit. Raises ``CorruptData``."""
        ...


StateT = TypeVar("StateT", bound=TableState)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(Generic[StateT]):
    """One table. ``fields`` go into every error about it."""

    root: str
    """The key prefix of everything in it, with its slash at the end."""
    label: str
    """What errors call it."""
    fields: Mapping[str, Any]
    absent: Callable[[], StateT]
    """The state before the first commit."""
    read_checkpoint: Callable[[bytes, int], StateT]
    """The state that a checkpoint's bytes give at its version. Raises ``CorruptData``."""
