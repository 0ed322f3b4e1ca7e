"""A topic at a journal as readers see it: the state of its own log, extended by what only the journal has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from log_format.journal.state import JournalState
from log_format.journal.topics import JournalTopic
from log_format.journal.undrained import Undrained
from log_format.manifest.manifest import LocatedRun, Manifest
from log_format.segments.run import SegmentRef
from log_format.topic.partition_offsets import Offsets
from log_format.topic.state import TopicState


class AheadOfTable(Exception):
    """Signal that the journal has dropped records that the state lacks: the topic's own log has gone on. Refresh that log."""


def overlay_journal(state: TopicState, journal: JournalState) -> TopicState:
    """Return the topic's state with the journal's records, producers and transactions.

    ``state`` is the state of the topic's own log. It is returned unchanged if the topic is at no journal, or the journal does not
    know of its stay. Raises ``AheadOfTable``.
    """
    topic = journal_topic(state, journal)
    if topic is None:
        return state
    undrained = journal.runs.of(topic.topic_id)
    count = min(len(topic.drained), state.partition_count)
    # The runs may be those of a later state, which has dropped what only that state knows to be drained.
    forgotten = topic.next_offsets if undrained is None else undrained.drained[:count]
    if (np.maximum(topic.drained[:count], forgotten[:count]) > state.next_offsets[:count]).any():
        raise AheadOfTable
    is_drained = undrained is None and bool((topic.next_offsets[:count] <= state.next_offsets[:count]).all())
    remembered = topic.producers, topic.transactions
    if is_drained and not len(topic.producers) and remembered == (state.producers, state.transactions):
        return state
    next_offsets = topic.next_offsets
    if len(next_offsets) != state.partition_count or (next_offsets < state.next_offsets).any():
        next_offsets = state.next_offsets.copy()
        next_offsets[:count] = np.maximum(next_offsets[:count], topic.next_offsets[:count])
        next_offsets.flags.writeable = False
    manifest = state.manifest
    if undrained is not None:
        manifest = OverlaidManifest(state.manifest, state.next_offsets, undrained, journal.journal)
    return replace(
        state,
        next_offsets=next_offsets,
        producers=topic.producers,
        transactions=topic.transactions,
        manifest=manifest,
        undrained_count=0 if undrained is None else undrained.record_count,
        undrained_since_ms=topic.undrained_since_ms,
    )


def journal_topic(state: TopicState, journal: JournalState) -> JournalTopic | None:
    """Return the journal's state of the topic's present stay; None if the journal has none yet, or the topic is elsewhere."""
    topic = journal.topic(state.topic_id)
    return topic if topic is not None and is_current_stay(state, topic, journal.journal) else None


def may_have_left(state: TopicState, journal: JournalState) -> bool:
    """Return whether the topic may have left the journal after ``state``.

    This is so if the journal has closed the topic's number and does not know its stay. Either the stay ended, and ``state`` lacks
    some records; or it never began here, and ``state`` has all. A refresh of the topic's log after this state of the journal
    tells.
    """
    here, topic_id = state.attachment, state.topic_id
    if here is None or topic_id is None or here.journal != journal.journal:
        return False
    return journal.topics.closed_number(topic_id) >= here.number and journal_topic(state, journal) is None


def is_current_stay(state: TopicState, topic: JournalTopic, journal: int) -> bool:
    """Return whether the topic is on the stay that the journal knows. Otherwise the topic left, or was deleted."""
    here = state.attachment
    is_here = here is not None and here.journal == journal and here.first == topic.first
    return is_here and state.topic_id == topic.topic_id


def is_open(state: TopicState, journal: JournalState) -> bool:
    """Return whether the journal has the topic open under the number of ``state``: then nothing else changed in the
    topic's log."""
    topic = journal_topic(state, journal)
    return (
        topic is not None and state.attachment is not None and topic.is_open and topic.number == state.attachment.number
    )


class OverlaidManifest(Manifest):
    """A topic's own manifest, and the runs that only the journal has. It is not updated: make a new one for a newer state.

    Below ``ends``, the table's next offsets, only the topic's own table counts. This class has no columns of its own.
    """

    __slots__ = ("_ends", "_journal", "_over", "_own")

    def __init__(self, own: Manifest, ends: Offsets, undrained: Undrained, journal: int) -> None:  # no columns
        self._own = own
        self._ends = ends
        self._over = undrained
        self._journal = journal

    def find(self, partition: int, offset: int) -> LocatedRun | None:
        """Return the run, as ``Manifest.find`` does."""
        own = self._own.find(partition, offset)
        return self._of_journal(self._over.find(partition, self._past(partition, offset))) if own is None else own

    def runs_from(self, partition: int, offset: int, *, count_max: int, bytes_max: int) -> list[tuple[LocatedRun, int]]:
        """Return runs of the topic's own table, as ``Manifest.runs_from`` does."""
        return self._own.runs_from(partition, offset, count_max=count_max, bytes_max=bytes_max)

    def find_timestamp(self, partition: int, offset: int, timestamp_ms: int) -> LocatedRun | None:
        """Return the run, as ``Manifest.find_timestamp`` does."""
        own = self._own.find_timestamp(partition, offset, timestamp_ms)
        if own is not None:
            return own
        return self._of_journal(self._over.find_timestamp(partition, self._past(partition, offset), timestamp_ms))

    def newest_timestamp_ms(self, partition: int, offset: int) -> int | None:
        """Return the timestamp, as ``Manifest.newest_timestamp_ms`` does."""
        own = self._own.newest_timestamp_ms(partition, offset)
        return self._over.newest_timestamp_ms(partition, self._past(partition, offset)) if own is None else own

    def ends_at(self, partition: int, times_ms: npt.NDArray[np.int64], start_offset: int) -> npt.NDArray[np.float64]:
        """Return about the end offsets, as ``Manifest.ends_at`` does."""
        found = self._own.ends_at(partition, times_ms, start_offset)
        own_end = self._past(partition, 0)
        over = list(self._over.ends(partition, own_end))
        if not over:
            return found
        newest_ms = self._own.newest_timestamp_ms(partition, own_end - 1)
        late, ends = zip(*([] if newest_ms is None else [(newest_ms, own_end)]), *over, strict=True)
        np.maximum(found, np.interp(times_ms, np.maximum.accumulate(late), ends, left=0.0), out=found)
        return found

    def size_bytes(self, partition: int) -> int:
        """Return the stored bytes, as ``Manifest.size_bytes`` does."""
        return self._own.size_bytes(partition) + self._over.stored_bytes(partition, self._past(partition, 0))

    def retention_start(self, partition: int, *, oldest_ms: int | None, bytes_max: int | None) -> int:
        """Return the offset for the topic's own table, as ``Manifest.retention_start`` does."""
        return self._own.retention_start(partition, oldest_ms=oldest_ms, bytes_max=bytes_max)

    def has_all(self, paths: Iterable[str]) -> bool:
        """Return the answer for the topic's own table, as ``Manifest.has_all`` does."""
        return self._own.has_all(paths)

    def paths_within(self, partition: int, start_offset: int, end_offset: int) -> set[str]:
        """Return paths of the topic's own table, as ``Manifest.paths_within`` does."""
        return self._own.paths_within(partition, start_offset, end_offset)

    def runs(self, partition: int) -> list[LocatedRun]:
        """Return all runs, as ``Manifest.runs`` does."""
        over = self._over.runs(partition, self._past(partition, 0))
        return [*self._own.runs(partition), *(replace(run, journal=self._journal) for run in over)]

    def segments(self) -> list[SegmentRef]:
        """Return segments of the topic's own table, as ``Manifest.segments`` does."""
        return self._own.segments()

    def segment_count(self) -> int:
        """Return the number for the topic's own table, as ``Manifest.segment_count`` does."""
        return self._own.segment_count()

    @property
    def memory_bytes(self) -> int:
        """Estimated memory of the topic's own manifest in bytes."""
        return self._own.memory_bytes

    def segments_below(self, log_starts: Mapping[int, int], *, count_max: int | None = None) -> Sequence[SegmentRef]:
        """Return segments of the topic's own table, as ``Manifest.segments_below`` does."""
        return self._own.segments_below(log_starts, count_max=count_max)

    def _past(self, partition: int, offset: int) -> int:
        return max(offset, int(self._ends[partition]))

    def _of_journal(self, run: LocatedRun | None) -> LocatedRun | None:
        return None if run is None else replace(run, journal=self._journal)
