"""Notes of requests to erase, beside a topic's log: ``_erasures/<id>.json``.

A note is put before its request is recorded, and for good. It outlives the topic, and whoever restores an older copy of the log
finds it there, so what is restored can be erased again. A note that has no ``ends`` is about everything that such a copy has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress

import msgspec

from log_format import limits
from log_format.errors import ObjectExists, ObjectMissing
from log_format.store import ObjectStore, read_bounded
from log_format.topic.erasures import Erasure, ErasureNote, decode_note, note_key, notes_prefix


def read_notes(
    store: ObjectStore, topic: str, topic_id: str, *, without: Collection[str] = (), newest: int | None = None
) -> Iterator[ErasureNote]:
    """Yield the notes of a topic, the oldest first.

    Args:
        store: where the topic is, or was.
        topic: its name.
        topic_id: its incarnation.
        without: ids of requests that are left out.
        newest: number of notes to read at most, those of the newest requests; None: all.

    Raises ``CorruptData``, ``StoreUnavailable``.
    """
    keys = [info.key for info in store.list(notes_prefix(topic))]
    apart = {note_key(topic, erasure_id) for erasure_id in without}
    keys = [key for key in keys if key not in apart]
    for key in keys if newest is None else keys[-newest:]:
        try:
            note = decode_note(read_bounded(store, key, limits.COMMIT_BYTES_MAX), key)
        except ObjectMissing:
            continue
        if note.topic_id == topic_id:
            yield note


def note_request(store: ObjectStore, topic: str, topic_id: str, erasure: Erasure) -> None:
    """Put the note of a request, unless there is one. Raises ``StoreUnavailable``."""
    note = ErasureNote(erasure=erasure, topic_id=topic_id)
    with suppress(ObjectExists):
        store.put_if_absent(note_key(topic, erasure.erasure_id), msgspec.json.encode(note))


def replace_note(store: ObjectStore, topic: str, note: ErasureNote) -> None:
    """Put a note in the place of the one that may be there. Raises ``StoreUnavailable``."""
    store.put(note_key(topic, note.erasure.erasure_id), msgspec.json.encode(note))
