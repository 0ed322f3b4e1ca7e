"""Records as bytes for a terminal, a pipe or a file. ``json`` is the HTTP API's record and can be produced again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum

import msgspec

from tidelog.bodies.json_record import as_json_record
from tidelog.cli.terminal.tables import time_text
from tidelog.cli.terminal.visible import visible_text
from tidelog.types.record import Record

Writer = Callable[[Record], bytes]

_COLOURS = ("36", "33", "32", "35", "34", "31")
"""ANSI colour codes: cyan, yellow, green, magenta, blue, red."""


class OutputFormat(StrEnum):
    """Output format of a record."""

    TEXT = "text"
    JSON = "json"
    RAW = "raw"


def json_writer(*, with_topic: bool = False) -> Writer:
    """Return a writer of one JSON object per line; ``with_topic`` adds the topic, which prevents producing it again unchanged."""

    def write(record: Record) -> bytes:
        topic = {"topic": record.topic} if with_topic else {}
        return msgspec.json.encode({**topic, **as_json_record(record)}) + b"\n"

    return write


def value_writer(
    format_: OutputFormat, *, key_separator: bytes | None, headers: bool, delimiter: bytes = b"\n"
) -> Writer:
    """Return a writer of values, optionally preceded by headers and key, and followed by ``delimiter``.

    In text format, bytes that are no UTF-8 and control characters but tab are escaped, since a terminal might interpret them.
    """

    def write(record: Record) -> bytes:
        line = record.value or b""
        if key_separator is not None:
            line = (record.key or b"") + key_separator + line
        if headers:
            line = header_text(record).encode() + b"\t" + line
        return (visible(line).encode() if format_ is OutputFormat.TEXT else line) + delimiter

    return write


def place_writer(colours: Mapping[str, str] | None) -> Writer:
    """Return a writer of one line with topic, partition, offset, time, key and value; ``colours`` (by topic) for terminals."""

    def write(record: Record) -> bytes:
        time = time_text(record.timestamp_ms, "milliseconds")
        place = f"{record.topic}/{record.partition}@{record.offset}"
        key = "-" if record.key is None else visible(record.key)
        value = "(null)" if record.value is None else visible(record.value)
        if colours is not None:
            place = f"\x1b[{colours[record.topic]}m{place}\x1b[0m"
            time, key = f"\x1b[2m{time}\x1b[0m", f"\x1b[1m{key}\x1b[0m"
        headers = f"  [{visible(header_text(record).encode())}]" if record.headers else ""
        return f"{place}  {time}  {key}  {value}{headers}\n".encode()

    return write


def topic_colours(topics: list[str]) -> dict[str, str]:
    """Return a colour for each topic, as its number in a terminal's escape sequence."""
    return {topic: _COLOURS[index % len(_COLOURS)] for index, topic in enumerate(topics)}


def header_text(record: Record) -> str:
    """Return the headers as ``name=value,name=value``."""
    return ",".join(f"{name}={(value or b'').decode('utf-8', 'backslashreplace')}" for name, value in record.headers)


def visible(data: bytes) -> str:
    """Return the data as text, with every byte escaped that a terminal might interpret."""
    return visible_text(data.decode("utf-8", "backslashreplace"))
