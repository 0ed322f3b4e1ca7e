"""Requests to erase that a restored copy does not know of, made again in it.

A copy has its topics as they were. Requests that came later are beside the logs (``log_format.checkpoints.erasure_notes``) of the
store that was copied, of a newer copy of it, or of the original store, also if the topic is deleted there.

1. A request is made again unless the copied log has it, or the copied log's own store says that it was over at that version.
2. It is about the same offsets as before, as far as the copy has them: what came after it is not touched.
3. A topic at a journal is drained before, so its table has all that the request is about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from log_format import layout
from log_format.checkpoints.erasure_notes import read_notes, replace_note
from log_format.checkpoints.journal_log import JournalLogs
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import Clock
from log_format.delta.committer import Committer
from log_format.errors import ObjectExists, ObjectMissing, RequestRefused, TidelogError
from log_format.ids import NewId
from log_format.journal.reader import JournalReader
from log_format.journal.topic_writer import TopicWriter
from log_format.schemas.columns.subject_readers import StoredReaders
from log_format.store import ObjectStore
from log_format.topic.attachment import TopicMove
from log_format.topic.clone import as_requested
from log_format.topic.erasure_changes import RequestErasure
from log_format.topic.erasures import Erasure, ErasureNote
from log_format.topic.state import TopicState

ERASED_AT_ONCE: Final = 500
"""Most topics that one call carries out requests for: their names are a process's arguments."""
_CACHE_BYTES = 64 * 1024 * 1024
"""Cache of journals' objects in bytes."""
_ENGINE = "tidelog-restore"


class EraseAgain(NamedTuple):
    """How a restored copy is erased again.

    ``stores``: those that may know requests which the source does not. ``carry_out``: function that carries out the requests of
    these topics of the copy, by rewriting segments.
    """

    stores: Sequence[ObjectStore]
    carry_out: Callable[[Sequence[str]], None]
    new_id: NewId


class RestoredErasures:
    """The requests to erase of a copy's topics.

    Args:
        target: the copy.
        source: the store that was copied.
        others: stores that may know later requests: the original, or newer copies of it. All have the same cluster's key.
        clock: source of time.
        new_id: source of unique ids.
    """

    def __init__(
        self, target: ObjectStore, source: ObjectStore, others: Sequence[ObjectStore], *, clock: Clock, new_id: NewId
    ) -> None:
        self._target = target
        self._source = source
        self._others = others
        self._clock = clock
        self._new_id = new_id

    def request(self, topic: str, *, has_journal: bool = True) -> bool:
        """Make the topic's requests again; return whether any request is to be carried out.

        ``has_journal``: whether journals were copied. Raises ``RequestRefused``, ``BackOff``, ``CorruptData``,
        ``StoreUnavailable``, ``OutcomeUnknown``. Requests made before an error stay.
        """
        log = TopicLog(self._target, topic, self._clock)
        state = log.refresh()
        if not state.exists:
            return False
        missing = list(self._missing(state))
        if missing and has_journal and state.attachment is not None:
            state = self._drained(log)
        committer = Committer(log, new_id=self._new_id, engine=_ENGINE)
        for erasure in missing:
            move = TopicMove(closed=state.attachment, to=state.attachment, topic_id=state.topic_id)
            change = RequestErasure(
                topic_id=state.existing_id, erasure=as_requested(erasure), move=move, is_restored=True
            )
            made = committer.commit(change).result
            replace_note(self._target, topic, ErasureNote(erasure=made, topic_id=change.topic_id))
        return self.are_open(topic)

    def are_open(self, topic: str) -> bool:
        """Return whether records of the topic in the copy are still to be erased. Raises the same errors as ``request``."""
        state = TopicLog(self._target, topic, self._clock).refresh()
        return any(not one.is_rewritten for one in state.erasures)

    def _missing(self, state: TopicState) -> Iterator[Erasure]:
        """Yield each request that the topic's log does not know of, and that was not over at its version."""
        known = {one.erasure_id for one in state.erasures}
        for store in (self._source, *self._others):
            for note in read_notes(store, state.topic, state.existing_id, without=known):
                if note.erasure.erasure_id in known:
                    continue
                known.add(note.erasure.erasure_id)
                if store is not self._source or not _was_over(note, state.version):
                    yield note.erasure

    def _drained(self, log: TopicLog) -> TopicState:
        journals = JournalLogs(self._target, self._clock)
        writer = TopicWriter(
            journals.get,
            JournalReader(self._target, cache_bytes=_CACHE_BYTES),
            new_id=self._new_id,
            engine=_ENGINE,
            type_records=StoredReaders(self._target, self._clock).type_records,
        )
        here, entry = log.state.attachment, writer.drain(log)
        if here is not None and entry is not None:
            writer.note(here.journal, [entry])  # so that its objects are deleted
        return log.refresh()


def is_interrupted(target: ObjectStore, erasing: bytes) -> bool:
    """Return whether an interrupted restoration has copied everything, and was being erased again."""
    try:
        found = target.get(layout.COPYING)
    except ObjectMissing:
        return False
    if b"erasing" in found and found != erasing:
        raise RequestRefused(f"A restoration into the target was interrupted: run it again first ({found.decode()}).")
    return found == erasing


def erase_again(
    source: ObjectStore,
    target: ObjectStore,
    erase: EraseAgain,
    topics: Sequence[str],
    clock: Clock,
    *,
    has_journals: bool,
) -> Mapping[str, str]:
    """Make requests in the copy, and carry them out. Return the topics where that failed, and why."""
    for store in erase.stores:  # the copied store may be older than its cluster's key, by which requests name keys
        with suppress(ObjectMissing, ObjectExists):
            target.put_if_absent(layout.CLUSTER_KEY, store.get(layout.CLUSTER_KEY))
    requests = RestoredErasures(target, source, erase.stores, clock=clock, new_id=erase.new_id)
    problems: dict[str, str] = {}
    wanted = []
    for topic in topics:
        try:
            if requests.request(topic, has_journal=has_journals):
                wanted.append(topic)
        except TidelogError as error:
            problems[topic] = f"requests to erase were not repeated: {error.detail}"
    for start in range(0, len(wanted), ERASED_AT_ONCE):
        erase.carry_out(wanted[start : start + ERASED_AT_ONCE])
    for topic in wanted:
        if requests.are_open(topic):
            problems[topic] = "requests to erase were not carried out: run 'tidelog maintain' before any gateway"
    return problems


def _was_over(note: ErasureNote, version: int) -> bool:
    """Return whether a log had nothing left at ``version`` of what the request is about."""
    rewritten_version = note.erasure.rewritten_version
    return note.gone_ms is not None and rewritten_version is not None and rewritten_version <= version
