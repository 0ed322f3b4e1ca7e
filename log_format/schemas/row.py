"""The content of a commit of ``system/schemas``: schemas, versions of subjects, compatibility and modes.

The changes are in the tag ``tidelog.schemas`` of the commit's ``add``, so that replay reads no data file. The data file has a row
for each change, for readers of the table with SQL.

1. A schema is written once, with its id; later versions of subjects name the id. It is gone with the last version that has it.
2. ``next_id`` is above every id that was ever given, also of schemas that are gone. So no id is given twice. A store that is a
   copy of another lacks what the other registered since: there ids go on far above, and ``copied_at_ms`` says for which copy.
3. The subject of a configuration or a mode is empty for all subjects, and ``:.context:`` for those of a context.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from log_format.delta.system_table import DocumentRow
from log_format.delta.tag_compression import compress_tag, decompress_tag
from log_format.schemas.schema import Schema, SchemaReference, SchemaType

TAG_SCHEMAS: Final = "tidelog.schemas"


class SchemaRow(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """A schema and its id in a context. A reference is name, subject and version."""

    id: int
    context: str
    type: SchemaType
    text: str
    references: tuple[tuple[str, str, int], ...] = ()
    metadata: str | None = None
    rule_set: str | None = None


class VersionRow(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """A version of a subject. ``is_deleted``: it is deleted, but not permanently."""

    subject: str
    version: int
    id: int
    is_deleted: bool = False


class ConfigRow(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """The configuration of a subject, a context, or all; None: that of the wider one holds."""

    subject: str
    compatibility: str | None = None
    normalize: bool | None = None
    compatibility_group: str | None = None
    has_columns: bool = False
    """Whether a topic has columns of the subject, so that its versions have to fit each other's columns."""
    claims: tuple[tuple[str, int], ...] = ()
    """The topics that got such columns, each with the time; empty if ``has_columns`` is of more than are noted, for ever."""


class ModeRow(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """The mode of a subject, a context, or all."""

    subject: str
    mode: str


class SchemasChanges(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The changes of one decision, applied in the order of the members. A commit has several, one after another."""

    next_id: int = 0
    """The next id from now on, if it is above the one before."""
    copied_at_ms: int = 0
    """Time of the newest copy for which ids were skipped."""
    schemas: tuple[SchemaRow, ...] = ()
    versions: tuple[VersionRow, ...] = ()
    removed: tuple[tuple[str, int], ...] = ()
    """Versions that are gone: subject and version."""
    configs: tuple[ConfigRow, ...] = ()
    removed_configs: tuple[str, ...] = ()
    modes: tuple[ModeRow, ...] = ()
    removed_modes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self != NO_CHANGES


NO_CHANGES: Final = SchemasChanges()
_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(list[SchemasChanges])


def row_of(schema_id: int, context: str, schema: Schema) -> SchemaRow:
    """Return the row of a schema."""
    return SchemaRow(
        id=schema_id,
        context=context,
        type=schema.type,
        text=schema.text,
        references=tuple((one.name, one.subject, one.version) for one in schema.references),
        metadata=schema.metadata,
        rule_set=schema.rule_set,
    )


def schema_of(row: SchemaRow) -> Schema:
    """Return the schema of a row. Raises ``ValueError``."""
    return Schema(
        text=row.text,
        type=row.type,
        references=tuple(
            SchemaReference(name=name, subject=subject, version=version) for name, subject, version in row.references
        ),
        metadata=row.metadata,
        rule_set=row.rule_set,
    )


def rows(changes: Sequence[SchemasChanges]) -> list[DocumentRow]:
    """Return kind, name and JSON (None: removed) of each change, as in the data file."""
    return [row for one in changes for row in _rows(one)]


def _rows(changes: SchemasChanges) -> Iterator[DocumentRow]:
    for schema in changes.schemas:
        yield "schema", str(schema.id), _document(schema)
    for version in changes.versions:
        yield "version", f"{version.subject}/{version.version}", _document(version)
    for subject, number in changes.removed:
        yield "version", f"{subject}/{number}", None
    for config in changes.configs:
        yield "config", config.subject, _document(config)
    for subject in changes.removed_configs:
        yield "config", subject, None
    for mode in changes.modes:
        yield "mode", mode.subject, _document(mode)
    for subject in changes.removed_modes:
        yield "mode", subject, None


def _document(row: SchemaRow | VersionRow | ConfigRow | ModeRow) -> str:
    return _ENCODER.encode(msgspec.structs.asdict(row)).decode()


def encode_tag(changes: Sequence[SchemasChanges]) -> str:
    """Encode the tag of an ``add`` with these changes: JSON; if long, compressed with zlib, as base64."""
    return compress_tag(_ENCODER.encode(changes))


def decode_tag(tag: str) -> list[SchemasChanges]:
    """Decode the result of ``encode_tag``. Raises ``ValueError`` for anything else."""
    return _DECODER.decode(decompress_tag(tag))
