"""Models: dataclasses, msgspec Structs and pydantic models, as JSON documents and back.

pydantic is never imported here: who has a model of it has imported it.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator
from typing import Any

import msgspec

from tidelog.http.decoders import decode


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """A member of a model. ``name``: as in documents; ``hint``: its type, with annotations."""

    name: str
    hint: Any
    required: bool


def is_model(kind: object) -> bool:
    """Return whether a class is a model."""
    return isinstance(kind, type) and (
        issubclass(kind, msgspec.Struct) or dataclasses.is_dataclass(kind) or is_pydantic(kind)
    )


def is_pydantic(kind: type) -> bool:
    """Return whether a class is a pydantic model."""
    return hasattr(kind, "model_fields") and hasattr(kind, "model_validate_json")


def fields_of(model: Any) -> Iterator[Field]:
    """Yield the members of a model, in order."""
    if is_pydantic(model):
        for name, field in model.model_fields.items():
            hint = typing.Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
            shown = field.serialization_alias or field.alias or name
            yield Field(name=shown, hint=hint, required=field.is_required())
    elif issubclass(model, msgspec.Struct):
        for each in msgspec.structs.fields(model):
            yield Field(name=each.encode_name, hint=each.type, required=each.required)
    else:
        hints = typing.get_type_hints(model, include_extras=True)
        for one in dataclasses.fields(model):
            has_default = one.default is not dataclasses.MISSING or one.default_factory is not dataclasses.MISSING
            yield Field(name=one.name, hint=hints[one.name], required=not has_default)


def document_of(value: object) -> bytes:
    """Return a model's value as a JSON document. Raises ``TypeError`` if a part of the value has no counterpart in JSON."""
    if is_pydantic(type(value)):
        text: str = value.model_dump_json(by_alias=True)  # type: ignore[attr-defined]
        return text.encode()
    return msgspec.json.encode(value)


def from_document(model: Any, document: bytes) -> Any:
    """Return the value of a JSON document. Raises ``ValueError`` (pydantic's, or msgspec's ``ValidationError``)."""
    if is_pydantic(model):
        return model.model_validate_json(document)
    return decode(document, model)


def from_members(model: Any, members: object) -> Any:
    """Return the value of decoded members. Raises ``ValueError`` as ``from_document``."""
    if is_pydantic(model):
        return model.model_validate(members)
    return msgspec.convert(members, model)
