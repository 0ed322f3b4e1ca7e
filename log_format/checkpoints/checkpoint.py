"""The reconciled log as one Parquet object: a classic Delta checkpoint (Delta protocol, "Checkpoints", V1).

The committing process writes it, since no other process would. It is made piece by piece from the checkpoint before it and the
commits since, and takes no more memory than its own bytes and its predecessor's. The object is whole or absent. Its content
follows from the log alone, so two writers of one version do no harm. ``_last_checkpoint`` is a hint.

What the topic remembers of producers and transactions is in the file's metadata (``memory``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from log_format import layout, limits
from log_format.bounded_read import read_bounded
from log_format.checkpoints.memory import KEYS, NO_MEMORY, memory_of, with_memory
from log_format.checkpoints.reconciliation import Reconciliation
from log_format.checkpoints.segments import segments_of
from log_format.delta.actions import Commit, decode_commit, plain_path
from log_format.delta.checkpoint_file import (
    CheckpointFile,
    decode_checkpoint_file,
    encode_checkpoint_pieces,
    in_turn,
    is_own_checkpoint,
)
from log_format.delta.checkpoint_hint import hinted_version
from log_format.delta.checkpoint_schema import SCHEMA, as_corrupt, check_required, conforming, present, refuse_features
from log_format.delta.cleaned_log import cleaned_below
from log_format.errors import CorruptData, ObjectExists, ObjectMissing, StoreUnavailable
from log_format.journal.topics import JournalTopics
from log_format.segments.run import Run, SegmentRef
from log_format.store import ObjectStore


def last_checkpoint_version(store: ObjectStore, topic: str) -> int | None:
    """The version that a topic's hint names; None without a readable one. Raises ``StoreUnavailable``."""
    return hinted_checkpoint(store, layout.topic_root(topic))


def hinted_checkpoint(store: ObjectStore, root: str) -> int | None:
    """The version that the hint of the table below ``root`` names; None without a readable one. Raises ``StoreUnavailable``."""
    return hinted_version(store, layout.table_last_checkpoint_key(root))


def write_checkpoint(store: ObjectStore, topic: str, version: int, now_ms: int) -> None:
    """``write_table_checkpoint`` of a topic."""
    write_table_checkpoint(store, layout.topic_root(topic), version, now_ms)


def write_table_checkpoint(
    store: ObjectStore, root: str, version: int, now_ms: int, *, journal: JournalTopics | None = None
) -> None:
    """Write the checkpoint of ``version`` of the table below ``root``, and the hint to it.

    ``journal``: what a journal knows of its topics at that version. Where the caller has it, no commit is replayed for it.

    Does nothing while what foreign commits touched in a topic is not put back (``put_back``): whoever loaded from the checkpoint
    would not know of it. Does nothing when there is a checkpoint of this version or a later one. Replacing it could change its
    tombstones, which depend on the time of writing, under a reader by ranges (S3A), which fails then. Raises
    ``StoreUnavailable``, ``CorruptData``.
    """
    hint = hinted_checkpoint(store, root)
    found = _moved_on(store, root, hint, version, now_ms, journal=journal)
    if found is None or found.reconciliation.awaits_putting_back:
        return
    with in_turn(0 if found.base is None else found.base.size_bytes):
        data, row_count = encode_checkpoint_pieces(found.rows(), found.metadata())
    try:
        store.put_if_absent(layout.table_checkpoint_key(root, version), data)
    except ObjectExists:
        return
    if hint is None or hint < version:
        body = {"version": version, "size": row_count, "sizeInBytes": len(data)}
        store.put(layout.table_last_checkpoint_key(root), msgspec.json.encode(body))


Seen = Callable[[int, Commit], None]
"""Called with the version and content of each commit read after the checkpoint; perhaps more than once for one commit."""


def reconciled_log(
    store: ObjectStore, topic: str, version: int, now_ms: int, *, seen: Seen | None = None
) -> pa.Table | None:
    """A topic's log up to ``version``, reconciled (``SCHEMA``); None when there is a checkpoint of a later version.

    Without the tombstones of files that at ``now_ms`` have been deletable for a while.

    Raises ``StoreUnavailable``, ``CorruptData``.
    """
    return reconciled_table(store, layout.topic_root(topic), version, now_ms, seen=seen)


def reconciled_table(
    store: ObjectStore, root: str, version: int, now_ms: int, *, seen: Seen | None = None
) -> pa.Table | None:
    """``reconciled_log`` of the table below ``root``."""
    found = _moved_on(store, root, hinted_checkpoint(store, root), version, now_ms, seen=seen)
    if found is None:
        return None
    return pa.concat_tables([SCHEMA.empty_table(), *found.rows()]).replace_schema_metadata(found.metadata())


@dataclass(frozen=True, slots=True)
class _MovedOn:
    """The bytes of a checkpoint, if there is one, moved on by the commits after it. Both methods raise ``CorruptData``."""

    base: CheckpointFile | None
    reconciliation: Reconciliation
    root: str
    version: int

    def metadata(self) -> dict[bytes, bytes]:
        return dict(self.reconciliation.with_metadata(SCHEMA.empty_table()).schema.metadata)

    def rows(self) -> Iterator[pa.Table]:
        with as_corrupt(self.root, self.version):
            yield from self.reconciliation.rows(partial(self._pieces, "add"), partial(self._pieces, "remove"))

    def _pieces(self, name: str) -> Iterator[pa.Table]:
        if self.base is not None:
            for piece in self.base.pieces((name,), with_tombstones=name == "remove"):
                table = conforming(piece, [SCHEMA.field(name)])
                check_required(table)
                yield table


def _moved_on(
    store: ObjectStore,
    root: str,
    hint: int | None,
    version: int,
    now_ms: int,
    *,
    seen: Seen | None = None,
    journal: JournalTopics | None = None,
) -> _MovedOn | None:
    """The log at ``version``; None when there is a checkpoint of a later one. Raises ``StoreUnavailable``, ``CorruptData``."""
    listed = _listed_versions(store, root, hint)
    for _ in range(limits.LOAD_ATTEMPTS_MAX):
        found, missing = None, ""
        try:
            base = _newest_own(store, root, listed)
            if base is not None and base[0] > version:
                return None
            found = _reconciled(store, root, base, version, now_ms, seen=seen, journal=journal)
        except ObjectMissing as problem:
            missing = problem.key
        newest = _listed_versions(store, root, hint)
        if newest == listed:
            if found is None:
                raise CorruptData(f"The log of {root} lacks {missing}.", object=missing)
            return found
        listed = newest  # their predecessors may have been cleaned away during the read
    prefix = layout.table_log_prefix(root)
    raise StoreUnavailable(prefix, "the log grows faster than it can be read", may_have_happened=False)


def _listed_versions(store: ObjectStore, root: str, hint: int | None) -> list[int]:
    """The versions of checkpoints, newest first. Where a listing costs the whole log: any one with all commits after it.

    ``hint`` only says where to look first; it may be old.
    """
    prefix = layout.table_log_prefix(root)
    if hint is not None and not store.lists_from_key:
        key = layout.table_checkpoint_key(root, hint)
        if _exists(store, key) and cleaned_below(store, root) <= hint + 1:
            return [hint]
    for start_after in ("",) if hint is None else (f"{prefix}{hint:020d}", ""):
        keys = (info.key for info in store.list(prefix, start_after=start_after))
        versions = [version for key in keys if (version := layout.checkpoint_version(key)) is not None]
        if versions:
            return sorted(versions, reverse=True)
    return []


def _newest_own(store: ObjectStore, root: str, listed: Sequence[int]) -> tuple[int, bytes] | None:
    """The newest checkpoint that Tidelog wrote, and its bytes; of those ``listed``, or else of all. None: the log has all of it.

    Raises ``ObjectMissing``, ``StoreUnavailable``.
    """
    for version in listed:
        data = read_bounded(store, layout.table_checkpoint_key(root, version), limits.CHECKPOINT_BYTES_MAX)
        if is_own_checkpoint(data):
            return version, data
    if not listed:
        return None
    every = _listed_versions(store, root, None)
    if every != list(listed):
        return _newest_own(store, root, every)
    # Only other programs' checkpoints are there. Without the first commit one of them is all there is of the log's beginning.
    return None if _exists(store, layout.table_commit_key(root, 0)) else (every[0], data)


def _exists(store: ObjectStore, key: str) -> bool:
    try:
        store.head(key)
    except ObjectMissing:
        return False
    return True


def _reconciled(
    store: ObjectStore,
    root: str,
    base: tuple[int, bytes] | None,
    version: int,
    now_ms: int,
    *,
    seen: Seen | None,
    journal: JournalTopics | None,
) -> _MovedOn:
    """The log at ``version``, from its checkpoint on. Raises ``ObjectMissing``, ``CorruptData``, ``StoreUnavailable``."""
    file, head, begun = None, with_memory(SCHEMA.empty_table(), NO_MEMORY), -1
    if base is not None:
        begun, data = base
        with as_corrupt(root, begun):
            file = CheckpointFile(data)
            head = file.head()
            refuse_features(head, layout.table_checkpoint_key(root, begun))
    commits = _commits(store, root, range(begun + 1, version + 1), seen)
    return _MovedOn(file, Reconciliation(head, commits, now_ms, journal), root, begun)


def _commits(store: ObjectStore, root: str, versions: range, seen: Seen | None) -> Iterator[Commit]:
    for version in versions:
        key = layout.table_commit_key(root, version)
        commit = decode_commit(read_bounded(store, key, limits.COMMIT_BYTES_MAX), key)
        if seen is not None:
            seen(version, commit)
        yield commit


def live_segments(table: pa.Table) -> Iterator[tuple[SegmentRef, list[Run]]]:
    """The segments of a checkpoint's table (``SCHEMA``) with their runs. Raises ``CorruptData``."""
    return segments_of(present(table, "add"))


def removed_paths(table: pa.Table) -> set[str]:
    """The paths that the tombstones of a checkpoint's table (``SCHEMA``) name."""
    return {plain_path(path) for path in pc.struct_field(present(table, "remove"), "path").to_pylist()}


def is_due(
    version: int,
    checkpoint_version: int | None,
    segment_count: int,
    *,
    interval_min: int = limits.CHECKPOINT_INTERVAL_MIN,
    interval_max: int = limits.CHECKPOINT_INTERVAL_MAX,
) -> bool:
    """Whether to write a checkpoint at ``version``. Larger ones are written more rarely, so the cost per commit stays flat."""
    since = version - (-1 if checkpoint_version is None else checkpoint_version)
    interval = min(max(segment_count // 50, interval_min), interval_max)
    return since >= interval


def decode_checkpoint(data: bytes, root: str, version: int, *, with_tombstones: bool = True, **fields: Any) -> pa.Table:
    """The rows of a checkpoint (``SCHEMA``). ``with_tombstones`` false skips tombstones where they lie apart.

    Raises ``CorruptData``, which names the object and carries ``fields``.
    """
    with as_corrupt(root, version, **fields):
        table = decode_checkpoint_file(data, with_tombstones=with_tombstones)
        found = conforming(table)
        found = found.replace_schema_metadata(
            {key: value for key, value in (table.schema.metadata or {}).items() if key in KEYS}
        )
        memory_of(found)
        check_required(found)
        refuse_features(found, layout.table_checkpoint_key(root, version))
        return found
