"""The manifest against a plain list of runs: whatever comes and goes, both give the same answers."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from unittest import mock

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from log_format.checkpoints.segments import decode_segment_columns, decode_segments
from log_format.delta.checkpoint_schema import ADD
from log_format.layout import compacted_path, segment_path
from log_format.manifest import partition_runs, segment_rows
from log_format.manifest.manifest import Manifest
from log_format.segments.run import Run, SegmentRef
from log_format.topic.segment_tags import add_segment

PARTITIONS = 3
USUAL_FORMS = 4


@contextmanager
def small_structures() -> Iterator[None]:
    """Blocks, tables and heaps of gaps so small that a short history fills them."""
    with ExitStack() as stack:
        for module, name, value in (
            (partition_runs, "_BLOCK", 2),
            (segment_rows, "_SLOTS_MIN", 2),
            (segment_rows, "_GONE_MIN", 2),
        ):
            stack.enter_context(mock.patch.object(module, name, value))
        yield


@dataclass
class Model:
    """Segments by name with their runs; log starts and next offsets by partition."""

    segments: dict[str, list[Run]] = field(default_factory=dict)
    log_starts: list[int] = field(default_factory=lambda: [0] * PARTITIONS)
    next_offsets: list[int] = field(default_factory=lambda: [0] * PARTITIONS)

    def runs(self, partition: int) -> list[tuple[str, Run]]:
        """What can be read, in order of offset."""
        listed = [(name, run) for name, runs in self.segments.items() for run in runs if run.partition == partition]
        return sorted((entry for entry in listed if entry[1].end_offset > self.log_starts[partition]), key=_base)

    def newest(self) -> set[str]:
        """The segment that holds the end of each partition."""
        ends = [
            (run.end_offset, name, partition)
            for partition in range(PARTITIONS)
            for name, runs in self.segments.items()
            for run in runs
            if run.partition == partition
        ]
        return {max(end for end in ends if end[2] == partition)[1] for partition in {end[2] for end in ends}}


def _base(entry: tuple[str, Run]) -> int:
    return entry[1].base_offset


def ref(name: str) -> SegmentRef:
    return SegmentRef(name, 100 + len(name), 50, 7)


def name_of(number: int, form: int) -> str:
    """A path of one of the forms that there are; the last is one that no writer uses. Some UUIDs share a half."""
    unique = uuid.UUID(int=((number % 3) << 64) + number)
    match form:
        case 0:
            return segment_path(str(unique))
        case 1:
            return segment_path(unique.hex)
        case 2:
            return compacted_path(unique.hex)
        case 3:
            return compacted_path(str(unique))
        case _:
            return f"segments/{number}"


appended = st.lists(
    st.tuples(st.integers(0, PARTITIONS - 1), st.integers(1, 4), st.integers(0, 9)),
    min_size=1,
    max_size=3,
    unique_by=lambda r: r[0],
)
steps = st.one_of(
    st.tuples(st.just("append"), appended),
    st.tuples(st.just("trim"), st.tuples(st.integers(0, PARTITIONS - 1), st.integers(0, 12))),
    st.tuples(st.just("compact"), st.integers(0, PARTITIONS - 1)),
    st.tuples(st.just("drop dead"), st.none()),
)


@settings(max_examples=300)
@given(st.lists(st.tuples(steps, st.integers(0, USUAL_FORMS)), max_size=25))
def test_the_manifest_is_a_list_of_runs(history: list[tuple[tuple[str, object], int]]) -> None:
    """Offsets, timestamps, sizes, runs, segments and dead segments are those of the plain model after any history."""
    with small_structures():
        manifest, model = Manifest(), Model()
        for number, ((step, argument), form) in enumerate(history):
            take(manifest, model, step, argument, name_of(number, form))
            compare(manifest, model)


@settings(max_examples=200)
@given(
    st.lists(st.tuples(steps, st.integers(0, USUAL_FORMS - 1)), max_size=25),
    st.randoms(use_true_random=False),
    st.integers(1, 3),
    steps,
)
def test_columns_are_a_list_of_runs(
    history: list[tuple[tuple[str, object], int]], rng: random.Random, pieces: int, then: tuple[str, object]
) -> None:
    """A manifest made of a checkpoint's columns, in pieces and any order, answers as the plain model, and goes on as one."""
    with small_structures():
        before, model = Manifest(), Model()
        for number, ((step, argument), form) in enumerate(history):
            take(before, model, step, argument, name_of(number, form))
        names = list(model.segments)
        rng.shuffle(names)
        model.segments = {name: model.segments[name] for name in names}
        manifest = Manifest()
        for first in range(pieces):
            fill(manifest, model, names[first * len(names) // pieces : (first + 1) * len(names) // pieces])
        compare(manifest, model)
        take(manifest, model, *then, name_of(len(history), 0))
        compare(manifest, model)


def fill(manifest: Manifest, model: Model, names: list[str]) -> None:
    """Segments as a checkpoint names them."""
    adds = [add_segment(ref(name), model.segments[name], modification_time_ms=1, data_change=True) for name in names]
    if not adds:
        return
    rows = [{"path": add.path, "size": add.size, "tags": list((add.tags or {}).items())} for add in adds]
    column = pa.array(rows, ADD)
    found = decode_segment_columns(column)
    assert found is not None
    manifest.add_many(*found, np.array(model.log_starts))
    assert list(decode_segments(column)) == [(ref(name), model.segments[name]) for name in names]


def take(manifest: Manifest, model: Model, step: str, argument: object, name: str) -> None:
    """One step on both."""
    if step == "append":
        assert isinstance(argument, list)
        runs = []
        for partition, count, timestamp in sorted(argument):
            base = model.next_offsets[partition]
            runs.append(Run(partition, base, base + count, count, 10 + count, 0, timestamp))
            model.next_offsets[partition] += count
        manifest.add(ref(name), runs, dict(enumerate(model.log_starts)))
        model.segments[name] = runs
    elif step == "trim":
        assert isinstance(argument, tuple)
        partition, offset = argument
        log_start = max(model.log_starts[partition], min(offset, model.next_offsets[partition]))
        manifest.trim(partition, log_start)
        model.log_starts[partition] = log_start
    elif step == "compact":
        compact(manifest, model, argument, name)
    else:
        dead = [segment.path for segment in manifest.segments_below({})]
        assert set(dead) == model_dead(model)
        manifest.remove_all(dead)
        for path in dead:
            del model.segments[path]


def compact(manifest: Manifest, model: Model, partition: object, name: str) -> None:
    """Rewrite the segments that hold nothing but two neighbouring runs of one partition."""
    assert isinstance(partition, int)
    alone = [entry for entry in model.runs(partition) if len(model.segments[entry[0]]) == 1]
    pairs = [(one, two) for one, two in pairwise(alone) if one[1].end_offset == two[1].base_offset]
    if not pairs:
        return
    (one, first), (two, second) = pairs[0]
    timestamp = max(first.max_timestamp_ms, second.max_timestamp_ms)
    run = Run(partition, first.base_offset, second.end_offset, 1, 5, 0, timestamp)
    manifest.remove_all([one, two])
    manifest.add(ref(name), [run], dict(enumerate(model.log_starts)))
    del model.segments[one], model.segments[two]
    model.segments[name] = [run]


def model_dead(model: Model) -> set[str]:
    """The segments that hold nothing readable and no partition's end."""
    return {
        name
        for name, runs in model.segments.items()
        if all(run.end_offset <= model.log_starts[run.partition] for run in runs) and name not in model.newest()
    }


def compare(manifest: Manifest, model: Model) -> None:
    """Every question gets the same answer from both."""
    assert [segment.path for segment in manifest.segments()] == list(model.segments)
    assert manifest.segment_count() == len(model.segments)
    for partition in range(PARTITIONS):
        runs = model.runs(partition)
        places = [(name, run.base_offset, run.end_offset) for name, run in runs]
        assert [(at.segment.path, at.base_offset, at.end_offset) for at in manifest.runs(partition)] == places
        assert manifest.size_bytes(partition) == sum(run.size_bytes for _, run in runs)
        for offset in range(model.next_offsets[partition] + 2):
            behind = [place for place in places if place[2] > offset]
            at = manifest.find(partition, offset)
            assert (at and (at.segment.path, at.base_offset, at.end_offset)) == (behind[0] if behind else None)
            for timestamp in range(0, 11, 5):
                late = [run for _, run in runs if run.end_offset > offset and run.max_timestamp_ms >= timestamp]
                at = manifest.find_timestamp(partition, offset, timestamp)
                assert (at.base_offset if at else None) == (late[0].base_offset if late else None)
