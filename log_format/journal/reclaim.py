"""A flush whose object was offered to another gateway that did not answer, and may have committed it, or still may.

1. If a commit has the object, the flush is done.
2. If no commit has it, this change commits it. Both gateways' commits would go to the next version of the log, so one of them
   finds the other's commit, and the object in it.
3. If a batch of the object is refused meanwhile, nobody may commit the object any more. The commit says so by a ``remove``.
"""

from __future__ import annotations

from dataclasses import replace

from log_format import layout
from log_format.delta.actions import decode_commit, plain_path
from log_format.delta.change import Proposal
from log_format.errors import ObjectMissing, OutcomeUnknown, StoreUnavailable
from log_format.journal.append import JournalAppend
from log_format.journal.committed_versions import OutcomeForgotten
from log_format.journal.notes import JournalNotes, remove_object
from log_format.journal.object_tags import decode_object_add
from log_format.journal.offer import Offer
from log_format.journal.state import JournalState
from log_format.limits import COMMIT_BYTES_MAX
from log_format.store import ObjectStore, read_bounded
from log_format.topic.append_outcome import AppendResult


class Reclaim:
    """A change that commits a flush that was offered. ``append``: the flush. ``offer``: its object, as it was offered."""

    def __init__(self, append: JournalAppend, offer: Offer) -> None:
        self._append = append
        self._offer = offer

    def propose(self, state: JournalState, now_ms: int) -> Proposal[AppendResult | int]:
        """Propose the flush; or no actions, with the version that has it as result. Raises ``OutcomeUnknown`` if that is
        forgotten."""
        offer = self._offer
        try:
            version = state.committed.version_of(offer.path, offer.offered_at)
        except OutcomeForgotten:
            raise OutcomeUnknown("It is no longer known whether another gateway stored these records.") from None
        if version is not None:
            return Proposal(operation="WRITE", actions=(), result=version)
        own: Proposal[AppendResult | int] = self._append.propose(state, now_ms)
        if own.segment is not None and own.segment.path == offer.path:
            return own
        given_up = remove_object(offer.path, offer.size_bytes, now_ms)
        if own.actions or own.tags:
            return replace(own, actions=[*own.actions, given_up])
        return JournalNotes(()).proposal(state, now_ms, own.result, [given_up])


def committed_bases(store: ObjectStore, root: str, version: int, path: str) -> tuple[int, ...]:
    """Return the base offset of each run of an object that this version of the journal at ``root`` has.

    Raises ``OutcomeUnknown``, ``CorruptData``.
    """
    key = layout.table_commit_key(root, version)
    try:
        commit = decode_commit(read_bounded(store, key, COMMIT_BYTES_MAX), key)
    except ObjectMissing:
        commit = None
    except StoreUnavailable as problem:
        raise OutcomeUnknown(f"The store did not return where these records are: {problem.detail}.") from problem
    for add in () if commit is None else commit.adds:
        if plain_path(add.path) == path:
            return tuple(run.base_offset for of_topic in decode_object_add(add).topics for run in of_topic.runs)
    raise OutcomeUnknown(f"Version {version} does not say any more where these records are.")
