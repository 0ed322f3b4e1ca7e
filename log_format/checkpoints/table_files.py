"""The files of a topic's table at a version, as its log names them: for readers that are told files instead of reading the log.

1. Files of log and archive alike, each as its ``add`` has it, with statistics and partition values. They come in pieces of Arrow.
2. The log is read twice: once to see that all of it can be read, once for the files. So what is damaged is found before a reader
   is told anything, and never more than a piece is decoded.
3. An older version is given only if retention deletes nothing of it for a while (``look_at_version``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from log_format import layout
from log_format.checkpoints.advanced_checkpoint import AdvancedCheckpoint
from log_format.checkpoints.checkpoint import with_log_at
from log_format.checkpoints.pinned_versions import advance_to, look_at_version
from log_format.delta.checkpoint_hint import read_hinted_version
from log_format.delta.checkpoint_schema import select_actions
from log_format.delta.log_retention import ListedLog
from log_format.errors import ErrorCode, RequestRefused, UnknownTopic
from log_format.store import ObjectStore
from log_format.topic.state import TopicState

MadeT = TypeVar("MadeT")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFiles:
    """A topic's table at a version. ``protocol`` and ``metadata``: the actions in force, with Delta's names of their members."""

    topic: str
    version: int
    protocol: dict[str, Any]
    metadata: dict[str, Any]
    file_count: int
    size_bytes: int
    found: AdvancedCheckpoint

    def adds(self) -> Iterator[pa.StructArray]:
        """Yield every file as its action (``checkpoint_schema.ADD``), in pieces. Raises ``CorruptData``, ``StoreUnavailable``."""
        return self.found.adds()


def with_files_of(
    make: Callable[[Iterator[pa.StructArray]], MadeT], store: ObjectStore, state: TopicState, version: int, now_ms: int
) -> MadeT:
    """Return the result of ``make`` for a table's files at a version (``adds``): those of the newest are read once, not twice.

    Arguments and errors as in ``files_at``. ``make`` may be called again where a checkpoint is damaged.
    """
    if state.exists and version == state.version:
        root = layout.topic_root(state.topic)
        hint = read_hinted_version(store, root)
        made = with_log_at(lambda found: make(found.adds()), store, root, version, now_ms, hint=hint)
        if made is not None:
            return made
    return make(files_at(store, state, version, now_ms).adds())


def files_at(store: ObjectStore, state: TopicState, version: int, now_ms: int, *, are_read: bool = True) -> TableFiles:
    """Return the table of a topic at a version.

    Args:
        store: where the topic is.
        state: the topic at the head of its own log.
        version: version of its table, up to that of ``state``.
        now_ms: present time, in ms since the epoch.
        are_read: whether the version's files are to be read, so that none may be deleted.

    Raises ``UnknownTopic``, ``RequestRefused`` for a version of the future, or (``VERSION_GONE``) one of an earlier topic of the
    name, or whose files or commits are deleted or about to be; ``BackOff``, ``StoreUnavailable``, ``CorruptData``.
    """
    if not state.exists:
        raise UnknownTopic(state.topic)
    root = layout.topic_root(state.topic)
    if version == state.version:
        hint = read_hinted_version(store, root)
        found = with_log_at(
            lambda advanced: _described(advanced, state.topic, version), store, root, version, now_ms, hint=hint
        )
        if found is not None:
            return found
    elif are_read or version > state.version:
        look_at_version(store, state.topic, state, version, now_ms)
    log = ListedLog.of(store.list(layout.log_prefix(state.topic)))
    older = _described(advance_to(store, state.topic, log, version, now_ms), state.topic, version)
    if older.metadata.get("id") != state.topic_id:
        raise RequestRefused(
            f"Version {version} is of an earlier topic {state.topic!r}, which was deleted.",
            code=ErrorCode.VERSION_GONE,
            topic=state.topic,
        )
    return older


def _described(advanced: AdvancedCheckpoint, topic: str, version: int) -> TableFiles:
    """Read all of the log, and return what it says of the table."""
    protocol: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    file_count, size_bytes = 0, 0
    for rows in advanced.all_rows():
        protocol = next(iter(select_actions(rows, "protocol").to_pylist()), protocol)
        metadata = next(iter(select_actions(rows, "metaData").to_pylist()), metadata)
        adds = select_actions(rows, "add")
        file_count += len(adds)
        size_bytes += pc.sum(pc.struct_field(adds, "size")).as_py() or 0
    return TableFiles(
        topic=topic,
        version=version,
        protocol=protocol,
        metadata=metadata,
        file_count=file_count,
        size_bytes=size_bytes,
        found=advanced,
    )
