"""Readers that give records the typed columns of their topic, made of the versions that the registry has of its subjects.

They are the readers of gateways, so a column has the same values here as in the topic's table. Requires pyarrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from log_format.schemas.columns.codec import RecordReaders, SchemaReader, SubjectReader
from log_format.schemas.schema import REFERENCES_MAX, Schema
from log_format.schemas.schema import SchemaType as Type
from tidelog.calls.schemas import Schemas
from tidelog.types.schema import SchemaReference

_PARTS: Final = ("value.schema", "key.schema")


def record_readers(schemas: Schemas, config: Mapping[str, int | str]) -> RecordReaders | None:
    """Return the readers of a topic with these settings; None if neither its values nor its keys have a schema.

    Raises ``GatewayError``, for example without a right on a subject, and ``ValueError`` for a schema that can't be a column, or
    if a package for its type is missing.
    """
    value, key = (_reader(schemas, str(config[part])) if part in config else None for part in _PARTS)
    return None if value is None and key is None else RecordReaders(value, key)


def _reader(schemas: Schemas, subject: str) -> SubjectReader:
    newest = schemas.latest(subject)
    versions = [schemas.version(subject, number, deleted=True) for number in schemas.versions(subject, deleted=True)]
    found = []
    for version in [*(one for one in versions if one.id != newest.id), newest]:
        schema = Schema(text=version.schema, type=Type(version.schema_type))
        try:
            reader = SchemaReader(schema, list(_referred(schemas, version.references, {}).items()))
        except ImportError as error:
            raise ValueError(f"{error}: pip install 'tidelog[registry]'") from error
        found.append((version.id, reader))
    return SubjectReader(subject, found)


def _referred(schemas: Schemas, references: Iterable[SchemaReference], texts: dict[str, str]) -> dict[str, str]:
    """Add name and text of the schemas that are referred to, each after those that it needs itself."""
    for each in references:
        if each.name not in texts and len(texts) < REFERENCES_MAX:
            found = schemas.version(each.subject, each.version, deleted=True)
            _referred(schemas, found.references, texts)
            texts[each.name] = found.schema
    return texts
