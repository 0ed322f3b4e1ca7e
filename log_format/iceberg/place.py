"""Where a topic's table is published for Iceberg's readers, and putting manifests there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from log_format import layout
from log_format.delta.actions import Add
from log_format.iceberg.data_file import manifest_entry
from log_format.iceberg.manifest import Manifest, describe_manifest, encode_manifest
from log_format.iceberg.schema import TableSchema, table_schema
from log_format.ids import NewId
from log_format.store import ObjectStore
from log_format.topic.state import TopicState

FILES_IN_MANIFEST_MAX: Final = 10_000
"""Most files that a manifest names, in about 2 MB. Each is a dictionary while the manifest is made: some 30 MB."""
OBJECT_BYTES_MAX: Final = 256 * 1024 * 1024
"""Most bytes of a manifest or a list. A list has some 300 for each 10,000 files of the table, and ids of 4,000 members."""


@dataclass(frozen=True, slots=True)
class Place:
    """A topic's table at one version, where it is published. ``now_ms``: present time."""

    store: ObjectStore
    state: TopicState
    now_ms: int
    new_id: NewId

    @property
    def prefix(self) -> str:
        """Key prefix of what is published of this incarnation."""
        return f"{layout.iceberg_prefix(self.state.topic)}{self.state.existing_id}/"

    @property
    def store_uri(self) -> str:
        """URI of the store, with a slash at its end."""
        return self.store.uri.rstrip("/") + "/"

    @property
    def root_uri(self) -> str:
        """URI of the table, with a slash at its end."""
        return self.store_uri + layout.topic_root(self.state.topic)

    @property
    def schema(self) -> TableSchema:
        """The table's schema."""
        return table_schema(self.state.columns)


def table_entries(
    place: Place, pieces: Iterable[pa.StructArray], version: int | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the manifest entries of files (``ADD``), as ones that a version adds.

    ``version``: the place's unless given. Raises what ``pieces`` raise, and ``CorruptData``.
    """
    root_uri, schema = place.root_uri, place.schema
    added_by = place.state.version if version is None else version
    for adds in pieces:
        columns = [pc.struct_field(adds, name).to_pylist() for name in ("path", "size", "stats")]
        for path, size, stats in zip(*columns, strict=True):
            add = Add(path=path, size=size, modification_time=0, data_change=False, stats=stats)
            yield manifest_entry(add, root_uri, schema, added_by)


def put_manifests(
    place: Place, entries: Iterable[dict[str, Any]], *, name: str = "m", version: int | None = None
) -> Iterator[Manifest]:
    """Put manifests with these entries, and yield them. ``name``: beginning of their names; ``version``: else the place's.

    Raises ``StoreUnavailable``.
    """
    waiting = iter(entries)
    while some := list(islice(waiting, FILES_IN_MANIFEST_MAX)):
        yield _put(place, some, f"{place.prefix}{name}-{place.new_id()}.avro", version)


def _put(place: Place, entries: Sequence[dict[str, Any]], key: str, version: int | None) -> Manifest:
    data = encode_manifest(entries, place.schema)
    place.store.put_if_absent(key, data)
    made_for = place.state.version if version is None else version
    return describe_manifest(entries, key=key, size_bytes=len(data), version=made_for)
