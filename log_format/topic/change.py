"""A change to a topic, and the segment that it stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

from log_format.delta.change import TableChange
from log_format.segments.segment import EncodedSegment
from log_format.topic.state import TopicState

ResultT_co = TypeVar("ResultT_co", covariant=True)


@dataclass(slots=True)
class StagedSegment:
    """An encoded segment under a unique path, and when its upload began (monotonic ms); None: not in the store yet."""

    path: str
    encoded: EncodedSegment
    uploaded_at_ms: int | None = None
    is_too_old: bool = False
    """Set by the committer. The change must then stage it again, under another path, with its next proposal."""

    @property
    def data(self) -> bytes:
        """The segment's bytes."""
        return self.encoded.data


class Change(TableChange[TopicState, ResultT_co], Protocol[ResultT_co]):
    """A change to a topic."""
