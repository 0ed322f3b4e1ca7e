"""The other gateways, as far as journals are concerned; ``forwarding.journal_peers`` reaches them."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from log_format.journal.offer import Offer, Taken


class OfferLost(Exception):
    """The other gateway may have taken the object up, or still may."""


class JournalPeers(Protocol):
    """Belongs to the event loop."""

    def is_elsewhere(self, journal: int) -> bool:
        """Whether another gateway commits to the journal, as far as is known here."""
        ...

    async def offer(self, journal: int, offer: Offer) -> Taken | None:
        """Have that gateway take the object up. None: it did not, and never will. Raises ``OfferLost``."""
        ...

    def answering(self, sender: str) -> AbstractContextManager[None]:
        """While an offer of that gateway, named by its instance, is under way here."""
        ...

    def tell(self, journal: int, version: int) -> None:
        """Tell the others of a commit, but for those that get an answer. Nothing comes of it where they can't be reached."""
        ...


class NoPeers:
    """This gateway is alone."""

    def is_elsewhere(self, journal: int) -> bool:
        """See ``JournalPeers``."""
        del journal
        return False

    async def offer(self, journal: int, offer: Offer) -> Taken | None:
        """See ``JournalPeers``."""
        del journal, offer
        return None

    def answering(self, sender: str) -> AbstractContextManager[None]:
        """See ``JournalPeers``."""
        del sender
        return nullcontext()

    def tell(self, journal: int, version: int) -> None:
        """See ``JournalPeers``."""
