"""One partition in a coordinator's memory: what is available, held, settled."""

from __future__ import annotations

import random

import numpy as np

from gateway.queues.queue_partition import BUSY, LEASED, HeldRange, Lease, QueuePartition
from log_format.queues.runs import RELEASED, SETTLED, Run
from log_format.queues.state import PartitionSettlements


def share(*runs: Run, start: int = 0) -> QueuePartition:
    return QueuePartition("q", "t", ("t-id", 0), PartitionSettlements("t", start, runs))


def taken(one: QueuePartition, end: int, count: int = 100, now_ms: int = 0) -> list[tuple[int, int, int]]:
    found = []
    while (held := one.acquire(now_ms=now_ms, end=end, count_max=count)) is not None:
        found.append((held.first, held.last, held.count))
    return found


def test_what_is_available_goes_by_the_runs() -> None:
    """Released records come with their count once their time has come; settled ones never; the rest is new."""
    one = share(Run(2, 3, SETTLED), Run(5, 6, RELEASED, 2), Run(8, 8, RELEASED, 1, due_ms=50))
    assert taken(one, 10) == [(0, 1, 0), (4, 4, 0), (5, 6, 2), (7, 7, 0), (9, 9, 0)]
    assert taken(one, 10, now_ms=49) == []
    one.restart_search()
    assert taken(one, 10, now_ms=50) == [(8, 8, 1)]


def test_nothing_is_held_twice_and_what_is_let_go_is_available() -> None:
    """Whatever is taken and let go: no offset is given while it is held, and none is forgotten."""
    rng = random.Random(3)
    one, held = share(Run(4, 6, SETTLED), start=1), list[HeldRange]()
    for _ in range(500):
        if held and rng.random() < 0.5:
            one.release(held.pop(rng.randrange(len(held))))
        elif (found := one.acquire(now_ms=0, end=30, count_max=rng.randrange(1, 5))) is not None:
            held.append(found)
            if found.last > found.first and rng.random() < 0.5:
                held.append(one.part(found, found.first + 1, found.last))
        offsets = [offset for part in held for offset in range(part.first, part.last + 1)]
        assert len(offsets) == len(set(offsets)) == one.in_flight
        assert not set(offsets) & {0, 4, 5, 6}
    for part in held:
        one.release(part)
    assert [span[:2] for span in taken(one, 30)] == [(1, 3), (7, 29)]


def test_a_barrier_holds_back_what_may_be_leased() -> None:
    """Below the barrier nothing is given; without it everything is."""
    one = share()
    one.give_none_below(5)
    assert taken(one, 8) == [(5, 7, 0)]
    one.give_none_below(None)
    assert taken(one, 8) == [(0, 4, 0)]


def test_offsets_without_a_record_go_with_the_record_before_them() -> None:
    """A settlement of one record takes along what a filter left out behind it, so that the start offset moves."""
    one = share()
    held = one.hold(HeldRange(0, 9, 0))
    lease = Lease("1-1", one, {held: None}, offsets=np.array([2, 5], np.int64))
    held.leased_by, held.state = lease, LEASED
    one.count(held, 2)
    assert lease.whole(2, 2) == (0, 4)
    assert lease.whole(5, 5)[0] == 5
    part = one.part(held, 0, 4)
    assert (part.record_count, one.in_flight) == (1, 2)
    assert one.leased_parts(lease, 5, 9) is not None
    part.state = BUSY
    assert one.leased_parts(lease, 2, 5) is None


def test_a_log_start_settles_what_it_removes() -> None:
    """Retention moves the start offset, and runs before it are gone."""
    one = share(Run(2, 3, RELEASED, 1), Run(6, 7, RELEASED, 1))
    one.follow(PartitionSettlements("t", 0, one.runs), 5, 1_000)
    assert (one.start, one.runs) == (5, (Run(6, 7, RELEASED, 1),))
    assert one.unsettled(9) == 4
    assert one.moved_ms == 1_000
