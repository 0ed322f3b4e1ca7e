"""Delta actions, and the bytes of one commit.

A commit is newline-delimited JSON, one action a line, ``commitInfo`` first (Delta protocol, "Actions"). Only the actions that a
topic needs are here: ``protocol``, ``metaData``, ``add``, ``remove``, ``txn``, ``commitInfo``. The decoder ignores other actions
and unknown fields, as the protocol demands.

Invariants of a commit that Tidelog writes:

* no two ``txn`` with the same appId, and no two actions with the same path
* ``txn.lastUpdated`` is set
* ``dataChange`` is not true in both an ``add`` and a ``remove`` (a Delta stream would stop or skip)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final
from urllib.parse import unquote

import msgspec

from log_format.delta.features import (
    FEATURE,
    READER_VERSION,
    TABLE_FEATURE,
    WRITER_VERSION,
    refuse_metadata,
    refuse_protocol,
    unsupported_error,
)
from log_format.delta.foreign import ForeignActions, foreign_actions, is_own
from log_format.errors import DECODE_ERRORS, CorruptData
from log_format.version import __version__

TAG_ARCHIVE: Final = "tidelog.archive"
"""Tag of the ``add`` and of the ``remove`` of an archived segment (``log_format.topic.archive``); its value is empty."""

Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""Integer in the range of Delta's ``long``."""

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Protocol(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The protocol versions that a reader and a writer must support; for version 7 also the features that a writer must know."""

    min_reader_version: int
    min_writer_version: int
    writer_features: list[str] | msgspec.UnsetType | None = msgspec.UNSET

    @property
    def is_guarded(self) -> bool:
        """Whether only Tidelog may write the table."""
        return FEATURE in (self.writer_features or ())

    @property
    def has_table_feature(self) -> bool:
        """Whether the table has what only releases with ``TABLE_FEATURE`` preserve."""
        return TABLE_FEATURE in (self.writer_features or ())


PROTOCOL: Final = Protocol(
    min_reader_version=READER_VERSION, min_writer_version=WRITER_VERSION, writer_features=[FEATURE]
)
"""Protocol of every new table: every Delta reader can read it, and only Tidelog writes it."""


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """The format of the data files."""

    provider: str = "parquet"
    options: dict[str, str] = msgspec.field(default_factory=dict)


class MetaData(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The table's id (the topic's incarnation), name, schema and properties."""

    id: str
    name: str | None = None
    description: str | None = None
    format: Format = msgspec.field(default_factory=Format)
    schema_string: str
    partition_columns: list[str] = msgspec.field(default_factory=list)
    configuration: dict[str, str] = msgspec.field(default_factory=dict)
    created_time: Long | None = None


class Add(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An action that adds a data file to the table. ``path`` is relative and URI-encoded; ``stats`` is JSON in a string."""

    path: str
    partition_values: dict[str, str | None] = msgspec.field(default_factory=dict)
    size: _Count
    modification_time: Long
    data_change: bool
    stats: str | None = None
    tags: dict[str, str | None] | None = None


class Remove(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An action that removes a data file from the table. The object is kept until no reader can need it."""

    path: str
    deletion_timestamp: Long | None = None
    data_change: bool
    extended_file_metadata: bool | None = None
    partition_values: dict[str, str | None] | None = None
    size: Long | None = None
    tags: dict[str, str | None] | None = None


class Txn(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An application's own version number. Only the newest one of each ``app_id`` counts."""

    app_id: str
    version: Long
    last_updated: Long | None = None


class CommitInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The program that committed, the operation, and the id by which a committer recognizes its own commit (``txnId``)."""

    timestamp: int | None = None
    operation: str | None = None
    operation_parameters: dict[str, str] | None = None
    engine_info: str = f"tidelog/{__version__}"
    txn_id: str | None = None
    tags: dict[str, str] | msgspec.UnsetType = msgspec.UNSET


Action = Protocol | MetaData | Add | Remove | Txn


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """The actions of one commit, by kind, each kind in the order of the commit."""

    commit_id: str | None
    timestamp: int | None = None
    """Time by the writer's clock (ms since the epoch)."""
    tags: Mapping[str, str] = {}
    """Tags of the commit itself (``commitInfo.tags``)."""
    protocol: Protocol | None
    metadata: MetaData | None
    adds: tuple[Add, ...]
    removes: tuple[Remove, ...]
    txns: tuple[Txn, ...]
    foreign: ForeignActions | None = None
    """Files and table actions of another program's commit, whose other fields are then empty. None for a commit of Tidelog."""
    content: Any = None
    """Decoded content of the tags, if the committer knows it; None if a reader must decode the tags."""

    @property
    def paths(self) -> Iterator[str]:
        """Paths of the files that the commit adds or removes."""
        return (action.path for actions in (self.adds, self.removes) for action in actions)


class _SeenInfo(msgspec.Struct, kw_only=True, rename="camel"):
    """A ``commitInfo`` as other programs write it: the protocol leaves the content to the writer."""

    engine_info: Any = None
    txn_id: Any = None
    timestamp: Any = None
    tags: Any = None


class _SeenProtocol(Protocol, frozen=True, kw_only=True, rename="camel"):
    """A ``protocol`` as other programs write it."""

    reader_features: list[str] | None = None


class _Line(msgspec.Struct, kw_only=True, rename="camel"):
    commit_info: _SeenInfo | None = None
    protocol: _SeenProtocol | None = None
    meta_data: MetaData | None = None
    add: Add | None = None
    remove: Remove | None = None
    txn: Txn | None = None


class _SeenFile(msgspec.Struct, kw_only=True, rename="camel"):
    deletion_vector: Any = None


class _FilesLine(msgspec.Struct, kw_only=True):
    add: _SeenFile | None = None
    remove: _SeenFile | None = None


_DECODER: Final = msgspec.json.Decoder(_Line)
_FILES_DECODER: Final = msgspec.json.Decoder(_FilesLine)
_ENCODER: Final = msgspec.json.Encoder()
_NAMES: Final = {Protocol: "protocol", MetaData: "metaData", Add: "add", Remove: "remove", Txn: "txn"}


def encode_commit(info: CommitInfo, actions: Sequence[Action]) -> bytes:
    """Encode a commit with ``info`` as its first line. Raises ``AssertionError`` for an illegal commit."""
    _check(actions)
    lines: list[dict[str, CommitInfo | Action]] = [{"commitInfo": info}]
    lines += [{_NAMES[type(action)]: action} for action in actions]
    return _ENCODER.encode_lines(lines)


def as_decoded_commit(info: CommitInfo, actions: Sequence[Action], content: Any = None) -> Commit:
    """Return what ``decode_commit`` would return for the bytes of ``encode_commit``, with ``content``, without decoding."""
    found = _by_kind(actions)
    return Commit(
        commit_id=info.txn_id,
        timestamp=info.timestamp,
        tags={} if info.tags is msgspec.UNSET else info.tags,
        protocol=next(iter(found[Protocol]), None),
        metadata=next(iter(found[MetaData]), None),
        adds=tuple(found[Add]),
        removes=tuple(found[Remove]),
        txns=tuple(found[Txn]),
        content=content,
    )


def decode_commit(data: bytes, key: str) -> Commit:
    """Decode a commit; ``key`` names the object in errors. A commit by another program has only ``foreign`` set.

    Raises only ``CorruptData``; for features that this release does not know its subclass ``UnsupportedTable``.
    """
    try:
        lines = [_DECODER.decode(line) for line in data.split(b"\n") if line.strip()]
        info = next((line.commit_info for line in lines if line.commit_info is not None), _SeenInfo())
        if not is_own(info.engine_info):
            return _foreign(data, info, key)
        _refuse_features(data, lines, key)
    except DECODE_ERRORS as problem:
        foreign = _foreign(data, _SeenInfo(), key)
        if foreign.foreign is not None:
            return foreign
        raise CorruptData(f"{key} is not a Delta commit: {problem}.", object=key) from problem
    protocol = next((line.protocol for line in lines if line.protocol is not None), None)
    return Commit(
        commit_id=info.txn_id if isinstance(info.txn_id, str) else None,
        timestamp=info.timestamp if isinstance(info.timestamp, int) else None,
        tags={k: v for k, v in info.tags.items() if isinstance(v, str)} if isinstance(info.tags, dict) else {},
        protocol=None if protocol is None else _plain(protocol),
        metadata=next((line.meta_data for line in lines if line.meta_data is not None), None),
        adds=tuple(line.add for line in lines if line.add is not None),
        removes=tuple(line.remove for line in lines if line.remove is not None),
        txns=tuple(line.txn for line in lines if line.txn is not None),
    )


def plain_path(path: str) -> str:
    """Return an ``add.path`` or ``remove.path`` without its URI encoding."""
    return unquote(path)


def _foreign(data: bytes, info: _SeenInfo, key: str) -> Commit:
    """Decode another program's commit; ``foreign`` is None if Tidelog wrote the commit after all. Raises ``CorruptData``."""
    return Commit(
        commit_id=info.txn_id if isinstance(info.txn_id, str) else None,
        protocol=None,
        metadata=None,
        adds=(),
        removes=(),
        txns=(),
        foreign=foreign_actions(data.split(b"\n"), key),
    )


def _plain(protocol: Protocol) -> Protocol:
    return Protocol(
        min_reader_version=protocol.min_reader_version,
        min_writer_version=protocol.min_writer_version,
        writer_features=protocol.writer_features or msgspec.UNSET,
    )


def _refuse_features(data: bytes, lines: Sequence[_Line], key: str) -> None:
    for line in lines:
        if (protocol := line.protocol) is not None:
            features = [*(protocol.reader_features or ()), *(protocol.writer_features or ())]
            refuse_protocol(key, protocol.min_reader_version, protocol.min_writer_version, features)
        if line.meta_data is not None:
            refuse_metadata(key, line.meta_data.partition_columns, line.meta_data.configuration)
    if b"deletionVector" in data:  # rare, so decoding twice costs nothing
        for text in data.split(b"\n"):
            files = _FILES_DECODER.decode(text) if text.strip() else _FilesLine()
            if any(file is not None and file.deletion_vector is not None for file in (files.add, files.remove)):
                raise unsupported_error(key, "deletion vectors")


def _by_kind(actions: Sequence[Action]) -> dict[type, list[Any]]:
    """Group actions by kind in one pass over them, since small commits are made often."""
    found: dict[type, list[Any]] = {kind: [] for kind in _NAMES}
    for action in actions:
        found[type(action)].append(action)
    return found


def _check(actions: Sequence[Action]) -> None:
    app_ids: set[str] = set()
    paths: set[str] = set()
    is_data_added = is_data_removed = False
    for action in actions:
        if isinstance(action, Txn):
            assert action.app_id not in app_ids, "two txn with one appId in a commit"
            assert action.last_updated is not None
            app_ids.add(action.app_id)
        elif isinstance(action, Add | Remove):
            assert action.path not in paths, "two actions for one path in a commit"
            paths.add(action.path)
            if isinstance(action, Add):
                is_data_added |= action.data_change
            else:
                is_data_removed |= action.data_change
    assert not (is_data_added and is_data_removed), "new data beside a removal that a stream must see"
