"""Protobuf: from text to words. Comments and white space are gone; each word knows where it stood."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from log_format.schemas.parsed import InvalidSchema

WORD_LENGTH_MAX: Final = 64
"""Longest number."""

_WORDS: Final = re.compile(
    r"""[ \t\r\n\f\v]+ | //[^\n]* | /\*.*?\*/
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<number>0[xX][0-9a-fA-F]+ | (?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fF]?)
    | (?P<text>"(?:[^"\\\n]|\\.)*+" | '(?:[^'\\\n]|\\.)*+')
    | (?P<sign>[{}()\[\]<>;,=.:+/-])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES: Final = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL
)
_LETTERS: Final = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


class Word(NamedTuple):
    """One word. ``kind`` is name, number, text (with its quotes), sign, or end."""

    kind: str
    text: str
    offset: int


def words_of(text: str) -> list[Word]:
    """Return the words of a text, and an ``end``. Raises ``InvalidSchema`` for what is no word."""
    found = []
    offset = 0
    while offset < len(text):
        word = _WORDS.match(text, offset)
        if word is None:
            raise InvalidSchema(f"{text[offset]!r} begins no word.", place=place_of(text, offset))
        if word.lastgroup is not None:
            found.append(Word(word.lastgroup, word.group(), offset))
        offset = word.end()
    found.append(Word("end", "the end", offset))
    return found


def place_of(text: str, offset: int) -> str:
    """Return line and column of an offset, both from 1."""
    before = text[:offset]
    return f"line {before.count(chr(10)) + 1}, column {offset - before.rfind(chr(10))}"


def number_of(word: Word) -> int | float | None:
    """Return the value of a number; None: it is none."""
    text = word.text
    if word.kind != "number" or len(text) > WORD_LENGTH_MAX:
        return None
    try:
        if re.fullmatch(r"0[0-7]+", text):
            return int(text, 8)
        return int(text, 0)
    except ValueError:
        pass
    try:
        return float(text.rstrip("fF"))
    except ValueError:
        return None


def unquoted(quoted: str) -> bytes:
    """Return what a text between quotes stands for. Raises ``ValueError`` or ``OverflowError`` for what is no character."""
    parts = []
    end = 1
    for escape in _ESCAPES.finditer(quoted, 1, len(quoted) - 1):
        parts.append(quoted[end : escape.start()].encode())
        hexadecimal, octal, short, long, letter = escape.groups()
        if hexadecimal or octal:
            parts.append(bytes([int(hexadecimal, 16) if hexadecimal else int(octal, 8) & 0xFF]))
        elif short or long:
            parts.append(chr(int(short or long, 16)).encode())
        else:
            parts.append(_LETTERS.get(letter, letter).encode())
        end = escape.end()
    parts.append(quoted[end:-1].encode())
    return b"".join(parts)
