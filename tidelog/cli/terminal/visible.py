"""Escaping of foreign text, so that a terminal interprets nothing in it."""

from __future__ import annotations


def visible_text(text: str, *, kept: str = "\t\n") -> str:
    """Return the text with unprintable characters escaped, except ``kept`` ones."""
    if text.isprintable():
        return text
    return "".join(
        each
        if each.isprintable() or each in kept
        else f"\\x{ord(each):02x}"
        if ord(each) < 256
        else f"\\u{ord(each):04x}"
        for each in text
    )
