"""Log clean-up as ``docs/format.md`` allows it, and the checks when a history has come to rest."""

from __future__ import annotations

import random
from collections.abc import Callable

from log_format import layout, limits
from log_format.checkpoints.topic_log import TopicLog
from log_format.delta.actions import decode_commit
from log_format.delta.cleaned_log import note_cleaned
from log_format.errors import StoreUnavailable
from log_format.segments.reader import SegmentReader
from log_format.store import ObjectStore
from log_format.stores.memory import MemoryStore
from log_format.topic.state import TopicState
from tests.simulation.simulated.faults import HOUR_MS, MINUTE_MS
from tests.simulation.simulated.gateway import TOPIC, Code
from tests.simulation.simulated.oracle import Oracle
from tests.simulation.simulated.scheduler import EPOCH_MS, Machine, MachineClock, Scheduler
from tests.simulation.simulated.truth import Truth, Violation

READ_AGAIN_SHARE = 0.3
"""In so many histories everything is read once more at the end: readers have seen most of it, and it takes time."""


class Janitor:
    """Deletes commits and checkpoints that a kept checkpoint has covered for long enough, the oldest first."""

    def __init__(
        self, store: ObjectStore, clock: MachineClock, is_over: Callable[[], bool], root: str = layout.topic_root(TOPIC)
    ) -> None:
        self._store = store
        self._root = root
        self._clock = clock
        self._is_over = is_over

    def work(self) -> None:
        """Clean up every half hour until all is over."""
        while not self._is_over():
            self._clock.sleep_ms(HOUR_MS // 2)
            try:
                self._clean()
            except StoreUnavailable:
                continue

    def _clean(self) -> None:
        objects = list(self._store.list(layout.table_log_prefix(self._root)))
        old_enough_ms = self._clock.now_ms() - limits.LOG_KEPT_MS_MIN
        kept = max(
            (
                version
                for info in objects
                if (version := layout.checkpoint_version(info.key)) is not None and info.modified_at_ms <= old_enough_ms
            ),
            default=0,
        )
        if kept:
            note_cleaned(self._store, self._root, kept)
        for info in objects:
            version = layout.commit_version(info.key)
            version = layout.checkpoint_version(info.key) if version is None else version
            if version is not None and version < kept:
                self._delete(info.key)

    def _delete(self, key: str) -> None:
        """Delete for certain: the next one may go only when this one has gone."""
        while True:
            try:
                self._store.delete(key)
            except StoreUnavailable:
                self._clock.sleep_ms(MINUTE_MS)
            else:
                return


def check_end(objects: MemoryStore, truth: Truth, oracle: Oracle, code: Code, rng: random.Random) -> None:
    """What is in the store is what is true; a checkpoint changes nothing; every record can be read."""
    oracle.end()
    scheduler = Scheduler(rng)
    scheduler.now_ms = 1000 * HOUR_MS
    clock = MachineClock(scheduler, Machine("after the end"))
    loaded = TopicLog(objects, TOPIC, clock).refresh()
    if loaded.version != truth.head.version:
        raise Violation(f"the log in the store ends at {loaded.version}, its head is {truth.head.version}")
    oracle.changed(loaded)
    replayed = TopicState.absent(TOPIC)
    for version, data in enumerate(truth.commits):
        replayed = replayed.apply(decode_commit(data, f"version {version}"), version)
    _same(loaded, replayed)
    if loaded.version >= 0:
        code.write_checkpoint(objects, TOPIC, loaded.version, EPOCH_MS)
        _same(TopicLog(objects, TOPIC, clock).refresh(), replayed)
    if rng.random() < READ_AGAIN_SHARE:
        _read_all(objects, loaded, truth)


def _same(one: TopicState, other: TopicState) -> None:
    """Both states are the same, but for the modification time, of which a checkpoint knows only that of kept segments."""
    if _facts(one) != _facts(other):
        raise Violation(f"one replay gives {_facts(one)}, another {_facts(other)}")


def _facts(state: TopicState) -> tuple[object, ...]:
    runs = [state.manifest.runs(partition) for partition in range(state.partition_count)]
    paths = {segment.path for segment in state.manifest.segments()} if state.exists else set()
    offsets = (state.next_offsets.tolist(), state.log_starts.tolist())
    # Files of a deleted topic are not judged.
    config = state.config.effective() if state.exists else None
    return state.version, state.topic_id, state.partition_count, offsets, config, runs, paths


def _read_all(objects: MemoryStore, state: TopicState, truth: Truth) -> None:
    reader = SegmentReader(objects)
    for partition in range(state.partition_count):
        offset = state.log_start(partition)
        while offset < state.high_watermark(partition):
            located = state.manifest.find(partition, offset)
            if located is None:
                raise Violation(f"offset {offset} of partition {partition} is in no segment")
            end = located.end_offset
            records = reader.read(TOPIC, located.segment, partition, offset, bytes_max=1 << 30, records_max=1 << 30)
            found = list(zip(records["offset"].to_pylist(), records["value"].to_pylist(), strict=True))
            wanted = [(at, truth.values.get((str(state.topic_id), partition, at))) for at in range(offset, end)]
            if found != wanted:
                raise Violation(f"partition {partition} holds {found} instead of {wanted}")
            offset = end
