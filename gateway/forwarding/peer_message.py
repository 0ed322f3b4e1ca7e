"""A gateway's own message to another one: a POST with a hop, which no client can send, and its answer as a whole."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass
from typing import Final

from gateway.cluster.peers import Peer, Peers
from gateway.forwarding.breaker import Breaker
from gateway.forwarding.connections import LOOK_MS, PeerAnswerLost, PeerConnections, PeerUnreachable
from gateway.forwarding.hop import Hops, SealedRequest

JSON: Final = b"application/json"


@dataclass(frozen=True, slots=True)
class PeerMessages:
    """Sender of messages to peers. Used on the event loop only."""

    peers: Peers
    connections: PeerConnections
    breaker: Breaker
    hops: Hops

    async def post(
        self, peer: Peer, path: bytes, body: bytes, *, wait_ms: int, answer_bytes_max: int, media_type: bytes = JSON
    ) -> tuple[int, bytes]:
        """Send a message; return the status and the body of the answer.

        ``wait_ms``: time for the whole answer. Raises ``PeerBusy``, ``PeerUnreachable``, ``PeerAnswerLost`` (also for an answer
        beyond ``answer_bytes_max``), ``TimeoutError``.
        """
        headers = [(b"content-type", media_type)]
        message = SealedRequest(method="POST", target=path, request_id=secrets.token_hex(16), headers=headers)
        head = self.hops.head(peer, message, body)
        if head is None:
            raise PeerUnreachable("there is no key to sign with")

        async def goes_on() -> bool:
            return self.peers.is_live(peer.id) and await self.breaker.is_alive(peer, LOOK_MS)

        connection = await self.connections.take(peer.url)
        answer = bytearray()
        try:
            connection.begin(head, body)
            async with asyncio.timeout(wait_ms / 1000):
                await connection.read_head(goes_on)
                while piece := await connection.read_chunk(goes_on):
                    answer += piece
                    if len(answer) > answer_bytes_max:
                        raise PeerAnswerLost("the answer is too long")
            return connection.status, bytes(answer)
        finally:
            self.connections.give_back(peer.url, connection)
