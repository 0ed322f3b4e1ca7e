"""Foreign commits (commits by other programs): readers of Tidelog ignore them, and a later commit undoes them for others
(docs/format.md, section 9).

Only Tidelog writes a table of Tidelog, since offsets, producers and transactions follow from its commits. The table's protocol
has a feature that only Tidelog knows (``features.FEATURE``), so other writers refuse the table. A foreign commit was made by a
program that does not look, or before the table had the feature. Readers of Delta see a foreign commit's changes until a commit of
Tidelog names the same files and the table's metadata again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from log_format.errors import DECODE_ERRORS, CorruptData

FOREIGN_PROPERTY: Final = "tidelog.foreign.commit"
"""Table property that names the last foreign commit: JSON (``ForeignCommit``)."""
_OWN: Final = re.compile(r"tidelog(-[a-z]+)*/")


class ForeignCommit(msgspec.Struct, frozen=True, kw_only=True):
    """Identity of another program's commit. ``program`` and ``operation`` are empty if the commit does not name them."""

    version: int
    program: str
    operation: str
    at_ms: int | None = None

    def __str__(self) -> str:
        program, operation = self.program or "a program without a name", self.operation or "an operation without a name"
        return f"version {self.version}: {operation} by {program}"


_decode_property: Final = msgspec.json.Decoder(ForeignCommit).decode


class ForeignActions(msgspec.Struct, frozen=True, kw_only=True):
    """The effects of a foreign commit. ``paths``: as the commit names them. ``is_of_table``: it has ``protocol`` or
    ``metaData``."""

    program: str
    operation: str
    at_ms: int | None
    paths: tuple[str, ...]
    is_of_table: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignWrites:
    """Changes by other programs that no commit of Tidelog has undone yet. Immutable."""

    touched: frozenset[str] = frozenset()
    """Paths of files that foreign commits added or removed, as the commits name them."""
    is_of_table: bool = False
    """Whether a commit must state ``protocol`` and ``metaData`` again."""
    last: ForeignCommit | None = None
    """Newest known foreign commit: one that is not undone yet, or else the one in the table's properties."""

    @property
    def is_reverted(self) -> bool:
        """Whether all foreign changes are undone: readers of Delta see what readers of Tidelog see."""
        return not self.touched and not self.is_of_table

    def after_foreign(self, actions: ForeignActions, version: int) -> ForeignWrites:
        """Return the state after a foreign commit."""
        return ForeignWrites(
            touched=self.touched | set(actions.paths),
            is_of_table=self.is_of_table or actions.is_of_table,
            last=ForeignCommit(
                version=version, program=actions.program, operation=actions.operation, at_ms=actions.at_ms
            ),
        )

    def after_own(self, paths: Iterable[str], *, says_table: bool) -> ForeignWrites:
        """Return the state after a commit of Tidelog with these ``paths``. ``says_table``: it has ``protocol`` and
        ``metaData``."""
        if self.is_reverted:
            return self
        return replace(self, touched=self.touched.difference(paths), is_of_table=self.is_of_table and not says_table)

    def after_properties(self, properties: Mapping[str, str]) -> ForeignWrites:
        """Return the state after a commit of Tidelog that gives the table these properties."""
        last = parse_foreign_commit(properties) or (None if self.is_reverted else self.last)
        return self if last == self.last else replace(self, last=last)


NOTHING_FOREIGN: Final = ForeignWrites()


def parse_foreign_commit(properties: Mapping[str, str]) -> ForeignCommit | None:
    """Return the foreign commit that a table's properties name; None if they name none, or one that can't be read."""
    try:
        return _decode_property(properties.get(FOREIGN_PROPERTY, ""))
    except DECODE_ERRORS:
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
    """Return whether ``commitInfo.engineInfo`` is that of a program of Tidelog."""
    return isinstance(engine_info, str) and _OWN.match(engine_info) is not None


def foreign_actions(lines: Iterable[bytes], key: str) -> ForeignActions | None:
    """Return what another program's commit touched; None if Tidelog wrote the commit. ``key`` names the commit in errors.

    Decodes as little as possible: a foreign commit may have fields that Tidelog would refuse. Raises ``CorruptData``.
    """
    try:
        found = [_DECODER.decode(line) for line in lines if line.strip()]
    except DECODE_ERRORS as problem:
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
