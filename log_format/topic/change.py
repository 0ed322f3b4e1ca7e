"""Changes to a topic, and the segment that a change stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

from log_format.delta.change import TableChange
from log_format.segments.segment import EncodedSegment
from log_format.topic.state import TopicState

ResultT_co = TypeVar("ResultT_co", covariant=True)


@dataclass(slots=True)
class StagedSegment:
    """An encoded segment with a unique path. ``uploaded_at_ms``: when its upload began (monotonic clock); None before
    the upload."""

    path: str
    encoded: EncodedSegment
    uploaded_at_ms: int | None = None
    is_too_old: bool = False
    """Whether the upload is too old to be committed. The committer sets it; the next proposal must then stage the segment at a
    new path."""

    @property
    def data(self) -> bytes:
        """Bytes of the segment."""
        return self.encoded.data


class Change(TableChange[TopicState, ResultT_co], Protocol[ResultT_co]):
    """A change to a topic."""
