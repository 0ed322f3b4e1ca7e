"""What a schema is."""

from __future__ import annotations

import pytest

from log_format.schemas.schema import Schema, SchemaReference, SchemaType


def test_schemas_with_the_same_members_are_the_same_schema() -> None:
    """A schema is a value; each member distinguishes it."""
    reference = SchemaReference(name="Money", subject="money", version=1)
    schema = Schema(text='"string"', type=SchemaType.AVRO, references=(reference,))
    assert schema == Schema(text='"string"', references=(SchemaReference(name="Money", subject="money", version=1),))
    others = [
        Schema(text='"string"'),
        Schema(text='"int"', references=(reference,)),
        Schema(text='"string"', type=SchemaType.JSON, references=(reference,)),
        Schema(text='"string"', references=(reference,), metadata="{}"),
        Schema(text='"string"', references=(reference,), rule_set="{}"),
    ]
    assert len({schema, *others}) == len(others) + 1


def test_versions_begin_with_one() -> None:
    """A reference names a version that can exist."""
    with pytest.raises(ValueError, match="version 0"):
        SchemaReference(name="Money", subject="money", version=0)
