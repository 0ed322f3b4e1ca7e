"""JSON Schema: the reader of its documents, by the shape that they have and the check of what a shape can't say.

Keywords that a shape has no room for (bounds, patterns, ``oneOf``, ``not`` …) are checked document by document, by the whole
schema.

Source: JSON Schema 2020-12 Core and Validation, and the drafts before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from log_format.errors import DECODE_ERRORS
from log_format.schemas.columns.cursor import Fault
from log_format.schemas.columns.document_values import plain
from log_format.schemas.columns.documents import Documents
from log_format.schemas.columns.json_parts import ROOT, SchemaDocuments
from log_format.schemas.columns.json_shapes import Shapes
from log_format.schemas.columns.shape import LibraryNeeded, Record, Untypable, checked

try:
    import jsonschema_rs
except ImportError:  # only schemas whose keywords a shape covers can be typed without it
    jsonschema_rs = None  # type: ignore[assignment]


def json_documents(text: str, references: Mapping[str, str] | None = None) -> Documents:
    """Return the reader of the documents of a schema.

    Args:
        text: the schema.
        references: the texts of other schemas by the name that a ``$ref`` gives them.

    Raises:
        Untypable: columns can't have it, or it is no schema.
    """
    documents = SchemaDocuments(_json(text), {name: _json(other) for name, other in (references or {}).items()})
    validators = _Validators(documents)
    shapes = Shapes(documents, validators.is_of)
    shape = shapes.shape(documents.root, "", 1)
    if not isinstance(shape, Record):
        raise Untypable("", "describes no object with properties")
    checked(shape)
    check = _check(validators.of(documents.root)) if shapes.needs_check else None
    return Documents(shape, check, document_bytes_max=shapes.document_bytes_max)


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except DECODE_ERRORS as error:
        raise Untypable("", "is not JSON") from error


class _Validators:
    """Makes checks by schemas within some documents."""

    def __init__(self, documents: SchemaDocuments) -> None:
        self._documents = documents
        self._registry: Any = None

    def of(self, schema: Any) -> Any:
        """Return the validator of a schema. Raises ``Untypable``, ``LibraryNeeded``."""
        if jsonschema_rs is None:
            raise LibraryNeeded("", "has keywords that need the package jsonschema-rs: pip install 'tidelog[registry]'")
        from log_format.schemas.parsing_json import PATTERNS, draft_of  # noqa: PLC0415 - needs the package, too

        def with_draft(one: Any, address: str) -> Any:
            named = {"$schema": self._documents.drafts[address]}
            return {**one, "$schema": str(draft_of(named))} if isinstance(one, dict) else one

        # Without a retriever, and by an unknown ``$schema``, the package would ask the network.
        try:
            if self._registry is None:
                documents = [(address, with_draft(one, address)) for address, one in self._documents.by_address.items()]
                self._registry = jsonschema_rs.Registry(documents, retriever=_fetch_nothing)
            return jsonschema_rs.validator_for(
                with_draft(schema, ROOT),
                registry=self._registry,
                retriever=_fetch_nothing,
                pattern_options=PATTERNS,
            )
        except (ValueError, jsonschema_rs.ReferencingError, jsonschema_rs.ValidationError) as error:
            raise Untypable("", f"is no JSON Schema: {str(error)[:200]}") from error

    def is_of(self, schema: Any) -> Callable[[Any], bool]:
        """Return whether a parsed value is of a schema, as a function."""
        validator = self.of(schema)
        return lambda value: bool(validator.is_valid(plain(value)))


def _check(validator: Any) -> Callable[[Any], Fault | None]:
    """Return the check of documents by the whole schema."""

    def check(document: Any) -> Fault | None:
        if validator.is_valid(document):
            return None
        for error in validator.iter_errors(document):
            path = ".".join(str(token) for token in error.instance_path)
            return Fault(path[:200], str(error.message)[:200])
        return None

    return check


def _fetch_nothing(address: str) -> Any:
    raise ValueError(f"{address} is no schema that is registered")
