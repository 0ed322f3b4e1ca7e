"""JSON in the store that nests deeper than a parser follows is damaged data, as any other that can't be read."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from log_format.delta.commit_summary import summarize_commit
from log_format.errors import CorruptData
from log_format.inspection.add_checks import check_statistics
from log_format.topic.erasures import decode_note
from log_format.transactions.staged_offsets import decode_offsets
from log_format.transactions.staged_settlements import decode_settlements

DEEP = b'{"unknown":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
READERS = {
    "a note of an erasure": lambda: decode_note(DEEP, "key"),
    "staged offsets": lambda: decode_offsets(DEEP, "key"),
    "staged settlements": lambda: decode_settlements(DEEP, "key"),
}


@pytest.mark.parametrize("name", READERS)
def test_it_is_corrupt_data(name: str) -> None:
    """A reader that raises ``CorruptData`` for what is damaged does so here, too."""
    read: Callable[[], object] = READERS[name]
    with pytest.raises(CorruptData):
        read()


def test_what_is_optional_is_taken_for_missing() -> None:
    """A line of a commit is passed over, and statistics are found to be no JSON."""
    assert summarize_commit(DEEP).added_count == 0
    assert check_statistics(DEEP.decode(), []) == "are not JSON"
