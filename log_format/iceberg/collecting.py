"""What may be deleted of a topic's manifests, by maintenance: publications delete what they replace, as long as there are any.

Deleting too much does no lasting harm: the next load makes all of it anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from log_format import layout
from log_format.errors import CorruptData, ObjectMissing
from log_format.iceberg.manifest import Catalogued, decode_catalogued
from log_format.iceberg.place import OBJECT_BYTES_MAX
from log_format.iceberg.publishing import STRAY_MS
from log_format.store import ObjectInfo, ObjectStore, read_bounded
from log_format.topic.state import TopicState


class Published(NamedTuple):
    """What the newest list of a table says, None without a readable one, and objects that nobody has needed for a day."""

    newest: Catalogued | None
    unneeded: list[ObjectInfo]


def look(store: ObjectStore, state: TopicState, now_ms: int) -> Published:
    """Return what there is of a topic's table. Of one that was not loaded for a day nothing is needed.

    Args:
        store: where the topic is.
        state: the topic at its head; it may have been deleted.
        now_ms: present time, in ms since the epoch.

    Raises ``StoreUnavailable``. One listing, and one GET if there is anything.
    """
    objects = _objects(store, state.topic)
    newest = _newest(store, state, objects)
    needed: set[str] = set()
    if newest is not None and newest.last_loaded_ms > now_ms - STRAY_MS:
        history = (one.key for one in newest.history)
        needed = {newest.snapshot.key, *(one.key for one in newest.manifests), *history, *newest.retired}
    pins = {pin.version for pin in state.pins} if needed else set()
    return Published(
        newest,
        [
            info
            for info in objects
            if info.modified_at_ms < now_ms - STRAY_MS
            and info.key not in needed
            and layout.iceberg_pin_version(info.key) not in pins
        ],
    )


def objects_with_erased(store: ObjectStore, state: TopicState, version: int, until_ms: int) -> Iterator[ObjectInfo]:
    """Yield objects that may have bounds of what was erased.

    Args:
        store: where the topic is.
        state: the topic at its head.
        version: the table's version from which no file has what was erased.
        until_ms: time, by the store's clock, until which earlier versions may have been published.

    Raises ``StoreUnavailable``.
    """
    objects = _objects(store, state.topic)
    newest = _newest(store, state, objects)
    clean: set[str] = set()
    if newest is not None and newest.snapshot.version >= version:
        clean = {newest.snapshot.key, *(one.key for one in newest.manifests)}
    for info in objects:
        if info.modified_at_ms <= until_ms and info.key not in clean:
            yield info


def _objects(store: ObjectStore, topic: str) -> list[ObjectInfo]:
    return list(store.list(layout.iceberg_prefix(topic)))


def _newest(store: ObjectStore, state: TopicState, objects: Iterable[ObjectInfo]) -> Catalogued | None:
    """Return what the newest list of the incarnation says; None without a readable one."""
    own = f"{layout.iceberg_prefix(state.topic)}{state.topic_id}/"
    keys = [info.key for info in objects if info.key.startswith(own)]
    lists = sorted((version, key) for key in keys if (version := layout.iceberg_list_version(key)) is not None)
    for _, key in reversed(lists):
        try:
            return decode_catalogued(read_bounded(store, key, OBJECT_BYTES_MAX), key)
        except (CorruptData, ObjectMissing):
            continue
    return None
