"""JSON Schemas made of models: each type, the three kinds of models, and what is refused by name."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, NewType

import msgspec
import pydantic
import pytest

from log_format.schemas.columns.json_schema import json_documents
from tidelog import schemas
from tidelog.schemas.models import document_of, from_document, from_members

Name = NewType("Name", str)
NULL = {"type": "null"}


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1


class Item(msgspec.Struct, rename="camel"):
    """A nested model, whose names in documents are others."""

    unit_price: Annotated[Decimal, schemas.Digits(10, 2)]


@dataclasses.dataclass
class Everything:
    """Every type that has a column."""

    whole: int
    real: float
    text: str
    flag: bool
    raw: bytes
    amount: Decimal
    at: datetime
    day: date
    colour: Colour
    name: Name
    kind: Literal["a", "b"]
    items: list[Item]
    counts: Mapping[str, int]
    pair: tuple[int, ...]
    maybe: Annotated[Decimal | None, schemas.Digits(5)] = None
    shade: Colour | None = None
    nested: Item | None = None
    more: Sequence[float] = ()


VALUE = Everything(
    whole=1,
    real=0.5,
    text="é",
    flag=True,
    raw=b"\xff\x00",
    amount=Decimal("3.50"),
    at=datetime(2026, 1, 31, 23, 59, 59, 123456, UTC),
    day=date(2026, 1, 31),
    colour=Colour.BLUE,
    name=Name("n"),
    kind="a",
    items=[Item(Decimal("9.99"))],
    counts={"x": 1},
    pair=(1, 2),
    nested=Item(Decimal(1)),
)
ITEM = {
    "title": "Item",
    "type": "object",
    "properties": {"unitPrice": {"type": "string", "format": "decimal", "precision": 10, "scale": 2}},
    "required": ["unitPrice"],
    "additionalProperties": False,
}


def made(model: type) -> dict[str, Any]:
    """The schema of a model."""
    schema: dict[str, Any] = json.loads(schemas.json_schema(model))
    return schema


def test_each_type_has_its_schema() -> None:
    """By the table of docs/typed-topics.md; objects are closed, and what has a default may be absent."""
    schema = made(Everything)
    assert schema["properties"] == {
        "whole": {"type": "integer"},
        "real": {"type": "number"},
        "text": {"type": "string"},
        "flag": {"type": "boolean"},
        "raw": {"type": "string", "format": "byte"},
        "amount": {"type": "string", "format": "decimal", "precision": 38, "scale": 18},
        "at": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "colour": {"type": "string", "enum": ["red", "blue"]},
        "name": {"type": "string"},
        "kind": {"type": "string", "enum": ["a", "b"]},
        "items": {"type": "array", "items": ITEM},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "pair": {"type": "array", "items": {"type": "integer"}},
        "maybe": {"anyOf": [{"type": "string", "format": "decimal", "precision": 5, "scale": 0}, NULL]},
        "shade": {"anyOf": [{"type": "string", "enum": ["red", "blue"]}, NULL]},
        "nested": {"anyOf": [ITEM, NULL]},
        "more": {"type": "array", "items": {"type": "number"}},
    }
    assert set(schema["properties"]) - set(schema["required"]) == {"maybe", "shade", "nested", "more"}
    assert (schema["title"], schema["type"], schema["additionalProperties"]) == ("Everything", "object", False)


def test_a_gateway_takes_what_is_sent_and_has_a_column_for_each_member() -> None:
    """The reader of a typed topic takes the document of a value, needs no check beside the shape, and finds each member."""
    documents = json_documents(schemas.json_schema(Everything))
    assert documents._check is None
    assert {field.name for field in documents.type} == {field.name for field in dataclasses.fields(Everything)}
    found = documents.value_of(document_of(VALUE))
    assert (found["amount"], found["items"][0]["unitPrice"]) == (Decimal("3.50"), Decimal("9.99"))
    assert from_document(Everything, document_of(VALUE)) == dataclasses.replace(VALUE, more=[])  # what JSON has for ()


class Order(pydantic.BaseModel):
    """A model with an alias, digits, and bytes in base64."""

    model_config = pydantic.ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    id: int = pydantic.Field(alias="orderId", ge=0)
    amount: Decimal = pydantic.Field(max_digits=9, decimal_places=2)
    tips: Annotated[Decimal, pydantic.Field(max_digits=4, decimal_places=1)] | None = None
    raw: bytes = b""


class PlainBytes(pydantic.BaseModel):
    """Writes bytes as text, pydantic's default."""

    raw: bytes


def test_pydantic_models_have_theirs() -> None:
    """By the names that its documents have, with its digits; bytes as the model itself writes them; constraints stay with it."""
    assert made(Order)["properties"] == {
        "orderId": {"type": "integer"},
        "amount": {"type": "string", "format": "decimal", "precision": 9, "scale": 2},
        "tips": {"anyOf": [{"type": "string", "format": "decimal", "precision": 4, "scale": 1}, NULL]},
        "raw": {"type": "string", "format": "byte"},
    }
    assert made(Order)["required"] == ["orderId", "amount"]
    assert made(PlainBytes)["properties"] == {"raw": {"type": "string"}}
    order = Order(orderId=1, amount=Decimal("3.50"), raw=b"\xff")
    json_documents(schemas.json_schema(Order)).value_of(document_of(order))
    assert from_document(Order, document_of(order)) == order
    assert from_members(Order, {"orderId": 1, "amount": Decimal("3.50"), "raw": b"\xff"}) == order
    with pytest.raises(ValueError, match="orderId"):
        from_document(Order, b'{"amount": 1}')


class Tree(msgspec.Struct):
    """Contains itself."""

    children: list[Tree]


@dataclasses.dataclass
class Either:
    """A union of two types."""

    inner: dict[str, int | str]


@dataclasses.dataclass
class Anything:
    """What JSON Schema can't say with one type."""

    what: complex


@dataclasses.dataclass
class Numbered:
    """Keys that are no text."""

    by_number: dict[int, str]


class Digitless(pydantic.BaseModel):
    """More digits than any column has."""

    amount: Decimal = pydantic.Field(max_digits=50)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Tree, "Tree.children.*Tree contains itself"),
        (Either, r"Either.inner\{\}: a union of several types"),
        (Anything, "Anything.what: complex has no JSON Schema"),
        (Numbered, "Numbered.by_number: "),
        (Digitless, "Digitless.amount: a decimal has 1 to 38 digits"),
        (dict, "dict is no model"),
    ],
)
def test_what_no_column_can_have_is_refused_by_name(model: type, message: str) -> None:
    """Before anything is sent or registered."""
    with pytest.raises(TypeError, match=message):
        schemas.json_schema(model)


def test_whole_numbers_can_be_an_enumeration() -> None:
    """As their values."""
    assert made(msgspec.defstruct("Graded", [("level", Level)]))["properties"]["level"] == {
        "type": "integer",
        "enum": [1],
    }
