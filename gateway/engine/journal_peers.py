"""The other gateways as seen by journals; ``forwarding.journal_peers`` reaches them."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from log_format.journal.offer import Offer, OfferAnswer


class OfferLost(Exception):
    """The answer to an offer was lost: the other gateway may have taken the object up, or still may."""


class JournalPeers(Protocol):
    """The other gateways that commit to journals. Used on the event loop only."""

    def is_committed_elsewhere(self, journal: int) -> bool:
        """Return whether another gateway commits to the journal, as far as is known here."""
        ...

    async def offer(self, journal: int, offer: Offer) -> OfferAnswer | None:
        """Ask the gateway that commits to the journal to take the object up. Return None if it did not and never will. Raises
        ``OfferLost``."""
        ...

    def answering_offer(self, sender: str) -> AbstractContextManager[None]:
        """Mark an offer of the gateway ``sender``, named by its instance, as under way here while the context lasts."""
        ...

    def announce(self, journal: int, version: int) -> None:
        """Tell the other gateways of a commit, except those that get an answer to an offer. Best effort."""
        ...


class NoPeers:
    """Peers of a gateway that is alone."""

    def is_committed_elsewhere(self, journal: int) -> bool:
        """Return False."""
        del journal
        return False

    async def offer(self, journal: int, offer: Offer) -> OfferAnswer | None:
        """Return None."""
        del journal, offer
        return None

    def answering_offer(self, sender: str) -> AbstractContextManager[None]:
        """Do nothing."""
        del sender
        return nullcontext()

    def announce(self, journal: int, version: int) -> None:
        """Do nothing."""
