"""Definition of valid records: the columns of their values, and the rules that hold for them.

A rule is a SQL expression over the columns that is true for an invalid record, and the reason given in the dead letter. An
expression that is null, because a column is, breaks no rule. Source: SQL's CHECK constraints, which hold in the same way.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.errors import ParseException
from pyspark.sql.types import StructField, StructType

from spark_pipeline.option_refused import OptionRefused

OWN_PREFIX: Final = "_"
"""Prefix of the pipeline's own columns: ``_partition``, ``_offset``, …"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule. ``broken``: SQL over the columns that is true for an invalid record; ``reason``: given for such a record."""

    reason: str
    broken: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSchema:
    """Schema of valid records. ``columns``: all nullable, with names unique in any case. ``is_closed``: no other members are
    allowed."""

    columns: StructType
    rules: tuple[Rule, ...] = ()
    is_closed: bool = False

    def __post_init__(self) -> None:
        """Raise ``OptionRefused`` for names that could not be columns of one table."""
        seen: set[str] = set()
        for field in self.columns:
            if field.name.startswith(OWN_PREFIX):
                raise OptionRefused("schema", f"column {field.name}: names with {OWN_PREFIX} first are the pipeline's")
            if field.name.lower() in seen:
                raise OptionRefused("schema", f"column {field.name} is there twice")
            seen.add(field.name.lower())
        if not seen:
            raise OptionRefused("schema", "has no column")

    def fingerprint(self) -> str:
        """Return a hash that is equal for schemas with equal columns and rules."""
        text = json.dumps([self.columns.json(), [[rule.reason, rule.broken] for rule in self.rules], self.is_closed])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def always_has(self, column: str) -> bool:
        """Return whether the column is never null."""
        return any(rule.broken == is_missing(column) for rule in self.rules)

    def with_checks(self, checks: Mapping[str, str]) -> RecordSchema:
        """Return the schema with additional conditions that rows must fulfil, by the reason for rows that don't."""
        added = tuple(Rule(reason=name, broken=f"NOT ({condition})") for name, condition in checks.items())
        return RecordSchema(columns=self.columns, rules=self.rules + added, is_closed=self.is_closed)


def from_ddl(text: str) -> RecordSchema:
    """Return the schema of a DDL such as ``hour INT NOT NULL, carrier STRING``: NOT NULL makes a column required. Needs a
    session.

    Raises ``OptionRefused``.
    """
    try:
        columns = StructType.fromDDL(text)
    except ParseException as problem:
        raise OptionRefused("schema", f"is no DDL: {str(problem).strip().splitlines()[0]}") from problem
    if not isinstance(columns, StructType):
        raise OptionRefused("schema", f"{text} is a type, not a list of columns")
    needed = [field.name for field in columns if not field.nullable]
    rules = tuple(Rule(reason=f"{name}: is missing", broken=is_missing(name)) for name in needed)
    nullable = StructType([StructField(field.name, field.dataType) for field in columns])
    return RecordSchema(columns=nullable, rules=rules)


def is_missing(*path: str) -> str:
    """Return SQL that is true if the column is null while its parent is present."""
    missing = f"{quote_column(*path)} IS NULL"
    return missing if len(path) == 1 else f"{quote_column(*path[:-1])} IS NOT NULL AND {missing}"


def quote_column(*path: str) -> str:
    """Return a column's name quoted for SQL."""
    return ".".join("`" + name.replace("`", "``") + "`" for name in path)
