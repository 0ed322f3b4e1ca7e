"""Which files of a clone are copies of its source's, and which of these the source's table still has.

A copy's name is a UUID made from the clone's id and the source's path (RFC 9562, version 5), and all other files have random ones
(version 4). So both are known from the names, neither topic has a list of the other's files, and a copied file costs no more
bytes in a commit than another.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from log_format import layout
from log_format.checkpoints.archive_rows import archived_files
from log_format.delta.actions import plain_path
from log_format.store import ObjectStore
from log_format.topic.state import TopicState

_COPY: Final = re.compile(r"/[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneBytes:
    """Stored bytes of the files that a clone's table has, log and archive together.

    Args:
        also_in_source: of copies of files that the source's table has, too.
        only_in_clone: of copies of files that the source's table has no more.
        own: of files that were written for the clone: appended records, and files that maintenance rewrote.
    """

    also_in_source: int
    only_in_clone: int
    own: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.also_in_source + self.only_in_clone + self.own


def copy_path(path: str, clone_id: str) -> str:
    """Return the path that the copy of a file has in the clone's table: in the same folder, which says whether it was rewritten.

    ``path``: the file's in the source's table, not URI-encoded. ``clone_id``: id of the new topic.
    """
    unique = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{clone_id}/{path}"))
    return layout.compacted_path(unique) if path.startswith(layout.COMPACTED) else layout.segment_path(unique)


def clone_bytes(store: ObjectStore, source_paths: Iterable[str], clone: TopicState, now_ms: int) -> CloneBytes:
    """Return the bytes of a clone's files at a state near its head.

    ``source_paths``: of the files that the source's table has now. Raises what ``table_files`` raises.
    """
    own, copies = 0, dict[str, int]()
    for path, size_bytes in table_files(store, clone, now_ms):
        if _COPY.search(path):
            copies[path] = size_bytes
        else:
            own += size_bytes
    copied_bytes, also_in_source = sum(copies.values()), 0
    if copies:
        also_in_source = sum(copies.get(copy_path(path, clone.existing_id), 0) for path in source_paths)
    return CloneBytes(also_in_source=also_in_source, only_in_clone=copied_bytes - also_in_source, own=own)


def table_files(store: ObjectStore, state: TopicState, now_ms: int) -> list[tuple[str, int]]:
    """Return path (not URI-encoded) and size of every file of log and archive. Raises what ``archived_files`` raises."""
    archive = archived_files(store, state, now_ms)
    paths = map(plain_path, archive.column("path").to_pylist())
    found = list(zip(paths, archive.column("size").to_pylist(), strict=True))
    return found + [(segment.path, segment.size_bytes) for segment in state.manifest.segments()]
