"""Requests to the store, counted: what the bill is made of."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from gateway.stores.counted import CountedStore, StoreRequests, kind_of_object
from log_format.errors import ObjectExists, ObjectMissing
from log_format.layout import journal_root, table_checkpoint_key, table_commit_key, topic_root
from log_format.stores.memory import MemoryStore


def test_each_request_counts_under_its_kind_and_object() -> None:
    """Refused ones too, since they are charged; a listing counts once for each thousand objects."""
    registry, requests = CollectorRegistry(), StoreRequests()
    registry.register(requests)
    store = CountedStore(MemoryStore(), requests)
    commit = table_commit_key(topic_root("t"), 1)
    store.put_if_absent(commit, b"abc")
    with pytest.raises(ObjectExists):
        store.put_if_absent(commit, b"abc")
    assert store.get(commit) == b"abc"
    assert store.get_range(commit, 0, 2) == b"ab"
    assert store.head(commit).size_bytes == 3
    for number in range(1_500):
        store.put(f"topics/t/segments/{number:04}.parquet", b"x")
    assert len(list(store.list("topics/t/segments/"))) == 1_500
    assert list(store.list_directories("topics/")) == ["t"]
    assert list(store.list("system/gateways/")) == []
    store.delete(commit)
    with pytest.raises(ObjectMissing):
        store.head(commit)
    with pytest.raises(ObjectMissing):
        store.get(commit)

    def counted(name: str, kind: str, of: str) -> float | None:
        return registry.get_sample_value(f"tidelog_store_{name}_total", {"kind": kind, "of": of})

    assert counted("requests", "PUT", "commit") == 2
    assert counted("requests", "GET", "commit") == 3
    assert counted("bytes", "GET", "commit") == 5
    assert counted("requests", "HEAD", "commit") == 2
    assert counted("requests", "DELETE", "commit") == 1
    assert (counted("requests", "PUT", "segment"), counted("bytes", "PUT", "segment")) == (1_500, 1_500)
    assert counted("requests", "LIST", "segment") == 2
    assert counted("requests", "LIST", "other") == 1
    assert counted("requests", "LIST", "heartbeat") == 1, "a listing that shows nothing is charged, too"


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        (table_commit_key(topic_root("t"), 3), "commit"),
        (table_commit_key(journal_root(0), 3), "commit"),
        (table_checkpoint_key(topic_root("t"), 3), "checkpoint"),
        ("topics/t/_delta_log/_last_checkpoint", "checkpoint"),
        ("topics/t/_delta_log/", "commit"),
        ("topics/t/segments/a.parquet", "segment"),
        ("topics/t/compacted/a.parquet", "segment"),
        ("topics/t/_iceberg/b/m-a.avro", "iceberg"),
        ("system/gateways/a.json", "heartbeat"),
        ("system/journals/0/objects/a", "journal"),
        ("system/probes/a", "other"),
    ],
)
def test_objects_are_told_apart(key: str, kind: str) -> None:
    """By where they lie: a few words, so that the labels stay few."""
    assert kind_of_object(key) == kind
