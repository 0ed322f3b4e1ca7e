"""The shape of typed values: what a schema of any format says about a value's members, and the Arrow type of its column.

A column has only types that every reader of Delta knows without a table feature. So enums are strings, a union of several types
is a struct with one member set, and a type that Delta has no counterpart for is refused with its reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from log_format.records.typed_columns import ONE_PATH, path_of_two

__all__ = [
    "ABSENT",
    "DATE_MAX",
    "DATE_MIN",
    "DECIMAL_DIGITS_MAX",
    "DEPTH_MAX",
    "LEAVES_MAX",
    "TIMESTAMP_US_MAX",
    "TIMESTAMP_US_MIN",
    "LibraryNeeded",
    "ListOf",
    "MapOf",
    "Member",
    "Record",
    "Scalar",
    "Shape",
    "Untypable",
    "arrow_type",
    "checked",
]

DECIMAL_DIGITS_MAX: Final = 38
DEPTH_MAX: Final = 32
LEAVES_MAX: Final = 4_000
DATE_MIN: Final = -719_162
DATE_MAX: Final = 2_932_896
"""Days of 0001-01-01 and 9999-12-31 since the epoch: the dates that all readers of Delta have."""
TIMESTAMP_US_MIN: Final = DATE_MIN * 86_400_000_000
TIMESTAMP_US_MAX: Final = (DATE_MAX + 1) * 86_400_000_000 - 1
_FORBIDDEN_IN_NAMES: Final = frozenset(" ,;{}()\n\t=")
"""Characters that Parquet tables of Spark can't have in a column's name."""


class Untypable(ValueError):
    """A schema that columns can't have.

    Args:
        path: the place in the schema, members joined by dots; "" for the whole.
        reason: why, as the end of a sentence about that place.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path or 'The schema'} {reason}")
        self.path = path
        self.reason = reason


class LibraryNeeded(Untypable):
    """A schema that this program lacks a package for."""


class _Absent:
    """The default of a member without one."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value without parts.

    Args:
        type: its Arrow type.
        symbols: the strings that it may be; None: any value.
        size: number of bytes that it has; None: any number.
    """

    type: pa.DataType
    symbols: tuple[str, ...] | None = None
    size: int | None = None

    @property
    def takes_all(self) -> bool:
        """Whether each value of the type is one of the shape. Some reals are not (infinity), nor are some times."""
        is_whole = pa.types.is_integer(self.type) or pa.types.is_boolean(self.type)
        is_free = is_whole or pa.types.is_string(self.type) or pa.types.is_binary(self.type)
        return is_free and self.symbols is None and self.size is None


@dataclass(frozen=True, slots=True)
class ListOf:
    """An array. ``has_nulls``: whether an item may be null."""

    item: Shape
    has_nulls: bool = False


@dataclass(frozen=True, slots=True)
class MapOf:
    """An object with any names. ``has_nulls``: whether a value may be null."""

    value: Shape
    has_nulls: bool = False


@dataclass(frozen=True, slots=True)
class Member:
    """A named part of a record.

    Args:
        name: the member's name, and its column's.
        shape: what the value is, if it is not null.
        is_required: whether a JSON object must have the member.
        is_nullable: whether the value may be null.
        default: value of an absent member, as JSON has it; ``ABSENT``: none.
        is_of: says of a union's member whether a parsed value is one of it; None: it is if the shape takes it.
    """

    name: str
    shape: Shape
    is_required: bool = True
    is_nullable: bool = False
    default: object = ABSENT
    is_of: Callable[[Any], bool] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Record:
    """An object with known members. ``is_open``: whether a JSON object may have further ones, which get no column.
    ``is_union``: whether exactly one member is set."""

    members: tuple[Member, ...]
    is_open: bool = False
    is_union: bool = False


Shape = Scalar | ListOf | MapOf | Record


def arrow_type(shape: Shape) -> pa.DataType:
    """Return the Arrow type of the shape's column: all members and items nullable, as in every Delta table."""
    if isinstance(shape, Scalar):
        return shape.type
    if isinstance(shape, ListOf):
        return pa.list_(pa.field("element", arrow_type(shape.item)))
    if isinstance(shape, MapOf):
        return pa.map_(pa.string(), arrow_type(shape.value))
    return pa.struct([pa.field(member.name, arrow_type(member.shape)) for member in shape.members])


def checked(shape: Shape) -> Shape:
    """Return the shape. Raises ``Untypable`` if its column can't be part of a table."""
    leaves = _check(shape, "", 1)
    if leaves > LEAVES_MAX:
        raise Untypable("", f"has {leaves:,} columns; a topic takes {LEAVES_MAX:,}")
    if (twin := path_of_two(arrow_type(shape))) is not None:
        raise Untypable(twin, ONE_PATH)
    return shape


def _check(shape: Shape, path: str, depth: int) -> int:
    """Return the number of columns without parts."""
    if depth > DEPTH_MAX:
        raise Untypable(path, f"is nested more than {DEPTH_MAX} deep")
    if isinstance(shape, Scalar):
        return 1
    if isinstance(shape, ListOf):
        return _check(shape.item, f"{path}[]", depth + 1)
    if isinstance(shape, MapOf):
        return 1 + _check(shape.value, f"{path}{{}}", depth + 1)
    if not shape.members:
        raise Untypable(path, "is a record without members, which no column can be")
    seen: dict[str, str] = {}
    leaves = 0
    for member in shape.members:
        where = f"{path}.{member.name}" if path else member.name
        if not member.name or _FORBIDDEN_IN_NAMES & set(member.name) or not member.name.isprintable():
            raise Untypable(
                where, "has a name that a column can't have (empty, or one of ' ,;{}()=', or control characters)"
            )
        other = seen.setdefault(member.name.lower(), member.name)
        if other != member.name:
            raise Untypable(where, f"has the same name as {other!r} but for upper and lower case")
        leaves += _check(member.shape, where, depth + 1)
    if len(seen) != len(shape.members):
        raise Untypable(path, "has two members of one name")
    return leaves
