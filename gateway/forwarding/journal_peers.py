"""Reaches the other gateways about journals: objects are offered to the preferred gateway, and all are told of commits.

1. A message is a POST with a JSON body. Its MAC by the cluster's key covers purpose and body: no client can send one.
2. An answer of 204 or 4xx says that no commit has the object, nor will have. So it is where nothing was sent. Any other failure
   is in doubt: the sender asks the journal's log.
3. A peer that fails rests (``Peers``). Meanwhile this gateway commits by itself, or another is preferred.
4. News are sent one at a time to a peer, for each journal the newest. They may be lost: readers also look from time to time.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from gateway.cluster.keys import JOURNAL_NEWS, JOURNAL_OFFER, ClusterKeys
from gateway.cluster.ownership import Ownership
from gateway.cluster.peers import Peer
from gateway.engine.journal_peers import OfferLost
from gateway.forwarding.connections import PeerBusy, PeerConnections, PeerLost, PeerUnreachable
from log_format.journal.offer import OFFER_BYTES_MAX, Offer, Taken, decode_taken, encode_offer

_log = logging.getLogger("gateway.journal")

OFFER_PATH: Final = "/gateways/journal-offers"
NEWS_PATH: Final = "/gateways/journal-news"
MAC: Final = b"x-tidelog-mac"
NEWS_BYTES_MAX: Final = 256
ANSWER_MS_MAX: Final = 3_000
"""How long an offer waits for its answer: a commit takes a tenth of a second, tries at a failing store as long as this."""
NEWS_MS_MAX: Final = 1_000


class JournalPeering:
    """Belongs to the event loop. See ``engine.journal_peers``."""

    def __init__(
        self, ownership: Ownership, connections: PeerConnections, *, answer_ms_max: int = ANSWER_MS_MAX
    ) -> None:
        self._ownership = ownership
        self._peers = ownership.peers
        self._connections = connections
        self._answer_ms_max = answer_ms_max
        self._news: dict[str, dict[int, int]] = {}
        """Peer -> journal -> version, of peers that are being told."""
        self._telling: set[asyncio.Task[None]] = set()

    def is_elsewhere(self, journal: int) -> bool:
        """See ``JournalPeers``."""
        return self._ownership.mode != "off" and self._ownership.of_journal(journal) is not None

    async def offer(self, journal: int, offer: Offer) -> Taken | None:
        """See ``JournalPeers``."""
        peer, keys = self._ownership.of_journal(journal), self._peers.keys
        body = encode_offer(journal, offer)
        if peer is None or keys is None or len(body) > OFFER_BYTES_MAX:
            return None
        try:
            status, answer = await self._post(peer, keys, JOURNAL_OFFER, body)
        except PeerBusy:
            return None
        except PeerUnreachable:
            self._peers.rest(peer.id)
            return None
        except (PeerLost, TimeoutError) as lost:
            self._peers.rest(peer.id)
            raise OfferLost from lost
        if status == 200:
            try:
                return decode_taken(answer)
            except ValueError as error:
                raise OfferLost from error
        if status == 204 or 400 <= status < 500:
            return None
        self._peers.rest(peer.id)
        raise OfferLost

    def tell(self, journal: int, version: int) -> None:
        """See ``JournalPeers``."""
        keys = self._peers.keys
        if self._ownership.mode == "off" or keys is None:
            return
        for peer_id, url in self._peers.candidates().items():
            waiting = self._news.get(peer_id)
            if waiting is not None:
                waiting[journal] = max(version, waiting.get(journal, version))
                continue
            self._news[peer_id] = {journal: version}
            task = asyncio.create_task(self._tell(Peer(peer_id, url), keys))
            self._telling.add(task)
            task.add_done_callback(self._told)

    async def _tell(self, peer: Peer, keys: ClusterKeys) -> None:
        waiting = self._news[peer.id]
        try:
            while waiting:
                journal, version = waiting.popitem()
                await self._post(peer, keys, JOURNAL_NEWS, b"[%d,%d]" % (journal, version))
        except (PeerUnreachable, PeerLost, TimeoutError) as error:
            _log.debug("news did not reach gateway %s: %r", peer.id, error)
        finally:
            del self._news[peer.id]

    def _told(self, task: asyncio.Task[None]) -> None:
        self._telling.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("telling of a commit met a defect", exc_info=error)

    async def _post(self, peer: Peer, keys: ClusterKeys, purpose: bytes, body: bytes) -> tuple[int, bytes]:
        """The status and the body of the answer. Raises ``PeerUnreachable``, ``PeerLost``, ``TimeoutError``."""
        path, wait_ms = (OFFER_PATH, self._answer_ms_max) if purpose == JOURNAL_OFFER else (NEWS_PATH, NEWS_MS_MAX)
        head = (
            f"POST {path} HTTP/1.1\r\nhost: {peer.url.partition('://')[2]}\r\ncontent-type: application/json\r\n"
            f"{MAC.decode()}: {keys.sign(purpose, body)}\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        connection = await self._connections.take(peer.url)
        answer = bytearray()
        try:
            connection.begin(head.encode("ascii"), body)
            async with asyncio.timeout(wait_ms / 1000):
                await connection.head(lambda: self._peers.is_live(peer.id))
                while piece := await connection.chunk(lambda: self._peers.is_live(peer.id)):
                    answer += piece
                    if len(answer) > OFFER_BYTES_MAX:
                        raise PeerLost("the answer is too long")
            return connection.status, bytes(answer)
        finally:
            self._connections.give_back(peer.url, connection)
