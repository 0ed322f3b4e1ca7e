"""The object by which a gateway says that it is alive: ``system/gateways/<id>.json``, written again every few seconds.

``{"id", "instance", "beat", "url", "started_at", "version", "owned_topics"}``. ``instance`` is new with each start, ``beat``
counts the writes of one instance. Whoever can write to the store can write such an object, so a reader takes nothing from it
but plain values, and no URL that is more than ``http(s)://host:port``.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

import msgspec

from log_format import layout

HEARTBEAT_BYTES_MAX: Final = 4096
"""A larger object is no heartbeat."""
URL_PATTERN: Final = r"^https?://([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?/?$"
"""Where a gateway can be reached: no user, path, query or fragment."""
_ID = r"^[A-Za-z0-9_-]{1,64}$"
_URL: Final = re.compile(URL_PATTERN)


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """What a gateway says of itself. ``started_at``: its own clock, milliseconds, only to be shown."""

    id: Annotated[str, msgspec.Meta(pattern=_ID)]
    instance: Annotated[str, msgspec.Meta(pattern=_ID)]
    beat: Annotated[int, msgspec.Meta(ge=0)]
    url: Annotated[str, msgspec.Meta(max_length=300)]
    started_at: int
    version: Annotated[str, msgspec.Meta(max_length=64)]
    owned_topics: Annotated[int, msgspec.Meta(ge=0)]


def heartbeat_key(gateway_id: str) -> str:
    """Where a gateway's heartbeat lies."""
    return f"{layout.GATEWAYS}{gateway_id}.json"


def encode_heartbeat(heartbeat: Heartbeat) -> bytes:
    """The object's bytes."""
    return msgspec.json.encode(heartbeat)


def decode_heartbeat(key: str, data: bytes) -> Heartbeat | None:
    """The heartbeat at ``key``; None for whatever is none, or names another gateway or an unfit URL."""
    if len(data) > HEARTBEAT_BYTES_MAX:
        return None
    try:
        heartbeat = msgspec.json.decode(data, type=Heartbeat)
    except msgspec.DecodeError:
        return None
    if heartbeat_key(heartbeat.id) != key or not _URL.fullmatch(heartbeat.url):
        return None
    return heartbeat
