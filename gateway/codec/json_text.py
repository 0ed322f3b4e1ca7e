"""Facts about JSON texts that parsers don't report: positions, repeated names, lone surrogates, compact form.

All functions take JSON as UTF-8 bytes. A *valid* text is one that a parser has accepted before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec
import numpy as np

from gateway.codec.json_structure import CLOSING, NAME, OPENING, names

MEMBER_NAMES_MAX: Final = 262_144
"""Most different names of one object kept while looking for a repeated one: bounds the memory of the search."""

LARGE_BYTES_MIN: Final = 64 * 1024
"""Size above which texts are read in ways that cost more to begin with, but take little memory and rarely hold the
interpreter's lock."""
_QUOTE: Final = 0x22
_BACKSLASH: Final = 0x5C
_SIDE_BY_SIDE_BYTES: Final = 2048
"""Size from which numpy counts faster than ``bytes`` does."""
_TOKEN: Final = re.compile(rb'("[^"\\]*+(?:\\.[^"\\]*+)*+")([ \t\r\n]*+:)?|[{}]', re.DOTALL)
"""Possessive, because the regex engine remembers every position to which it could backtrack: many times the size of a long
string."""
_ESCAPE: Final = re.compile(
    rb"\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|.)", re.DOTALL
)
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_SHORT_ESCAPES: Final = {
    0x08: b"\\b",
    0x09: b"\\t",
    0x0A: b"\\n",
    0x0C: b"\\f",
    0x0D: b"\\r",
    0x22: b'\\"',
    0x5C: b"\\\\",
}
_BYTE_POSITION: Final = re.compile(r" \(byte (\d+)\)$")


class TooManyMembers(Exception):
    """An object has more than ``MEMBER_NAMES_MAX`` members."""


def structural_quotes(text: bytes) -> int:
    """Return how many quotation marks of a valid ``text`` begin or end a string: two for each string and each member's name.

    Backslashes occur in strings only, and each pair in a run of them is one escaped backslash. So a quotation mark is escaped if
    a backslash precedes it once the pairs are removed.
    """
    if len(text) >= _SIDE_BY_SIDE_BYTES:
        characters = np.frombuffer(text, dtype=np.uint8)
        quotes = characters == _QUOTE
        if b"\\" not in text:
            return int(np.count_nonzero(quotes))
        backslashes = characters == _BACKSLASH
        if not (backslashes[1:] & backslashes[:-1]).any():
            return int(np.count_nonzero(quotes)) - int(np.count_nonzero(quotes[1:] & backslashes[:-1]))
    if b"\\" not in text:
        return text.count(b'"')
    text = text.replace(b"\\\\", b"")
    return text.count(b'"') - text.count(b'\\"')


def repeated_member(text: bytes) -> tuple[str, int] | None:
    """Return a member's name that one object of a valid ``text`` has twice, with the object's depth (1: outermost); None if there
    is none.

    Raises ``TooManyMembers``.
    """
    objects: list[set[bytes]] = []
    for kind, start, end in _names(text):
        if kind == OPENING:
            objects.append(set())
        elif kind == CLOSING:
            objects.pop()
        else:
            name = text[start:end]
            if b"\\" in name:
                name = msgspec.json.encode(msgspec.json.decode(name))
            names = objects[-1]
            if name in names:
                return msgspec.json.decode(name), len(objects)
            if len(names) >= MEMBER_NAMES_MAX:
                raise TooManyMembers
            names.add(name)
    return None


def member_position(text: bytes, member: str) -> int:
    """Return where the name of ``member`` begins in the object of a valid ``text``; 0 if it is absent."""
    depth = 0
    for kind, start, end in _names(text):
        if kind == NAME:
            if depth == 1 and msgspec.json.decode(text[start:end]) == member:
                return start
        else:
            depth += 1 if kind == OPENING else -1
    return 0


def _names(text: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield the beginnings and ends of objects in a valid ``text``, and their members' names: kind, start and end of each, in
    order."""
    if len(text) > LARGE_BYTES_MIN:
        yield from names(text)
        return
    for token in _TOKEN.finditer(text):
        if token.group(2) is not None:
            yield NAME, token.start(1), token.end(1)
        elif token.group(1) is None:
            yield text[token.start()], token.start(), token.end()


def compact(text: bytes) -> bytes:
    """Return a valid ``text`` without white space, with strings in their shortest form, and numbers unchanged.

    Shortest form: nothing is escaped but quotation marks, backslashes and control characters.
    """
    text = msgspec.json.format(text, indent=-1)
    if b"\\" not in text:
        return text
    if len(text) <= LARGE_BYTES_MIN:
        return _ESCAPE.sub(_shortest, text)
    # One by one: for millions of escapes ``sub`` would keep each, and the text between, as an object.
    written = bytearray()
    start = 0
    for escape in _ESCAPE.finditer(text):
        written += text[start : escape.start()]
        written += _shortest(escape)
        start = escape.end()
    return bytes(written + text[start:])


def _shortest(escape: re.Match[bytes]) -> bytes:
    high, low, single = escape.groups()
    if high is not None:
        return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + (int(low, 16) - 0xDC00)).encode()
    if single is None:
        return b"/" if escape.group() == b"\\/" else escape.group()
    code = int(single, 16)
    if code in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[code]
    return chr(code).encode() if code >= 0x20 else b"\\u%04x" % code


def without_lone_surrogates(text: bytes) -> tuple[bytes, bytes | None]:
    r"""Return ``text`` with every ``\uXXXX`` that is half of a surrogate pair replaced by another escape; and that escape.

    The escape occurs nowhere else in the text; None if nothing was replaced.
    """
    if _SURROGATE.search(text) is None:
        return text, None
    replaced: bytearray | None = None
    mark = b""
    for escape in _ESCAPE.finditer(text):
        single = escape.group(3)
        if single is not None and 0xD800 <= int(single, 16) <= 0xDFFF:
            if replaced is None:
                lower = text.lower()
                marks = (b"\\u%04x" % code for code in range(0xE000, 0xF900))
                mark = next((mark for mark in marks if mark not in lower), b"\\uf8ff")
                replaced = bytearray(text)
            # The escape has the same length, so the text is changed in place.
            replaced[escape.start() : escape.end()] = mark
    return (text, None) if replaced is None else (bytes(replaced), mark)


def error_position(text: bytes, error: msgspec.DecodeError) -> int:
    """Return the byte of ``text`` at which the parser failed."""
    found = _BYTE_POSITION.search(str(error))
    if found is None:
        return len(text)
    # The parser has read the first byte after the end before it complains.
    return min(int(found.group(1)), len(text)) - ("trailing characters" in str(error))


def error_reason(error: msgspec.DecodeError) -> str:
    """Return why the parser failed, in a few words."""
    reason = _BYTE_POSITION.sub("", str(error)).removeprefix("JSON is malformed: ")
    return "it ends too early" if reason == "Input data was truncated" else reason


def line_and_column(text: bytes, position: int) -> tuple[int, int]:
    """Return the line and the column, in characters, both from 1, of a byte of ``text``."""
    line_start = text.rfind(b"\n", 0, position) + 1
    column = len(text[line_start:position].decode("utf-8", "replace")) + 1
    return text.count(b"\n", 0, position) + 1, column
