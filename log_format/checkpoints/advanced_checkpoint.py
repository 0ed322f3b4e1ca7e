"""A checkpoint with the commits after it applied: the rows of the next one, in one part or in two.

The checkpoint of a topic with an archive has two parts (Delta protocol, "Multi-part Checkpoints"). Part 1 has all rows but the
archive's ``add``, and in its file's metadata how many these are, so that a gateway reads part 1 only. Part 2 has the rest. While
the archive stays as it is, part 2 is a copy of the one before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from log_format import layout, limits
from log_format.checkpoints.reconciliation import Reconciliation
from log_format.delta.checkpoint_file import CheckpointFile, encode_checkpoint_pieces, large_checkpoint_lock
from log_format.delta.checkpoint_schema import SCHEMA, as_corrupt, check_required, conforming, select_actions
from log_format.errors import DECODE_ERRORS, CorruptData, ObjectExists, ObjectMissing
from log_format.store import ObjectStore, read_bounded
from log_format.topic.archive import NO_ARCHIVE, Archive

ARCHIVE_KEY: Final = b"tidelog.archive"
"""Metadata key of part 1; its value is JSON: the number of rows in part 2, and the bytes of their segments."""
ARCHIVED_ROW_BYTES: Final = 150
"""Approximate bytes of an archived segment in part 2."""
ARCHIVED_SEGMENTS_MAX: Final = limits.CHECKPOINT_BYTES_MAX // ARCHIVED_ROW_BYTES
"""Most archived segments in part 2."""
_decode_note: Final = msgspec.json.Decoder(tuple[int, int]).decode


class OpenedCheckpoint(NamedTuple):
    """A checkpoint, or its first part, with its footer and head (``CheckpointFile.head``) decoded."""

    version: int
    file: CheckpointFile
    head: pa.Table
    archive: Archive = NO_ARCHIVE
    """What part 2 has."""


def decode_archive_note(head: pa.Table, version: int) -> Archive:
    """Return what part 2 of the checkpoint with this head has. Raises ``ValueError`` if the note is damaged."""
    note = (head.schema.metadata or {}).get(ARCHIVE_KEY)
    if note is None:
        return NO_ARCHIVE
    try:
        return Archive(*_decode_note(note), version)
    except DECODE_ERRORS as problem:
        raise ValueError(f"its note of the archive is damaged: {problem}") from problem


def archive_pieces(store: ObjectStore, root: str, version: int) -> Iterator[pa.Table]:
    """Yield the rows (``add`` only) of part 2 of a checkpoint in pieces. Raises ``CorruptData``, ``StoreUnavailable``."""
    key = layout.table_checkpoint_part_key(root, version, 2)
    try:
        data = read_bounded(store, key, limits.CHECKPOINT_BYTES_MAX)
    except ObjectMissing as problem:
        raise CorruptData(
            f"The checkpoint {version} of {root.rstrip('/')} lacks its second part.", object=key
        ) from problem
    with as_corrupt(root, version):
        for piece in CheckpointFile(data).pieces(("add",), with_tombstones=False):
            table = conforming(piece, [SCHEMA.field("add")])
            check_required(table)
            yield table


def adds_in(pieces: Iterable[pa.Table]) -> Iterator[pa.StructArray]:
    """Yield the ``add`` of each of these pieces of rows that has one."""
    for piece in pieces:
        if len(adds := select_actions(piece, "add")):
            yield adds


@dataclass(frozen=True, slots=True)
class AdvancedCheckpoint:
    """A checkpoint's bytes, if there is one, with the commits after it applied. Every method raises ``CorruptData``.

    ``archive``: what part 2 of the checkpoint has; it is read from ``store`` only when it is needed.
    """

    base: CheckpointFile | None
    reconciliation: Reconciliation
    root: str
    version: int
    archive: Archive = NO_ARCHIVE
    store: ObjectStore | None = None

    @property
    def is_archive_same(self) -> bool:
        """Whether the archive is that of the checkpoint."""
        return not self.reconciliation.changes_archive

    def metadata(self, archive: Archive = NO_ARCHIVE) -> dict[bytes, bytes]:
        """Return the metadata of the next checkpoint's file, or of its first part beside this ``archive``."""
        metadata = dict(self.reconciliation.with_metadata(SCHEMA.empty_table()).schema.metadata)
        if archive.segment_count:
            metadata[ARCHIVE_KEY] = msgspec.json.encode([archive.segment_count, archive.size_bytes])
        return metadata

    def rows(self) -> Iterator[pa.Table]:
        """Yield the rows without the archive's, as ``Reconciliation.rows`` does."""
        with as_corrupt(self.root, self.version):
            yield from self.reconciliation.rows(partial(self._pieces, "add"), partial(self._pieces, "remove"))

    def archived(self) -> Iterator[pa.Table]:
        """Yield the rows (``SCHEMA``) of the archive. Also raises ``StoreUnavailable``."""
        with as_corrupt(self.root, self.version):
            yield from self.reconciliation.archived(self._archive_pieces)

    def all_rows(self) -> Iterator[pa.Table]:
        """Yield the rows with the archive's. Also raises ``StoreUnavailable``."""
        yield from self.rows()
        yield from self.archived()

    def adds(self) -> Iterator[pa.StructArray]:
        """Yield every file of log and archive as its action (``ADD``), in pieces. Also raises ``StoreUnavailable``."""
        return adds_in(self.all_rows())

    def put_archive(self, version: int) -> Archive:
        """Put part 2 of the checkpoint of ``version``, if there is an archive; return the archive. Also raises
        ``StoreUnavailable``."""
        if self.store is None or (self.is_archive_same and not self.archive.segment_count):
            return NO_ARCHIVE
        key = layout.table_checkpoint_part_key(self.root, version, 2)
        if self.is_archive_same:
            before = layout.table_checkpoint_part_key(self.root, self.version, 2)
            try:
                with suppress(ObjectExists):
                    self.store.copy_if_absent(before, key)
            except ObjectMissing as problem:
                said = f"The checkpoint {self.version} of {self.root.rstrip('/')} lacks its second part."
                raise CorruptData(said, object=before) from problem
            return self.archive
        size_bytes = 0

        def counted() -> Iterator[pa.Table]:
            nonlocal size_bytes
            for piece in self.archived():
                size_bytes += pc.sum(pc.struct_field(select_actions(piece, "add"), "size")).as_py() or 0
                yield piece

        with large_checkpoint_lock(self.archive.segment_count * ARCHIVED_ROW_BYTES):
            data, row_count = encode_checkpoint_pieces(counted(), {})
            if row_count:
                with suppress(ObjectExists):
                    self.store.put_if_absent(key, data)
        return Archive(row_count, size_bytes, version)

    def _pieces(self, name: str) -> Iterator[pa.Table]:
        if self.base is not None:
            for piece in self.base.pieces((name,), with_tombstones=name == "remove"):
                table = conforming(piece, [SCHEMA.field(name)])
                check_required(table)
                yield table

    def _archive_pieces(self) -> Iterator[pa.Table]:
        if self.archive.segment_count and self.store is not None:
            yield from archive_pieces(self.store, self.root, self.version)
