"""Ownership: which gateway is preferred for a topic, a partition or a group, as this gateway sees its peers.

Every gateway may commit everything: ownership only keeps conflicts rare. Gateways with different views see different owners:
that is slower, never wrong.

``preferred``: each topic, partition and group has an owner, by ``log_format.cluster.preferred``. ``random``: requests go to a
random gateway; groups have an owner all the same. For tests. ``off``: each gateway serves the requests that it gets.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Literal

from gateway.cluster.peers import Peer, Peers
from log_format.cluster.preferred import preferred_gateway

Mode = Literal["preferred", "random", "off"]


class Ownership:
    """Owners of topics, partitions, groups, queues and journals. Owners are returned as peers; None is this gateway. Used on the
    event loop only."""

    def __init__(
        self, own_id: str, peers: Peers, mode: Mode, *, choose: Callable[[Sequence[str]], str] = random.choice
    ) -> None:
        self.mode = mode
        self.peers = peers
        self.contended = peers.looks_old if mode == "preferred" else asyncio.Event()
        """Event that is set when another gateway keeps committing to a topic of this one: their views differ, if owners are
        preferred."""
        self._own_id = own_id
        self._choose = choose

    def of_topic(self, topic: str) -> Peer | None:
        """Return the owner of the topic as a whole."""
        return self._owner(topic)

    def of_partition(self, topic: str, partition: int, owners: int) -> Peer | None:
        """Return the owner of the partition of a topic that ``owners`` gateways share."""
        return self._owner(topic, owners, partition)

    def of_group(self, group: str) -> Peer | None:
        """Return the gateway that coordinates the group."""
        # No topic has such a name: the slash keeps names of topics and groups apart.
        return self._owner(f"groups/{group}")

    def of_queue(self, queue: str) -> Peer | None:
        """Return the gateway that coordinates the queue: that of the group of its name, as Kafka's share groups need it."""
        return self.of_group(queue)

    def of_journal(self, journal: int) -> Peer | None:
        """Return the gateway that commits to the journal and drains it."""
        return self._owner(f"journals/{journal}")

    def view(self) -> tuple[str, ...]:
        """Return the instances that requests may go to now. While they stay the same, so do all owners."""
        return tuple(sorted(peer.instance for peer in self.peers.candidates().values()))

    def at_random(self) -> Peer | None:
        """Return a random gateway."""
        others = self.peers.candidates()
        return others.get(self._choose(sorted((self._own_id, *others))))

    def coordinates(self, group: str) -> bool:
        """Return whether this gateway should coordinate the group."""
        return self.mode == "off" or self.of_group(group) is None

    def coordinates_queue(self, queue: str) -> bool:
        """Return whether this gateway should coordinate the queue."""
        return self.mode == "off" or self.of_queue(queue) is None

    @property
    def adopts_groups(self) -> bool:
        """Whether this gateway claims groups and queues unasked.

        Without forwarding, gateways would take groups from each other for ever, and sessions would begin anew each time. A
        gateway that is alone takes them from no other.
        """
        return self.mode != "off" or not self.peers.count

    def _owner(self, name: str, owners: int = 1, partition: int | None = None) -> Peer | None:
        others = self.peers.candidates()
        if not others:
            return None
        best = preferred_gateway(name, (self._own_id, *others), owners=owners, partition=partition)
        return None if best is None else others.get(best)
