"""Which gateway is preferred for a topic, a partition or a group, as this gateway sees its peers.

Every gateway may commit everything: ownership only keeps conflicts rare. Gateways with different views see different owners: that
is slower, never wrong.

``preferred``: each topic, partition and group has an owner, by ``log_format.cluster.preferred``. ``random``: requests go to a
random gateway; groups have an owner all the same. For tests. ``off``: each gateway serves what it is asked.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Literal

from gateway.cluster.peers import Peer, Peers
from log_format.cluster.preferred import preferred

Mode = Literal["preferred", "random", "off"]


class Ownership:
    """Belongs to the event loop. Owners are returned as peers; None is this gateway."""

    def __init__(
        self, own_id: str, peers: Peers, mode: Mode, *, choose: Callable[[Sequence[str]], str] = random.choice
    ) -> None:
        self.mode = mode
        self.peers = peers
        self.contended = peers.looks_old if mode == "preferred" else asyncio.Event()
        """Set when another gateway keeps committing to a topic of this one: their views differ, if owners are preferred."""
        self._own_id = own_id
        self._choose = choose

    def of_topic(self, topic: str) -> Peer | None:
        """The owner of the topic as a whole."""
        return self._owner(topic)

    def of_partition(self, topic: str, partition: int, owners: int) -> Peer | None:
        """The owner of the partition, where so many ``owners`` share the topic."""
        return self._owner(topic, owners, partition)

    def of_group(self, group: str) -> Peer | None:
        """The gateway that coordinates the group."""
        # No topic has such a name: the slash keeps the two apart.
        return self._owner(f"groups/{group}")

    def of_journal(self, journal: int) -> Peer | None:
        """The gateway that commits to the journal and drains it."""
        return self._owner(f"journals/{journal}")

    def at_random(self) -> Peer | None:
        """A random gateway."""
        others = self.peers.candidates()
        return _peer(self._choose(sorted((self._own_id, *others))), others)

    def coordinates(self, group: str) -> bool:
        """Whether this gateway should coordinate the group."""
        return self.mode == "off" or self.of_group(group) is None

    @property
    def adopts_groups(self) -> bool:
        """Whether this gateway claims groups unasked.

        Without forwarding, gateways would take groups from each other for ever, and sessions would begin anew each time.
        """
        return self.mode != "off"

    def _owner(self, name: str, owners: int = 1, partition: int | None = None) -> Peer | None:
        others = self.peers.candidates()
        if not others:
            return None
        return _peer(preferred(name, (self._own_id, *others), owners=owners, partition=partition), others)


def _peer(gateway_id: str | None, others: dict[str, str]) -> Peer | None:
    return Peer(gateway_id, others[gateway_id]) if gateway_id is not None and gateway_id in others else None
