"""Gateways in this process that reach each other about journals, over wires that a test cuts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from gateway.engine.journal_peers import OfferLost
from log_format.journal.offer import Offer, OfferAnswer, decode_answer, decode_offer, encode_answer, encode_offer
from log_format.store import ObjectStore
from tests.support.engine import Gateway, make_gateway

Take = Callable[[], Awaitable[OfferAnswer | None]]
"""Has the owner take the object up, and gives its answer."""


async def works(take: Take) -> OfferAnswer | None:
    """A wire that works."""
    return await take()


async def loses_request(take: Take) -> OfferAnswer | None:
    """The owner never hears of it."""
    del take
    raise OfferLost


async def loses_answer(take: Take) -> OfferAnswer | None:
    """The owner does it, and its answer gets lost."""
    await take()
    raise OfferLost


class Late:
    """A wire to an owner that is frozen: it hears of the offer when ``deliver`` is called, and the sender has given up."""

    def __init__(self) -> None:
        self._takes: list[Take] = []

    async def __call__(self, take: Take) -> OfferAnswer | None:
        self._takes.append(take)
        raise OfferLost

    async def deliver(self) -> list[OfferAnswer | BaseException | None]:
        """What the owner makes of the offers."""
        takes, self._takes = self._takes, []
        return await asyncio.gather(*(take() for take in takes), return_exceptions=True)


class Wires:
    """One gateway's ``JournalPeers``. The first of ``gateways`` is preferred for all journals."""

    def __init__(self, gateways: Sequence[Gateway], own: int) -> None:
        self._gateways = gateways
        self._own = own
        self.wire: Callable[[Take], Awaitable[OfferAnswer | None]] = works
        self.offer_bytes: list[int] = []
        self.tells = True
        self._telling: set[asyncio.Task[None]] = set()

    def is_committed_elsewhere(self, journal: int) -> bool:
        """See ``JournalPeers``."""
        del journal
        return self._own > 0

    async def offer(self, journal: int, offer: Offer) -> OfferAnswer | None:
        """See ``JournalPeers``."""
        data = encode_offer(journal, offer)
        self.offer_bytes.append(len(data))

        async def take() -> OfferAnswer | None:
            number, received = decode_offer(data)
            taken = await self._gateways[0].engine.journals.accept_offer(number, received, str(self._own))
            return None if taken is None else decode_answer(encode_answer(taken))

        return await self.wire(take)

    def answering_offer(self, sender: str) -> AbstractContextManager[None]:
        """See ``JournalPeers``."""
        del sender
        return nullcontext()

    def announce(self, journal: int, version: int) -> None:
        """See ``JournalPeers``."""
        for number, gateway in enumerate(self._gateways):
            if self.tells and number != self._own:
                task = asyncio.get_running_loop().create_task(gateway.engine.journals.notice_commit(journal, version))
                self._telling.add(task)
                task.add_done_callback(self._telling.discard)


def wired_gateways(objects: ObjectStore, count: int, **bounds: Any) -> tuple[list[Gateway], list[Wires]]:
    """So many gateways of one store, and how each reaches the others."""
    gateways: list[Gateway] = []
    wires = [Wires(gateways, number) for number in range(count)]
    gateways += [make_gateway(objects=objects, journal_peers=one, **bounds) for one in wires]
    return gateways, wires
