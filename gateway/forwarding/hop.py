"""``Tidelog-Hop``: the header by which one gateway proves to another what it passes on, and for which caller.

``base64(JSON of Hop).MAC``. The MAC is by the cluster's key that ``key`` names. It covers the hop, the method, the target, the
request id and every header that crosses. The hop has the body's SHA-256. So a hop is worth nothing with another request.

1. A hop holds for ``HOP_MS`` by its sender's clock, and a clock may be wrong by as much.
2. It names its receiver's instance: another gateway refuses it, and so does the receiver after a restart.
3. A sender numbers its hops to each receiver. A number counts once (``_Window``), so a recorded request can't be sent again.
4. The body is checked when it has been read. No route acts on a body that it has not read to its end.
5. A request whose hop does not hold is a client's (``arrival``). A gateway whose hop is refused serves the request itself.

Absent on purpose: answers have no MAC, and nothing is encrypted. TLS between gateways does both.
"""

from __future__ import annotations

import hashlib
from binascii import a2b_base64, b2a_base64
from collections.abc import Sequence
from typing import Final

import msgspec

from gateway.access.caller import Caller
from gateway.call import current_call
from gateway.cluster.keys import HOP, ClusterKeys
from gateway.cluster.peers import Peer, Peers
from gateway.forwarding.connections import Headers
from log_format.clock import Clock

HEADER: Final = b"tidelog-hop"
HOP_MS: Final = 10_000
"""Time for which a hop holds. The head of a request arrives within milliseconds."""
WINDOW: Final = 16_384
"""Distance of a number from the newest up to which it is accepted: above any number of requests under way to one gateway."""
SENDERS_MAX: Final = 1_024
"""Number of instances whose numbers are remembered: 2 KiB for each. An idle one is dropped once its hops have expired."""


class Hop(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A gateway's statement about a request that it sends to another one."""

    key: str
    sender: str
    """Instance of the sender."""
    receiver: str
    """Instance of the receiver."""
    number: int
    expires_at: int
    body: str
    """SHA-256 of the body, hexadecimal."""
    passed: int = 0
    """Number of gateways that have passed the request on; 0: it is a gateway's own message."""
    caller: Caller | None = None
    """Caller for whom it is passed on; the receiver judges that caller's rights. None: the gateway's own message, or
    authentication is off."""
    revision: int = -1
    """Revision of the rights by which the sender let the caller in: the receiver judges by none that are older."""
    source: str | None = None
    """Address of the client, for the audit trail."""
    topic_id: str | None = None
    """Id of the topic that the records are for, as the sender knows it. The receiver appends them to no other topic of that
    name."""
    connection: str | None = None
    """Sender's name for the client's connection, which waits for the answer (``gateway.engine.early_flush``). None: no client, or
    not told."""


class SealedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Parts of a request that the MAC covers in addition to the hop. Names of headers are lower-case."""

    method: str
    target: bytes
    request_id: str
    headers: Headers

    def data(self, hop: bytes) -> bytes:
        """Return the signed bytes. No part of a request's head has a line feed, so no two requests have the same bytes."""
        parts = [hop, self.method.encode("ascii"), self.target, self.request_id.encode("ascii")]
        for header in self.headers:
            parts += header
        data = b"\n".join(parts)
        assert data.count(b"\n") == len(parts) - 1, "a part of a head has a line feed"
        return data


class HopRefused(ValueError):
    """The hop does not hold for this request; the text says why, and shows nothing of it."""


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(Hop)


class _Window:
    """Numbers of one sender that have come: the newest one, and a bit for each of the ``WINDOW`` before it."""

    __slots__ = ("_bits", "_newest", "until_ms")

    def __init__(self) -> None:
        self._newest = -1
        self._bits = 0
        self.until_ms = 0
        """Time when the last of the sender's hops has expired."""

    def takes(self, number: int) -> bool:
        """Take a number; return whether it comes for the first time."""
        ahead = number - self._newest
        if ahead > 0:
            self._bits = ((self._bits << min(ahead, WINDOW)) | 1) & _ALL
            self._newest = number
            return True
        bit = 1 << -ahead
        if -ahead >= WINDOW or self._bits & bit:
            return False
        self._bits |= bit
        return True


_ALL: Final = (1 << WINDOW) - 1


class Hops:
    """One gateway's hops, out and in. Used on the event loop only.

    ``instance``: new with each start. ``needs_key_file``: whether only keys of ``cluster_key_file`` count, since every reader
    of the store knows the default key.
    """

    def __init__(self, peers: Peers, clock: Clock, *, instance: str, needs_key_file: bool = False) -> None:
        self.instance = instance
        self._peers = peers
        self._clock = clock
        self._needs_key_file = needs_key_file
        self._sent: dict[str, int] = {}
        self._windows: dict[str, _Window] = {}

    def head(
        self,
        peer: Peer,
        sealed: SealedRequest,
        body: bytes,
        *,
        passed: int = 0,
        caller: Caller | None = None,
        revision: int = -1,
        source: str | None = None,
        topic_id: str | None = None,
    ) -> bytes | None:
        """Return the line and the headers of a request to the peer; None while this gateway has no key that counts."""
        keys, call = self._keys(), current_call()
        if keys is None:
            return None
        hop = Hop(
            key=keys.signing_id,
            sender=self.instance,
            receiver=peer.instance,
            number=self._next_number(peer),
            expires_at=self._clock.now_ms() + HOP_MS,
            body=hashlib.sha256(body).hexdigest(),
            passed=passed,
            caller=caller,
            revision=revision,
            source=source,
            topic_id=topic_id,
            connection=None if call is None or call.sender is None else str(call.sender),
        )
        text = b2a_base64(_ENCODER.encode(hop), newline=False)
        headers = [
            (b"host", peer.url.partition("://")[2].encode("ascii")),
            *sealed.headers,
            (b"x-request-id", sealed.request_id.encode("ascii")),
            (HEADER, text + b"." + keys.sign(HOP, sealed.data(text)).encode()),
        ]
        if body or sealed.method in ("POST", "PUT", "PATCH"):
            headers.append((b"content-length", b"%d" % len(body)))
        lines = [sealed.method.encode("ascii") + b" " + sealed.target + b" HTTP/1.1"]
        lines += [name + b": " + value for name, value in headers]
        return b"\r\n".join(lines) + b"\r\n\r\n"

    def check(self, values: Sequence[bytes], sealed: SealedRequest) -> Hop:
        """Return the hop in the only header of ``values``, which counts now and never again. Raises ``HopRefused``."""
        keys = self._keys()
        if keys is None:
            raise HopRefused("is not accepted by this gateway")
        text, dot, mac = values[0].partition(b".")
        if len(values) > 1 or not dot:
            raise HopRefused("is malformed")
        try:
            hop = _DECODER.decode(a2b_base64(text))
        except ValueError:
            raise HopRefused("is malformed") from None
        if not keys.is_signed(HOP, sealed.data(text), mac.decode("latin-1"), key_id=hop.key):
            raise HopRefused("was not made for this request by a gateway of this cluster")
        now_ms = self._clock.now_ms()
        if not now_ms < hop.expires_at <= now_ms + 2 * HOP_MS:
            raise HopRefused("has expired, or a clock is wrong")
        if hop.receiver != self.instance:
            raise HopRefused("was made for another gateway")
        if not self._window(hop, now_ms).takes(hop.number):
            raise HopRefused("was used before")
        return hop

    def _next_number(self, peer: Peer) -> int:
        number = self._sent.get(peer.instance, 0)
        if number == 0 and len(self._sent) >= SENDERS_MAX:
            self._sent = {known.instance: self._sent.get(known.instance, 0) for known in self._peers.heartbeats()}
        self._sent[peer.instance] = number + 1
        return number

    def _keys(self) -> ClusterKeys | None:
        keys = self._peers.keys
        return None if keys is None or (self._needs_key_file and not keys.is_from_file) else keys

    def _window(self, hop: Hop, now_ms: int) -> _Window:
        window = self._windows.get(hop.sender)
        if window is None:
            self._windows = {sender: one for sender, one in self._windows.items() if one.until_ms > now_ms}
            if len(self._windows) >= SENDERS_MAX:
                raise HopRefused("has one of too many senders")
            window = self._windows[hop.sender] = _Window()
            if all(known.instance != hop.sender for known in self._peers.heartbeats()):
                self._peers.looks_old.set()
        window.until_ms = max(window.until_ms, hop.expires_at)
        return window
