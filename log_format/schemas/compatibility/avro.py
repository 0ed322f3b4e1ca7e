"""Avro: what a reader's schema must have to read what was written with another one.

The rules are the specification's schema resolution, with the names, paths and leniences of Java's checker, by which Confluent's
registry judges: names of types are compared without their namespaces, aliases with them. Logical types are not compared.

Apache's checker for Python has the same rules, but does not tell which finding is where, loses the place within unions, and
does not give aliases their namespace. Tests compare verdicts with it, and read data with ``fastavro``.

Source: Apache Avro 1.12, "Schema Resolution"; ``SchemaCompatibility`` of Avro for Java.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from log_format.schemas.avro_types import NO_DEFAULT, AvroField, AvroType
from log_format.schemas.compatibility.incompatibility import Finding
from log_format.schemas.compatibility.pairs import TOO_COMPLEX, Demand, Holds, Pairs

SENTENCES: Final[Mapping[str, str]] = {
    "NAME_MISMATCH": "The name at '{path}' differs in the {reader} and the {writer} schema ({info})",
    "FIXED_SIZE_MISMATCH": "The size of the fixed type at '{path}' differs in the {reader} and the {writer} schema ({info})",
    "MISSING_ENUM_SYMBOLS": "The {reader} schema lacks the symbols {info} at '{path}' of the {writer} schema",
    "READER_FIELD_MISSING_DEFAULT_VALUE": "The field '{info}' at '{path}' in the {reader} schema has no default value and is"
    " missing in the {writer} schema",
    "TYPE_MISMATCH": "The type at '{path}' in the {reader} schema does not match with the {writer} schema ({info})",
    "MISSING_UNION_BRANCH": "The {reader} schema lacks a type at '{path}' of a union in the {writer} schema ({info})",
    TOO_COMPLEX: "The {reader} and the {writer} schema are too complex to be compared",
}
_READS: Final[Mapping[str, frozenset[str]]] = {
    "long": frozenset({"int"}),
    "float": frozenset({"int", "long"}),
    "double": frozenset({"int", "long", "float"}),
    "bytes": frozenset({"string"}),
    "string": frozenset({"bytes"}),
}
"""By the reader's primitive type: which others it reads."""

_Pair = tuple[AvroType, AvroType]
_Found = Finding | Demand[_Pair]


def avro_findings(reader: AvroType, writer: AvroType) -> list[Finding]:
    """Return why a reader's type can't read what was written with the writer's; empty: it can."""
    return Pairs[_Pair](_rules, _weight).findings((reader, writer))


def _weight(pair: _Pair) -> int:
    return sum(len(kind.fields) + len(kind.symbols) + len(kind.aliases) for kind in pair) // 4


def _rules(pair: _Pair, holds: Holds[_Pair]) -> Iterator[_Found]:
    reader, writer = pair
    if writer.kind == "union":
        for index, branch in enumerate(writer.branches):
            if reader.kind != "union":
                yield Demand((reader, branch))
            elif not holds((reader, branch)):
                yield Finding(
                    "MISSING_UNION_BRANCH", (str(index),), f"reader union lacking writer type: {_said(branch)}"
                )
    elif reader.kind == "union":
        if not any(holds((branch, writer)) for branch in reader.branches):
            yield Finding("MISSING_UNION_BRANCH", (), f"reader union lacking writer type: {_said(writer)}")
    elif reader.kind != writer.kind:
        if writer.kind not in _READS.get(reader.kind, frozenset()):
            text = f"reader type: {_said(reader)} not compatible with writer type: {_said(writer)}"
            yield Finding("TYPE_MISMATCH", (), text)
    else:
        yield from _same_kind(reader, writer)


def _same_kind(reader: AvroType, writer: AvroType) -> Iterator[_Found]:
    if reader.items is not None and writer.items is not None:
        yield Demand((reader.items, writer.items), ("items" if reader.kind == "array" else "values",))
        return
    if reader.short_name != writer.short_name and writer.name not in reader.aliases:
        yield Finding("NAME_MISMATCH", ("name",), f"expected: {writer.name}")
    if reader.size != writer.size:
        yield Finding("FIXED_SIZE_MISMATCH", ("size",), f"expected: {writer.size}, found: {reader.size}")
    if reader.kind == "enum" and reader.default is None and (missing := sorted(writer.symbol_set - reader.symbol_set)):
        yield Finding("MISSING_ENUM_SYMBOLS", ("symbols",), f"[{', '.join(missing)}]")
    if reader.kind == "record":
        yield from _fields(reader, writer)


def _fields(reader: AvroType, writer: AvroType) -> Iterator[_Found]:
    written = {member.name: member for member in writer.fields}
    for index, member in enumerate(reader.fields):
        path = ("fields", str(index))
        sources = _sources(member, written)
        if len(sources) > 1:
            yield Finding("NAME_MISMATCH", path, f"{member.name} has aliases that match several fields")
        elif sources:
            yield Demand((member.type, sources[0].type), (*path, "type"))
        elif member.default is NO_DEFAULT:
            yield Finding("READER_FIELD_MISSING_DEFAULT_VALUE", path, member.name)


def _sources(member: AvroField, written: Mapping[str, AvroField]) -> list[AvroField]:
    direct = written.get(member.name)
    if direct is not None:
        return [direct]
    return [written[alias] for alias in dict.fromkeys(member.aliases) if alias in written]


def _said(kind: AvroType) -> str:
    return kind.kind.upper()
