"""The reconciled log as one Parquet object: a classic Delta checkpoint (Delta protocol, "Checkpoints", V1).

The committing process writes the checkpoint, since no other process would. It makes the checkpoint piece by piece from the
previous one and the commits after that, and needs no more memory than the bytes of both. The object is whole or absent. Its
content follows from the log alone, so two writers of the same version do no harm. ``_last_checkpoint`` is a hint.

The topic's memory of producers and transactions is in the file's metadata (``memory``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from log_format import layout, limits
from log_format.checkpoints.advanced_checkpoint import (
    ARCHIVED_SEGMENTS_MAX,
    AdvancedCheckpoint,
    OpenedCheckpoint,
    archive_pieces,
    decode_archive_note,
)
from log_format.checkpoints.memory import KEYS, NO_MEMORY, add_memory, decode_memory
from log_format.checkpoints.reconciliation import Reconciliation
from log_format.checkpoints.segments import decode_segments
from log_format.delta.actions import Commit, decode_commit, plain_path
from log_format.delta.checkpoint_file import (
    CheckpointFile,
    decode_checkpoint_file,
    encode_checkpoint_pieces,
    is_own_checkpoint,
    large_checkpoint_lock,
)
from log_format.delta.checkpoint_hint import read_hinted_version
from log_format.delta.checkpoint_schema import (
    SCHEMA,
    as_corrupt,
    check_required,
    conforming,
    refuse_features,
    select_actions,
)
from log_format.delta.cleaned_log import cleaned_below
from log_format.delta.table import NO_LOG
from log_format.errors import CorruptData, ObjectExists, ObjectMissing, StoreUnavailable, UnsupportedTable
from log_format.journal.topics import JournalTopics
from log_format.segments.run import Run, SegmentRef
from log_format.store import ObjectStore, read_bounded


def last_checkpoint_version(store: ObjectStore, topic: str) -> int | None:
    """Return the version in a topic's hint; None without a readable hint. Raises ``StoreUnavailable``."""
    return read_hinted_version(store, layout.topic_root(topic))


def write_checkpoint(store: ObjectStore, topic: str, version: int, now_ms: int) -> None:
    """Write a topic's checkpoint, like ``write_table_checkpoint``."""
    write_table_checkpoint(store, layout.topic_root(topic), version, now_ms)


def write_table_checkpoint(
    store: ObjectStore,
    root: str,
    version: int,
    now_ms: int,
    *,
    journal: JournalTopics | None = None,
    archived_max: int = ARCHIVED_SEGMENTS_MAX,
) -> bool:
    """Write the checkpoint of ``version`` of the table at ``root``, and the hint to it. Return False if it was left to others.

    Args:
        store: where the table is.
        root: key prefix of the table.
        version: version of the log.
        now_ms: present time, in ms since the epoch, by which old tombstones are left out.
        journal: a journal's knowledge of its topics at that version, if the caller has it; else it is replayed.
        archived_max: most segments of an archive that has changed, whose rows all have to be written again.

    Does nothing while a topic's files that foreign commits touched are not restored (``put_back``), since a reader that begins at
    the checkpoint would not learn about them. Does nothing if there is a checkpoint of this version or a later one: replacing it
    could change its tombstones, which depend on the time of writing, and a reader by ranges (S3A) would then fail. Raises
    ``StoreUnavailable``, ``CorruptData``.
    """
    hint = read_hinted_version(store, root)

    def put(found: AdvancedCheckpoint) -> bool:
        if found.reconciliation.awaits_restore:
            return True
        if not found.is_archive_same and found.archive.segment_count > archived_max:
            return False
        put_checkpoint(store, root, version, hint, found)
        return True

    return with_log_at(put, store, root, version, now_ms, hint=hint, journal=journal) is not False


def put_checkpoint(store: ObjectStore, root: str, version: int, hint: int | None, found: AdvancedCheckpoint) -> None:
    """Put ``found`` as the checkpoint of ``version``, unless there is one, and raise the hint, which names ``hint`` now.

    Raises ``StoreUnavailable``, ``CorruptData``.
    """
    # Part 2 first: whoever finds part 1 relies on it.
    archive = found.put_archive(version)
    with large_checkpoint_lock(0 if found.base is None else found.base.size_bytes):
        data, row_count = encode_checkpoint_pieces(found.rows(), found.metadata(archive))
    key = layout.table_checkpoint_keys(root, version)[archive.segment_count > 0]
    try:
        store.put_if_absent(key, data)
    except ObjectExists:
        return
    if hint is None or hint < version:
        body = {"version": version, "size": row_count + archive.segment_count, "sizeInBytes": len(data)}
        if archive.segment_count:
            body["parts"] = layout.CHECKPOINT_PARTS
        store.put(layout.table_last_checkpoint_key(root), msgspec.json.encode(body))


MadeT = TypeVar("MadeT")

Seen = Callable[[int, Commit], None]
"""Callback with the version and content of each commit read after the checkpoint; perhaps several times for one commit."""


def reconcile_log(
    store: ObjectStore, topic: str, version: int, now_ms: int, *, seen: Seen | None = None
) -> pa.Table | None:
    """Return a topic's log up to ``version``, reconciled (``SCHEMA``); None if there is a checkpoint of a later version.

    Tombstones are left out if their files may have been deleted a while before ``now_ms``. Raises ``StoreUnavailable``,
    ``CorruptData``.
    """
    return reconcile_table(store, layout.topic_root(topic), version, now_ms, seen=seen)


def reconcile_table(
    store: ObjectStore, root: str, version: int, now_ms: int, *, seen: Seen | None = None
) -> pa.Table | None:
    """Return the reconciled log of the table at ``root``, like ``reconcile_log``."""

    def whole(found: AdvancedCheckpoint) -> pa.Table:
        return pa.concat_tables([SCHEMA.empty_table(), *found.rows()]).replace_schema_metadata(found.metadata())

    return with_log_at(whole, store, root, version, now_ms, hint=read_hinted_version(store, root), seen=seen)


def with_log_at(
    make: Callable[[AdvancedCheckpoint], MadeT],
    store: ObjectStore,
    root: str,
    version: int,
    now_ms: int,
    *,
    hint: int | None,
    seen: Seen | None = None,
    journal: JournalTopics | None = None,
) -> MadeT | None:
    """Return the result of ``make`` for the log at ``version``, from the newest readable checkpoint on; None if a later one
    exists.

    Raises ``StoreUnavailable``, ``CorruptData``.
    """
    damaged: frozenset[int] = frozenset()
    while True:
        found = _advance_newest(store, root, hint, version, now_ms, seen=seen, journal=journal, damaged=damaged)
        if found is None:
            return None
        try:
            return make(found)
        except CorruptData:
            if found.base is None:
                raise
            damaged |= {found.version}


def _advance_newest(
    store: ObjectStore,
    root: str,
    hint: int | None,
    version: int,
    now_ms: int,
    *,
    seen: Seen | None,
    journal: JournalTopics | None,
    damaged: frozenset[int],
) -> AdvancedCheckpoint | None:
    """Return the log at ``version``; None if there is a checkpoint of a later one. ``damaged``: checkpoints to ignore.

    Raises ``StoreUnavailable``, ``CorruptData``.
    """
    listed = _list_versions(store, root, hint)
    for _ in range(limits.LOAD_ATTEMPTS_MAX):
        found, missing = None, ""
        try:
            base = _newest_own(store, root, listed, damaged)
            if base is not None and base.version > version:
                return None
            found = _reconcile(store, root, base, version, now_ms, seen=seen, journal=journal)
        except ObjectMissing as problem:
            missing = problem.key
        newest = _list_versions(store, root, hint)
        if newest == listed:
            if found is None:
                raise CorruptData(f"The log of {root} lacks {missing}.", object=missing)
            return found
        listed = newest  # earlier checkpoints may have been cleaned away during the read
    prefix = layout.table_log_prefix(root)
    raise StoreUnavailable(prefix, "the log grows faster than it can be read", may_have_happened=False)


def _list_versions(store: ObjectStore, root: str, hint: int | None) -> list[int]:
    """Return the versions of checkpoints, newest first; or only one with all commits after it, if listing reads the whole log.

    ``hint`` only says where to look first; it may be stale.
    """
    prefix = layout.table_log_prefix(root)
    if hint is not None and not store.lists_from_key:
        exists = any(_exists(store, key) for key in layout.table_checkpoint_keys(root, hint))
        if exists and cleaned_below(store, root) <= hint + 1:
            return [hint]
    for start_after in ("",) if hint is None else (f"{prefix}{hint:020d}", ""):
        keys = (info.key for info in store.list(prefix, start_after=start_after))
        versions = [version for key in keys if (version := layout.checkpoint_version(key)) is not None]
        if versions:
            return sorted(versions, reverse=True)
    return []


def open_checkpoint(
    store: ObjectStore, root: str, version: int, *, is_foreign: bool = False
) -> OpenedCheckpoint | None:
    """Open a checkpoint of the table at ``root``; return None if another program wrote it, unless ``is_foreign``.

    Raises ``ObjectMissing``, ``StoreUnavailable``, ``CorruptData``.
    """
    missing, keys = 0, layout.table_checkpoint_keys(root, version)[: 1 if is_foreign else 2]
    for key in keys:
        try:
            data = read_bounded(store, key, limits.CHECKPOINT_BYTES_MAX)
        except ObjectMissing:
            missing += 1
            continue
        if not is_foreign and not is_own_checkpoint(data):
            continue
        with as_corrupt(root, version):
            file = CheckpointFile(data)
            head = file.head()
            refuse_features(head, key)
            return OpenedCheckpoint(version, file, head, decode_archive_note(head, version))
    if missing == len(keys):
        raise ObjectMissing(keys[0])
    return None


def is_loadable(store: ObjectStore, root: str, version: int) -> bool:
    """Return whether Tidelog wrote the checkpoint of this version, and all parts can be read. Raises ``StoreUnavailable``."""
    try:
        opened = open_checkpoint(store, root, version)
        if opened is None:
            return False
        with as_corrupt(root, version):
            for _ in opened.file.pieces(SCHEMA.names, with_tombstones=True):
                pass
        for _ in archive_pieces(store, root, version) if opened.archive.segment_count else ():
            pass
    except (CorruptData, ObjectMissing):
        return False
    return True


def _newest_own(
    store: ObjectStore, root: str, listed: Sequence[int], damaged: frozenset[int] = frozenset()
) -> OpenedCheckpoint | None:
    """Return the newest readable checkpoint by Tidelog, of those ``listed`` or else of all; None if the log has its beginning.

    Raises ``ObjectMissing``, ``StoreUnavailable``, ``CorruptData``.
    """
    problem: CorruptData | None = None
    for version in listed:
        if version in damaged:
            continue
        try:
            opened = open_checkpoint(store, root, version)
        except UnsupportedTable:
            raise
        except CorruptData as found:
            problem = problem or found
            continue
        if opened is not None:
            return opened
    if not listed:
        return None
    every = _list_versions(store, root, None)
    if every != list(listed):
        return _newest_own(store, root, every, damaged)
    # Without the first commit another program's checkpoint may be all that is left of the log's beginning.
    if _exists(store, layout.table_commit_key(root, 0)):
        return None
    if problem is not None:
        raise problem
    return open_checkpoint(store, root, every[0], is_foreign=True)


def _exists(store: ObjectStore, key: str) -> bool:
    try:
        store.head(key)
    except ObjectMissing:
        return False
    return True


def _reconcile(
    store: ObjectStore,
    root: str,
    base: OpenedCheckpoint | None,
    version: int,
    now_ms: int,
    *,
    seen: Seen | None,
    journal: JournalTopics | None,
) -> AdvancedCheckpoint:
    """Return the log at ``version``, from checkpoint ``base`` on. Raises ``ObjectMissing``, ``CorruptData``,
    ``StoreUnavailable``."""
    begun = NO_LOG if base is None else base.version
    commits = _commits(store, root, range(begun + 1, version + 1), seen)
    return advance_checkpoint(base, commits, root, now_ms, journal, store=store)


def advance_checkpoint(
    base: OpenedCheckpoint | None,
    commits: Iterable[Commit],
    root: str,
    now_ms: int,
    journal: JournalTopics | None = None,
    *,
    store: ObjectStore | None = None,
) -> AdvancedCheckpoint:
    """Return checkpoint ``base`` (None: an empty one) of the table at ``root`` with ``commits`` applied. ``store``: needed for a
    topic that may have an archive. Raises what reading the commits raises."""
    if base is None:
        head = add_memory(SCHEMA.empty_table(), NO_MEMORY)
        return AdvancedCheckpoint(None, Reconciliation(head, commits, now_ms, journal), root, NO_LOG, store=store)
    reconciliation = Reconciliation(base.head, commits, now_ms, journal)
    return AdvancedCheckpoint(base.file, reconciliation, root, base.version, base.archive, store)


def _commits(store: ObjectStore, root: str, versions: range, seen: Seen | None) -> Iterator[Commit]:
    for version in versions:
        key = layout.table_commit_key(root, version)
        commit = decode_commit(read_bounded(store, key, limits.COMMIT_BYTES_MAX), key)
        if seen is not None:
            seen(version, commit)
        yield commit


def live_segments(table: pa.Table) -> Iterator[tuple[SegmentRef, list[Run]]]:
    """Yield the segments of a checkpoint's table (``SCHEMA``) with their runs. Raises ``CorruptData``."""
    return decode_segments(select_actions(table, "add"))


def removed_paths(table: pa.Table) -> set[str]:
    """Return the paths of the tombstones of a checkpoint's table (``SCHEMA``)."""
    return {plain_path(path) for path in pc.struct_field(select_actions(table, "remove"), "path").to_pylist()}


def is_checkpoint_due(
    version: int,
    checkpoint_version: int | None,
    segment_count: int,
    *,
    interval_min: int = limits.CHECKPOINT_INTERVAL_MIN,
    interval_max: int = limits.CHECKPOINT_INTERVAL_MAX,
) -> bool:
    """Return whether to write a checkpoint at ``version``. Larger ones are written more rarely, so the cost per commit is
    constant."""
    since = version - (-1 if checkpoint_version is None else checkpoint_version)
    interval = min(max(segment_count // 50, interval_min), interval_max)
    return since >= interval


def decode_checkpoint(data: bytes, root: str, version: int, *, with_tombstones: bool = True, **fields: Any) -> pa.Table:
    """Decode the rows of a checkpoint (``SCHEMA``), without tombstones in row groups of their own if ``with_tombstones`` is
    false.

    Raises ``CorruptData``, which names the object and has ``fields``.
    """
    with as_corrupt(root, version, **fields):
        table = decode_checkpoint_file(data, with_tombstones=with_tombstones)
        found = conforming(table)
        found = found.replace_schema_metadata(
            {key: value for key, value in (table.schema.metadata or {}).items() if key in KEYS}
        )
        decode_memory(found)
        check_required(found)
        refuse_features(found, layout.table_checkpoint_key(root, version))
        return found
