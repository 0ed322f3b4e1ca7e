"""JSON in the store that is not UTF-8, or nests deeper than a parser follows, is damaged data as any that can't be read."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from log_format.checkpoints.clone_notes import CloneName, CloneNote, note_clone, read_note
from log_format.delta.commit_summary import summarize_commit
from log_format.errors import CorruptData
from log_format.inspection.add_checks import check_statistics
from log_format.stores.memory import MemoryStore
from log_format.topic.erasures import decode_note
from log_format.transactions.staged_offsets import decode_offsets
from log_format.transactions.staged_settlements import decode_settlements

DEEP = b'{"unknown":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
SOURCE, CLONE = CloneName("orders", "id"), CloneName("copy", "id of the copy")


def _note_of_a_clone(data: bytes) -> None:
    store = MemoryStore()
    note_clone(store, SOURCE, CLONE, CloneNote(asked="", source_version=0, file_count=0, size_bytes=0))
    (note,) = store.list("")
    store.put(note.key, data)
    read_note(store, SOURCE, CLONE)


READERS: dict[str, tuple[Callable[[bytes], object], bytes]] = {
    "a note of an erasure": (partial(decode_note, key="key"), b'{"topic_id": "\xff"}'),
    "a note of a clone": (_note_of_a_clone, b'{"asked": "\xff"}'),
    "staged offsets": (partial(decode_offsets, key="key"), b'{"group": "\xff"}'),
    "staged settlements": (partial(decode_settlements, key="key"), b'{"queue": "\xff"}'),
}


@pytest.mark.parametrize("name", READERS)
def test_it_is_corrupt_data(name: str) -> None:
    """A reader that raises ``CorruptData`` for what is damaged does so for both, too."""
    read, not_utf8 = READERS[name]
    for data in (DEEP, not_utf8):
        with pytest.raises(CorruptData):
            read(data)


@pytest.mark.parametrize(
    "data", [DEEP, b'{"commitInfo": {"operation": "\xff"}, "add": {"size": 3}}'], ids=["deep", "not UTF-8"]
)
def test_an_unreadable_line_of_a_commit_is_passed_over(data: bytes) -> None:
    """A summary ignores what is no action."""
    assert summarize_commit(data).added_count == 0


@pytest.mark.parametrize("text", [DEEP.decode(), '"\ud800"'], ids=["deep", "half of a surrogate pair"])
def test_unreadable_statistics_are_found_to_be_no_json(text: str) -> None:
    """The check names the damage instead of ending."""
    assert check_statistics(text, []) == "are not JSON"
