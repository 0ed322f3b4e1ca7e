"""A store that lists no log from a key on, as a directory: the head is found without listing the log, and never wrongly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from log_format import limits
from log_format.checkpoints.checkpoint import write_checkpoint
from log_format.checkpoints.topic_log import topic_table
from log_format.delta.cleaned_log import cleaned_below, note_cleaned
from log_format.delta.log import TableLog
from log_format.errors import CorruptData, StoreUnavailable
from log_format.stores.memory import MemoryStore
from tests.support.topic_bench import TopicBench, TopicUser

ROOT = "topics/flights/"
FAR = 3 * limits.PROBES_AT_ONCE
"""Where no probe behind an old checkpoint comes to."""


@pytest.fixture
def bench(bench: TopicBench) -> TopicBench:
    """As on a directory."""
    bench.store.lists_from_key = False
    return bench


def grow(bench: TopicBench, count: int, gateway: TopicUser | None = None) -> TopicUser:
    gateway = gateway or bench.create(1)
    for number in range(count):
        bench.append(gateway, {0: [b"%d" % number]})
    return gateway


def checkpoint(bench: TopicBench, *versions: int) -> None:
    for version in versions:
        write_checkpoint(bench.store, "flights", version, 0)


def clean(bench: TopicBench, below: int) -> None:
    """As maintenance does."""
    note_cleaned(bench.store, ROOT, below)
    for version in range(below):
        bench.store.delete(bench.key(f"{version:020d}.json"))
        bench.store.delete(bench.key(f"{version:020d}.checkpoint.parquet"))


def hint(bench: TopicBench, version: int) -> None:
    bench.store.put(bench.key("_last_checkpoint"), b'{"version":%d,"size":1}' % version)


@contextmanager
def listed(bench: TopicBench) -> Iterator[list[str]]:
    """The prefixes that are listed meanwhile, but for those of notes."""
    listings: list[str] = []

    def noting(operation: str, prefix: str) -> None:
        if operation == "list" and prefix != f"{ROOT}_cleaned/":
            listings.append(prefix)

    bench.store.before = noting
    yield listings
    bench.store.come_back()


def look(bench: TopicBench) -> tuple[int, int]:
    """What a new reader finds: the head's version, and how often it listed the log."""
    with listed(bench) as listings:
        return bench.gateway().log.refresh().version, len(listings)


@pytest.mark.parametrize("behind", [0, 1, limits.PROBES_AT_ONCE - 1, limits.PROBES_AT_ONCE, limits.PROBES_AT_ONCE + 1])
def test_a_first_look_lists_no_log(bench: TopicBench, behind: int) -> None:
    """The hint, its checkpoint, the commits behind it as far as they go, and one listing of the notes: whatever lies before."""
    grow(bench, 40 + behind)
    checkpoint(bench, 40)
    bench.store.requests.clear()
    assert look(bench) == (40 + behind, 0)
    probes = (behind // limits.PROBES_AT_ONCE + 1) * limits.PROBES_AT_ONCE
    names = [name for name, _ in bench.store.requests]
    assert (names.count("get"), names.count("list"), len(names)) == (2 + probes, 1, 3 + probes)


def test_a_look_after_a_pause_lists_no_log(bench: TopicBench) -> None:
    """A reader that knows the head and has not looked for long asks the notes, and does not load a new checkpoint."""
    gateway = grow(bench, 5)
    checkpoint(bench, 3, 5)
    clean(bench, 3)
    bench.clock.pass_ms(limits.HEAD_TRUSTED_MS + 1)
    bench.store.requests.clear()
    assert gateway.log.refresh().version == 5
    assert bench.store.requests == [("get", bench.key(f"{6:020d}.json")), ("list", f"{ROOT}_cleaned/")]
    bench.clock.pass_ms(limits.HEAD_TRUSTED_MS + 1)
    grow(bench, 1, gateway)
    assert not gateway.log.may_be_cleaned(6)


def test_a_stale_hint_is_found_out(bench: TopicBench) -> None:
    """A writer that slept put a checkpoint, and the hint to it, where clean-up has been: the log does not end there."""
    grow(bench, FAR + 3)
    checkpoint(bench, 3)
    old = bench.store.get(bench.key(f"{3:020d}.checkpoint.parquet"))
    checkpoint(bench, FAR)
    clean(bench, FAR)
    bench.store.put(bench.key(f"{3:020d}.checkpoint.parquet"), old)
    hint(bench, 3)
    assert look(bench) == (FAR + 3, 1)


def test_what_landed_in_a_hole_is_found_out(bench: TopicBench) -> None:
    """The same, and a committer that slept put its commit behind that checkpoint: no reader takes it for one."""
    grow(bench, FAR + 3)
    checkpoint(bench, 3)
    names = [f"{3:020d}.checkpoint.parquet", f"{4:020d}.json"]
    old = {name: bench.store.get(bench.key(name)) for name in names}
    checkpoint(bench, FAR)
    clean(bench, FAR)
    for name, data in old.items():
        bench.store.put(bench.key(name), data)
    hint(bench, 3)
    assert look(bench) == (FAR + 3, 1)


def test_clean_up_while_it_is_probed(bench: TopicBench) -> None:
    """Commits that are deleted between two probes are not taken for the end: the notes are looked at afterwards."""
    grow(bench, FAR + 3)
    checkpoint(bench, 3)

    def cleaned(real: Any, key: str) -> Any:
        checkpoint(bench, FAR)
        clean(bench, FAR)
        return real(key)

    bench.store.script["get"] = [None, None, None, cleaned]
    assert look(bench) == (FAR + 3, 1)


@pytest.mark.parametrize("found", [99, 5])
def test_a_hint_without_its_checkpoint(bench: TopicBench, found: int) -> None:
    """The checkpoint is gone, or never came: the log is listed, from there on and then as a whole."""
    grow(bench, 8)
    checkpoint(bench, 3)
    hint(bench, found)
    assert look(bench) == (8, 2)


def test_no_hint_at_all(bench: TopicBench) -> None:
    """A young log, or a hint that was never written: the log is listed."""
    grow(bench, 3)
    assert look(bench) == (3, 1)
    checkpoint(bench, 2)
    bench.store.delete(bench.key("_last_checkpoint"))
    assert look(bench) == (3, 1)


def test_a_newer_checkpoint_of_somebody_else(bench: TopicBench) -> None:
    """Another writer's checkpoint without a hint to it changes nothing; once the commits before it are gone it is found."""
    grow(bench, FAR + 3)
    checkpoint(bench, 3)
    old = bench.store.get(bench.key("_last_checkpoint"))
    checkpoint(bench, FAR)
    bench.store.put(bench.key("_last_checkpoint"), old)
    assert look(bench) == (FAR + 3, 0)
    clean(bench, FAR)
    assert look(bench) == (FAR + 3, 1)


def test_a_hint_that_is_far_behind(bench: TopicBench) -> None:
    """Probing has an end: when very many commits follow, the log is listed, since there must be a newer checkpoint."""
    probed = 2 * limits.PROBES_AT_ONCE
    grow(bench, probed + 3)
    checkpoint(bench, 2)
    log = TableLog(bench.store, topic_table(bench.name), bench.clock, probed_commits_max=probed)
    with listed(bench) as listings:
        assert log.refresh().version == probed + 3
    assert len(listings) == 1


@pytest.mark.parametrize("missing", [5, 6])
def test_a_missing_commit_is_found_out(bench: TopicBench, missing: int) -> None:
    """A hole behind the checkpoint is damage, and not the end of the log."""
    grow(bench, 8)
    checkpoint(bench, 4)
    bench.store.delete(bench.key(f"{missing:020d}.json"))
    with pytest.raises(CorruptData, match=f"lacks version {missing}"):
        bench.gateway().log.refresh()


def test_a_store_that_fails_while_it_is_probed(bench: TopicBench) -> None:
    """A probe that failed says nothing about the end of the log."""
    grow(bench, 5)
    checkpoint(bench, 3)
    bench.store.script["get"] = [None, None, None, StoreUnavailable("k", "down", may_have_happened=False)]
    with pytest.raises(StoreUnavailable):
        bench.gateway().log.refresh()


def test_a_checkpoint_is_written_without_a_listing_of_the_log(bench: TopicBench) -> None:
    """The next checkpoint follows from the hinted one; after a clean-up above that, from the one that is there."""
    gateway = grow(bench, 8)
    checkpoint(bench, 3)
    before = bench.gateway().log.refresh().next_offsets.tolist()
    with listed(bench) as listings:
        checkpoint(bench, 8)
    assert not listings
    assert look(bench) == (8, 0)
    assert bench.gateway().log.refresh().next_offsets.tolist() == before
    old = bench.store.get(bench.key(f"{3:020d}.checkpoint.parquet"))
    grow(bench, 4, gateway)
    clean(bench, 8)
    bench.store.put(bench.key(f"{3:020d}.checkpoint.parquet"), old)
    hint(bench, 3)
    checkpoint(bench, 12)
    assert bench.gateway().log.refresh().next_offsets.tolist() == [12]


def test_notes_only_rise() -> None:
    """Of several clean-ups at once the furthest one's note counts; an older note never replaces it, and few are left."""
    store = MemoryStore()
    assert cleaned_below(store, ROOT) == 0
    for version, expected in ((5, 5), (9, 9), (7, 9), (9, 9), (12, 12), (13, 13)):
        note_cleaned(store, ROOT, version)
        assert cleaned_below(store, ROOT) == expected
        assert len(list(store.list(ROOT))) <= 2


def test_a_listing_of_the_notes_that_is_no_snapshot_shows_one() -> None:
    """Neither a note that comes while notes are listed nor one that goes meanwhile need be in the listing; another one is."""
    store = MemoryStore()
    note_cleaned(store, ROOT, 5)
    for version in (9, 12, 13):
        before = {info.key for info in store.list(ROOT)}
        note_cleaned(store, ROOT, version)
        assert before & {info.key for info in store.list(ROOT)}


@pytest.mark.parametrize("lists_from_key", [True, False])
def test_how_much_of_a_log_is_kept_takes_one_request(bench: TopicBench, lists_from_key: bool) -> None:
    """From its first version on until clean-up took some, then from there on."""
    bench.store.lists_from_key = lists_from_key
    log = grow(bench, 5).log
    assert log.first_kept_version() == 0
    checkpoint(bench, 3)
    clean(bench, 3)
    bench.store.requests.clear()
    assert log.first_kept_version() == 3
    assert [name for name, _ in bench.store.requests] == ["list"]
