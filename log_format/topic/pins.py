"""The pins of a topic: versions of its table that stay readable, each under a name.

A topic's pins are a property of its table, so one commit orders a pin against every other change. Maintenance keeps what a pinned
version needs: its commit, a checkpoint of exactly that version, and the files that the checkpoint names
(``log_format.checkpoints.pinned_versions``). A pin ends when it is deleted, when maintenance finds it expired, and with the
topic's incarnation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Final, NamedTuple

import msgspec

from log_format.errors import DECODE_ERRORS, CorruptData

PINS_PROPERTY: Final = "tidelog.pins"
PINS_MAX: Final = 100
"""Most pins of a topic. Each commit of its metadata names all of them, and each collection reads a checkpoint for each."""
PIN_NAME_CHARACTERS_MAX: Final = 100
PIN_NAME: Final = re.compile(rf"[A-Za-z0-9._-]{{1,{PIN_NAME_CHARACTERS_MAX}}}")

_Long = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_decode: Final = msgspec.json.Decoder(dict[str, tuple[_Long, _Long, _Long | None]]).decode


class Pin(NamedTuple):
    """A pinned version of a topic's table. Times are ms since the epoch; without ``expires_at_ms`` the pin stays until it is
    deleted."""

    name: str
    version: int
    created_at_ms: int
    expires_at_ms: int | None = None

    def is_expired(self, now_ms: int) -> bool:
        """Return whether the pin has expired. Until maintenance drops it, it still keeps its version."""
        return self.expires_at_ms is not None and self.expires_at_ms <= now_ms


def pin_properties(pins: Iterable[Pin]) -> dict[str, str]:
    """Return the pins as table properties: none without pins."""
    found = {pin.name: pin[1:] for pin in pins}
    return {PINS_PROPERTY: msgspec.json.encode(found).decode()} if found else {}


def parse_pins(topic: str, properties: Mapping[str, str]) -> tuple[Pin, ...]:
    """Return the pins among a topic's table properties, by name.

    Raises ``CorruptData`` for pins that can't be read: without them their files would be deleted.
    """
    text = properties.get(PINS_PROPERTY)
    if text is None:
        return ()
    try:
        found = _decode(text)
    except DECODE_ERRORS as problem:
        raise CorruptData(f"The {PINS_PROPERTY} of topic {topic!r} can't be read: {problem}.", topic=topic) from problem
    return tuple(Pin(name, *values) for name, values in sorted(found.items()))


def find_pin(pins: Iterable[Pin], name: str) -> Pin | None:
    """Return the pin of this name, expired or not; None without one."""
    return next((pin for pin in pins if pin.name == name), None)
