"""Publishing a version of a topic's table for Iceberg's readers: manifests, and a list of them that is the version's snapshot.

1. The next list is made from the one before and the commits since (``collect_changes``): files that came, and what is left of
   manifests with files that went, make one new manifest. It takes up manifests that are smaller than it, so that there are few,
   and a file is written again some log2(n) times. All other manifests stay.
2. Without such a list, or with too many commits since, all manifests are made anew from the newest checkpoint, in pieces.
3. An object is named once it is there: manifests are put before their list, and a list before the catalog answers with it. Every
   publication lists what there is; if manifests are gone, all are made anew.
4. A snapshot is offered until ``kept_ms`` after its version was last seen to be the newest: maintenance deletes no file of it
   that early. What no later snapshot needs is deleted ``GRACE_MS`` after that, by whoever publishes.
5. Gateways need no agreement. Each begins at the newest list of any; if two publish at a time, the next one follows either.
6. A list says when the table was last loaded, to ``NOTED_MS``: maintenance goes on with the manifests of a table that is loaded.

Requests: one listing, a GET for each commit since, and two PUTs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import msgspec

from log_format import layout, limits
from log_format.checkpoints.advanced_checkpoint import AdvancedCheckpoint
from log_format.checkpoints.checkpoint import with_log_at
from log_format.delta.actions import Commit, decode_commit, plain_path
from log_format.delta.checkpoint_hint import read_hinted_version
from log_format.errors import CorruptData, ObjectMissing, StoreError, log_outran_reader
from log_format.iceberg.changes import FileChanges, NotReplayed, collect_changes
from log_format.iceberg.data_file import manifest_entry
from log_format.iceberg.manifest import (
    Catalogued,
    Manifest,
    Snapshot,
    decode_catalogued,
    decode_manifest,
    encode_manifest_list,
    without_files,
)
from log_format.iceberg.place import FILES_IN_MANIFEST_MAX, OBJECT_BYTES_MAX, Place, put_manifests, table_entries
from log_format.iceberg.schema import Path, are_kept
from log_format.store import ObjectInfo, read_bounded
from log_format.topic.state import TopicState

COMMITS_MAX: Final = 2_000
"""Most commits that are read one by one; with more, the checkpoint is read."""
READS_AT_ONCE: Final = 16
SMALL_FILES_MAX: Final = 100
"""Number of files up to which a manifest is taken up by any new one."""
SNAPSHOTS_MAX: Final = 100
KEPT_MS_MAX: Final = 12 * 3_600_000
"""Longest time for which a snapshot that is not the newest is offered: a list names all objects that such ones need."""
GRACE_MS: Final = 3_600_000
"""Time for which readers that got an answer may read what it names."""
NOTED_MS: Final = 6 * 3_600_000
"""How long ago a load may be that was noted last: another one puts the same list again."""
STRAY_MS: Final = 24 * 3_600_000
"""Age from which an object is deleted that the newest snapshot does not know."""


def kept_ms(state: TopicState) -> int:
    """Return how long a version is offered after it was last seen to be the newest: half of the time for which it stays."""
    stays = [state.config.integer("commit.retention.ms"), state.config.integer("deleted.file.retention.ms")]
    if state.erasures:
        stays.append(state.config.integer("erase.grace.ms"))
    return min(KEPT_MS_MAX, min(stays) // 2)


def publish(place: Place, known: Catalogued | None) -> Catalogued:
    """Return what is published of a topic's table at its state; publish it if it is not.

    Args:
        place: the topic's store and state, which must be near the head.
        known: what this process published of the topic before, if anything.

    Raises ``BackOff`` if a checkpoint of a later version exists, ``StoreUnavailable``, ``CorruptData``.
    """
    stored = {info.key: info for info in place.store.list(place.prefix)}
    return _published(place, _base(place, known, stored), stored, loaded_ms=place.now_ms)


def publish_again(place: Place, known: Catalogued, is_due: Callable[[Catalogued], bool]) -> Catalogued | None:
    """Publish a table that nobody loads at this moment, so that the next load finds little to do.

    Return what is published; None if nothing is any more that can be gone on from. ``is_due``: judges what others may have
    published meanwhile. Other arguments and errors as in ``publish``.
    """
    stored = {info.key: info for info in place.store.list(place.prefix)}
    base = _base(place, known, stored)
    if base is None or not is_due(base):
        return base
    return _published(place, base, stored, loaded_ms=base.last_loaded_ms)


def _published(
    place: Place, base: Catalogued | None, stored: Mapping[str, ObjectInfo], *, loaded_ms: int
) -> Catalogued:
    made: _Made | None = None
    if base is not None and base.snapshot.version == place.state.version:
        if base.last_loaded_ms > loaded_ms - NOTED_MS:
            return seen_at(base, place.now_ms)
        made = _Made(base.manifests, (), base.snapshot.operation, base.snapshot.committed_ms)
    elif base is not None:
        made = _advanced(place, base)
    if made is None:
        made = _made_anew(place, base)
    key = f"{place.prefix}{place.state.version:020d}-{place.new_id()}.avro"
    catalogued = _catalogued(place, base, made, key, loaded_ms)
    place.store.put_if_absent(key, encode_manifest_list(catalogued, place.store_uri))
    _delete_old(place, base, catalogued, stored)
    return catalogued


def seen_at(catalogued: Catalogued, now_ms: int) -> Catalogued:
    """Return the same with its newest snapshot seen to be the newest version now."""
    snapshot = msgspec.structs.replace(catalogued.snapshot, head_seen_ms=now_ms)
    return msgspec.structs.replace(catalogued, snapshot=snapshot)


def offered(catalogued: Catalogued, state: TopicState, now_ms: int) -> list[Snapshot]:
    """Return the snapshots that readers may name, the newest last."""
    oldest_ms = now_ms - kept_ms(state)
    return [*(one for one in catalogued.history if one.head_seen_ms > oldest_ms), catalogued.snapshot]


@dataclass(frozen=True, slots=True)
class _Made:
    """The manifests of a version, and how it differs from the snapshot before. ``dropped``: manifests that it has no more."""

    manifests: tuple[Manifest, ...]
    dropped: tuple[Manifest, ...]
    operation: str
    committed_ms: int


def _base(place: Place, known: Catalogued | None, stored: Mapping[str, ObjectInfo]) -> Catalogued | None:
    """Return the newest snapshot to go on from; None if there is none that can be used."""
    lists = {key: version for key in stored if (version := layout.iceberg_list_version(key)) is not None}
    newest = sorted((version, key) for key, version in lists.items() if version <= place.state.version)
    while newest:
        version, key = newest.pop()
        if known is not None and known.snapshot.key in stored and known.snapshot.version >= version:
            return known if _is_usable(place, known, stored) else None
        try:
            found = decode_catalogued(read_bounded(place.store, key, OBJECT_BYTES_MAX), key)
        except (CorruptData, ObjectMissing):
            continue
        return found if _is_usable(place, found, stored) else None
    return None


def _is_usable(place: Place, found: Catalogued, stored: Mapping[str, ObjectInfo]) -> bool:
    return (
        found.topic_id == place.state.topic_id
        and found.root_uri == place.root_uri
        and not found.is_unsettled
        and are_kept(_paths(found.ids), place.schema.ids)
        and all(manifest.key in stored for manifest in found.manifests)
    )


def _paths(ids: Mapping[str, int]) -> dict[Path, int]:
    return {tuple(name.split("\0")): number for name, number in ids.items()}


def _advanced(place: Place, base: Catalogued) -> _Made | None:
    """Return the manifests that follow the base's; None if its commits can't be read one by one."""
    versions = range(base.snapshot.version + 1, place.state.version + 1)
    if len(versions) > COMMITS_MAX:
        return None
    try:
        changes = collect_changes(_commits(place, versions), place.state.existing_id)
        return _apply(place, base, changes)
    except (NotReplayed, ObjectMissing):
        return None


def _commits(place: Place, versions: range) -> Iterator[Commit]:
    def read(version: int) -> Commit:
        key = layout.commit_key(place.state.topic, version)
        return decode_commit(read_bounded(place.store, key, limits.COMMIT_BYTES_MAX), key)

    if len(versions) == 1:
        yield read(versions[0])
        return
    with ThreadPoolExecutor(READS_AT_ONCE, thread_name_prefix="iceberg") as threads:
        waiting = iter(versions)
        while some := list(islice(waiting, READS_AT_ONCE * 4)):
            yield from threads.map(read, some)


def _apply(place: Place, base: Catalogued, changes: FileChanges) -> _Made | None:
    """Return the manifests after the changes; None if they would not have exactly the table's files."""
    # Iceberg's readers know the snapshot, not the versions between.
    version = place.state.version
    root_uri, schema = place.root_uri, place.schema
    entries = [manifest_entry(add, root_uri, schema, version) for add in changes.added.values()]
    removed = {root_uri + plain_path(path) for path in changes.removed}
    kept, dropped, rewritten = list(base.manifests), [], []
    # Most files that leave a table came lately: what is merged or erased. Those of the archive leave in the order of time.
    for manifest in reversed(base.manifests):
        if not removed:
            break
        left = len(removed)
        rest = list(without_files(_entries(place, manifest), removed))
        if len(removed) < left:
            kept.remove(manifest)
            dropped.append(manifest)
            rewritten += rest
    if removed:
        return None
    entries += rewritten
    for manifest in sorted(kept, key=lambda one: one.file_count) if entries else ():
        is_small = manifest.file_count <= max(len(entries), SMALL_FILES_MAX)
        if is_small and len(entries) + manifest.file_count <= FILES_IN_MANIFEST_MAX:
            kept.remove(manifest)
            dropped.append(manifest)
            entries += without_files(_entries(place, manifest), set())
    if sum(one.file_count for one in kept) + len(entries) != _file_count(place):
        return None
    made = [*kept, *put_manifests(place, entries)]
    return _Made(tuple(made), tuple(dropped), changes.operation, changes.committed_ms)


def _file_count(place: Place) -> int:
    """Return the number of files of the table, by which every list is checked."""
    return place.state.segment_count + place.state.archive.segment_count


def _entries(place: Place, manifest: Manifest) -> list[dict[str, Any]]:
    return decode_manifest(read_bounded(place.store, manifest.key, OBJECT_BYTES_MAX), manifest.key)


def _made_anew(place: Place, base: Catalogued | None) -> _Made:
    """Return manifests of all files, from the newest checkpoint on."""
    root = layout.topic_root(place.state.topic)

    def put(found: AdvancedCheckpoint) -> list[Manifest]:
        return list(put_manifests(place, table_entries(place, found.adds())))

    hint = read_hinted_version(place.store, root)
    made = with_log_at(put, place.store, root, place.state.version, place.now_ms, hint=hint)
    if made is None:
        raise log_outran_reader(place.state.topic)
    if (count := sum(one.file_count for one in made)) != _file_count(place):
        raise CorruptData(
            f"The log of topic {place.state.topic!r} names {count} files at version {place.state.version}, and its state has "
            f"{_file_count(place)}.",
            topic=place.state.topic,
        )
    committed_ms = place.state.modification_time_ms or place.state.created_at_ms
    dropped = () if base is None else base.manifests
    return _Made(tuple(made), dropped, "append" if base is None else "overwrite", committed_ms)


def _catalogued(place: Place, base: Catalogued | None, made: _Made, key: str, loaded_ms: int) -> Catalogued:
    history: list[Snapshot] = []
    retired: dict[str, int] = {}
    if base is not None:
        oldest_ms = place.now_ms - kept_ms(place.state)
        earlier = (one for one in (*base.history, base.snapshot) if one.version != place.state.version)
        history = [one for one in earlier if one.head_seen_ms > oldest_ms]
        retired = base.retired | dict.fromkeys((base.snapshot.key, *(one.key for one in made.dropped)), place.now_ms)
        due_ms = oldest_ms - GRACE_MS
        retired = {each: since_ms for each, since_ms in retired.items() if since_ms > due_ms}
    last_ms = history[-1].committed_ms + 1 if history else 0
    snapshot = Snapshot(
        version=place.state.version,
        key=key,
        committed_ms=max(made.committed_ms, last_ms),
        head_seen_ms=place.now_ms,
        operation=made.operation,
        totals={
            "total-data-files": sum(one.file_count for one in made.manifests),
            "total-records": sum(one.row_count for one in made.manifests),
            "total-files-size": sum(one.file_bytes for one in made.manifests),
        },
    )
    return Catalogued(
        topic_id=place.state.existing_id,
        root_uri=place.root_uri,
        ids={"\0".join(path): number for path, number in place.schema.ids.items()},
        manifests=made.manifests,
        snapshot=snapshot,
        history=tuple(history[-SNAPSHOTS_MAX + 1 :]),
        retired=retired,
        loaded_ms=loaded_ms,
        is_unsettled=bool(place.state.foreign.touched) or place.state.foreign.is_of_table,
    )


def _delete_old(place: Place, before: Catalogued | None, now: Catalogued, stored: Mapping[str, ObjectInfo]) -> None:
    """Delete what no reader needs any more, best effort: what is left is a stray, which a later publication deletes."""
    needed = {
        now.snapshot.key,
        *(one.key for one in now.manifests),
        *(one.key for one in now.history),
        *now.retired,
    }
    due = set(() if before is None else before.retired) - needed
    stray_ms = place.now_ms - STRAY_MS
    pins = {pin.version for pin in place.state.pins}
    for key, info in stored.items():
        version = layout.iceberg_pin_version(key)
        is_stray = key not in needed and info.modified_at_ms < stray_ms
        if key in due or (is_stray if version is None else version not in pins):
            with suppress(StoreError):
                place.store.delete(key)
