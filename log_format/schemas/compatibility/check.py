"""Judges a new schema beside old ones, at a level."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from log_format.schemas.compatibility.incompatibility import Finding, Incompatibility, Level, described
from log_format.schemas.parsed import ParsedSchema
from log_format.schemas.schema import SchemaType

TYPE_CHANGED = "SCHEMA_TYPE_CHANGED"
"""Kind of the only reason where the new schema is of another type: Avro does not read Protobuf."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The version that a new schema is not compatible with, and why not."""

    version: int
    incompatibilities: tuple[Incompatibility, ...]


def first_incompatible(new: ParsedSchema, versions: Iterable[tuple[int, ParsedSchema]], level: Level) -> Refusal | None:
    """Judge a new schema beside the versions of its subject.

    Args:
        new: The schema that is to be registered.
        versions: Number and schema of each version that is not deleted, the latest first. Taken one by one as they are needed:
            none at ``NONE``, one at levels that are not transitive.
        level: Level of the subject.

    Returns:
        The latest version that the new schema is not compatible with; None: it may be registered.
    """
    if level is Level.NONE:
        return None
    for version, old in versions:
        if found := incompatibilities(new, old, level):
            return Refusal(version=version, incompatibilities=tuple(found))
        if not level.transitive:
            break
    return None


def incompatibilities(new: ParsedSchema, old: ParsedSchema, level: Level) -> list[Incompatibility]:
    """Return why a new schema is not compatible with an old one at a level; empty: it is.

    Takes up to seconds of a processor for hostile schemas, and some 10 µs for each type of usual ones.
    """
    found = _unread(new, old, "new", "old") if level.backward else []
    if level.forward:
        found += _unread(old, new, "old", "new")
    return list(dict.fromkeys(found))


def _unread(reader: ParsedSchema, writer: ParsedSchema, reader_word: str, writer_word: str) -> list[Incompatibility]:
    if reader.type is not writer.type:
        text = f"The {reader_word} schema is {reader.type}, the {writer_word} one is {writer.type}"
        return [Incompatibility(kind=TYPE_CHANGED, path="/", description=text)]
    if reader.whole == writer.whole:
        return []
    found, sentences, root = _found(reader, writer)
    return [described(each, root + "/".join(each.path), sentences, reader_word, writer_word) for each in found]


def _found(reader: ParsedSchema, writer: ParsedSchema) -> tuple[list[Finding], Mapping[str, str], str]:
    """Return the findings, their sentences, and what paths begin with. Only the modules of the type are imported."""
    match reader.type:
        case SchemaType.AVRO:
            from log_format.schemas.compatibility import avro  # noqa: PLC0415
            from log_format.schemas.parsing_avro import AvroSchema  # noqa: PLC0415

            assert isinstance(reader, AvroSchema)
            assert isinstance(writer, AvroSchema)
            return avro.avro_findings(reader.root, writer.root), avro.SENTENCES, "/"
        case SchemaType.JSON:
            from log_format.schemas.compatibility import json_schema, json_sentences  # noqa: PLC0415
            from log_format.schemas.parsing_json import JsonSchema  # noqa: PLC0415

            assert isinstance(reader, JsonSchema)
            assert isinstance(writer, JsonSchema)
            return json_schema.json_findings(reader, writer), json_sentences.SENTENCES, "#/"
        case SchemaType.PROTOBUF:
            from log_format.schemas.compatibility import protobuf  # noqa: PLC0415
            from log_format.schemas.parsing_protobuf import ProtobufSchema  # noqa: PLC0415

            assert isinstance(reader, ProtobufSchema)
            assert isinstance(writer, ProtobufSchema)
            return protobuf.protobuf_findings(reader, writer), protobuf.SENTENCES, "#/"
