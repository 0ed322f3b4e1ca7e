"""The protocol of a change to a table, and the actions that make the change at a given state.

The committer proposes a change at the state that it believes to be the head, and again at each newer head that it finds
(docs/format.md, section 6). ``propose`` validates everything each time. It is pure: the same state and time give the same
proposal. If it raises, the change can't be made at that state, and nothing has happened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from log_format.delta.actions import Action

ResultT_co = TypeVar("ResultT_co", covariant=True)
StateT_contra = TypeVar("StateT_contra", contravariant=True)


class StagedFile(Protocol):
    """A data file with a unique path, relative to the table. The committer sets the last two attributes."""

    path: str
    uploaded_at_ms: int | None
    is_too_old: bool

    @property
    def data(self) -> bytes:
        """Bytes of the file."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal(Generic[ResultT_co]):
    """The actions that make a change at one state, the segment to upload before the commit, and the change's result.

    A proposal without actions and tags means that nothing is to be committed: the change is made already, or can't be made.
    ``result`` says which.
    """

    operation: str
    actions: Sequence[Action]
    result: ResultT_co
    segment: StagedFile | None = None
    tags: Mapping[str, str] | None = None
    """Tags of the commit itself (``commitInfo.tags``)."""
    content: Any = None
    """Decoded content of the commit's tags, if the change knows it without decoding (``Commit.content``)."""
    after: Any = None
    """State that applying the commit gives, if the change knows it already; None if the commit must be applied."""


class TableChange(Protocol[StateT_contra, ResultT_co]):
    """A change to a table."""

    def propose(self, state: StateT_contra, now_ms: int) -> Proposal[ResultT_co]:
        """Return what to commit on top of ``state``. Raises ``TidelogError`` if the change can't be made at that state."""
        ...
