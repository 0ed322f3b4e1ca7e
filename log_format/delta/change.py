"""A change to a table, and the actions that make it at a given state.

The committer proposes a change at the state that it believes to be the head, and again at each newer head that it finds
(docs/format.md, section 6). ``propose`` validates everything, every time. It is pure: the same state and time give the same
proposal. When it raises, the change can't be made there, and nothing has happened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from log_format.delta.actions import Action

ResultT_co = TypeVar("ResultT_co", covariant=True)
StateT_contra = TypeVar("StateT_contra", contravariant=True)


class StagedFile(Protocol):
    """A data file under a unique path, relative to the table. The committer sets the last two attributes."""

    path: str
    uploaded_at_ms: int | None
    is_too_old: bool

    @property
    def data(self) -> bytes:
        """The file."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal(Generic[ResultT_co]):
    """The actions that make a change at one state, the segment to put before them, and the change's result.

    Without actions and tags the change is made already, or no part of it can be; ``result`` says which.
    """

    operation: str
    actions: Sequence[Action]
    result: ResultT_co
    segment: StagedFile | None = None
    tags: Mapping[str, str] | None = None
    """Of the commit itself (``commitInfo.tags``)."""
    content: Any = None
    """What reading the commit gives, where the change knows it anyhow (``Commit.content``)."""
    after: Any = None
    """The state that applying the commit gives, where the change knows it anyhow. None: it is to be applied."""


class TableChange(Protocol[StateT_contra, ResultT_co]):
    """A change to a table."""

    def propose(self, state: StateT_contra, now_ms: int) -> Proposal[ResultT_co]:
        """What to commit on top of ``state``. Raises ``TidelogError`` when the change can't be made there."""
        ...
