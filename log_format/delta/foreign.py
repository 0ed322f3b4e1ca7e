"""Commits by other programs: they count for nothing, and what they changed is put back (docs/format.md, section 9).

A table of Tidelog is written by Tidelog alone: offsets, producers and transactions follow from its commits. Its protocol has a
feature that only Tidelog knows (``features.FEATURE``), so other writers refuse the table by themselves. A commit that is there
all the same was made by a program that does not look, or before the table had the feature. No reader of Tidelog takes what it
says.
Readers of Delta do, until a commit of Tidelog names the same files and the table's metadata again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from log_format.errors import CorruptData

FOREIGN_PROPERTY: Final = "tidelog.foreign.commit"
"""The table property that names the last foreign commit: JSON (``ForeignCommit``)."""
_OWN: Final = re.compile(r"tidelog(-[a-z]+)*/")


class ForeignCommit(msgspec.Struct, frozen=True, kw_only=True):
    """Which commit another program made. ``program`` and ``operation`` are empty where it does not say."""

    version: int
    program: str
    operation: str
    at_ms: int | None = None

    def __str__(self) -> str:
        program, operation = self.program or "a program without a name", self.operation or "an operation without a name"
        return f"version {self.version}: {operation} by {program}"


_decode_property: Final = msgspec.json.Decoder(ForeignCommit).decode


class ForeignActions(msgspec.Struct, frozen=True, kw_only=True):
    """What a foreign commit touched. ``paths``: as it names them. ``is_of_table``: it has ``protocol`` or ``metaData``."""

    program: str
    operation: str
    at_ms: int | None
    paths: tuple[str, ...]
    is_of_table: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignWrites:
    """What other programs changed in a table and no commit of Tidelog has put back yet. Immutable."""

    touched: frozenset[str] = frozenset()
    """Paths of files that foreign commits added or removed, as those name them."""
    is_of_table: bool = False
    """Whether ``protocol`` or ``metaData`` is to be said again."""
    last: ForeignCommit | None = None
    """The newest foreign commit known: of those not put back, or else the one that the table's properties name."""

    @property
    def is_put_back(self) -> bool:
        """Whether readers of Delta see what readers of Tidelog see."""
        return not self.touched and not self.is_of_table

    def after_foreign(self, actions: ForeignActions, version: int) -> ForeignWrites:
        """After a foreign commit."""
        return ForeignWrites(
            touched=self.touched | set(actions.paths),
            is_of_table=self.is_of_table or actions.is_of_table,
            last=ForeignCommit(
                version=version, program=actions.program, operation=actions.operation, at_ms=actions.at_ms
            ),
        )

    def after_own(self, paths: Iterable[str], *, says_table: bool) -> ForeignWrites:
        """After a commit of Tidelog that adds or removes ``paths``. ``says_table``: it has ``protocol`` and ``metaData``."""
        if self.is_put_back:
            return self
        return replace(self, touched=self.touched.difference(paths), is_of_table=self.is_of_table and not says_table)

    def after_properties(self, properties: Mapping[str, str]) -> ForeignWrites:
        """After a commit of Tidelog that gives the table these properties."""
        last = foreign_of(properties) or (None if self.is_put_back else self.last)
        return self if last == self.last else replace(self, last=last)


NOTHING_FOREIGN: Final = ForeignWrites()


def foreign_of(properties: Mapping[str, str]) -> ForeignCommit | None:
    """The foreign commit that a table's properties name; None without one, or where it can't be read."""
    try:
        return _decode_property(properties.get(FOREIGN_PROPERTY, ""))
    except msgspec.DecodeError:
        return None


class _Info(msgspec.Struct, kw_only=True, rename="camel"):
    engine_info: Any = None
    operation: Any = None
    timestamp: Any = None


class _File(msgspec.Struct):
    path: str


class _Line(msgspec.Struct, kw_only=True, rename="camel"):
    commit_info: _Info | None = None
    protocol: Any = None
    meta_data: Any = None
    add: _File | None = None
    remove: _File | None = None


_DECODER: Final = msgspec.json.Decoder(_Line)


def is_own(engine_info: object) -> bool:
    """Whether ``commitInfo.engineInfo`` is that of a program of Tidelog."""
    return isinstance(engine_info, str) and _OWN.match(engine_info) is not None


def foreign_actions(lines: Iterable[bytes], key: str) -> ForeignActions | None:
    """What a commit of another program touched; None where Tidelog made it. ``key`` names the commit in errors.

    Reads as little as it can: a foreign commit may have fields that Tidelog would refuse. Raises ``CorruptData``.
    """
    try:
        found = [_DECODER.decode(line) for line in lines if line.strip()]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise CorruptData(f"{key} is not a Delta commit: {problem}.", object=key) from problem
    info = next((line.commit_info for line in found if line.commit_info is not None), _Info())
    if is_own(info.engine_info):
        return None
    if not found:
        raise CorruptData(f"{key} is not a Delta commit: it is empty.", object=key)
    files = (file for line in found for file in (line.add, line.remove) if file is not None)
    return ForeignActions(
        program=_text(info.engine_info),
        operation=_text(info.operation),
        at_ms=info.timestamp if isinstance(info.timestamp, int) else None,
        paths=tuple(dict.fromkeys(file.path for file in files)),
        is_of_table=any(line.protocol is not None or line.meta_data is not None for line in found),
    )


def _text(value: object) -> str:
    return value[:200] if isinstance(value, str) else ""
