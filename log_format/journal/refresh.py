"""Reading topics and their journals for programs without a gateway: each topic with the records that only its journal has.

1. A journal is refreshed once for all its topics, and before them. So records that are drained meanwhile are seen in both.
2. If a journal has not closed a topic's number, nothing but drains and maintenance has changed the topic since its last refresh.
   So the topic is refreshed again only after ``HEAD_TRUSTED_MS``, or if the journal has forgotten records that the topic's state
   lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from log_format import limits
from log_format.delta.log import TableLog
from log_format.errors import BackOff
from log_format.journal.state import JournalState
from log_format.journal.view import AheadOfTable, may_have_left, overlay_journal
from log_format.topic.state import TopicState

JournalOf = Callable[[int], TableLog[JournalState]]
"""Function that returns the log of a journal by number: the same object each time."""
MapStates = Callable[
    [Callable[[TableLog[TopicState]], TopicState], Iterable[TableLog[TopicState]]], Iterator[TopicState]
]
"""Function like ``map`` that may make several calls in parallel."""

_ROUNDS_MAX: Final = 5
"""Most refreshes of a topic and its journal until both agree. Two suffice unless the topic moves each time."""


def refresh_topics(
    logs: Sequence[TableLog[TopicState]], journal_of: JournalOf, each: MapStates = map
) -> list[TopicState]:
    """Return the topics, in order, with every record that was acknowledged before this call.

    Args:
        logs: the topics' own logs.
        journal_of: returns the log of a journal.
        each: ``map``, by which logs are refreshed, perhaps in parallel.

    Raises ``StoreUnavailable``, ``CorruptData``; ``BackOff`` if a topic moves all the time.
    """
    journals: dict[int, JournalState] = {}
    found: dict[int, TopicState] = {}
    _refresh_journals(logs, journal_of, journals)
    behind = [index for index, log in enumerate(logs) if not _is_current(log, journals)]
    found |= _views(logs, set(range(len(logs))) - set(behind), journals, frozenset())
    behind = [index for index in range(len(logs)) if index not in found]
    for _ in range(_ROUNDS_MAX):
        if not behind:
            return [found[index] for index in range(len(logs))]
        looked = [logs[index] for index in behind]
        for _state in each(TableLog.refresh, looked) if len(looked) > 1 else map(TableLog.refresh, looked):
            pass
        late = _refresh_journals(looked, journal_of, journals)
        found |= _views(logs, behind, journals, late)
        behind = [index for index in behind if index not in found]
    raise BackOff(f"Topic {logs[behind[0]].state.topic!r} moves between journal and table too often to be read.")


def refresh_topic(log: TableLog[TopicState], journal_of: JournalOf) -> TopicState:
    """Return one topic, like ``refresh_topics``."""
    (state,) = refresh_topics([log], journal_of)
    return state


def _refresh_journals(
    logs: Iterable[TableLog[TopicState]], journal_of: JournalOf, journals: dict[int, JournalState]
) -> frozenset[int]:
    """Refresh the topics' journals that are not in ``journals`` yet; return their numbers."""
    wanted = {log.state.attachment.journal for log in logs if log.state.attachment is not None}
    late = frozenset(wanted - journals.keys())
    for number in late:
        journals[number] = journal_of(number).refresh()
    return late


def _is_current(log: TableLog[TopicState], journals: dict[int, JournalState]) -> bool:
    """Return whether the topic's log needs no refresh: before any change to it the journal would have closed its number."""
    state, observed_ms = log.state, log.observed_ms
    here = state.attachment
    if here is None or state.topic_id is None or observed_ms is None:
        return False
    is_recent = log.clock.monotonic_ms() - observed_ms <= limits.HEAD_TRUSTED_MS
    return is_recent and journals[here.journal].topics.closed_number(state.topic_id) < here.number


def _views(
    logs: Sequence[TableLog[TopicState]],
    indices: Iterable[int],
    journals: dict[int, JournalState],
    late: frozenset[int],
) -> dict[int, TopicState]:
    """Return the topics with their journals' records, if both agree. ``late``: journals refreshed after the topics."""
    found = {}
    for index in indices:
        own = logs[index].state
        here = own.attachment
        if here is None or own.topic_id is None:
            found[index] = own
            continue
        journal = journals[here.journal]
        if here.journal in late and may_have_left(own, journal):
            continue
        try:
            found[index] = overlay_journal(own, journal)
        except AheadOfTable:
            continue
    return found
