"""Translation of patterns in RE2's syntax, which Kafka's clients send, into Python's, which the table stores.

1. What RE2 refuses is refused: looking around, references, possessive repeats, unknown escapes.
2. Topics' names are ASCII. So a class of Unicode becomes its ASCII characters.
3. In RE2 a flag holds until its group ends, in the alternatives that follow, too. Python has flags only for a group of their
   own, ``(?i:…)``, so each alternative gets one.

Source: RE2's "Syntax", as RE2J reads it.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from functools import lru_cache
from types import MappingProxyType
from typing import Final

import regex

REPEATS_MAX: Final = 1_000
_POSIX: Final = MappingProxyType(
    {
        "alnum": string.ascii_letters + string.digits,
        "alpha": string.ascii_letters,
        "ascii": "".join(map(chr, range(128))),
        "blank": " \t",
        "cntrl": "".join(map(chr, [*range(32), 127])),
        "digit": string.digits,
        "graph": string.ascii_letters + string.digits + string.punctuation,
        "lower": string.ascii_lowercase,
        "print": string.ascii_letters + string.digits + string.punctuation + " ",
        "punct": string.punctuation,
        "space": " \t\n\r\f\v",
        "upper": string.ascii_uppercase,
        "word": string.ascii_letters + string.digits + "_",
        "xdigit": string.hexdigits,
    }
)
_NOTHING, _ANYTHING = r"\x00", r"[\s\S]"
"""Classes that match no character of any name, and any character."""
_REPEAT: Final = re.compile(r"(?:[*+?]|\{(\d+)(?:,(\d*))?\})\??")
_GROUP: Final = re.compile(r"\((?:\?(?:P?<([A-Za-z_]\w*)>|([imsU]*(?:-[imsU]+)?):))?", re.ASCII)
_FLAGS: Final = re.compile(r"\(\?([imsU]*(?:-[imsU]+)?)\)")
_POSIX_CLASS: Final = re.compile(r"\[:(\^?)([a-z]+):\]")
_PROPERTY: Final = re.compile(r"([pP])(?:\{(\^?)([A-Za-z_]+)\}|([A-Z]))")
_HEX: Final = re.compile(r"x(?:\{([0-9A-Fa-f]{1,6})\}|([0-9A-Fa-f]{2}))")
_CONTROLS: Final = MappingProxyType({"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"})
_QUOTED: Final = re.compile(r"\\Q(.*?)(?:\\E|\Z)", re.DOTALL)


def to_python_pattern(pattern: str) -> str:
    """Return the pattern in Python's syntax. Raises ``ValueError`` saying what RE2 does not take."""
    found, at = [], 0
    flags: list[list[str]] = [[]]
    """Beginnings of the Python groups for the flags that hold, by open group of the pattern."""
    while at < len(pattern):
        if one := _FLAGS.match(pattern, at):
            at = one.end()
            if repeat := _REPEAT.match(pattern, at):  # A repeat after a flag repeats what comes before the flag.
                piece, at = _repeat(pattern, repeat)
                found.append(piece)
            flags[-1].append(_flagged(one[1]))
            found.append(flags[-1][-1])
            continue
        first = pattern[at]
        piece, at = _piece(pattern, at)
        if first == "(":
            flags.append([])
        elif first == "|":
            piece = ")" * len(flags[-1]) + piece + "".join(flags[-1])
        elif first == ")":
            piece += ")" * len(flags.pop())
            if not flags:
                raise ValueError("is not a valid regular expression: unexpected )")
        found.append(piece)
    return "".join(found) + ")" * len(flags[-1])


def _piece(pattern: str, at: int) -> tuple[str, int]:
    """Return the next piece in Python's syntax, and where it ends."""
    first = pattern[at]
    if first == "[":
        return _class(pattern, at)
    if first == "(":
        return _group(pattern, at)
    if repeat := _REPEAT.match(pattern, at):
        return _repeat(pattern, repeat)
    if first != "\\":
        return (first if first in ").|^$" else _literal(first)), at + 1
    if quoted := _QUOTED.match(pattern, at):
        return "".join(map(_literal, quoted[1])), quoted.end()
    second = pattern[at + 1 : at + 2]
    if second and second in "AbBdDsSwW":
        return first + second, at + 2
    if second == "z":
        return r"\Z", at + 2
    members, end = _escaped(pattern, at)
    return (_literal(members) if len(members) == 1 else _set(members)), end


def _group(pattern: str, at: int) -> tuple[str, int]:
    found = _GROUP.match(pattern, at)
    name, flags = found.groups() if found else (None, None)
    if found is None or (flags is None and name is None and pattern.startswith("(?", at)):
        raise ValueError(f"is not a valid regular expression: {pattern[at : at + 4]!r} is not in RE2's syntax")
    if name is not None:
        return f"(?P<{name}>", found.end()
    return ("(" if flags is None else _flagged(flags)), found.end()


def _flagged(flags: str) -> str:
    """Return the beginning of a group in which these flags hold."""
    # RE2's flag U (which match comes first) means nothing to a match of the whole name.
    on, _, off = flags.replace("U", "").partition("-")
    kept = "".join(sorted({*on} - {*off})) + (f"-{off}" if off else "")
    return f"(?{kept}:"


def _repeat(pattern: str, found: re.Match[str]) -> tuple[str, int]:
    numbers = [int(one) for one in found.groups() if one]
    if any(one > REPEATS_MAX for one in numbers):
        raise ValueError(f"is not a valid regular expression: a repeat has at most {REPEATS_MAX}")
    if _REPEAT.match(pattern, found.end()):
        raise ValueError("is not a valid regular expression: a repeat of a repeat")
    return found[0], found.end()


def _class(pattern: str, start: int) -> tuple[str, int]:
    """Return a class of characters in brackets, and where it ends."""
    at = start + 1
    is_negated = pattern.startswith("^", at)
    at += is_negated
    parts, first = [], at
    while not (pattern.startswith("]", at) and at > first):
        if at >= len(pattern):
            raise ValueError("is not a valid regular expression: missing closing ]")
        low, at = _member(pattern, at)
        if len(low) == 1 and pattern.startswith("-", at) and pattern[at + 1 : at + 2] not in ("", "]"):
            high, at = _member(pattern, at + 1)
            if len(high) != 1 or high < low:
                raise ValueError("is not a valid regular expression: invalid character class range")
            parts.append(f"{_inside(low)}-{_inside(high)}")
        else:
            parts += map(_inside, low)
    if not parts:
        return (_ANYTHING if is_negated else _NOTHING), at + 1
    return f"[{'^' * is_negated}{''.join(parts)}]", at + 1


def _member(pattern: str, at: int) -> tuple[str, int]:
    """Return the characters of a class's next member, and where it ends."""
    if named := _POSIX_CLASS.match(pattern, at):
        if named[2] not in _POSIX:
            raise ValueError(f"is not a valid regular expression: {named[0]} is not a class of characters")
        return _where(lambda one: (one in _POSIX[named[2]]) != bool(named[1])), named.end()
    if pattern[at] != "\\":
        return pattern[at], at + 1
    second = pattern[at + 1 : at + 2]
    if second and second in "dDsSwW":
        matches = re.compile(f"\\{second}", re.ASCII).match
        return _where(lambda one: matches(one) is not None), at + 2
    return _escaped(pattern, at)


def _escaped(pattern: str, at: int) -> tuple[str, int]:
    """Return the characters that an escape means, in a class or outside, and where it ends."""
    if found := _PROPERTY.match(pattern, at + 1):
        kind, negation, name, letter = found.groups()
        members = _of_property(name or letter)
        is_negated = (kind == "P") != bool(negation)
        return _where(lambda one: (one in members) != is_negated), found.end()
    if found := _HEX.match(pattern, at + 1):
        code = int(found[1] or found[2], 16)
        if code <= 0x10FFFF:
            return chr(code), found.end()
    second = pattern[at + 1 : at + 2]
    if second in _CONTROLS:
        return _CONTROLS[second], at + 2
    if second and (second == "_" or not second.isascii() or not second.isalnum()):
        return second, at + 2
    raise ValueError(f"is not a valid regular expression: invalid escape sequence {pattern[at : at + 2]!r}")


@lru_cache(maxsize=256)
def _of_property(name: str) -> frozenset[str]:
    """Return the ASCII characters of a general category or a script. Raises ``ValueError`` if there is none of that name."""
    if name == "Any":
        return frozenset(_POSIX["ascii"])
    try:
        matches = regex.compile(rf"\p{{{'gc' if len(name) <= 2 else 'sc'}={name}}}").match
    except regex.error as problem:
        raise ValueError(f"is not a valid regular expression: {name!r} is neither a category nor a script") from problem
    return frozenset(filter(matches, _POSIX["ascii"]))


def _where(is_in: Callable[[str], bool]) -> str:
    return "".join(one for one in _POSIX["ascii"] if is_in(one))


def _set(members: str) -> str:
    return f"[{''.join(map(_inside, members))}]" if members else _NOTHING


def _inside(character: str) -> str:
    return (
        character
        if character.isalnum() or character in "_."
        else f"\\{character}"
        if character.isprintable()
        else _code(character)
    )


def _literal(character: str) -> str:
    return character if character in "-_" else re.escape(character)


def _code(character: str) -> str:
    return f"\\U{ord(character):08x}"
