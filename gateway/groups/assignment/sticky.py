"""Sticky assignment: spreads partitions evenly while as few as possible move (KIP-54, KIP-429).

1. A member keeps the partitions that it had and may still have.
2. A free partition goes to the member with the fewest partitions; partitions of topics with the fewest subscribers go first.
3. While a partition can go to a member with at least two partitions fewer than its holder, it goes there; the holder with the
   most gives first. So counts of members with the same subscription differ by one at most, and as few partitions move as that
   allows.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

Partition = tuple[str, int]


def assign_sticky(
    subscriptions: Sequence[AbstractSet[str]], before: Sequence[AbstractSet[Partition]], counts: Mapping[str, int]
) -> list[set[Partition]]:
    """Return each member's partitions; members are identified by their index in ``subscriptions``.

    Args:
        subscriptions: topics of each member.
        before: partitions that each member had.
        counts: number of partitions of each existing topic.
    """
    balance = _Balance(subscriptions, counts)
    free: list[Partition] = []
    had = {partition: member for member, partitions in enumerate(before) for partition in partitions}
    for topic in counts:
        readers = balance.readers[topic]
        for number in range(counts[topic]):
            member = had.get((topic, number))
            if member is not None and topic in subscriptions[member]:
                balance.give((topic, number), member)
            elif readers:
                free.append((topic, number))
    for partition in sorted(free, key=lambda one: (len(balance.readers[one[0]]), one)):
        balance.give(partition, balance.least(partition[0]))
    balance.even_out()
    return balance.given


class _Balance:
    """The partitions of each member. ``least`` takes about constant time.

    One heap serves all topics with the same readers; stale entries are dropped when they come up.
    """

    def __init__(self, subscriptions: Sequence[AbstractSet[str]], counts: Mapping[str, int]) -> None:
        self.given: list[set[Partition]] = [set() for _ in subscriptions]
        self.readers: dict[str, list[int]] = {topic: [] for topic in counts}
        for member, topics in enumerate(subscriptions):
            for topic in sorted(topics & counts.keys()):
                self.readers[topic].append(member)
        shared = {tuple(readers): [(0, member) for member in readers] for readers in self.readers.values()}
        self._heaps = {topic: shared[tuple(readers)] for topic, readers in self.readers.items()}
        self._heaps_of: list[list[list[tuple[int, int]]]] = [[] for _ in subscriptions]
        for readers, heap in shared.items():
            for member in readers:
                self._heaps_of[member].append(heap)

    def give(self, partition: Partition, member: int) -> None:
        """Give a partition to a member."""
        self.given[member].add(partition)
        self._changed(member)

    def least(self, topic: str) -> int:
        """Return the member with the fewest partitions among the topic's subscribers; the first of equals."""
        heap = self._heaps[topic]
        while heap[0][0] != len(self.given[heap[0][1]]):
            heapq.heappop(heap)
        return heap[0][1]

    def even_out(self) -> None:
        """Move partitions until no single move makes counts more even. Each move lowers the sum of squares, so this ends.

        The member with the most partitions gives first, so that none gives more than it must.
        """
        while self._round():
            pass

    def _round(self) -> bool:
        """Look at each partition once, and move it if that helps; return whether any was moved."""
        moved = False
        queues: dict[int, list[Partition]] = {}
        largest = [(-len(partitions), member) for member, partitions in enumerate(self.given)]
        heapq.heapify(largest)
        while largest:
            negative_count, member = heapq.heappop(largest)
            if -negative_count == len(self.given[member]):
                if member not in queues:
                    queues[member] = sorted(self.given[member])
                if not self._move_one(member, queues[member]):
                    continue
                moved = True
            heapq.heappush(largest, (-len(self.given[member]), member))
        return moved

    def _move_one(self, member: int, queue: list[Partition]) -> bool:
        while queue:
            partition = queue.pop()
            taker = self.least(partition[0])
            if len(self.given[member]) - len(self.given[taker]) >= 2:
                self.given[member].discard(partition)
                self._changed(member)
                self.give(partition, taker)
                return True
        return False

    def _changed(self, member: int) -> None:
        count = len(self.given[member])
        for heap in self._heaps_of[member]:
            heapq.heappush(heap, (count, member))
