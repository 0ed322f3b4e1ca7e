"""Output of records by a template, like kcat's: ``%t %p %o %k %v\\n``."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from tidelog.cli.sinks.record_text import Writer, header_text, visible
from tidelog.types.record import Record

_Field = Callable[[Record], bytes]

FIELDS: Final[dict[str, _Field]] = {
    "t": lambda record: record.topic.encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
    "T": lambda record: b"%d" % record.timestamp_ms,
    "k": lambda record: record.key or b"",
    "K": lambda record: b"%d" % (-1 if record.key is None else len(record.key)),
    "v": lambda record: record.value or b"",
    "s": lambda record: record.value or b"",
    "S": lambda record: b"%d" % (-1 if record.value is None else len(record.value)),
    "h": lambda record: header_text(record).encode(),
}
"""Values of the fields: topic, partition, offset, milliseconds, key, its length, value (twice), its length, headers. The length
of null is -1."""
_FROM_CLIENTS: Final = frozenset("kvsh")
_ESCAPES: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
_PARTS: Final = re.compile(
    r"%(?P<field>.)|\\x(?P<byte>[0-9A-Fa-f]{2})|\\(?P<escape>[nrt0\\])|(?P<text>[^%\\]+|.)", re.DOTALL
)


def template_writer(template: str, *, for_terminal: bool) -> Writer:
    """Return a writer of exactly what the template says. ``for_terminal``: bytes that a terminal might interpret are escaped.

    Raises ``ValueError`` for an unknown field.
    """
    parts: list[bytes | _Field] = []
    for found in _PARTS.finditer(template):
        name = found["field"]
        if name == "%":
            parts.append(b"%")
        elif name is not None and name not in FIELDS:
            raise ValueError(f"--format {template!r}: %{name} is not a field; the fields are %{', %'.join(FIELDS)}")
        elif name is not None:
            shown = for_terminal and name in _FROM_CLIENTS
            parts.append(_escaped(FIELDS[name]) if shown else FIELDS[name])
        elif found["byte"] is not None:
            parts.append(bytes.fromhex(found["byte"]))
        elif found["escape"] is not None:
            parts.append(_ESCAPES[found["escape"]])
        else:
            parts.append(found["text"].encode())
    return lambda record: b"".join(part if isinstance(part, bytes) else part(record) for part in parts)


def _escaped(field: _Field) -> _Field:
    return lambda record: visible(field(record)).encode()
