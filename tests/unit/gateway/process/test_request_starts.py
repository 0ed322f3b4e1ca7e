"""Requests that come together are begun a few in each turn of the event loop."""

from __future__ import annotations

import asyncio
from functools import partial

from gateway.process.request_starts import RequestStarts


async def test_a_burst_leaves_turns_to_others() -> None:
    """What is due meanwhile runs after a few of them, and all are begun in order."""
    starts, begun = RequestStarts(per_turn=3), list[int]()
    for number in range(8):
        starts.start(partial(begun.append, number))
    assert begun == [0, 1, 2]
    seen = []
    while len(begun) < 8:
        await asyncio.sleep(0)
        seen.append(len(begun))
    assert seen == [6, 8]
    assert begun == list(range(8))


async def test_a_request_alone_is_begun_at_once() -> None:
    """Also after a burst."""
    starts, begun = RequestStarts(per_turn=1), list[int]()
    for number in range(3):
        starts.start(partial(begun.append, number))
        await asyncio.sleep(0)
        assert begun == list(range(number + 1))


async def test_none_overtakes_those_that_wait() -> None:
    """One that comes while others wait for their turn is begun behind them."""
    starts, begun = RequestStarts(per_turn=1), list[int]()
    starts.start(partial(begun.append, 0))
    starts.start(partial(begun.append, 1))
    asyncio.get_running_loop().call_soon(starts.start, partial(begun.append, 2))
    for _ in range(4):
        await asyncio.sleep(0)
    assert begun == [0, 1, 2]
