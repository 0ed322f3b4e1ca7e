"""A wish about a table, and what would fulfil it at a given state.

A change is proposed against the state that the committer believes to be the head, and again against each newer one that it
finds (docs/format.md, section 6): ``propose`` is where everything is validated, every time. It is pure: the same state and time
give the same proposal. It raises when the wish can't be fulfilled there; nothing has happened then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from log_format.delta.actions import Action

ResultT_co = TypeVar("ResultT_co", covariant=True)
StateT_contra = TypeVar("StateT_contra", contravariant=True)


class StagedFile(Protocol):
    """A data file under a path of its own, relative to the table. The committer sets the last two."""

    path: str
    uploaded_at_ms: int | None
    is_too_old: bool

    @property
    def data(self) -> bytes:
        """The file."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal(Generic[ResultT_co]):
    """Actions that fulfil a change at one state, the segment they need in the store first, and what they will have done.

    No actions: it is fulfilled already, or nothing of it can be (``result`` says).
    """

    operation: str
    actions: Sequence[Action]
    result: ResultT_co
    segment: StagedFile | None = None


class TableChange(Protocol[StateT_contra, ResultT_co]):
    """A wish about a table."""

    def propose(self, state: StateT_contra, now_ms: int) -> Proposal[ResultT_co]:
        """What to commit on top of ``state``. Raises ``TidelogError`` when that can't be."""
        ...
