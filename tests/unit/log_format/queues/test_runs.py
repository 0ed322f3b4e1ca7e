"""What of a partition is settled: a start offset and runs."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from log_format.queues.runs import DEAD, RELEASED, SETTLED, Run, join_runs, overlay_runs


def test_settlements_in_any_order_leave_no_run() -> None:
    """Ranges that are settled in any order join, and move the start offset when they reach it."""
    rng = random.Random(1)
    ranges = [(first, first + 9) for first in range(0, 200, 10)]
    rng.shuffle(ranges)
    start, runs = 0, tuple[Run, ...]()
    for number, (first, last) in enumerate(ranges, 1):
        start, runs = overlay_runs(start, runs, [Run(first, last, SETTLED)])
        assert len(runs) <= number
    assert (start, runs) == (200, ())


def test_a_run_replaces_what_was_known_of_its_offsets() -> None:
    """The rest of a run that is covered in part stays as it was."""
    before = (Run(5, 20, RELEASED, 2),)
    start, runs = overlay_runs(0, before, [Run(8, 9, SETTLED), Run(12, 30, DEAD, 3, 0, "why")])
    assert start == 0
    assert runs == (
        Run(5, 7, RELEASED, 2),
        Run(8, 9, SETTLED),
        Run(10, 11, RELEASED, 2),
        Run(12, 30, DEAD, 3, 0, "why"),
    )


def test_runs_agree_with_a_map_of_offsets() -> None:
    """Whatever is laid over whatever: each offset has the newest state."""
    rng = random.Random(2)
    for _ in range(200):
        model: dict[int, tuple[int, int]] = {}
        start, runs = 0, tuple[Run, ...]()
        for _ in range(20):
            first = rng.randrange(40)
            run = Run(first, first + rng.randrange(6), rng.choice((SETTLED, RELEASED, DEAD)), rng.randrange(3))
            if run.first < start:
                continue
            start, runs = overlay_runs(start, runs, [run])
            model |= dict.fromkeys(range(run.first, run.last + 1), (run.state, run.count))
            assert all(one.last < other.first for one, other in pairwise(runs))
            found = {offset: (run.state, run.count) for run in runs for offset in range(run.first, run.last + 1)}
            for offset, (state, count) in model.items():
                if offset >= start:
                    assert found[offset][0] == state
                    assert state == SETTLED or found[offset][1] == count
                else:
                    assert state == SETTLED
            assert set(found) <= set(model)


@pytest.mark.parametrize("state", [RELEASED, DEAD])
def test_runs_of_another_count_do_not_join(state: int) -> None:
    """Neighbours are one run only where everything is the same; of settled ones the count does not matter."""
    assert len(join_runs([Run(0, 1, state, 1), Run(2, 3, state, 2)])) == 2
    assert join_runs([Run(2, 3, state, 1), Run(0, 1, state, 1)]) == (Run(0, 3, state, 1),)
    assert join_runs([Run(5, 6, SETTLED, 1), Run(7, 8, SETTLED, 4)])[0].last == 8
