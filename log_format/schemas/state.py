"""The state of ``system/schemas`` at one version.

1. A schema has one id in its context. It is there as long as a version of a subject has it, deleted ones included.
2. ``next_id`` is above every id that was ever given.
3. The state follows from the live ``add`` actions in the order of their times. A rewrite (``dataChange`` false) only changes
   which files are live.
4. ``memory_bytes`` is updated with each change, at a cost in proportion to the change's size.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, Self, TypeVar

from log_format import layout
from log_format.checkpoints.system_table import system_table
from log_format.delta.actions import Add
from log_format.delta.system_table import SystemTableState, decode_add_tag
from log_format.delta.table import Table
from log_format.schemas.edit import SchemasEdit
from log_format.schemas.refusals import invalid_schema
from log_format.schemas.registered import Id, Place, RegisteredSchema, RegisteredVersion, Version, digest
from log_format.schemas.row import (
    TAG_SCHEMAS,
    ConfigRow,
    ModeRow,
    SchemasChanges,
    VersionRow,
    decode_tag,
    row_of,
)
from log_format.schemas.schema import REFERENCES_MAX, Schema
from log_format.schemas.sharded_map import ShardedMap
from log_format.schemas.subjects import DEFAULT_CONTEXT, in_context, split

NAME: Final = "system/schemas"
ALL_SUBJECTS: Final = ""
"""Subject of the configuration and the mode that hold for all subjects without their own."""
LEVEL_DEFAULT: Final = "BACKWARD"
MODE_DEFAULT: Final = "READWRITE"
READ_ONLY_OVERRIDE: Final = "READONLY_OVERRIDE"
"""Mode of all subjects, or of a context, that holds whatever narrower modes say."""
READ_ONLY: Final = frozenset(("READONLY", READ_ONLY_OVERRIDE))

KeyT = TypeVar("KeyT")
RowT = TypeVar("RowT")


def _sharded() -> ShardedMap[KeyT, RowT]:
    return ShardedMap()


def _nothing() -> Mapping[str, RowT]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemasState(SystemTableState):
    """Schemas, subjects, configurations and modes, at one version. Immutable."""

    schemas: ShardedMap[Id, RegisteredSchema] = field(default_factory=_sharded)
    ids: ShardedMap[tuple[str, bytes], tuple[int, ...]] = field(default_factory=_sharded, compare=False)
    """Ids by context and digest of the schema. Only imports give a schema several."""
    subjects: ShardedMap[str, tuple[Version, ...]] = field(default_factory=_sharded)
    """Versions by subject, in order, deleted ones included; never empty."""
    referrers: ShardedMap[Place, tuple[Id, ...]] = field(default_factory=_sharded, compare=False)
    """Ids of the schemas that refer to a version."""
    contexts: Mapping[str, int] = field(default_factory=_nothing, compare=False)
    """Number of schemas by context."""
    configs: Mapping[str, ConfigRow] = field(default_factory=_nothing)
    modes: Mapping[str, ModeRow] = field(default_factory=_nothing)
    next_id: int = 1
    copied_at_ms: int = 0
    """Time of the newest copy of the store for which ids were skipped; 0: none."""
    memory_bytes: int = field(default=0, compare=False)
    """Estimated memory of the rows in bytes."""

    def schema(self, schema_id: int, context: str = DEFAULT_CONTEXT) -> Schema | None:
        """Return the schema with this id; None if there is none."""
        found = self.schemas.get(Id(context, schema_id))
        return None if found is None else found.schema

    def id_of(self, schema: Schema, context: str = DEFAULT_CONTEXT) -> int | None:
        """Return the id of a schema; None if it is not registered in the context."""
        ids = self.ids.get((context, digest(schema)))
        return None if ids is None else ids[0]

    def ids_of_digest(self, digested: bytes) -> list[Id]:
        """Return the ids of the schema with this digest, in each context that has it."""
        return [
            Id(context, one) for context in sorted(self.contexts) for one in self.ids.get((context, digested)) or ()
        ]

    def versions(self, subject: str, *, deleted: bool = False) -> Sequence[RegisteredVersion]:
        """Return the versions of a subject in order; with ``deleted`` also those that are deleted, but not permanently."""
        return [self._with_schema(subject, one) for one in self.numbers(subject, deleted=deleted)]

    def numbers(self, subject: str, *, deleted: bool = False) -> Sequence[Version]:
        """Return the versions of a subject as ``versions`` does, without their schemas."""
        versions = self.subjects.get(subject, ())
        return versions if deleted else [one for one in versions if not one.is_deleted]

    def latest(self, subject: str, *, deleted: bool = False) -> RegisteredVersion | None:
        """Return the newest version of a subject; None if it has none."""
        for one in reversed(self.subjects.get(subject, ())):
            if deleted or not one.is_deleted:
                return self._with_schema(subject, one)
        return None

    def registered(self, subject: str, number: int, *, deleted: bool = False) -> RegisteredVersion | None:
        """Return a version of a subject; None if there is none."""
        versions = self.subjects.get(subject, ())
        place = bisect_left(versions, (number,))
        if place == len(versions) or versions[place].version != number or (versions[place].is_deleted and not deleted):
            return None
        return self._with_schema(subject, versions[place])

    def version_of(self, subject: str, schema_id: int, *, deleted: bool = False) -> int | None:
        """Return the newest version of a subject that has this schema; None if there is none."""
        found = [one.version for one in self.numbers(subject, deleted=deleted) if one.id == schema_id]
        return found[-1] if found else None

    def places(self, schema_id: int, context: str = DEFAULT_CONTEXT, *, deleted: bool = False) -> Sequence[Place]:
        """Return the versions that have a schema, in the order of their registration."""
        found = self.schemas.get(Id(context, schema_id))
        places = () if found is None else found.places
        return places if deleted else [one for one in places if self.registered(*one) is not None]

    def referring(self, subject: str, version: int) -> list[int]:
        """Return the ids of the schemas that refer to a version and are not deleted everywhere, in order."""
        known = self.referrers.get(Place(subject, version), ())
        return sorted(one.id for one in known if self.places(one.id, one.context))

    def resolved(self, schema: Schema, context: str = DEFAULT_CONTEXT) -> tuple[tuple[str, str], ...]:
        """Return name and text of all schemas that a schema refers to, directly or not, each after those that it needs itself.

        Raises ``RegistryRefused`` (42201) if one is not registered, or if there are more than ``REFERENCES_MAX``.
        """
        found: dict[str, str] = {}
        begun: set[str] = set()
        waiting = [(one, context, False) for one in reversed(schema.references)]
        while waiting:
            reference, where, is_ready = waiting.pop()
            if reference.name in found or (reference.name in begun and not is_ready):
                continue
            subject = in_context(reference.subject, where)
            version = self.registered(subject, reference.version, deleted=True)
            if version is None:
                raise invalid_schema(
                    f'No schema reference found for subject "{reference.subject}" and version {reference.version}'
                )
            if is_ready:
                found[reference.name] = version.schema.text
                continue
            begun.add(reference.name)
            if len(begun) > REFERENCES_MAX:
                raise invalid_schema(f"The schema refers to more than {REFERENCES_MAX} schemas.")
            waiting.append((reference, where, True))
            waiting.extend((one, split(subject)[0], False) for one in reversed(version.schema.references))
        return tuple(found.items())

    def config(self, subject: str) -> ConfigRow:
        """Return the configuration in force for a subject: each member of its own, else of its context, else of all."""
        known = [row for one in _wider(subject) if (row := self.configs.get(one)) is not None]
        chosen: dict[str, object] = {
            name: next((value for row in known if (value := getattr(row, name)) is not None), None)
            for name in ("compatibility", "normalize", "compatibility_group")
        }
        return ConfigRow(
            subject=subject,
            compatibility=str(chosen["compatibility"] or LEVEL_DEFAULT),
            normalize=bool(chosen["normalize"]),
            compatibility_group=None if chosen["compatibility_group"] is None else str(chosen["compatibility_group"]),
            has_columns=subject in self.configs and self.configs[subject].has_columns,
        )

    def mode(self, subject: str) -> str:
        """Return the mode in force for a subject: the narrowest, unless a wider one overrides it."""
        known = [row.mode for one in _wider(subject) if (row := self.modes.get(one)) is not None]
        return READ_ONLY_OVERRIDE if READ_ONLY_OVERRIDE in known else next(iter(known), MODE_DEFAULT)

    def with_adds(self, adds: Iterable[Add]) -> Self:
        """Return the state after the changes in the tags of these ``add``. Raises ``CorruptData``."""
        return self.after(one for add in adds for one in changes_of(add.path, add.tags or {}))

    def after(self, changes: Iterable[SchemasChanges]) -> Self:
        """Return the state after these changes; version and files stay."""
        edit = SchemasEdit(self)
        for one in changes:
            edit.take(one)
        return replace(
            self,
            schemas=edit.schemas.done(),
            ids=edit.ids.done(),
            subjects=edit.subjects.done(),
            referrers=edit.referrers.done(),
            contexts=MappingProxyType(edit.contexts),
            configs=MappingProxyType(edit.configs),
            modes=MappingProxyType(edit.modes),
            next_id=edit.next_id,
            copied_at_ms=edit.copied_at_ms,
            memory_bytes=edit.memory_bytes,
        )

    def _with_schema(self, subject: str, version: Version) -> RegisteredVersion:
        schema = self.schemas[Id(split(subject)[0], version.id)].schema
        return RegisteredVersion(
            version=version.version, schema_id=version.id, schema=schema, deleted=version.is_deleted
        )


def schemas_table() -> Table[SchemasState]:
    """Return the description of the table."""
    return system_table(layout.SCHEMAS_ROOT, "the schema table", SchemasState)


def changes_of(path: str, tags: Mapping[str, str | None]) -> list[SchemasChanges]:
    """Return the changes in an ``add``. Raises ``CorruptData``."""
    return decode_add_tag(NAME, path, tags, TAG_SCHEMAS, decode_tag)


def snapshot(state: SchemasState) -> SchemasChanges:
    """Return the changes that give all of ``state``."""
    registered = sorted(state.schemas.items(), key=lambda entry: (entry[0].id, entry[0].context))
    return SchemasChanges(
        next_id=state.next_id,
        copied_at_ms=state.copied_at_ms,
        schemas=tuple(row_of(key.id, key.context, known.schema) for key, known in registered),
        versions=tuple(
            VersionRow(subject=subject, version=one.version, id=one.id, is_deleted=one.is_deleted)
            for subject, versions in sorted(state.subjects.items())
            for one in versions
        ),
        configs=tuple(state.configs.values()),
        modes=tuple(state.modes.values()),
    )


def _wider(subject: str) -> tuple[str, ...]:
    """Return the subject and all that is wider, from the narrowest."""
    context = split(subject)[0]
    wider = (f":{context}:", ALL_SUBJECTS) if context else (ALL_SUBJECTS,)
    return wider if subject in wider else (subject, *wider)
