"""Erasing in a topic's archive: all of its files are looked at in pieces, and those with something to erase are rewritten.

The archive may have millions of files, so memory has one piece of the checkpoint's second part, and 8 bytes for each file that
was looked at. Every rewrite is validated by the archive's version: another maintenance that changes the archive ends the pass,
and the next one goes on with what was not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from compaction.path_set import PathSet
from log_format.checkpoints.archive_rows import read_archive
from log_format.delta.actions import plain_path
from log_format.delta.checkpoint_schema import select_actions
from log_format.errors import CorruptData, log_outran_reader
from log_format.store import ObjectStore
from log_format.topic.live_segments import LiveSegment, live_segments
from log_format.topic.state import TopicState

SEGMENTS_AT_ONCE: Final = 64
"""Most segments of one commit."""
BYTES_AT_ONCE: Final = 1024 * 1024 * 1024
"""Most stored bytes of the segments of one commit: minutes of work, while uploads must be committed within an hour."""


class Erased(NamedTuple):
    """Segments in which nothing is left, and the version of the archive then; None if it has changed since it was looked at."""

    clean: set[str]
    archive_version: int | None


Erase = Callable[[Sequence[LiveSegment], int], Erased]
"""Function that erases in some files of the archive at a version of it."""


class ArchiveErasures:
    """The archive of one topic in one round, for the same requests. ``has_stats``: whether ``Erase`` needs statistics."""

    def __init__(self, store: ObjectStore, topic: str, *, has_stats: bool = False) -> None:
        self._has_stats = has_stats
        self._store = store
        self._topic = topic
        self._clean = PathSet()

    @property
    def read_count(self) -> int:
        """Number of files in which nothing is left, or that were replaced."""
        return len(self._clean)

    def run(self, state: TopicState, now_ms: int, erase: Erase) -> int | None:
        """Erase in each file of the archive at ``state`` that was not looked at. Return the version of the archive in which
        nothing is left; None if it has to be looked at again.

        Raises ``CorruptData``, ``StoreUnavailable``, and what ``erase`` raises.
        """
        if not state.archive.segment_count:
            return state.archive.version
        at = state.archive.version
        is_whole = False

        def take(pieces: Iterator[pa.Table]) -> CorruptData | None:
            nonlocal at, is_whole
            for some in (some for piece in pieces for some in segment_batches(self._new(piece))):
                try:
                    done = erase(some, at)
                except CorruptData as problem:
                    return problem  # a damaged segment, while the checkpoint is whole
                if done.archive_version is None:
                    return None
                at = done.archive_version
                self._clean.add({*done.clean, *(one.segment.path for one in some)})
            is_whole = True
            return None

        problem = read_archive(self._store, self._topic, state.version, now_ms, take)
        if problem is not None:
            raise problem
        return at if is_whole else None

    def _new(self, piece: pa.Table) -> list[LiveSegment]:
        live = live_segments(piece, has_stats=self._has_stats)
        known = self._clean.contains([one.segment.path for one in live])
        return [one for one, is_known in zip(live, known.tolist(), strict=True) if not is_known]


def archived_set(store: ObjectStore, state: TopicState, now_ms: int) -> PathSet:
    """Return the paths of the archive's files at ``state``, which must be near the head.

    Raises ``BackOff`` if a checkpoint of a later version exists, ``StoreUnavailable``, ``CorruptData``.
    """

    def take(pieces: Iterator[pa.Table]) -> PathSet:
        found = PathSet()
        for piece in pieces:
            found.add(map(plain_path, pc.struct_field(select_actions(piece, "add"), "path").to_pylist()))
        return found

    if not state.archive.segment_count:
        return PathSet()
    paths = read_archive(store, state.topic, state.version, now_ms, take)
    if paths is None:
        raise log_outran_reader(state.topic)
    return paths


def segment_batches(segments: Iterable[LiveSegment]) -> Iterator[Sequence[LiveSegment]]:
    """Yield the segments in batches of what one commit may replace."""
    batch: list[LiveSegment] = []
    size_bytes = 0
    for one in segments:
        if batch and (len(batch) >= SEGMENTS_AT_ONCE or size_bytes + one.segment.size_bytes > BYTES_AT_ONCE):
            yield batch
            batch, size_bytes = [], 0
        batch.append(one)
        size_bytes += one.segment.size_bytes
    if batch:
        yield batch
