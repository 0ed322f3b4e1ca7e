"""Notes of a topic's clones, beside its log: ``_clones/<topic id>/<clone's id>~<clone's name>``.

``/`` takes the place of ``~`` where both together are too long for one part of a key (``limits.KEY_NAME_BYTES_MAX``).

A note is put before the clone's commit, and for good, so it may name a clone that was never made, or is deleted. Name and id are
in the key: who looks for clones reads no note. The content says what was asked for, so the same request to another gateway finds
the clone that was made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from log_format import layout, limits
from log_format.errors import DECODE_ERRORS, CorruptData, ObjectMissing
from log_format.store import ObjectStore, read_bounded
from log_format.topic_name import is_topic_name

CLONES_MAX: Final = 100
"""Most notes of a topic that are looked at, the newest ones, and most topics whose notes are: each clone is looked up."""
_NOTE: Final = re.compile("([^~/]+)[~/](.+)")
"""Id and name, behind the prefix of a source's notes."""


class CloneName(NamedTuple):
    """A clone: its name, and its id while it exists."""

    name: str
    topic_id: str


class CloneNote(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a note.

    Args:
        asked: what was asked for: the version and the changed settings, as JSON.
        source_version: version of the source's log that was cloned.
        file_count: number of files.
        size_bytes: their stored bytes.
    """

    asked: str
    source_version: int
    file_count: int
    size_bytes: int


_decode: Final = msgspec.json.Decoder(CloneNote).decode


def note_clone(store: ObjectStore, source: CloneName, clone: CloneName, note: CloneNote) -> None:
    """Put the note of a clone. Raises ``StoreUnavailable``."""
    store.put(_key(source, clone), msgspec.json.encode(note))


def read_note(store: ObjectStore, source: CloneName, clone: CloneName) -> CloneNote | None:
    """Return the note of a clone; None if there is none. Raises ``CorruptData``, ``StoreUnavailable``."""
    key = _key(source, clone)
    try:
        return _decode(read_bounded(store, key, limits.COMMIT_BYTES_MAX))
    except ObjectMissing:
        return None
    except DECODE_ERRORS as problem:
        raise CorruptData(f"The note of a clone can't be read: {problem}.", object=key) from problem


def noted_clones(store: ObjectStore, source: CloneName) -> Iterator[CloneName]:
    """Yield the clones of a topic, and clones of these, that exist or have existed: at most ``CLONES_MAX`` of each.

    Raises ``StoreUnavailable``.
    """
    waiting, seen = [source], {source}
    for _ in range(CLONES_MAX):
        if not waiting:
            return
        for clone in direct_clones(store, waiting.pop(0)):
            if clone not in seen:
                seen.add(clone)
                waiting.append(clone)
                yield clone


def direct_clones(store: ObjectStore, source: CloneName) -> list[CloneName]:
    """Return the clones of a topic that exist or have existed, the newest first: at most ``CLONES_MAX``.

    An object there whose key is not that of a note is skipped. Raises ``StoreUnavailable``.
    """
    prefix = _prefix(source)
    listed = sorted(store.list(prefix), key=lambda info: info.modified_at_ms, reverse=True)
    noted = (_NOTE.fullmatch(info.key, len(prefix)) for info in listed)
    found = (CloneName(note[2], note[1]) for note in noted if note is not None and is_topic_name(note[2]))
    return list(islice(found, CLONES_MAX))


def _prefix(source: CloneName) -> str:
    return f"{layout.topic_root(source.name)}_clones/{source.topic_id}/"


def _key(source: CloneName, clone: CloneName) -> str:
    last = f"{clone.topic_id}~{clone.name}"
    if len(last) > limits.KEY_NAME_BYTES_MAX:
        last = f"{clone.topic_id}/{clone.name}"
    return f"{_prefix(source)}{last}"
