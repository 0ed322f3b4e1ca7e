"""Notes of clones: who looks for a topic's clones finds each, and a repeated request the one that was made."""

from __future__ import annotations

from pathlib import Path

import pytest

from log_format import layout, limits
from log_format.checkpoints.clone_notes import CloneName, noted_clones
from log_format.checkpoints.cloning import NEWEST, REPEATED_MS_MAX, ClonedTopic, TableVersion, clone_topic
from log_format.errors import ErrorCode, RequestRefused
from log_format.ids import random_id
from log_format.stores import open_store
from log_format.stores.memory import MemoryStore
from tests.support.maintenance_bench import MaintenanceBench


@pytest.fixture
def bench() -> MaintenanceBench:
    """A topic with two flushes."""
    bench = MaintenanceBench()
    bench.create(1)
    for number in range(2):
        bench.append((0, b"k%d" % number, b"v%d" % number))
    return bench


def clone(bench: MaintenanceBench) -> ClonedTopic:
    """Clone the bench's topic."""
    return clone_topic(bench.store, "t", "copy", bench.clock, bench.new_id, config={})


def test_the_same_request_gets_the_clone_for_an_hour(bench: MaintenanceBench) -> None:
    """Whoever made it. Another request, one for another incarnation, and a later one are refused: they mean another clone."""
    made = clone(bench)
    assert made.is_new
    again = clone(bench)
    assert (again.is_new, again.state.topic_id) == (False, made.state.topic_id)
    assert (again.source_version, again.file_count, again.size_bytes) == (
        made.source_version,
        made.file_count,
        made.size_bytes,
    )
    others: list[tuple[TableVersion, dict[str, int]]] = [
        (TableVersion(number=made.source_version), {}),
        (NEWEST, {"flush.ms": 77}),
    ]
    for at, config in others:
        with pytest.raises(RequestRefused) as refused:
            clone_topic(bench.store, "t", "copy", bench.clock, bench.new_id, config=config, at=at)
        assert refused.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    bench.clock.pass_ms(REPEATED_MS_MAX)
    assert not clone(bench).is_new
    bench.clock.pass_ms(1)
    with pytest.raises(RequestRefused):
        clone(bench)


def test_a_clone_is_noted_before_its_commit(bench: MaintenanceBench) -> None:
    """So no clone that exists is missing where erasures look for clones; one that is made by way of another is there, too."""
    made = clone(bench)
    clone_topic(bench.store, "copy", "second", bench.clock, bench.new_id, config={})
    source = CloneName("t", bench.log.state.existing_id)
    assert [one.name for one in noted_clones(bench.store, source)] == ["copy", "second"]
    assert made.state.topic_id in {one.topic_id for one in noted_clones(bench.store, source)}
    assert [*noted_clones(bench.store, CloneName("t", "another"))] == []
    noted: list[str] = []

    class Watched(MemoryStore):
        def put_if_absent(self, key: str, data: bytes) -> None:
            if key == layout.commit_key("third", 0):
                noted.extend(one.name for one in noted_clones(self, source))
            super().put_if_absent(key, data)

    store = Watched(clock=bench.clock)
    for info in bench.store.list(""):
        store.put(info.key, bench.store.get(info.key))
    clone_topic(store, "t", "third", bench.clock, bench.new_id, config={})
    assert "third" in noted


def test_a_clone_may_have_the_longest_name(bench: MaintenanceBench, tmp_path: Path) -> None:
    """In a directory, too, where each part of a key has a bound; who looks for clones finds it, as one with a short name."""
    store, names = open_store(tmp_path.as_uri()), ("copy", "c" * limits.TOPIC_NAME_CHARACTERS_MAX)
    for info in bench.store.list(""):
        store.put(info.key, bench.store.get(info.key))
    made = {
        CloneName(name, clone_topic(store, "t", name, bench.clock, random_id, config={}).state.existing_id)
        for name in names
    }
    assert {*noted_clones(store, CloneName("t", bench.log.state.existing_id))} == made
    again = clone_topic(store, "t", names[1], bench.clock, random_id, config={})
    assert not again.is_new


@pytest.mark.parametrize("stray", ["note", "~copy", "id~", "id~..", "id/a/b", "id~a b", "id~" + "c" * 250, "id~a~b"])
def test_an_object_that_is_no_note_is_no_clone(bench: MaintenanceBench, stray: str) -> None:
    """Whatever somebody put beside a topic's notes: its clones are still found, and no other table is looked at."""
    made = clone(bench)
    source = CloneName("t", bench.log.state.existing_id)
    bench.store.put(f"{layout.topic_root('t')}_clones/{source.topic_id}/{stray}", b"{}")
    assert [*noted_clones(bench.store, source)] == [CloneName("copy", made.state.existing_id)]
