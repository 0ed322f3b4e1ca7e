"""Heartbeat: the object by which a gateway shows that it is alive, ``system/gateways/<id>.json``, written every few seconds.

``{"id", "instance", "beat", "url", "started_at", "version", "owned_topics", "issued_at", "journals", "demands", …, "mac"}``.
``instance`` is new with each start, ``beat`` counts the writes of one instance. ``mac`` is the last member. It signs the bytes
of the object without ``mac``, so that a later release may add members. A release that knows neither ``issued_at`` nor ``mac``
reads the object as one of its own.

An object without a valid MAC is no heartbeat. A signed object, too, gives only plain values, and only a URL of the form
``http(s)://host:port``.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

import msgspec

from gateway.cluster.keys import HEARTBEAT, ClusterKeys
from gateway.network.hosts import ADDRESS_PATTERN, URL_PATTERN, ZONE_PATTERN
from gateway.quotas import sharing
from log_format import layout
from log_format.errors import DECODE_ERRORS

HEARTBEAT_BYTES_MAX: Final = 4096
"""Maximum size of a heartbeat; a larger object is none."""
CLOCK_ERROR_MS_MAX: Final = 15 * 60_000
"""Maximum distance of ``issued_at`` from the reader's clock: what S3 allows a client's clock. It makes replayed heartbeats
expire."""
_ID = r"^[A-Za-z0-9_-]{1,64}$"
_URL: Final = re.compile(URL_PATTERN)
_KEY: Final = re.compile(re.escape(layout.GATEWAYS) + r"([A-Za-z0-9_-]{1,64})\.json")
_MAC: Final = re.compile(rb',"mac":"([0-9a-f]{64})"\}')
_MAC_BYTES: Final = len(b',"mac":""}') + 64


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """A gateway's description of itself. ``started_at``, ``issued_at``: its own clock, milliseconds."""

    id: Annotated[str, msgspec.Meta(pattern=_ID)]
    instance: Annotated[str, msgspec.Meta(pattern=_ID)]
    beat: Annotated[int, msgspec.Meta(ge=0)]
    url: Annotated[str, msgspec.Meta(max_length=300)]
    started_at: int
    version: Annotated[str, msgspec.Meta(max_length=64)]
    owned_topics: Annotated[int, msgspec.Meta(ge=0)]
    issued_at: int
    journals: bool = False
    """Whether it serves topics at journals and lets more go there; false for a release before journals."""
    hops: bool = False
    """Whether it takes requests with ``Tidelog-Hop``; false for a release before hops, which is sent none."""
    kafka: Annotated[str, msgspec.Meta(pattern=ADDRESS_PATTERN, max_length=300)] | None = None
    """Address where Kafka's clients reach it; None without such a listener."""
    zone: Annotated[str, msgspec.Meta(pattern=ZONE_PATTERN)] | None = None
    """Its availability zone; None if it was told none."""
    demands: Annotated[
        dict[
            Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{16}$")],
            Annotated[int, msgspec.Meta(ge=0, le=sharing.WHOLE)],
        ],
        msgspec.Meta(max_length=sharing.DEMANDS_MAX),
    ] = {}
    """Its largest demands for quotas (``gateway.quotas.sharing``)."""


_decode: Final = msgspec.json.Decoder(Heartbeat).decode


def heartbeat_key(gateway_id: str) -> str:
    """Return the key of a gateway's heartbeat."""
    return f"{layout.GATEWAYS}{gateway_id}.json"


def gateway_of(key: str) -> str | None:
    """Return the id of the gateway whose heartbeat has this key; None for any other key."""
    match = _KEY.fullmatch(key)
    return match[1] if match else None


def encode_heartbeat(heartbeat: Heartbeat, keys: ClusterKeys) -> bytes:
    """Return the object's bytes, signed."""
    data = msgspec.json.encode(heartbeat)
    return data[:-1] + b',"mac":"' + keys.sign(HEARTBEAT, data).encode() + b'"}'


def decode_heartbeat(key: str, data: bytes, keys: ClusterKeys, now_ms: int) -> Heartbeat | None:
    """Return the heartbeat at ``key``; ``now_ms`` is the reader's time of day.

    Return None if no gateway of this cluster signed it recently, or if it names another gateway or an invalid URL.
    """
    match = _MAC.fullmatch(data, max(0, len(data) - _MAC_BYTES))
    if len(data) > HEARTBEAT_BYTES_MAX or match is None:
        return None
    signed = data[: match.start()] + b"}"
    if not keys.is_signed(HEARTBEAT, signed, match[1].decode()):
        return None
    try:
        heartbeat = _decode(signed)
    except DECODE_ERRORS:
        return None
    if heartbeat_key(heartbeat.id) != key or not _URL.fullmatch(heartbeat.url):
        return None
    return heartbeat if abs(heartbeat.issued_at - now_ms) <= CLOCK_ERROR_MS_MAX else None
