"""What a pinned version of a topic needs: its commit, a checkpoint of exactly that version, and the files that this names.

1. A reader of a version that has both needs nothing else of the log (Delta protocol, "Checkpoints"). So clean-up may delete all
   commits around it.
2. The checkpoint is put after the pin was committed. Until it is there, clean-up keeps the commits that it is made from
   (``compaction.log_cleanup``); if the process that pinned ended before, maintenance or the next list of pins puts it.
3. Any version from which Tidelog's readers could begin may be pinned, not only versions with a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from log_format import layout, limits
from log_format.checkpoints.advanced_checkpoint import AdvancedCheckpoint, OpenedCheckpoint, adds_in, archive_pieces
from log_format.checkpoints.archive_rows import archived_files
from log_format.checkpoints.checkpoint import (
    advance_checkpoint,
    is_loadable,
    open_checkpoint,
    put_checkpoint,
    reconcile_log,
)
from log_format.delta.actions import Commit, decode_commit, plain_path
from log_format.delta.checkpoint_hint import read_hinted_version
from log_format.delta.checkpoint_schema import SCHEMA, as_corrupt, conforming, select_actions
from log_format.delta.log_retention import ListedLog, covering_checkpoints
from log_format.errors import CorruptData, ErrorCode, ObjectMissing, RequestRefused, UnsupportedTable
from log_format.store import ObjectStore, read_bounded
from log_format.topic.deleted_files import deletable_before
from log_format.topic.live_segments import removed_segments
from log_format.topic.pin_changes import KEPT_MS_MIN, FileRetention, LookAgain, OlderVersion
from log_format.topic.state import TopicState

_ADD: Final = SCHEMA.field("add")
_FILE: Final = pa.field("add", pa.struct([("path", pa.string()), ("size", pa.int64())]))


def keep_version(store: ObjectStore, topic: str, version: int, now_ms: int) -> None:
    """See to it that a pinned version has its commit and a checkpoint. One request if it has a checkpoint.

    Raises ``StoreUnavailable``, and ``CorruptData`` if what is left of the log does not give the version.
    """
    root = layout.topic_root(topic)
    if any(_exists(store, key) for key in layout.table_checkpoint_keys(root, version)):
        return
    if not _exists(store, layout.table_commit_key(root, version)):
        raise _is_gone(topic, version, "its commit is gone")
    found = advance_to(store, topic, ListedLog.of(store.list(layout.log_prefix(topic))), version, now_ms)
    put_checkpoint(store, root, version, read_hinted_version(store, root), found)
    if not is_loadable(store, root, version):
        raise _is_gone(topic, version, "its checkpoint is another program's, or damaged")


def open_version(store: ObjectStore, topic: str, version: int) -> OpenedCheckpoint:
    """Open the checkpoint of a version that was kept. Raises ``CorruptData`` if there is none; ``StoreUnavailable``."""
    try:
        opened = open_checkpoint(store, layout.topic_root(topic), version)
    except ObjectMissing as problem:
        raise _is_gone(topic, version, "its checkpoint is gone") from problem
    if opened is None:
        raise _is_gone(topic, version, "its checkpoint is another program's")
    return opened


def version_adds(store: ObjectStore, topic: str, version: int, add: pa.Field = _ADD) -> Iterator[pa.StructArray]:
    """Yield the files of log and archive at a version that was kept, in pieces: actions with the members of ``add``.

    Raises ``CorruptData``, also without a checkpoint of the version; ``StoreUnavailable``.
    """
    root = layout.topic_root(topic)
    opened = open_version(store, topic, version)
    columns = [f"add.{member.name}" for member in add.type]
    with as_corrupt(root, version, topic=topic):
        for piece in opened.file.pieces(columns, with_tombstones=False):
            yield from adds_in([conforming(piece, [add])])
        for piece in archive_pieces(store, root, version) if opened.archive.segment_count else ():
            yield from adds_in([conforming(piece, [add])])


def pinned_files(store: ObjectStore, topic: str, version: int) -> Iterator[tuple[list[str], list[int]]]:
    """Yield the paths of a pinned version's files and their sizes in bytes, in pieces.

    Raises ``CorruptData``, also without a checkpoint of the version; ``StoreUnavailable``.
    """
    for adds in version_adds(store, topic, version, _FILE):
        paths = pc.struct_field(adds, "path").to_pylist()
        yield [plain_path(path) for path in paths], pc.struct_field(adds, "size").to_pylist()


def pinned_paths(store: ObjectStore, topic: str, version: int) -> set[str]:
    """Return the paths of a pinned version's files. Raises the same errors as ``pinned_files``."""
    return {path for paths, _ in pinned_files(store, topic, version) for path in paths}


def held_back_bytes(store: ObjectStore, topic: str, state: TopicState, versions: Iterable[int], now_ms: int) -> int:
    """Return how many bytes of stored files these pinned versions have together that the table does not have at ``state``.

    ``now_ms``: present time. Raises the same errors as ``pinned_files``, and ``BackOff`` if ``state`` is not near the head.
    """
    held: dict[str, int] = {}
    archived = _archived_paths(store, state, now_ms)
    for version in set(versions):
        for paths, sizes in pinned_files(store, topic, version):
            held |= {
                path: size_bytes
                for path, size_bytes in zip(paths, sizes, strict=True)
                if path not in archived and not state.manifest.has_all([path])
            }
    return sum(held.values())


def refuse_future_time(at_ms: int, now_ms: int) -> None:
    """Raise ``RequestRefused`` for a time after ``now_ms``, since commits may still come before it."""
    if at_ms > now_ms:
        what = "must not be in the future"
        raise RequestRefused(f"The time {what}.", errors=[{"where": "/timestamp", "what": what}])


def version_at(store: ObjectStore, topic: str, at_ms: int) -> int:
    """Return the newest version whose commit the store had at a time (ms since the epoch), by the store's clock.

    Raises ``RequestRefused`` (``VERSION_GONE``) if the log no longer has it, ``StoreUnavailable``.
    """
    log = ListedLog.of(store.list(layout.log_prefix(topic)))
    first = log.first
    found = max((version for version, ms in log.commits.items() if version >= first and ms <= at_ms), default=None)
    if found is None:
        raise RequestRefused(
            f"The log of topic {topic!r} no longer has the table of that time: its oldest version is {first}, of "
            f"{log.commits.get(first, 0)} ms since the epoch.",
            code=ErrorCode.VERSION_GONE,
            topic=topic,
            oldest_version=first,
        )
    return found


def refuse_future_version(state: TopicState, version: int) -> None:
    """Raise ``RequestRefused`` for a version that the table does not have yet."""
    if version > state.version:
        raise RequestRefused(
            f"Topic {state.topic!r} has no version {version} yet: the newest version of its table is {state.version}.",
            errors=[{"where": "/version", "what": f"must not be above {state.version}"}],
        )


def look_at_version(store: ObjectStore, topic: str, state: TopicState, version: int, now_ms: int) -> OlderVersion:
    """Return a version below the head so that it can be pinned.

    Args:
        store: where the topic is.
        topic: its name.
        state: the topic at its head.
        version: version of its table.
        now_ms: present time, in ms since the epoch.

    Raises ``RequestRefused`` for a version of the future, of a topic that was deleted, and (``VERSION_GONE``) one that retention
    may delete within ``KEPT_MS_MIN``; ``LookAgain``, ``StoreUnavailable``, ``CorruptData``.
    """
    refuse_future_version(state, version)
    retention = FileRetention.of(state)
    if any(pin.version == version for pin in state.pins):
        return OlderVersion(version=version, live=None, retention=retention, looked_at_ms=now_ms)
    log = ListedLog.of(store.list(layout.log_prefix(topic)))
    commits_kept = state.config.integer("commit.retention.count")
    kept = covering_checkpoints(
        log,
        retention_ms=retention.retention_ms,
        commits_kept=commits_kept if commits_kept < 0 else commits_kept // 2,
        kept_ms=retention.kept_ms,
        now_ms=now_ms + KEPT_MS_MIN,
    )
    oldest = max([log.first, *kept[:1]])
    if version < oldest or version not in log.commits:
        raise _refused(topic, version, "clean-up of the log has deleted it or is about to", oldest)
    try:
        found = advance_to(store, topic, log, version, now_ms)
    except CorruptData as problem:
        raise _refused(topic, version, problem.detail.rstrip("."), oldest) from problem
    if found.reconciliation.awaits_restore:
        raise _refused(topic, version, "another program's commit was not put back in it", oldest)
    paths = _check_incarnation(found, state, version)
    live = tuple(path for path in paths if state.manifest.has_all([path]))
    head = reconcile_log(store, topic, state.version, now_ms)
    if head is None:
        raise LookAgain(f"The log of topic {topic!r} goes on too fast: try again.", topic=topic)
    if state.erasures and len(live) < len(paths):
        raise _refused(topic, version, "files left the table since, and a request to erase may delete them", oldest)
    removed = {each.path: each.removed_at_ms for each in removed_segments(head)}
    before_ms = deletable_before(
        removed.values(),
        retention_ms=retention.retention_ms,
        files_kept=retention.files_kept if retention.files_kept < 0 else retention.files_kept // 2,
        kept_ms=retention.kept_ms,
        now_ms=now_ms + KEPT_MS_MIN,
    )
    archived = _archived_paths(store, state, now_ms)
    if any(removed.get(path, -1) < before_ms for path in set(paths).difference(live, archived)):
        raise _refused(topic, version, "files that left the table since are deleted or about to be", oldest)
    return OlderVersion(
        version=version, live=live, retention=retention, looked_at_ms=now_ms, archive_version=state.archive.version
    )


def _archived_paths(store: ObjectStore, state: TopicState, now_ms: int) -> set[str]:
    return set(map(plain_path, archived_files(store, state, now_ms).column("path").to_pylist()))


def _check_incarnation(found: AdvancedCheckpoint, state: TopicState, version: int) -> list[str]:
    """Return the paths of a version's files. Raises ``RequestRefused`` for one of another incarnation."""
    paths: list[str] = []
    topic_id = None
    for rows in found.all_rows():
        for metadata in select_actions(rows, "metaData").to_pylist():
            topic_id = metadata["id"]
        paths += map(plain_path, pc.struct_field(select_actions(rows, "add"), "path").to_pylist())
    if topic_id != state.topic_id:
        raise RequestRefused(
            f"Version {version} is of an earlier topic {state.topic!r}, which was deleted.",
            code=ErrorCode.VERSION_GONE,
            topic=state.topic,
        )
    return paths


def advance_to(store: ObjectStore, topic: str, log: ListedLog, version: int, now_ms: int) -> AdvancedCheckpoint:
    """Return the log at a version, from the newest readable checkpoint up to it. Raises ``CorruptData``, ``StoreUnavailable``."""
    root = layout.topic_root(topic)
    begin: list[int | None] = [*sorted((one for one in log.checkpoints if one <= version), reverse=True), None]
    problem: CorruptData | None = None
    for base in begin:
        try:
            opened = None if base is None else open_checkpoint(store, root, base)
            if base is not None and opened is None:
                continue  # another program's
            found = advance_checkpoint(opened, _commits(store, root, opened, version), root, now_ms, store=store)
            for _ in found.all_rows():
                pass  # each page has a checksum
        except UnsupportedTable:
            raise
        except CorruptData as damage:
            problem = problem or damage
        except ObjectMissing as missing:
            problem = problem or _is_gone(topic, version, f"the log lacks {missing.key}")
        else:
            return found
    assert problem is not None, "the last try either succeeds or has a problem"
    raise problem


def _commits(store: ObjectStore, root: str, base: OpenedCheckpoint | None, version: int) -> Iterator[Commit]:
    for each in range(0 if base is None else base.version + 1, version + 1):
        key = layout.table_commit_key(root, each)
        yield decode_commit(read_bounded(store, key, limits.COMMIT_BYTES_MAX), key)


def _exists(store: ObjectStore, key: str) -> bool:
    try:
        store.head(key)
    except ObjectMissing:
        return False
    return True


def _is_gone(topic: str, version: int, why: str) -> CorruptData:
    return CorruptData(f"Version {version} of topic {topic!r} can't be read: {why}.", topic=topic, version=version)


def _refused(topic: str, version: int, why: str, oldest: int) -> RequestRefused:
    return RequestRefused(
        f"Version {version} of topic {topic!r} can't be pinned: {why}. Versions from about {oldest} on can be, if their files "
        "are still kept.",
        code=ErrorCode.VERSION_GONE,
        topic=topic,
        oldest_version=oldest,
    )
