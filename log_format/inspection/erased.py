"""Whether anything that was erased is left in a store: reading a topic's objects without its log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from log_format import layout
from log_format.checkpoints.erasure_notes import read_notes
from log_format.checkpoints.journal_log import list_journals
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import Clock, SystemClock
from log_format.cluster.identity import load_cluster
from log_format.errors import CorruptData, ObjectMissing, RequestRefused
from log_format.ids import random_id
from log_format.records.condition import Condition
from log_format.records.erasing import Matcher, digest_of, hide_condition
from log_format.records.schema import RECORD_SCHEMA
from log_format.records.typed_columns import TYPED_NAMES
from log_format.scheduled.erasing import count_meant
from log_format.schemas.columns.subject_readers import judge_for
from log_format.segments.footer import PARQUET_ERRORS
from log_format.store import ObjectStore
from log_format.topic.erasures import Erasure, Judge, erase_records, find_named
from log_format.topic.state import TopicState


def erased_in(
    store: ObjectStore, key: str, erasures: Sequence[Erasure], secret: bytes, judge: Judge | None = None
) -> Mapping[str, int]:
    """Return for each request, by its id, how many records of an object it asks to erase; empty if the object is gone.

    Args:
        store: where the object is.
        key: the object's key: a segment, whatever the log says about it.
        erasures: the requests.
        secret: the cluster's key.
        judge: as for ``erase_records``.

    Raises ``CorruptData`` for an object that is no segment, ``StoreUnavailable``.
    """
    found: Counter[str] = Counter()
    for records in read_segment_object(store, key):
        found.update(erase_records(records, erasures, secret, judge).counts)
    return found


def read_segment_object(store: ObjectStore, key: str) -> Iterator[pa.Table]:
    """Yield the records of an object, a row group at a time: ``RECORD_SCHEMA`` and typed columns; nothing, if it is gone.

    Raises the same errors as ``erased_in``.
    """
    try:
        data = store.get(key)
    except ObjectMissing:
        return
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        names = [*RECORD_SCHEMA.names, *(name for name in TYPED_NAMES if name in file.schema_arrow.names)]
        for index in range(file.num_row_groups):
            table = file.read_row_group(index, columns=names, use_threads=False).select(names)
            plain = table.select(RECORD_SCHEMA.names).cast(RECORD_SCHEMA)
            for name in names[len(RECORD_SCHEMA) :]:
                plain = plain.append_column(name, table.column(name))
            yield plain
    except (*PARQUET_ERRORS, pa.ArrowInvalid) as problem:
        raise CorruptData(f"{key} is no segment: {problem}.", object=key) from problem


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftRecords:
    """An object of the store that still has what was erased, and how many records of it."""

    key: str
    record_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedReport:
    """What of one key, or of one condition, is left in the store of a topic."""

    request_count: int
    """Requests that name it."""
    object_count: int
    """Objects that were looked at: segments, whatever the log says about them, journals' objects, and files that other programs
    left."""
    left: tuple[LeftRecords, ...]
    later_count: int
    """Such records, in the objects read, that came after the requests: no request is about them."""
    unread: tuple[str, ...]
    """Objects that may have records of before the requests and can't be read alone: staged ones, and files of other programs with
    other columns."""

    @property
    def ok(self) -> bool:
        """Whether nothing is left."""
        return not self.left and not self.unread


def verify_erased(store: ObjectStore, topic: str, named: bytes | Condition, clock: Clock | None = None) -> ErasedReport:
    """Read every object of a topic that may have records, and report what it has of a key or condition that requests named.

    Raises ``RequestRefused`` if no request names it, ``UnknownTopic``, ``CorruptData``, ``StoreUnavailable``.
    """
    clock = SystemClock() if clock is None else clock
    state = TopicLog(store, topic, clock).refresh()
    secret = load_cluster(store, random_id).producer_key
    ever = Erasure(erasure_id="", requested_ms=0, wanted=(), ends=(2**62,) * state.partition_count)
    if isinstance(named, Condition):
        where = hide_condition(secret, named)
        ever = msgspec.structs.replace(ever, where=where)
        requests = [one for one in _requests(store, topic, state) if one.where == where]
    else:
        matcher = Matcher(digest_of(secret, named))
        ever = msgspec.structs.replace(ever, wanted=(matcher,))
        requests = [one for one in _requests(store, topic, state) if matcher in one.wanted]
    if not requests:
        what = "has this condition" if isinstance(named, Condition) else "names this key"
        raise RequestRefused(f"No request to erase of topic {topic!r} {what}.", topic=topic)
    asked = [msgspec.structs.replace(one, wanted=ever.wanted, where=ever.where) for one in requests]
    ever = msgspec.structs.replace(ever, judged_by=requests[-1].judged_by)
    judge = judge_for(asked, store, state.config.subjects)
    left: list[LeftRecords] = []
    object_count = later_count = 0
    for below in (layout.SEGMENTS, layout.COMPACTED):
        for info in store.list(f"{layout.topic_root(topic)}{below}"):
            found = erased_in(store, info.key, [ever, *asked], secret, judge)
            record_count = max((found.get(one.erasure_id, 0) for one in asked), default=0)
            object_count += 1
            later_count += max(0, found.get("", 0) - record_count)
            if record_count:
                left.append(LeftRecords(key=info.key, record_count=record_count))
    strays = _strays(store, topic, asked, secret, judge)
    left += [LeftRecords(key=key, record_count=count) for key, count in strays.items() if count]
    object_count += len(strays)
    newest_ms = max(one.requested_ms for one in requests)
    for number in list_journals(store):
        for info in store.list(f"{layout.journal_root(number)}{layout.SEGMENTS}"):
            record_count = _of_journal(store, info.key, state.existing_id, ever, secret=secret, judge=judge)
            object_count += 1
            if record_count and info.modified_at_ms <= newest_ms:
                left.append(LeftRecords(key=info.key, record_count=record_count))
            else:
                later_count += record_count
    for info in store.list(f"{layout.scheduled_root(topic, state.existing_id)}objects/"):
        record_count = count_meant(store, info.key, asked, secret, judge)
        object_count += 1
        if record_count:
            left.append(LeftRecords(key=info.key, record_count=record_count))
    staged = store.list(f"{layout.TRANSACTIONS_ROOT}staged/")
    unread = [info.key for info in staged if info.modified_at_ms <= newest_ms]
    unread += [key for key, count in strays.items() if count is None]
    return ErasedReport(
        request_count=len(requests),
        object_count=object_count,
        left=tuple(left),
        later_count=later_count,
        unread=tuple(unread),
    )


def _strays(
    store: ObjectStore, topic: str, requests: Sequence[Erasure], secret: bytes, judge: Judge | None
) -> dict[str, int | None]:
    """Return the files that other programs left beside the topic's own, and how many of their records the requests name; None:
    the file can't be read as a segment."""
    found: dict[str, int | None] = {}
    for info in store.list(f"{layout.topic_root(topic)}{layout.STRAYS}"):
        try:
            found[info.key] = max(erased_in(store, info.key, requests, secret, judge).values(), default=0)
        except CorruptData:
            found[info.key] = None
    return found


def erased_version(store: ObjectStore, state: TopicState) -> int:
    """Return the version below which erasures may have taken files of versions that are pinned; 0: none.

    Raises ``CorruptData``, ``StoreUnavailable``.
    """
    return max((one.rewritten_version or 0 for one in _requests(store, state.topic, state)), default=0)


def _requests(store: ObjectStore, topic: str, state: TopicState) -> Iterator[Erasure]:
    yield from state.erasures
    known = {one.erasure_id for one in state.erasures}
    for note in read_notes(store, topic, state.existing_id, without=known):
        yield note.erasure


def _of_journal(
    store: ObjectStore, key: str, topic_id: str, erasure: Erasure, *, secret: bytes, judge: Judge | None
) -> int:
    """Return how many records of a topic a journal's object has that the request names; 0, if it is gone."""
    try:
        data = store.get(key)
    except ObjectMissing:
        return 0
    names = ["topic_id", "key"] if erasure.where is None else None
    try:
        table = pq.ParquetFile(pa.BufferReader(data)).read(columns=names, use_threads=False)
    except (*PARQUET_ERRORS, pa.ArrowInvalid) as problem:
        raise CorruptData(f"{key} is no object of a journal: {problem}.", object=key) from problem
    own = table.filter(pc.equal(table.column("topic_id"), topic_id))
    return int(find_named(own, erasure, secret, judge).sum())
