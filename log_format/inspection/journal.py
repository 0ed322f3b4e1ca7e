"""Verifying a journal, or one topic's records in it: its objects must have what its log says.

1. Each object that a commit names is in the store, with the size, checksums and runs in the commit.
2. Each topic's records continue where its own table ends, without a gap. The table has at least what the journal counts as
   drained.
3. A checkpoint with the commits after it gives the same topics as the state that gateways keep.
4. Objects that no commit names are counted. They are no damage: one may be about to be committed.

Memory is limited to the journal's state and one object's row group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow.compute as pc

from log_format import layout, limits
from log_format.checkpoints import checkpoint
from log_format.checkpoints.journal_log import JournalLogs, live_objects
from log_format.checkpoints.memory import decode_memory
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import Clock, SystemClock
from log_format.delta.log import TableLog
from log_format.delta.table import NO_LOG
from log_format.errors import CorruptData, ObjectMissing, StoreUnavailable
from log_format.journal.journal_object import decode_group, decode_index
from log_format.journal.object_tags import CommittedObject
from log_format.journal.reader import JournalReader, JournalRunRef
from log_format.journal.state import JournalState
from log_format.journal.topics import JournalTopic, JournalTopics
from log_format.journal.undrained import UndrainedRun
from log_format.journal.view import is_current_stay, journal_topic
from log_format.store import ObjectStore
from log_format.topic.partition_offsets import Offsets
from log_format.topic.state import TopicState

_CACHE_BYTES: Final = 16 * 1024 * 1024
Progress = Callable[[int, int], None]
"""Callback with the number of objects and topics verified, and the total."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalReport:
    """The result. ``problems`` has a sentence for each problem, at most ``VERIFY_PROBLEMS_MAX``."""

    ok: bool
    problems: tuple[str, ...]
    topic_count: int = 0
    object_count: int = 0
    undrained_count: int = 0
    """Number of records that only the journal has."""
    size_bytes: int = 0
    """Size of all objects, by the log."""
    orphan_count: int = 0


def verify_journal(
    store: ObjectStore, number: int, *, clock: Clock | None = None, progress: Progress | None = None
) -> JournalReport:
    """Read all of a journal and report. Damage is in the report, never raised.

    Args:
        store: where the journal is.
        number: the journal's number.
        clock: source of time; None for the machine's.
        progress: callback after each object and topic.

    Requests: those of loading the journal's log twice, two or more for each object, and those of loading each topic's log. Raises
    ``StoreUnavailable``.
    """
    clock = SystemClock() if clock is None else clock
    root = layout.journal_root(number)
    log = JournalLogs(store, clock).get(number)
    # Listed before the log is read, so that an object committed concurrently is no orphan.
    stored = {info.key.removeprefix(root) for info in store.list(f"{root}{layout.SEGMENTS}")}
    try:
        state, objects, removed, problems = _read_log(store, log, clock)
    except CorruptData as problem:
        return JournalReport(ok=False, problems=(problem.detail,))
    topics = list(state.topics.by_id.values())
    steps = len(objects) + len(topics)
    for done, placed in enumerate(objects):
        if progress is not None:
            progress(done, steps)
        if (what := _object_problem(store, root, placed)) is not None and _is_live(log, placed.ref.path):
            problems.append(what)
    for done, topic in enumerate(topics, len(objects)):
        if progress is not None:
            progress(done, steps)
        problems += _topic_problems(store, log, state, topic, clock)
    undrained = [found for topic in topics if (found := state.runs.of(topic.topic_id)) is not None]
    return JournalReport(
        ok=not problems,
        problems=tuple(problems[: limits.VERIFY_PROBLEMS_MAX]),
        topic_count=len(topics),
        object_count=len(objects),
        undrained_count=sum(one.record_count for one in undrained),
        size_bytes=sum(placed.ref.size_bytes for placed in objects),
        orphan_count=len(stored - removed - {placed.ref.path for placed in objects}),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedTail:
    """The part of a topic that only its journal has. ``counts``: partition -> records that were read."""

    problems: tuple[str, ...]
    next_offsets: Offsets
    counts: Mapping[int, int]


def verify_tail(store: ObjectStore, own: TopicState, journal: JournalState) -> VerifiedTail:
    """Read what the journal has after the end of the topic's own table. Raises ``StoreUnavailable``."""
    topic = journal_topic(own, journal)
    if topic is None:
        return VerifiedTail(problems=(), next_offsets=own.next_offsets, counts={})
    undrained = journal.runs.of(topic.topic_id)
    parts = [] if undrained is None else list(undrained.parts())
    problems = list(describe_gaps(topic, [runs for _, runs in parts], own.next_offsets))
    reader = JournalReader(store, cache_bytes=_CACHE_BYTES)
    counts: dict[int, int] = {}
    for ref, run in ((ref, run) for ref, runs in parts for run in runs):
        start = max(run.base_offset, own.high_watermark(run.partition))
        if start >= run.end_offset:
            continue
        place = JournalRunRef(journal.journal, ref, topic.topic_id, run.partition, run.base_offset)
        try:
            found = reader.read(place).num_rows
        except CorruptData as problem:
            problems.append(problem.detail)
            continue
        if found != run.record_count:
            problems.append(
                f"Object {ref.path} has {found} records of partition {run.partition}, not {run.record_count}."
            )
        counts[run.partition] = counts.get(run.partition, 0) + run.end_offset - start
    next_offsets = np.maximum(own.next_offsets, topic.next_offsets[: own.partition_count])
    return VerifiedTail(problems=tuple(problems), next_offsets=next_offsets, counts=counts)


def describe_gaps(topic: JournalTopic, runs: Sequence[Sequence[UndrainedRun]], own: Offsets) -> Iterator[str]:
    """Yield a sentence for each range of offsets that neither the topic's table (up to ``own``) nor its journal has."""
    by_partition: dict[int, list[tuple[int, int]]] = {}
    for run in (run for of_object in runs for run in of_object):
        by_partition.setdefault(run.partition, []).append((run.base_offset, run.end_offset))
    for partition, end in enumerate(topic.next_offsets.tolist()):
        table_end = int(own[partition]) if partition < len(own) else 0
        if topic.drained[partition] > table_end:
            yield (
                f"Topic {topic.name!r} counts as drained up to offset {topic.drained[partition]} of partition {partition}, "
                f"but its table ends at {table_end}."
            )
        offset = table_end
        for start, stop in sorted(by_partition.get(partition, ())):
            if start > offset:
                yield f"Topic {topic.name!r} has no offsets [{offset}, {start}) in partition {partition}."
            offset = max(offset, stop)
        if offset < end:
            yield f"Topic {topic.name!r} has no offsets [{offset}, {end}) in partition {partition}."


def _read_log(
    store: ObjectStore, log: TableLog[JournalState], clock: Clock
) -> tuple[JournalState, list[CommittedObject], set[str], list[str]]:
    """Return the state, the live objects, the paths of removed ones, and the problems.

    Raises ``CorruptData``, ``StoreUnavailable``.
    """
    for _ in range(limits.LOAD_ATTEMPTS_MAX):
        state = log.refresh()
        if state.version == NO_LOG:
            return state, [], set(), [f"There is no {log.table.label}."]
        reconciled = checkpoint.reconcile_table(store, log.table.root, state.version, clock.now_ms())
        if reconciled is None:
            continue  # the log went on, and a newer checkpoint covers this version
        objects = live_objects(reconciled)
        problems = []
        if _comparable_state(decode_memory(reconciled).journal) != _comparable_state(state.topics):
            problems.append(f"Two ways to replay the log of {log.table.label} give different topics.")
        if len(objects) != state.runs.file_count():
            problems.append(f"Two ways to replay the log of {log.table.label} give different objects.")
        return state, objects, checkpoint.removed_paths(reconciled), problems
    raise StoreUnavailable(log.table.root, "the log grows faster than it can be read", may_have_happened=False)


def _comparable_state(topics: JournalTopics) -> dict[str, tuple[object, ...]]:
    """Return what two ways to replay the log must agree on."""
    return {
        topic.topic_id: (
            topic.name,
            topic.number,
            topic.first,
            topic.is_open,
            topic.next_offsets.tolist(),
            topic.drained.tolist(),
        )
        for topic in topics.by_id.values()
    }


def _object_problem(store: ObjectStore, root: str, placed: CommittedObject) -> str | None:
    """Return what is wrong with an object; None if nothing is."""
    ref, key = placed.ref, f"{root}{placed.ref.path}"
    try:
        size_bytes = store.head(key).size_bytes
        if size_bytes != ref.size_bytes:
            return f"Object {ref.path} has {size_bytes} bytes instead of {ref.size_bytes}."
        index = decode_index(store.get_range(key, ref.footer_start, ref.size_bytes), ref)
        held = [(topic_id, partition, count) for (topic_id, partition), (_, count) in index.runs.items()]
        said = [(one.topic_id, run.partition, run.record_count) for one in placed.topics for run in one.runs]
        if held != said:
            return f"Object {ref.path} holds other runs than its commit says."
        times: list[np.ndarray] = []
        for number, group in enumerate(index.groups):
            records = decode_group(index, number, store.get_range(key, group.start, group.start + group.size_bytes))
            times.append(pc.cast(records.column("timestamp"), "int64").to_numpy() // 1000)
        timestamps = np.concatenate(times)
        for one in placed.topics:
            for run in one.runs:
                first, count = index.runs[one.topic_id, run.partition]
                of_run = timestamps[first : first + count]
                if (int(of_run.min()), int(of_run.max())) != (run.min_timestamp_ms, run.max_timestamp_ms):
                    return f"Object {ref.path} holds other timestamps than its commit says."
    except ObjectMissing:
        return f"Object {ref.path} is missing."
    except CorruptData as problem:
        return problem.detail
    return None


def _topic_problems(
    store: ObjectStore, log: TableLog[JournalState], state: JournalState, topic: JournalTopic, clock: Clock
) -> list[str]:
    """Return the contradictions between the journal and the topic's own table."""
    undrained = state.runs.of(topic.topic_id)
    runs = [] if undrained is None else [of_object for _, of_object in undrained.parts()]
    try:
        own = TopicLog(store, topic.name, clock).refresh()
    except CorruptData as problem:
        return [problem.detail]
    if is_current_stay(own, topic, state.journal):
        return list(describe_gaps(topic, runs, own.next_offsets))
    newest = log.refresh().topic(topic.topic_id)
    if topic.is_open and newest is not None and newest.is_open and newest.number == topic.number:
        return [f"Topic {topic.name!r} is not at {log.table.label}, which would still take its records."]
    return []


def _is_live(log: TableLog[JournalState], path: str) -> bool:
    """Return whether the journal still has the object: one that left meanwhile may be gone."""
    return log.refresh().runs.has_file(path)
