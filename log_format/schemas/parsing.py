"""From a schema's text to what it means. Each type of schema is a module of its own, imported when it is needed."""

from __future__ import annotations

from collections.abc import Sequence

from log_format.schemas.parsed import TEXTS_BYTES_MAX, InvalidSchema, ParsedSchema
from log_format.schemas.schema import SCHEMA_BYTES_MAX, Schema, SchemaType


def parse(schema: Schema, references: Sequence[tuple[str, str]] = (), *, is_new: bool = True) -> ParsedSchema:
    """Parse a schema. It takes up to seconds of a processor for a hostile one: call it in a thread.

    Args:
        schema: The schema. Its own list of references is not looked at.
        references: Name and text of each schema that it refers to, directly or not; what others refer to comes first.
        is_new: Whether defaults of Avro are checked, and ``SCHEMA_BYTES_MAX``. Registries of before took defaults as they came,
            and a normalized text may be longer than what was sent; so it is false for what is registered already, or comes from
            another registry with its id.

    Returns:
        The parsed schema: an ``AvroSchema``, ``JsonSchema`` or ``ProtobufSchema``.

    Raises:
        InvalidSchema: The text, or one of the references, is no such schema, or is beyond a bound.
    """
    if is_new:
        _check_size("The schema", schema.text, SCHEMA_BYTES_MAX)
    _check_size("The schema with its references", schema.text, TEXTS_BYTES_MAX, *(text for _, text in references))
    parsed = _parsed(schema, references, is_new=is_new)
    if is_new:
        _check_size("The canonical text of the schema", parsed.canonical, SCHEMA_BYTES_MAX)
    return parsed


def _parsed(schema: Schema, references: Sequence[tuple[str, str]], *, is_new: bool) -> ParsedSchema:
    match schema.type:
        case SchemaType.AVRO:
            from log_format.schemas.parsing_avro import parse_avro  # noqa: PLC0415 - only what is used is imported

            return parse_avro(schema.text, references, is_new=is_new)
        case SchemaType.JSON:
            from log_format.schemas.parsing_json import parse_json  # noqa: PLC0415

            return parse_json(schema.text, references)
        case SchemaType.PROTOBUF:
            from log_format.schemas.parsing_protobuf import parse_protobuf  # noqa: PLC0415

            return parse_protobuf(schema.text, references)


def _check_size(what: str, text: str, bytes_max: int, *more: str) -> None:
    try:
        size_bytes = sum(len(each.encode()) for each in (text, *more))
    except UnicodeEncodeError as error:
        raise InvalidSchema("The text has a lone surrogate, which is no character.") from error
    if size_bytes > bytes_max:
        raise InvalidSchema(f"{what} has {size_bytes} bytes, more than {bytes_max}.")
