"""A commit that this gateway put costs no GET when its checkpoint is written, and no read ever gets anything else."""

from __future__ import annotations

import pytest

from gateway.stores.own_commits import ENTRY_BYTES, OwnCommits
from log_format.errors import ObjectExists
from log_format.layout import table_commit_key, topic_root
from tests.support.asked_store import AskedStore


def commit(version: int) -> str:
    return table_commit_key(topic_root("t"), version)


def test_an_own_commit_is_read_from_memory_once() -> None:
    """Then it is forgotten: no checkpoint reads it twice."""
    inner = AskedStore()
    store = OwnCommits(inner)
    store.put_if_absent(commit(1), b"mine")
    assert [store.get(commit(1)), store.get(commit(1))] == [b"mine", b"mine"]
    assert inner.asked == [commit(1)]


def test_a_commit_that_was_refused_is_not_remembered() -> None:
    """The other gateway's is there."""
    inner = AskedStore()
    store = OwnCommits(inner)
    inner.put_if_absent(commit(1), b"theirs")
    with pytest.raises(ObjectExists):
        store.put_if_absent(commit(1), b"mine")
    assert store.get(commit(1)) == b"theirs"


def test_memory_is_bounded_and_only_commits_count() -> None:
    """The oldest are read from the store again."""
    inner = AskedStore()
    store = OwnCommits(inner, bytes_max=3 * (ENTRY_BYTES + 10))
    for version in range(5):
        store.put_if_absent(commit(version), b"x" * 10)
    store.put_if_absent("topics/t/segments/a.parquet", b"x" * 10)
    for version in range(5):
        assert store.get(commit(version)) == b"x" * 10
    store.get("topics/t/segments/a.parquet")
    assert inner.asked == [commit(0), commit(1), "topics/t/segments/a.parquet"]
