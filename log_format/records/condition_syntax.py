"""The syntax of conditions on typed columns (``log_format.records.condition``): text to a tree, and a tree to text.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

CHARACTERS_MAX: Final = 4_096
"""Longest condition: every commit that changes the topic's metadata has it until the request is finished."""
DEPTH_MAX: Final = 50
"""Most parentheses and ``not`` within each other."""
_CANONICAL_DEPTH_MAX: Final = 2 * DEPTH_MAX + 2
"""As ``text_of`` writes it: each ``not``, each ``and`` within an ``or`` and the other way round has parentheses."""

Path = tuple[str, ...]
_TOKEN: Final = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<number>[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"
    r"|(?P<name>(?:[A-Za-z_][A-Za-z0-9_]*|`[^`]+`)(?:\.(?:[A-Za-z_][A-Za-z0-9_]*|`[^`]+`))*)"
    r"|(?P<sign><=|>=|<>|!=|=|<|>|\(|\)|,))"
)
_PART: Final = re.compile(r"`([^`]+)`|([^.`]+)")
_WORDS: Final = frozenset({"and", "or", "not", "in", "is", "null", "true", "false"})


class ConditionError(ValueError):
    """A text that is no condition on these columns. The text is a sentence for who wrote it."""


class Token(NamedTuple):
    """A literal: its kind (``text``, ``number``, ``true`` or ``false``) and its text without quotes."""

    kind: str
    text: str

    def spelled(self) -> str:
        """Return the literal as a condition has it."""
        return "'" + self.text.replace("'", "''") + "'" if self.kind == "text" else self.text


@dataclass(frozen=True, slots=True)
class Compare:
    """A member beside literals. ``sign``: one of ``=``, ``<>``, ``<``, ``<=``, ``>``, ``>=``, or ``in``, with several."""

    path: Path
    sign: str
    literals: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether a member is null."""

    path: Path


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of a condition; null stays null."""

    part: Node


@dataclass(frozen=True, slots=True)
class Every:
    """All of the parts hold."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Some:
    """One of the parts holds at least."""

    parts: tuple[Node, ...]


Node = Compare | IsNull | Not | Every | Some


def parse_tree(text: str, *, is_canonical: bool = False) -> Node:
    """Parse a condition. Raises ``ConditionError`` with the place where it can't be read.

    ``is_canonical``: it is what ``text_of`` made of a condition within the bounds, and so may be longer and deeper than these.
    """
    if len(text) > CHARACTERS_MAX and not is_canonical:
        raise ConditionError(f"A condition has at most {CHARACTERS_MAX:,} characters, not {len(text):,}.")
    return _Parser(text, _CANONICAL_DEPTH_MAX if is_canonical else DEPTH_MAX).parse()


class _Parser:
    def __init__(self, text: str, depth_max: int) -> None:
        self._tokens = list(_tokens(text))
        self._depth_max = depth_max
        self._at = 0

    def parse(self) -> Node:
        found = self._some(0)
        if self._kind:
            raise self._error("'and', 'or' or the end")
        return found

    @property
    def _kind(self) -> str:
        return self._tokens[self._at][0]

    def _take(self, *kinds: str) -> str | None:
        """Return the next token's text if it is of one of these kinds, and pass it."""
        kind, text, _ = self._tokens[self._at]
        if kind not in kinds:
            return None
        self._at += 1
        return text

    def _error(self, wanted: str) -> ConditionError:
        _, text, where = self._tokens[self._at]
        found = f"{text[:40]!r}" if text else "the end"
        return ConditionError(f"The condition has {found} at character {where + 1}, where {wanted} must be.")

    def _some(self, depth: int) -> Node:
        parts = [self._every(depth)]
        while self._take("or") is not None:
            parts.append(self._every(depth))
        return parts[0] if len(parts) == 1 else Some(tuple(parts))

    def _every(self, depth: int) -> Node:
        parts = [self._one(depth)]
        while self._take("and") is not None:
            parts.append(self._one(depth))
        return parts[0] if len(parts) == 1 else Every(tuple(parts))

    def _one(self, depth: int) -> Node:
        if depth > self._depth_max:
            raise ConditionError(f"A condition has at most {self._depth_max} parentheses and 'not' within each other.")
        if self._take("not") is not None:
            return Not(self._one(depth + 1))
        if self._take("(") is not None:
            found = self._some(depth + 1)
            if self._take(")") is None:
                raise self._error("')'")
            return found
        name = self._take("name")
        if name is None:
            raise self._error("a column such as data.id, 'not' or '('")
        return self._test(tuple(quoted or plain for quoted, plain in _PART.findall(name)))

    def _test(self, path: Path) -> Node:
        sign = self._take("=", "<>", "!=", "<", "<=", ">", ">=")
        if sign is not None:
            return Compare(path, "<>" if sign == "!=" else sign, (self._literal(),))
        if self._take("is") is not None:
            is_not = self._take("not") is not None
            if self._take("null") is None:
                raise self._error("'null'")
            return Not(IsNull(path)) if is_not else IsNull(path)
        is_not = self._take("not") is not None
        if self._take("in") is None:
            raise self._error("a comparison, 'in' or 'is null'")
        if self._take("(") is None:
            raise self._error("'('")
        literals = [self._literal()]
        while self._take(",") is not None:
            literals.append(self._literal())
        if self._take(")") is None:
            raise self._error("',' or ')'")
        found = Compare(path, "in", tuple(literals))
        return Not(found) if is_not else found

    def _literal(self) -> Token:
        kind = self._kind
        text = self._take("text", "number", "true", "false")
        if text is None:
            raise self._error("a literal: a number, 'text', true or false (test for null by 'is null')")
        return Token(kind, text)


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield kind, text and position of each token, and at the end one without kind and text. A word or sign is its own kind."""
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            where = len(text) - len(text[at:].lstrip())
            raise ConditionError(
                f"The condition can't be read from character {where + 1} on: {text[where : where + 40]!r}."
            )
        kind, found = next((kind, found) for kind, found in match.groupdict().items() if found is not None)
        if kind == "text":
            yield kind, found[1:-1].replace("''", "'"), match.start(kind)
        elif kind == "sign" or (kind == "name" and found.lower() in _WORDS):
            yield found.lower(), found.lower(), match.start(kind)
        else:
            yield kind, found, match.start(kind)
        at = match.end()
    yield "", "", len(text)


def leaves_of(node: Node) -> Iterator[Compare | IsNull]:
    """Yield the tests in a condition."""
    if isinstance(node, Not):
        yield from leaves_of(node.part)
    elif isinstance(node, Every | Some):
        for part in node.parts:
            yield from leaves_of(part)
    else:
        yield node


def text_of(node: Node) -> str:
    """Return a condition as it would be written: the same for texts that differ in spaces and letter case of words."""
    match node:
        case Compare(path, "in", literals):
            return f"{_spelled(path)} in ({', '.join(one.spelled() for one in literals)})"
        case Compare(path, sign, literals):
            return f"{_spelled(path)} {sign} {literals[0].spelled()}"
        case IsNull(path):
            return f"{_spelled(path)} is null"
        case Not(part):
            return f"not ({text_of(part)})"
        case Every(parts):
            return " and ".join(f"({text_of(part)})" for part in parts)
        case Some(parts):
            return " or ".join(f"({text_of(part)})" for part in parts)


def _spelled(path: Path) -> str:
    return ".".join(f"`{part}`" for part in path)


def plain_path(path: Path) -> str:
    """Return a member's path as people write it."""
    return ".".join(path)
