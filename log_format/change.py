"""A wish about a table, and what would fulfil it at a given state.

A change is proposed against the state that the committer believes to be the head, and again against each newer one that it
finds (DESIGN, "The commit"): ``propose`` is where everything is validated, every time. It is pure: the same state and time
give the same proposal. It raises when the wish can't be fulfilled there; nothing has happened then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from log_format.delta import Action
from log_format.segment import EncodedSegment
from log_format.topic_state import TopicState

ResultT_co = TypeVar("ResultT_co", covariant=True)
StateT_contra = TypeVar("StateT_contra", contravariant=True)

NewId = Callable[[], str]
"""Makes ids that no one else will ever make, of ``[A-Za-z0-9-]``: the only randomness that the format uses."""


class StagedFile(Protocol):
    """A data file under a path of its own, relative to the table. The committer sets the last two."""

    path: str
    uploaded_at_ms: int | None
    is_too_old: bool

    @property
    def data(self) -> bytes:
        """The file."""
        ...


@dataclass(slots=True)
class StagedSegment:
    """An encoded segment under a path of its own, and when its upload began (monotonic ms); None: not in the store yet."""

    path: str
    encoded: EncodedSegment
    uploaded_at_ms: int | None = None
    is_too_old: bool = False
    """Set by the committer: the change that staged it has to place it anew, under another path, with its next proposal."""

    @property
    def data(self) -> bytes:
        """The segment's bytes."""
        return self.encoded.data


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


class Change(TableChange[TopicState, ResultT_co], Protocol[ResultT_co]):
    """A wish about a topic."""
