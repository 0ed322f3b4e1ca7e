"""Copying a log from one store to another while gateways write to the first: a backup, and its restoration.

1. The order makes the copy consistent: first the cluster's key, groups' offsets, queues and rights; then for each topic its
   ``_delta_log`` in the order of versions, and its segments; then the journals; then the schemas. So for each copied offset the
   copied log has the records, and for each record its schema.
2. A copied commit names segments that existed when it was copied: removed ones are kept for ``deleted.file.retention.ms``, and in
   a busy topic for at least an hour. A copy that took longer and lacks some is completed by copying again, onto the first.
3. If a journal's copy counts records as drained that a topic's copy does not have yet, further commits of that topic are copied,
   one by one, until it has them, and no more: a topic's table must not be ahead of its journal.
4. Objects that exist in the target are left as they are, so an interrupted copy can be continued. A target is refused that has
   another log, or one that has diverged: commits of both would be mixed.
5. Topics say up to which decision all transactions have ended, by the version of ``system/transactions``. In the copy that table
   begins anew, after all of these versions.
6. During a copy an object in the target says so. A store with that object is not copied from, since topics may be missing.
7. Delayed records' objects and notices are copied before the topics; windows are copied after them, once more at the end, and
   several times within the half hour for which they are kept. So a record that was waiting when the copy began is delivered from
   the copy once: if a copied log has it, a copied window says so. With a version no delayed records are copied.
8. An object says when the copy was made: ids of schemas go on far above those that the source may have given since.
9. A restored copy is erased again (``log_format.inspection.restored_erasures``) when all is copied. From then on its logs go
   on by themselves, and an interrupted restoration continues there.
10. Afterwards every topic is verified as by ``tidelog verify``.

Transactions and heartbeats are not copied. An open transaction may be in some topics of the copy and not in others; if that
matters, drain the gateways first. Objects pass through memory, at most ``BYTES_AT_ONCE`` at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

import msgspec

from log_format import layout, limits
from log_format.checkpoints.journal_log import JournalLogs, list_journals
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import Clock
from log_format.cluster.identity import may_be_same
from log_format.delta.log import versions_without_gaps
from log_format.errors import (
    CorruptData,
    ObjectExists,
    ObjectMissing,
    RequestRefused,
    StoreError,
    TidelogError,
    UnknownTopic,
)
from log_format.inspection.restored_erasures import EraseAgain, erase_again, is_interrupted
from log_format.inspection.verify import verify_topic
from log_format.journal.state import JournalState
from log_format.scheduled.due import list_notices
from log_format.schemas.copied import CopiedAt
from log_format.store import ObjectStore
from log_format.topic.state import TopicState
from log_format.transactions.beginning import skip_versions

COPIES_AT_ONCE: Final = 8
BYTES_AT_ONCE: Final = 256 * 1024 * 1024
"""Most bytes in memory. A larger object is copied alone."""
_UNKNOWN_BYTES: Final = BYTES_AT_ONCE // COPIES_AT_ONCE
"""Assumed bytes of an object whose size no listing gave: of delayed records, or an entry of a log."""
_OBJECTS: Final = "objects/"
_EVER_MS: Final = 10**14
"""Time after which no delayed record is due."""
SYSTEM_TABLES: Final = (layout.CONSUMER_OFFSETS_ROOT, layout.QUEUES_ROOT, layout.ACCESS_ROOT)
"""Tables that are copied before the topics. The schemas are copied after them: records name schemas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedTopic:
    """A topic of the copy. ``problems``: empty if it is complete. ``deleted``: only its deletion was there to copy."""

    topic: str
    record_count: int = 0
    segment_count: int = 0
    deleted: bool = False
    problems: tuple[str, ...] = ()


def copy_log(
    source: ObjectStore,
    target: ObjectStore,
    clock: Clock,
    *,
    topics: Sequence[str] | None = None,
    version: int | None = None,
    windows_every_ms: int = limits.WINDOWS_KEPT_MS // 3,
    erase: EraseAgain | None = None,
) -> Iterator[CopiedTopic]:
    """Copy the log, then yield each topic once it is verified. No gateway may run on ``target``.

    Args:
        source: store to copy from.
        target: store to copy to.
        clock: source of time.
        topics: only these topics and the schemas, without groups' offsets; None for everything.
        version: last version of the one topic's table; fails if clean-up has deleted objects that it needs.
        windows_every_ms: interval of copying windows of delayed records.
        erase: for a copy that is to be used: erase it by the requests that came after it. None: a backup.

    Raises ``RequestRefused``, ``StoreUnavailable``, ``CorruptData``, and what ``erase.carry_out`` raises.
    """
    if version is not None and len(topics or ()) != 1:
        raise RequestRefused("A version needs one topic: each table counts its own.")
    erasing = b"" if erase is None else msgspec.json.encode({"erasing": {"topics": topics, "version": version}})
    for store in () if erase is None else erase.stores:
        if not (may_be_same(store, source) and may_be_same(store, target)):
            raise RequestRefused(
                "A store named for its requests to erase has another log than the source or the target."
            )
    if is_interrupted(target, erasing):
        chosen = list(target.list_directories(layout.TOPICS)) if topics is None else list(topics)
    else:
        chosen = _copy(source, target, clock, topics, version, windows_every_s=windows_every_ms / 1000)
    problems: Mapping[str, str] = {}
    if erase is not None:
        target.put(layout.COPYING, erasing)
        problems = erase_again(source, target, erase, chosen, clock, has_journals=version is None)
    target.delete(layout.COPYING)
    for topic in chosen:
        yield _verify_copy(target, topic, problems.get(topic))


def _copy(
    source: ObjectStore,
    target: ObjectStore,
    clock: Clock,
    topics: Sequence[str] | None,
    version: int | None,
    *,
    windows_every_s: float,
) -> list[str]:
    """Copy the log, and leave the target marked as unfinished. Return the topics."""
    _refuse_another_log(source, target, _list_tables(target) if topics is None else _roots(topics))
    target.put(layout.COPYING, b"{}")
    if any(source.list(layout.COPYING)):
        target.delete(layout.COPYING)
        raise RequestRefused("The target is the same store as the source: copy into another directory or prefix.")
    # The key comes first: it proves producer ids, and requests to erase name keys by it.
    _copy_all(source, target, _keys(source, layout.CLUSTER_KEY))
    if topics is None:
        for root in SYSTEM_TABLES:
            copy_table(source, target, root, None)
    waiting = set() if version is not None else _copy_delayed(source, target, topics)
    chosen = list(source.list_directories(layout.TOPICS)) if topics is None else list(topics)
    with _copying_windows(source, target, waiting, every_s=windows_every_s):
        for topic in chosen:
            copy_table(source, target, layout.topic_root(topic), version)
            if version is None:
                _copy_windows(source, target, topic)
        numbers = list_journals(source) if version is None else []
        for number in numbers:
            copy_table(source, target, layout.journal_root(number), None)
    # What can't be read is copied as it is: the verification reports it.
    journals: dict[int, JournalState] = {}
    for number in numbers:
        with suppress(CorruptData):
            journals[number] = JournalLogs(target, clock).get(number).refresh()
    for topic in chosen if journals else ():
        with suppress(CorruptData):
            _catch_up(source, target, topic, journals, clock)
    for topic in chosen if version is None else ():
        _copy_windows(source, target, topic)
    _begin_transactions(target, chosen, journals, clock)
    copy_table(source, target, layout.SCHEMAS_ROOT, None)
    if topics is None or any(target.list(layout.SCHEMAS_ROOT)):
        target.put(layout.COPIED, CopiedAt(at_ms=clock.now_ms()).encoded())
    return chosen


def copy_table(source: ObjectStore, target: ObjectStore, root: str, version_max: int | None) -> None:
    """Copy the log up to ``version_max``, then everything else below ``root``, even what only later versions name.

    Delayed records are not copied here.
    """
    log, hint = layout.table_log_prefix(root), layout.table_last_checkpoint_key(root)
    listed = [key for key in _keys(source, log) if key != hint]
    versions = [version for key in listed if (version := layout.commit_version(key)) is not None]
    # A concurrent listing may lack a commit and show the next one.
    between = [
        layout.table_commit_key(root, version) for version in versions_without_gaps(versions, min(versions, default=0))
    ]
    copied = [key for key in sorted({*listed, *between}) if _is_within(key, version_max)]
    # Archives' parts first, since whoever finds a checkpoint's other part relies on them. All one after another, so that an
    # interrupted copy has the log's beginning.
    parts = [key for key in copied if layout.archive_part_version(key) is not None]
    _copy_all(source, target, [*parts, *(key for key in copied if key not in parts)], at_once=1)
    _copy_files(source, target, root)


def _copy_files(source: ObjectStore, target: ObjectStore, root: str) -> None:
    """Copy everything below ``root`` except the log, delayed records, and what is made anew at the next load."""
    apart = (layout.table_log_prefix(root), f"{root}{layout.SCHEDULED_BELOW}", f"{root}{layout.ICEBERG_BELOW}")
    found = _keys(source, root)
    _copy_all(source, target, {key: size for key, size in found.items() if not key.startswith(apart)})


def _copy_delayed(source: ObjectStore, target: ObjectStore, topics: Sequence[str] | None) -> set[str]:
    """Copy waiting delayed records: each object that has a notice, and then the notices. Return their topics."""
    notices = [due for due in list_notices(source, _EVER_MS) if topics is None or due.topic in topics]
    objects = {f"{layout.scheduled_root(due.topic, due.topic_id)}{_OBJECTS}{due.name}" for due in notices}
    _copy_all(source, target, sorted(objects))
    _copy_all(source, target, [due.key for due in notices])
    return {due.topic for due in notices}


@contextmanager
def _copying_windows(
    source: ObjectStore, target: ObjectStore, topics: Collection[str], *, every_s: float
) -> Iterator[None]:
    """Copy these topics' windows repeatedly during this context, since gateways delete published windows by age."""
    ended = threading.Event()

    def copy() -> None:
        while not ended.wait(every_s):
            for topic in topics:
                with suppress(StoreError):  # the next round comes before they are deleted
                    _copy_windows(source, target, topic)

    thread = threading.Thread(target=copy, name="windows", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _copy_windows(source: ObjectStore, target: ObjectStore, topic: str) -> None:
    """Copy a topic's windows and cancellations of delayed records."""
    below = f"{layout.topic_root(topic)}{layout.SCHEDULED_BELOW}"
    _copy_all(source, target, [key for key in _keys(source, below) if f"/{_OBJECTS}" not in key])


def _catch_up(
    source: ObjectStore, target: ObjectStore, topic: str, journals: Mapping[int, JournalState], clock: Clock
) -> None:
    """Copy commits of a topic until its copy has what its copied journal counts as drained."""
    log = TopicLog(target, topic, clock)
    state = log.refresh()
    root, version = layout.topic_root(topic), state.version
    while _is_behind(state, journals):
        key = layout.table_commit_key(root, state.version + 1)
        try:
            target.put_if_absent(key, source.get(key))
        except ObjectMissing:
            break  # verification says what is missing
        except ObjectExists:
            pass
        state = log.refresh()
    if state.version > version:
        _copy_files(source, target, root)


def _is_behind(own: TopicState, journals: Mapping[int, JournalState]) -> bool:
    """Return whether the topic's journal counts records as drained that its table lacks, or the topic as released."""
    journal = None if own.attachment is None else journals.get(own.attachment.journal)
    if journal is None:
        return False
    known = journal.topics.by_id.get(own.topic_id or "")
    if known is None:
        return True
    count = min(len(known.drained), own.partition_count)
    return bool((known.drained[:count] > own.next_offsets[:count]).any())


def _begin_transactions(
    target: ObjectStore, topics: Sequence[str], journals: Mapping[int, JournalState], clock: Clock
) -> None:
    """Make the copy's transactions begin at versions above those by which its topics know that others have ended."""
    floors = [known.transactions.floor for state in journals.values() for known in state.topics.by_id.values()]
    for topic in topics:
        with suppress(CorruptData):
            floors.append(TopicLog(target, topic, clock).refresh().transactions.floor)
    skip_versions(target, max(floors, default=0) - 1, clock)


def _roots(topics: Iterable[str]) -> Iterator[str]:
    """Yield the roots of these topics' tables, and of the schemas that their records name."""
    yield layout.SCHEMAS_ROOT
    yield from map(layout.topic_root, topics)


def _list_tables(store: ObjectStore) -> Iterator[str]:
    """Yield the roots of the tables that may be copied."""
    yield from (*SYSTEM_TABLES, layout.SCHEMAS_ROOT)
    yield from map(layout.topic_root, store.list_directories(layout.TOPICS))
    yield from map(layout.journal_root, list_journals(store))


def _refuse_another_log(source: ObjectStore, target: ObjectStore, roots: Iterable[str]) -> None:
    if any(source.list(layout.COPYING)):
        raise RequestRefused(
            "The source is an unfinished copy, so topics may be missing: run that copy again. If its source is lost, delete "
            f"the object {layout.COPYING}: what exists can be copied then."
        )
    if not may_be_same(target, source):
        raise RequestRefused("The target holds another log: copy into an empty directory or prefix.")
    for root in roots:
        if not _is_beginning(source, target, root):
            raise RequestRefused(
                f"The target's {root} has commits that the source's has not: it has gone on by itself. Copy into an empty "
                "directory or prefix."
            )


def _is_beginning(source: ObjectStore, target: ObjectStore, root: str) -> bool:
    """Return whether the log at ``root`` continues in the source where the target's ends."""
    log = layout.table_log_prefix(root)
    newest = max((key for key in _keys(target, log) if layout.commit_version(key) is not None), default=None)
    if newest is None:
        return True
    try:
        return source.get(newest) == target.get(newest)
    except ObjectMissing:  # cleaned away in the source, or never there
        return any(layout.commit_version(info.key) is not None for info in source.list(log, start_after=newest))


def _keys(store: ObjectStore, prefix: str) -> dict[str, int]:
    """Return the present keys below ``prefix``, in order, each with its object's size."""
    return {info.key: info.size_bytes for info in store.list(prefix)}


class _ByteBudget:
    """A limit of the memory for objects copied in parallel."""

    def __init__(self) -> None:
        self._free = BYTES_AT_ONCE
        self._changed = threading.Condition()

    @contextmanager
    def reserve(self, size_bytes: int) -> Iterator[None]:
        """Wait for that many bytes, or for all of them."""
        taken = min(size_bytes, BYTES_AT_ONCE)
        with self._changed:
            self._changed.wait_for(lambda: self._free >= taken)
            self._free -= taken
        try:
            yield
        finally:
            with self._changed:
                self._free += taken
                self._changed.notify_all()


def _copy_all(
    source: ObjectStore,
    target: ObjectStore,
    copied: Sequence[str] | Mapping[str, int],
    *,
    at_once: int = COPIES_AT_ONCE,
) -> None:
    """Copy each object once. An object that is gone was not needed any more; otherwise the verification misses it.

    ``copied``: keys, with sizes if they are known.
    """
    budget, sizes = _ByteBudget(), copied if isinstance(copied, Mapping) else {}

    def copy(key: str) -> None:
        with suppress(ObjectExists, ObjectMissing), budget.reserve(sizes.get(key, _UNKNOWN_BYTES)):
            target.put_if_absent(key, source.get(key))

    if at_once == 1:
        for key in copied:
            copy(key)
        return
    with ThreadPoolExecutor(at_once) as pool:
        for _ in pool.map(copy, copied):
            pass


def _is_within(key: str, version_max: int | None) -> bool:
    if version_max is None:
        return True
    kinds = (layout.commit_version, layout.checkpoint_version, layout.archive_part_version)
    return any((version := kind(key)) is not None and version <= version_max for kind in kinds)


def _verify_copy(target: ObjectStore, topic: str, problem: str | None) -> CopiedTopic:
    try:
        report = verify_topic(target, topic)
    except UnknownTopic:
        if any(target.list(layout.log_prefix(topic))):
            return CopiedTopic(topic=topic, deleted=True)
        return CopiedTopic(topic=topic, problems=("there is no such topic",))
    except TidelogError as error:
        return CopiedTopic(topic=topic, problems=(error.detail,))
    return CopiedTopic(
        topic=topic,
        record_count=report.record_count,
        segment_count=report.segment_count,
        problems=(*(() if report.ok else report.problems), *(() if problem is None else (problem,))),
    )
