"""The summary of a commit: what people read of it, whatever else is in it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from log_format.delta.commit_summary import summarize_commit


def commit(*stats: Any) -> bytes:
    """A commit with a file of new data for each of these statistics."""
    adds = [{"add": {"path": "a", "size": 7, "dataChange": True, "stats": json.dumps(one)}} for one in stats]
    return "\n".join(json.dumps(line) for line in [{"commitInfo": {"operation": "WRITE"}}, *adds]).encode()


def test_marked_records_are_those_whose_reason_is_not_null() -> None:
    """Counted over the files that have the column; a table without it has no such number."""
    marked = {"numRecords": 5, "nullCount": {"data": {"id": 2}, "data_error": 3}}
    clean = {"numRecords": 4, "nullCount": {"data_error": 4}}
    plain = {"numRecords": 2}
    assert summarize_commit(commit(marked, clean, plain)).marked_count == 2
    assert summarize_commit(commit(clean)).marked_count == 0
    assert summarize_commit(commit(plain)).marked_count is None
    assert summarize_commit(commit(marked, plain)).record_count == 7


@pytest.mark.parametrize("stats", ["no JSON", {"numRecords": "many"}, {"nullCount": {"data_error": "all"}}])
def test_statistics_of_another_kind_say_nothing(stats: Any) -> None:
    """The commit is summarized all the same."""
    summary = summarize_commit(commit(stats))
    assert (summary.record_count, summary.marked_count, summary.added_bytes) == (0, None, 7)
