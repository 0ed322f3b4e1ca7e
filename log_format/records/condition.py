"""Conditions on the typed columns of records, as a request to erase names them: a small part of SQL.

1. ``data.customer = 7 and (data.country in ('DE', 'FR') or not data.paid)``: comparisons of a member with a literal, ``in``,
   ``is [not] null``, ``and``, ``or``, ``not``, parentheses. Nothing else: no functions, no arithmetic, no second column.
2. As in SQL, a comparison with null neither holds nor fails, and a record is meant only if the whole condition holds.
3. A literal has the type of its member: a whole number for an integer, a text in quotes for a string, a date or a time.
4. A record whose columns lack the member has null there, so a condition of before a schema's change means the same after it.
5. ``may_match`` says no only if the statistics of a file rule out every record.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from log_format.records import data_skipping
from log_format.records.condition_syntax import (
    CHARACTERS_MAX,
    Compare,
    ConditionError,
    Every,
    IsNull,
    Node,
    Not,
    Path,
    Some,
    Token,
    leaves_of,
    parse_tree,
    plain_path,
    text_of,
)
from log_format.records.data_skipping import Column, Predicate, may_match
from log_format.records.delta_types import delta_name
from log_format.records.typed_columns import DATA, KEY_DATA, TypedColumns

_EXPONENT_MAX: Final = CHARACTERS_MAX
"""Largest exponent of a decimal that is given to Arrow, which writes it out: ``1e-999999999`` ends the process."""

Rows = npt.NDArray[np.bool_]
Scalar = Any
_SIGNS: Final = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


@dataclass(frozen=True, slots=True)
class Condition:
    """A parsed condition."""

    root: Node

    @property
    def text(self) -> str:
        """The condition as it would be written: the same for texts that differ in spaces and upper or lower case of words."""
        return text_of(self.root)

    @property
    def columns(self) -> frozenset[str]:
        """The typed columns that it names."""
        return frozenset(leaf.path[0] for leaf in leaves_of(self.root))

    def check(self, columns: TypedColumns) -> None:
        """Raise ``ConditionError`` for a column that a table with these typed columns lacks, or a literal of another type."""
        types = _types(columns)
        for node in leaves_of(self.root):
            kind = _type_at(types, node.path)
            if isinstance(node, Compare):
                for literal in node.literals:
                    _scalar(literal, kind, node)

    def mask(self, records: pa.Table) -> Rows:
        """Return which records it holds for: a mask, one element for each. Typed columns that they lack are null."""
        found = pc.fill_null(_evaluate(self.root, records), False)
        plain = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
        return np.asarray(plain.to_numpy(zero_copy_only=False), np.bool_)

    def may_match(self, stats: str | None, columns: TypedColumns) -> bool:
        """Return whether it may hold for a record of a file.

        Args:
            stats: the statistics of the file's ``add``, as JSON; None: unknown.
            columns: the table's typed columns.
        """
        return may_match(_skipping(self.root, columns), stats, {})


@lru_cache(maxsize=100)
def parse_condition(text: str) -> Condition:
    """Parse a condition. Raises ``ConditionError`` with the place where it can't be read."""
    return Condition(parse_tree(text))


def parse_canonical(text: str) -> Condition:
    """Parse what ``Condition.text`` is of a condition that ``parse_condition`` took. Raises ``ConditionError``."""
    return Condition(parse_tree(text, is_canonical=True))


def _type_at(types: dict[str, pa.DataType], path: Path) -> pa.DataType:
    """Return the type of a member. Raises ``ConditionError`` if there is none."""
    known = ", ".join(types) or "no typed columns"
    kind = types.get(path[0])
    if kind is None:
        raise ConditionError(
            f"The condition names {plain_path(path)}, and the topic's table has no such column: it has {known}."
        )
    for index, part in enumerate(path[1:], 1):
        at = kind.get_field_index(part) if pa.types.is_struct(kind) else -1
        if at < 0:
            above = plain_path(path[:index])
            has = ", ".join(field.name for field in kind) if pa.types.is_struct(kind) else f"no members: it is {kind}"
            raise ConditionError(
                f"The condition names {plain_path(path)}, and {above} has no such member. It has {has[:500]}."
            )
        kind = kind.field(at).type
    return kind


def _scalar(literal: Token, kind: pa.DataType, node: Compare) -> Scalar:
    """Return the literal as a value of a member's type. Raises ``ConditionError`` if it is none."""
    if pa.types.is_nested(kind) or pa.types.is_binary(kind):
        raise ConditionError(
            f"{plain_path(node.path)} is {kind}: it can only be tested by 'is null' and 'is not null'."
        )
    if pa.types.is_boolean(kind) and node.sign not in ("=", "<>", "in"):
        raise ConditionError(f"{plain_path(node.path)} is a boolean, which is compared by = and <> only.")
    try:
        value = _value(literal, kind)
        if value is not None:
            return pa.scalar(value, kind)
    except (ValueError, InvalidOperation, OverflowError, pa.ArrowException):
        pass
    raise ConditionError(
        f"The condition compares {plain_path(node.path)}, which is {kind}, with {literal.spelled()[:100]}."
    )


def _value(literal: Token, kind: pa.DataType) -> Any:
    """Return the literal as Python has it; None if a literal of this kind is none of the type."""
    text = literal.text
    if literal.kind in ("true", "false"):
        return literal.kind == "true" if pa.types.is_boolean(kind) else None
    if literal.kind == "number":
        if pa.types.is_integer(kind):
            return int(text)
        if pa.types.is_decimal(kind):
            number = Decimal(text)
            return number if abs(int(number.as_tuple().exponent)) <= _EXPONENT_MAX else None
        return float(text) if pa.types.is_floating(kind) else None
    if pa.types.is_date(kind):
        return date.fromisoformat(text)
    if pa.types.is_timestamp(kind):
        at = datetime.fromisoformat(text)
        if at.tzinfo is None:
            raise ValueError("no offset from UTC")
        return at
    return text if pa.types.is_string(kind) else None


def _types(columns: TypedColumns) -> dict[str, pa.DataType]:
    """Return the columns that a condition may name. A record's error is none: a schema that comes later may take it away."""
    return {name: one for name, one in ((DATA, columns.data), (KEY_DATA, columns.key_data)) if one is not None}


def _evaluate(node: Node, records: pa.Table) -> Any:
    """Return whether the node holds: true, false or null for each record."""
    match node:
        case Not(part):
            return pc.invert(_evaluate(part, records))
        case Every(parts):
            return _joined(pc.and_kleene, parts, records)
        case Some(parts):
            return _joined(pc.or_kleene, parts, records)
        case IsNull(path):
            values = _member(records, path)
            return pa.array(np.ones(records.num_rows, np.bool_)) if values is None else pc.is_null(values)
        case Compare(path, sign, literals):
            values = _member(records, path)
            if values is None:
                return pa.nulls(records.num_rows, pa.bool_())
            scalars = [_scalar(literal, values.type, node) for literal in literals]
            if sign != "in":
                return _SIGNS[sign](values, scalars[0])
            found = pc.equal(values, scalars[0])
            for scalar in scalars[1:]:
                found = pc.or_kleene(found, pc.equal(values, scalar))
            return found


def _joined(join: Callable[[Any, Any], Any], parts: tuple[Node, ...], records: pa.Table) -> Any:
    found = _evaluate(parts[0], records)
    for part in parts[1:]:
        found = join(found, _evaluate(part, records))
    return found


def _member(records: pa.Table, path: Path) -> pa.ChunkedArray | pa.Array | None:
    """Return a member's values; None if the records don't have the member, so that all are null."""
    if path[0] not in (DATA, KEY_DATA) or path[0] not in records.schema.names:
        return None
    values = records.column(path[0])
    for part in path[1:]:
        at = values.type.get_field_index(part) if pa.types.is_struct(values.type) else -1
        if at < 0:
            return None
        values = pc.struct_field(values, [at])
    return values


@lru_cache(maxsize=100)
def _skipping(root: Node, columns: TypedColumns) -> Predicate:
    """Return what the statistics of a file of a table with these typed columns tell of a condition."""
    return _predicate(root, _types(columns))


def _predicate(node: Node, types: dict[str, pa.DataType]) -> Predicate:
    match node:
        case Not(part):
            return data_skipping.Not(_predicate(part, types))
        case Every(parts):
            return data_skipping.All([_predicate(part, types) for part in parts])
        case Some(parts):
            return data_skipping.AnyOf([_predicate(part, types) for part in parts])
        case IsNull(path):
            return data_skipping.IsNull(Column(path, "", is_partition=False))
        case Compare(path, sign, literals):
            return _comparison(path, sign, literals, types)


def _comparison(path: Path, sign: str, literals: tuple[Token, ...], types: dict[str, pa.DataType]) -> Predicate:
    try:
        kind = _type_at(types, path)
        values = [_scalar(literal, kind, Compare(path, sign, literals)).as_py() for literal in literals]
    except ConditionError:
        return data_skipping.know_nothing
    column = Column(path, delta_name(kind), is_partition=False)
    if sign == "in":
        return data_skipping.IsOneOf(column, sorted(values))
    if sign == "<>":
        return data_skipping.Not(data_skipping.Compares(column, "=", values[0]))
    return data_skipping.Compares(column, sign, values[0])
