"""The seven levels: which versions count, in which direction, and which refusal is told."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from log_format.schemas.compatibility.check import Refusal, first_incompatible, incompatibilities
from log_format.schemas.compatibility.incompatibility import Level
from log_format.schemas.parsed import ParsedSchema
from log_format.schemas.parsing import parse
from log_format.schemas.schema import Schema


def _with(*fields: str, default: bool = False) -> ParsedSchema:
    members = [{"name": name, "type": "int", **({"default": 0} if default else {})} for name in fields]
    return parse(Schema(text=json.dumps({"type": "record", "name": "R", "fields": members})))


NOTHING, FIELD, DEFAULT = _with(), _with("f"), _with("f", default=True)

LEVELS = {
    # By level: the numbers of the versions that a new schema is refused for, without field, with field, with a field of default,
    # where 1 has no field, 2 has one with a default, and 3 one without.
    Level.NONE: (None, None, None),
    Level.BACKWARD: (None, None, None),
    Level.BACKWARD_TRANSITIVE: (None, 1, None),
    Level.FORWARD: (3, None, None),
    Level.FORWARD_TRANSITIVE: (3, None, None),
    Level.FULL: (3, None, None),
    Level.FULL_TRANSITIVE: (3, 1, None),
}


@pytest.mark.parametrize("level", Level)
def test_each_level_looks_at_its_versions(level: Level) -> None:
    """Without ``_TRANSITIVE`` the latest version counts alone, and the latest one that is not compatible is told."""
    versions = [(3, FIELD), (2, DEFAULT), (1, NOTHING)]
    refused = [first_incompatible(new, versions, level) for new in (NOTHING, FIELD, DEFAULT)]
    assert tuple(each and each.version for each in refused) == LEVELS[level]


def test_only_needed_versions_are_taken() -> None:
    """A version is parsed when it is judged: none at NONE, the latest at a level that is not transitive."""
    taken = []

    def versions() -> Iterator[tuple[int, ParsedSchema]]:
        for number in (2, 1):
            taken.append(number)
            yield number, NOTHING

    for level, count in ((Level.NONE, 0), (Level.BACKWARD, 1), (Level.BACKWARD_TRANSITIVE, 2)):
        taken.clear()
        assert first_incompatible(NOTHING, versions(), level) is None
        assert len(taken) == count


def test_full_tells_both_directions() -> None:
    """FULL tells what the new schema can't read, then what the old one can't; a refusal has all of it."""
    found = incompatibilities(_with("a"), _with("b"), Level.FULL)
    assert [(each.kind, each.info) for each in found] == [
        ("READER_FIELD_MISSING_DEFAULT_VALUE", "a"),
        ("READER_FIELD_MISSING_DEFAULT_VALUE", "b"),
    ]
    assert first_incompatible(_with("a"), [(7, _with("b"))], Level.FULL) == Refusal(
        version=7, incompatibilities=tuple(found)
    )


def test_a_first_version_is_compatible_with_none() -> None:
    """A subject without versions takes any schema."""
    assert all(first_incompatible(FIELD, [], level) is None for level in Level)
