"""Messages to other gateways about journals: objects are offered to the preferred gateway, and all gateways are told of commits.

1. A message is a POST with a JSON body and a hop (``hop``): no client can send one.
2. An answer of 204 or 4xx says that no commit has the object, nor will have. The same holds if nothing was sent. Any other
   failure is in doubt: the sender asks the journal's log.
3. A peer that fails or does not answer (``Breaker``) rests. Meanwhile this gateway commits by itself, or another is preferred.
4. News of commits are sent to a peer one at a time, for each journal the newest version. They may be lost: readers also look
   from time to time. A peer whose offer is under way here gets none: after the offer's answer it looks by itself.
5. An offer in doubt costs no more than a look at the log, so an owner that was heard of within a second is not probed before
   it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from gateway.cluster.ownership import Ownership
from gateway.cluster.peers import Peer
from gateway.engine.journal_peers import OfferLost
from gateway.forwarding.breaker import Breaker
from gateway.forwarding.connections import PeerAnswerLost, PeerBusy, PeerConnections, PeerUnreachable
from gateway.forwarding.hop import Hops
from gateway.forwarding.peer_message import PeerMessages
from log_format.journal.offer import OFFER_BYTES_MAX, Offer, OfferAnswer, decode_answer, encode_offer

_log = logging.getLogger("gateway.journal")

OFFER_PATH: Final = b"/gateways/journal-offers"
NEWS_PATH: Final = b"/gateways/journal-news"
NEWS_BYTES_MAX: Final = 256
ANSWER_MS_MAX: Final = 3_000
"""Time that an offer waits for its answer: a commit takes a tenth of a second, tries at a failing store as long as this."""
NEWS_MS_MAX: Final = 1_000
SILENT_MS_MAX: Final = 1_000
"""Silence of an owner after which it is probed before an offer: longer than the usual time between two offers."""


class PeerJournals:
    """Implementation of ``engine.journal_peers.JournalPeers``. Used on the event loop only."""

    def __init__(
        self,
        ownership: Ownership,
        connections: PeerConnections,
        breaker: Breaker,
        hops: Hops,
        *,
        answer_ms_max: int = ANSWER_MS_MAX,
    ) -> None:
        self._ownership = ownership
        self._peers = ownership.peers
        self._breaker = breaker
        self._messages = PeerMessages(ownership.peers, connections, breaker, hops)
        self._answer_ms_max = answer_ms_max
        self._news: dict[str, dict[int, int]] = {}
        """Versions that wait to be sent, by journal, by peer that is being told."""
        self._telling: set[asyncio.Task[None]] = set()
        self._answering: Counter[str] = Counter()
        """Number of offers of each gateway that are under way here, by its instance."""

    @contextmanager
    def answering_offer(self, sender: str) -> Iterator[None]:
        """Mark an offer of the gateway ``sender`` as under way here while the context lasts."""
        self._answering[sender] += 1
        try:
            yield
        finally:
            self._answering[sender] -= 1
            if not self._answering[sender]:
                del self._answering[sender]

    def is_committed_elsewhere(self, journal: int) -> bool:
        """Return whether another gateway commits to the journal (``JournalPeers.is_committed_elsewhere``)."""
        return self._ownership.mode != "off" and self._ownership.of_journal(journal) is not None

    async def offer(self, journal: int, offer: Offer) -> OfferAnswer | None:
        """Ask the gateway that commits to the journal to take the object up (``JournalPeers.offer``)."""
        peer = self._ownership.of_journal(journal)
        body = encode_offer(journal, offer)
        if peer is None or len(body) > OFFER_BYTES_MAX:
            return None
        if not await self._breaker.admits(peer, SILENT_MS_MAX):
            return None
        try:
            status, answer = await self._messages.post(
                peer, OFFER_PATH, body, wait_ms=self._answer_ms_max, answer_bytes_max=OFFER_BYTES_MAX
            )
        except PeerBusy:
            return None
        except PeerUnreachable:
            self._peers.rest(peer.id)
            return None
        except (PeerAnswerLost, TimeoutError) as lost:
            self._peers.rest(peer.id)
            raise OfferLost from lost
        if status == 200:
            try:
                return decode_answer(answer)
            except ValueError as error:
                raise OfferLost from error
        if status == 204 or 400 <= status < 500:
            return None
        self._peers.rest(peer.id)
        raise OfferLost

    def announce(self, journal: int, version: int) -> None:
        """Tell the other gateways of a commit, best effort (``JournalPeers.announce``)."""
        if self._ownership.mode == "off":
            return
        for peer in self._peers.candidates().values():
            if peer.instance in self._answering:
                continue
            waiting = self._news.get(peer.id)
            if waiting is not None:
                waiting[journal] = max(version, waiting.get(journal, version))
                continue
            self._news[peer.id] = {journal: version}
            task = asyncio.create_task(self._tell(peer))
            self._telling.add(task)
            task.add_done_callback(self._told)

    async def _tell(self, peer: Peer) -> None:
        waiting = self._news[peer.id]
        try:
            while waiting:
                journal, version = waiting.popitem()
                news = b"[%d,%d]" % (journal, version)
                await self._messages.post(peer, NEWS_PATH, news, wait_ms=NEWS_MS_MAX, answer_bytes_max=OFFER_BYTES_MAX)
        except (PeerUnreachable, PeerAnswerLost, TimeoutError) as error:
            _log.debug("news did not reach gateway %s: %r", peer.id, error)
        finally:
            del self._news[peer.id]

    def _told(self, task: asyncio.Task[None]) -> None:
        self._telling.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("telling of a commit met a defect", exc_info=error)
