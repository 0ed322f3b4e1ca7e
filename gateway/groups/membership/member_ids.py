"""Ids of members: in order of joining, and with a proof of the group and the owner that joined.

A member that joined without an owner (authentication was off) has an id without a proof.
"""

from __future__ import annotations

import hmac

from gateway.engine.producer_ids import ProducerIds
from log_format.clock import Clock
from log_format.cluster.proof import NOBODY
from log_format.groups.changes import unknown_member
from log_format.ids import NewId


class MemberIds:
    """Belongs to the event loop."""

    def __init__(self, ids: ProducerIds, *, clock: Clock, new_id: NewId) -> None:
        self._ids = ids
        self._clock = clock
        self._new_id = new_id

    async def issue(self, group: str, owner: str) -> str:
        """A new id. Members keep their order, and so their partitions, when another joins. Raises ``BackOff``."""
        text = f"m{self._clock.now_ms():014d}-{self._new_id()}"
        return f"{text}_{await self._proof(group, text, owner)}" if owner != NOBODY else text

    async def check(self, group: str, member_id: str, owner: str) -> None:
        """Raise ``RequestRefused`` (``UNKNOWN_MEMBER``) for another owner's member. Raises ``BackOff``."""
        text, separator, given = member_id.rpartition("_")
        if owner == NOBODY or not separator:
            return
        proof = await self._proof(group, text, owner)
        if not hmac.compare_digest(given.encode(), proof.encode()):
            raise unknown_member(group, member_id)

    async def _proof(self, group: str, text: str, owner: str) -> str:
        return await self._ids.proved(f"{group}\0{text}", owner)
