"""A change to the registry's state in progress. What is not touched is not copied."""

from __future__ import annotations

from dataclasses import replace
from sys import intern
from typing import TYPE_CHECKING, TypeVar

from log_format.schemas.registered import (
    CONFIG_BYTES,
    CONTEXT_BYTES,
    PLACE_BYTES,
    SUBJECT_BYTES,
    Id,
    Place,
    RegisteredSchema,
    Version,
    digest,
    referred,
    schema_bytes,
)
from log_format.schemas.row import ConfigRow, ModeRow, SchemaRow, SchemasChanges, VersionRow, schema_of
from log_format.schemas.schema import Schema
from log_format.schemas.subjects import split

if TYPE_CHECKING:
    from log_format.schemas.state import SchemasState

RowT = TypeVar("RowT", ConfigRow, ModeRow)


class SchemasEdit:
    """A change to the state in progress. What is not touched is not copied."""

    def __init__(self, state: SchemasState) -> None:
        self.schemas = state.schemas.edit()
        self.ids = state.ids.edit()
        self.subjects = state.subjects.edit()
        self.referrers = state.referrers.edit()
        self.contexts = dict(state.contexts)
        self.configs, self.modes = dict(state.configs), dict(state.modes)
        self.next_id, self.copied_at_ms = state.next_id, state.copied_at_ms
        self.memory_bytes = state.memory_bytes

    def take(self, changes: SchemasChanges) -> None:
        """Apply a decision's changes."""
        self.next_id = max([self.next_id, changes.next_id, *(row.id + 1 for row in changes.schemas)])
        self.copied_at_ms = max(self.copied_at_ms, changes.copied_at_ms)
        for schema in changes.schemas:
            self._add_schema(schema)
        for version in changes.versions:
            self._put_version(version)
        for subject, number in changes.removed:
            self._remove_version(subject, number)
        for config in changes.configs:
            self._put(self.configs, config)
        for subject in changes.removed_configs:
            self._remove(self.configs, subject)
        for mode in changes.modes:
            self._put(self.modes, mode)
        for subject in changes.removed_modes:
            self._remove(self.modes, subject)

    def _put(self, rows: dict[str, RowT], row: RowT) -> None:
        self.memory_bytes += 0 if row.subject in rows else CONFIG_BYTES + 4 * len(row.subject)
        rows[row.subject] = row

    def _remove(self, rows: dict[str, RowT], subject: str) -> None:
        if rows.pop(subject, None) is not None:
            self.memory_bytes -= CONFIG_BYTES + 4 * len(subject)

    def _add_schema(self, row: SchemaRow) -> None:
        key = Id(intern(row.context), row.id)
        if self.schemas.get(key) is not None:
            return
        schema = schema_of(row)
        self.schemas.set(key, RegisteredSchema(row.id, schema))
        by_digest = (intern(row.context), digest(schema))
        self.ids.set(by_digest, tuple(sorted((*(self.ids.get(by_digest) or ()), row.id))))
        for place in referred(schema, row.context):
            self.referrers.set(place, (*(self.referrers.get(place) or ()), key))
        if row.context not in self.contexts:
            self.memory_bytes += CONTEXT_BYTES
        self.contexts[row.context] = self.contexts.get(row.context, 0) + 1
        self.memory_bytes += schema_bytes(schema)

    def _put_version(self, row: VersionRow) -> None:
        subject = intern(row.subject)  # it is in each of the subject's places
        versions = self.subjects.get(subject) or ()
        put = Version(row.version, row.id, row.is_deleted)
        if not versions:
            self.memory_bytes += SUBJECT_BYTES + 2 * len(row.subject)
        if versions and versions[-1].version >= row.version:
            versions = tuple(sorted((*(one for one in versions if one.version != row.version), put)))
        else:
            versions = (*versions, put)
        self.subjects.set(subject, versions)
        key, place = Id(intern(split(subject)[0]), row.id), Place(subject, row.version)
        known = self.schemas.get(key)
        if known is not None and place not in known.places:
            self.schemas.set(key, replace(known, places=tuple(sorted((*known.places, place)))))
            self.memory_bytes += PLACE_BYTES

    def _remove_version(self, subject: str, number: int) -> None:
        versions = self.subjects.get(subject) or ()
        gone = next((one for one in versions if one.version == number), None)
        if gone is None:
            return
        if len(versions) == 1:
            self.subjects.remove(subject)
            self.memory_bytes -= SUBJECT_BYTES + 2 * len(subject)
        else:
            self.subjects.set(subject, tuple(one for one in versions if one is not gone))
        key = Id(split(subject)[0], gone.id)
        known = self.schemas.get(key)
        if known is None:
            return
        places = tuple(place for place in known.places if place != (subject, number))
        self.memory_bytes -= PLACE_BYTES * (len(known.places) - len(places))
        if places:
            self.schemas.set(key, replace(known, places=places))
        else:
            self._remove_schema(key, known.schema)

    def _remove_schema(self, key: Id, schema: Schema) -> None:
        self.schemas.remove(key)
        by_digest = (key.context, digest(schema))
        ids = tuple(one for one in self.ids.get(by_digest) or () if one != key.id)
        if ids:
            self.ids.set(by_digest, ids)
        else:
            self.ids.remove(by_digest)
        for place in referred(schema, key.context):
            left = tuple(one for one in self.referrers.get(place) or () if one != key)
            if left:
                self.referrers.set(place, left)
            else:
                self.referrers.remove(place)
        self.contexts[key.context] -= 1
        if not self.contexts[key.context]:
            del self.contexts[key.context]
            self.memory_bytes -= CONTEXT_BYTES
        self.memory_bytes -= schema_bytes(schema)
