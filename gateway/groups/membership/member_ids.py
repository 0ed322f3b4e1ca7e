"""Ids of members: in order of joining, and with a proof of the group and the owner that joined.

An id without a proof belongs to a member that joined without an owner (authentication was off), or whose client chose it
(KIP-1082). The member's row says whose it is.
"""

from __future__ import annotations

import hmac

from gateway.engine.producer_ids import ProducerIds
from gateway.system_tables.groups import GroupsTable
from log_format.clock import Clock
from log_format.cluster.proof import NOBODY
from log_format.groups.changes import unknown_member_error
from log_format.groups.row import belongs_to_another
from log_format.ids import NewId


class MemberIds:
    """Issuer of member ids. Used on the event loop only."""

    def __init__(self, ids: ProducerIds, table: GroupsTable, *, clock: Clock, new_id: NewId) -> None:
        self._ids = ids
        self._table = table
        self._clock = clock
        self._new_id = new_id

    async def issue(self, group: str, owner: str) -> str:
        """Return a new id. Ids grow with time, so members keep their order and partitions when another joins. Raises
        ``BackOff``."""
        text = f"m{self._clock.now_ms():014d}-{self._new_id()}"
        return f"{text}_{await self._proof(group, text, owner)}" if owner != NOBODY else text

    async def check(self, group: str, member_id: str, owner: str) -> None:
        """Raise ``RequestRefused`` (``UNKNOWN_MEMBER``) for another owner's member. Raises ``BackOff``."""
        if owner == NOBODY:
            return
        text, separator, given = member_id.rpartition("_")
        if separator and hmac.compare_digest(given.encode(), (await self._proof(group, text, owner)).encode()):
            return
        row = (await self._table.fresh()).group(group).row
        members = () if row is None else row.members
        known = next((one for one in members if one.member_id == member_id), None)
        reader = None if known is None else known.reader
        if separator if reader is None else belongs_to_another(reader, owner):
            raise unknown_member_error(group, member_id)

    async def _proof(self, group: str, text: str, owner: str) -> str:
        return await self._ids.prove(f"{group}\0{text}", owner)
