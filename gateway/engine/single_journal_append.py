"""Records of several topics by one commit of the journal that all of them share: all or nothing, with nothing staged.

The commit is one version of the journal, so readers see all of its records or none. Used on the event loop only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.engine.open_journal import Journals
from gateway.engine.open_topic import OpenTopic
from gateway.engine.waiters import DrainFlag
from log_format.journal.append import PartlyRefused, RoutedBatch
from log_format.journal.entries import attach_entry_bytes
from log_format.limits import JOURNAL_ATTACH_BYTES_MAX, JOURNAL_RUNS_MAX
from log_format.topic.append import Batch
from log_format.topic.append_outcome import AppendedRange

SINGLE_COMMIT_BYTES_MAX: Final = 1024 * 1024
"""Bytes of records above which a request is staged: a journal is for small requests, and each of these is a commit of its own."""

RangesByTopic = dict[str, tuple[AppendedRange, ...]]


class SingleJournalAppend:
    """Appends of several topics by one commit of a journal that is open in this gateway."""

    def __init__(self, journals: Journals, draining: DrainFlag) -> None:
        self._journals = journals
        self._draining = draining

    async def append(self, parts: Sequence[tuple[OpenTopic, Batch]]) -> RangesByTopic | None:
        """Commit the batches at the journal that the topics share; return the places by topic and partition.

        Return None if nothing happened and the records must be staged: they are not small, their topics share no journal, or
        one batch is refused (staging says why). Raises ``BackOff`` (nothing happened), ``OutcomeUnknown``.
        """
        routed = [RoutedBatch(topic.log.state, batch) for topic, batch in parts]
        number = _shared_journal(routed)
        if number is None or not _is_small(routed):
            return None
        self._draining.check()
        journal = self._journals.get(number)
        journal.check_room()
        try:
            outcomes = await journal.writer.append_all_or_none(routed)
        except PartlyRefused:
            return None
        offset_ranges: RangesByTopic = {}
        for (topic, _), outcome in zip(parts, outcomes, strict=True):
            assert isinstance(outcome, tuple)
            offset_ranges[topic.name] = _joined(offset_ranges.get(topic.name, ()), outcome)
        return dict(sorted(offset_ranges.items()))


def _shared_journal(routed: Sequence[RoutedBatch]) -> int | None:
    numbers = {None if own.attachment is None else own.attachment.journal for own, _ in routed}
    return numbers.pop() if len(numbers) == 1 else None


def _is_small(routed: Sequence[RoutedBatch]) -> bool:
    states = {own.topic_id: own for own, _ in routed}
    return (
        sum(batch.nbytes for _, batch in routed) <= SINGLE_COMMIT_BYTES_MAX
        and sum(len(batch.counts) for _, batch in routed) <= JOURNAL_RUNS_MAX
        and sum(map(attach_entry_bytes, states.values())) <= JOURNAL_ATTACH_BYTES_MAX
    )


def _joined(before: tuple[AppendedRange, ...], after: tuple[AppendedRange, ...]) -> tuple[AppendedRange, ...]:
    """Return the places of two batches of one topic, where ``after`` follows ``before`` in each partition."""
    joined = {place.partition: place for place in before}
    for place in after:
        first = joined.get(place.partition)
        joined[place.partition] = (
            place if first is None else AppendedRange(place.partition, first.base_offset, first.count + place.count)
        )
    return tuple(joined[partition] for partition in sorted(joined))
