"""Verifying that each pinned version of a topic has its commit, its checkpoint and its files."""

from __future__ import annotations

from collections.abc import Collection

from log_format import layout
from log_format.checkpoints.checkpoint import is_loadable
from log_format.checkpoints.pinned_versions import pinned_files
from log_format.delta.log_retention import ListedLog
from log_format.errors import CorruptData, ObjectMissing
from log_format.inspection.erased import erased_version
from log_format.store import ObjectStore
from log_format.topic.state import TopicState


def verify_pins(store: ObjectStore, state: TopicState, stored: Collection[str]) -> tuple[list[str], set[str]]:
    """Return a sentence for each problem of a topic's pins, and the paths of all files that they need.

    Args:
        store: where the topic is.
        state: the topic.
        stored: paths of its stored files, listed before ``state`` was read.

    A pin without a checkpoint is whole while the log gives one: the next round of maintenance puts it. Two requests and the
    reading of a checkpoint for each pin. Raises ``StoreUnavailable``.
    """
    problems: list[str] = []
    needed: set[str] = set()
    root = layout.topic_root(state.topic)
    erased_before = erased_version(store, state) if state.pins else 0
    for pin in state.pins:
        what = f"Pin {pin.name!r} of version {pin.version}"
        if not _exists(store, layout.table_commit_key(root, pin.version)):
            problems.append(f"{what} has no commit.")
        if not any(_exists(store, key) for key in layout.table_checkpoint_keys(root, pin.version)):
            if pin.version < ListedLog.of(store.list(layout.log_prefix(state.topic))).first:
                problems.append(f"{what} has no checkpoint, and the log no longer gives one.")
            continue
        if not is_loadable(store, root, pin.version):
            problems.append(f"{what} has a checkpoint that can't be read.")
            continue
        try:
            for paths, sizes in pinned_files(store, state.topic, pin.version):
                needed.update(paths)
                problems += [
                    f"{what} lacks its file {path}."
                    for path, size_bytes in zip(paths, sizes, strict=True)
                    if pin.version >= erased_before  # else an erasure took what it lacks
                    and path not in stored
                    and not _has(store, f"{root}{path}", size_bytes)
                ]
        except CorruptData as problem:
            problems.append(f"{what}: {problem.detail}")
    return problems, needed


def _exists(store: ObjectStore, key: str) -> bool:
    return _size(store, key) is not None


def _has(store: ObjectStore, key: str, size_bytes: int) -> bool:
    return _size(store, key) == size_bytes


def _size(store: ObjectStore, key: str) -> int | None:
    try:
        return store.head(key).size_bytes
    except ObjectMissing:
        return None
