"""Manifest lists of pinned versions: each is made once, from the pinned version's checkpoint, and stays as long as its pin."""

from __future__ import annotations

from typing import Final

from log_format import layout
from log_format.checkpoints.pinned_versions import version_adds
from log_format.errors import CorruptData
from log_format.iceberg.manifest import Catalogued, Snapshot, encode_manifest_list
from log_format.iceberg.place import Place, put_manifests, table_entries

MADE_AT_ONCE_MAX: Final = 3
"""Most lists of pinned versions that one publication makes: others follow with the next ones."""


def publish_pins(place: Place) -> dict[int, str]:
    """Return the keys of the manifest lists of pinned versions, by version; make those that are missing.

    A pin whose checkpoint is not there yet has none. Raises ``StoreUnavailable``.
    """
    wanted = {pin.version for pin in place.state.pins if not pin.is_expired(place.now_ms)}
    if not wanted:
        return {}
    keys = [info.key for info in place.store.list(f"{place.prefix}pin-")]
    is_list = f"{place.prefix}pin-m-"
    found = {
        version: key
        for key in keys
        if not key.startswith(is_list) and (version := layout.iceberg_pin_version(key)) in wanted
    }
    missing = sorted(wanted - found.keys(), reverse=True)
    for version in missing[:MADE_AT_ONCE_MAX]:
        try:
            found[version] = _publish(place, version)
        except CorruptData:
            continue
    return found


def _publish(place: Place, version: int) -> str:
    entries = table_entries(place, version_adds(place.store, place.state.topic, version), version)
    manifests = tuple(put_manifests(place, entries, name=f"pin-m-{version:020d}", version=version))
    key = f"{place.prefix}pin-{version:020d}-{place.new_id()}.avro"
    snapshot = Snapshot(version=version, key=key, committed_ms=0, head_seen_ms=0, operation="append", totals={})
    catalogued = Catalogued(
        topic_id=place.state.existing_id, root_uri=place.root_uri, ids={}, manifests=manifests, snapshot=snapshot
    )
    place.store.put_if_absent(key, encode_manifest_list(catalogued, place.store_uri))
    return key
