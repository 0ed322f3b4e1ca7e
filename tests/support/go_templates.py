"""Templates of Go with the functions of Helm that ``infra/helm`` uses: tests need no Helm.

``tests/infrastructure/rehearse_chart.py`` compares what this renders with what Helm itself does. A function that no template has
had so far is a ``KeyError``. Deliberately absent: ``template``, ``block``, ``break``, comparison of numbers.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import yaml

_ACTION = re.compile(r"\{\{(- )?\s*(/\*.*?\*/|(?:\"(?:[^\"\\]|\\.)*\"|`[^`]*`|[^}\"`])*?)\s*( -)?\}\}", re.DOTALL)
_WORD = re.compile(r"\"(?:[^\"\\]|\\.)*\"|`[^`]*`|[()|]|[^\s()|]+")
Words = list[tuple[str, str]]


class Refused(Exception):
    """A template's ``fail`` or ``required``."""


def words_of(text: str) -> Words:
    """A template as texts and actions, with the space taken away that ``{{-`` and ``-}}`` take away."""
    words: Words = []
    place = 0
    for found in _ACTION.finditer(text):
        plain = text[place : found.start()]
        words.append(("text", plain.rstrip() if found[1] else plain))
        if not found[2].startswith("/*"):
            words.append(("action", found[2].strip()))
        place = found.end()
        if found[3]:
            place += len(text[place:]) - len(text[place:].lstrip())
    words.append(("text", text[place:]))
    return words


def shown(value: Any) -> str:
    """As Go's ``%v`` shows it: a float with an exponent from a million on, as Helm reads every number of a file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, float):
        return "<nil>" if value is None else str(value)
    _, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    exponent += len(digits) - 1
    if value == 0 or -4 <= exponent < 6:
        return str(int(value)) if value.is_integer() else repr(value)
    rest = "".join(map(str, digits[1:]))
    return f"{'-' * (value < 0)}{digits[0]}{'.' * bool(rest)}{rest}e{'-' if exponent < 0 else '+'}{abs(exponent):02}"


def _plain(value: Any) -> Any:
    """The value with names in order, and floats as Go's encoder of JSON writes them: whole ones as integers."""
    if isinstance(value, dict):
        return {name: _plain(value[name]) for name in sorted(value)}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _json(value: Any) -> str:
    """As Go encodes it: a fraction above a millionth with all its digits and no exponent."""
    if isinstance(value, float) and not value.is_integer() and abs(value) >= 1e-6:
        return f"{Decimal(repr(value)):f}"
    return json.dumps(_plain(value), separators=(",", ":"))


def _refuse(text: str) -> None:
    raise Refused(text)


def _required(text: str, value: Any) -> Any:
    return value if value not in (None, "") else _refuse(text)


def _set(target: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    target[name] = value
    return target


def _kind(value: Any) -> str:
    kinds = {bool: "bool", str: "string", int: "int64", float: "float64", dict: "map", list: "slice"}
    return kinds[type(value)]


def _dumped(value: Any) -> str:
    text: str = yaml.dump(_plain(value), Dumper=yaml.CSafeDumper, sort_keys=False, width=1_000_000)
    return text.rstrip("\n")


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": lambda *numbers: sum(map(int, numbers)),
    "and": lambda *values: next((value for value in values if not value), values[-1]),
    "default": lambda other, value: value or other,
    "dict": lambda *parts: dict(zip(parts[::2], parts[1::2], strict=True)),
    "div": lambda dividend, divisor: int(dividend) // int(divisor),
    "eq": lambda left, right: left == right,
    "fail": _refuse,
    "gt": lambda left, right: left > right,
    "fromYaml": lambda text: yaml.load(text, yaml.CSafeLoader) or {},
    "get": lambda values, name: values.get(name, ""),
    "hasKey": lambda values, name: name in values,
    "index": lambda values, place: values[place],
    "int64": lambda value: int(value) if isinstance(value, float) or re.fullmatch(r"[+-]?[0-9]+", str(value)) else 0,
    "kindIs": lambda kind, value: _kind(value) == kind,
    "list": lambda *values: list(values),
    "nindent": lambda count, text: "".join(f"\n{' ' * count}{line}" for line in text.split("\n")),
    "not": lambda value: not value,
    "or": lambda *values: next((value for value in values if value), values[-1]),
    "printf": lambda text, *values: re.sub(r"%q", "%s", text) % tuple(
        json.dumps(value) if form == "%q" else shown(value)
        for form, value in zip(re.findall(r"%[sq]", text), values, strict=True)
    ),
    "quote": lambda value: json.dumps(shown(value), ensure_ascii=False),
    "required": _required,
    "set": _set,
    "sha256sum": lambda text: hashlib.sha256(text.encode()).hexdigest(),
    "ternary": lambda yes, no, wanted: yes if wanted else no,
    "toJson": _json,
    "toYaml": _dumped,
    "trunc": lambda count, text: text[:count],
}  # fmt: skip


class Templates:
    """The templates of a chart, which may include each other's definitions."""

    def __init__(self, texts: dict[str, str]) -> None:
        self._definitions: dict[str, Words] = {}
        self._files = {name: self._without_definitions(words_of(text)) for name, text in texts.items()}

    def _without_definitions(self, words: Words) -> Words:
        kept: Words = []
        rest = iter(words)
        for kind, word in rest:
            if kind == "action" and word.startswith("define "):
                self._definitions[json.loads(word.removeprefix("define "))] = list(_until_end(rest))
            else:
                kept.append((kind, word))
        return kept

    def render(self, top: dict[str, Any]) -> dict[str, str]:
        """Each file's text. Raises ``Refused``."""
        return {name: self._carried_out(iter(words), top, {"$": top})[0] for name, words in self._files.items()}

    def _include(self, name: str, dot: Any) -> str:
        return self._carried_out(iter(self._definitions[name]), dot, {"$": dot})[0]

    def _carried_out(
        self, words: Iterator[tuple[str, str]], dot: Any, known: dict[str, Any], *, wanted: bool = True
    ) -> tuple[str, str]:
        """The text up to the ``else`` or ``end`` of this block, and which it was."""
        made = ""
        for kind, word in words:
            first = word.split(maxsplit=1)[0] if word.strip() else ""
            if kind == "text":
                made += word if wanted else ""
            elif first in {"else", "end"}:
                return made, word
            elif first in {"if", "with", "range"}:
                made += self._block(words, word, dot, known, wanted=wanted)
            elif wanted:
                made += self._shown_or_assigned(word, dot, known)
        return made, "end"

    def _shown_or_assigned(self, word: str, dot: Any, known: dict[str, Any]) -> str:
        assigned = re.fullmatch(r"(\$\w+) :?= (.*)", word, re.DOTALL)
        if assigned is None:
            return shown(self._value(word, dot, known))
        known[assigned[1]] = self._value(assigned[2], dot, known)
        return ""

    def _block(
        self, words: Iterator[tuple[str, str]], opening: str, dot: Any, known: dict[str, Any], *, wanted: bool
    ) -> str:
        kind, _, expression = opening.partition(" ")
        if kind == "range":
            names, _, expression = expression.rpartition(" := ")
            body = list(_until_end(words))
            found = self._value(expression, dot, known) if wanted else None
            rounds = sorted(found.items()) if isinstance(found, dict) else list(enumerate(found or []))
            keys = names.split(", ")
            return "".join(
                self._carried_out(iter(body), item[1], {**known, **dict(zip(keys, item[-len(keys) :], strict=True))})[0]
                for item in rounds
            )
        value = self._value(expression, dot, known) if wanted else None
        inner = value if kind == "with" else dot
        made, ended = self._carried_out(words, inner, dict(known), wanted=wanted and bool(value))
        if ended.startswith("else if "):
            return made + self._block(words, ended.removeprefix("else "), dot, known, wanted=wanted and not value)
        if ended == "else":
            made += self._carried_out(words, dot, dict(known), wanted=wanted and not value)[0]
        return made

    def _value(self, expression: str, dot: Any, known: dict[str, Any]) -> Any:
        value, rest = self._pipeline(_WORD.findall(expression), dot, known)
        assert not rest, expression
        return value

    def _pipeline(self, words: list[str], dot: Any, known: dict[str, Any]) -> tuple[Any, list[str]]:
        """The value of the words up to the end or a closing parenthesis, and the words after it."""
        piped: list[Any] = []
        while True:
            name, values = None, []
            while words and words[0] not in {"|", ")"}:
                word, words = words[0], words[1:]
                if word == "(":
                    value, words = self._pipeline(words, dot, known)
                    values.append(value)
                elif (
                    name is None and not values and re.fullmatch(r"[A-Za-z]\w*", word) and word not in {"true", "false"}
                ):
                    name = word
                else:
                    values.append(self._operand(word, dot, known))
            if name is None:
                (value,) = values + piped
            else:
                function = self._include if name == "include" else FUNCTIONS[name]
                value = function(*values, *piped)
            if not words or words[0] == ")":
                return value, words[1:]
            piped, words = [value], words[1:]

    @staticmethod
    def _operand(word: str, dot: Any, known: dict[str, Any]) -> Any:
        if word.startswith('"'):
            return json.loads(word)
        if word.startswith("`"):
            return word[1:-1]
        if re.fullmatch(r"-?[0-9]+", word):
            return int(word)
        if word in {"true", "false"}:
            return word == "true"
        start, *names = word.split(".")
        value = known[start] if start else dot
        for name in filter(None, names):
            value = value.get(name) if isinstance(value, dict) else getattr(value, name)
        return value


def _until_end(words: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    depth = 1
    for kind, word in words:
        if kind == "action":
            depth += {"if": 1, "with": 1, "range": 1, "end": -1}.get(word.split()[0], 0)
        if depth == 0:
            return
        yield kind, word
