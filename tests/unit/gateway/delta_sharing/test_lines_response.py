"""Answers in pieces: rights are judged before each, and a part is never taken for the whole."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.delta_sharing.lines_response import LinesResponse, Piece
from gateway.engine.pool import Pool
from gateway.memory_budget import MemoryBudget
from log_format.errors import CorruptData, RequestRefused, TidelogError


class Sent:
    """What a client got."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    async def send(self, message: Any) -> None:
        self.messages.append(message)

    async def receive(self) -> Any:
        raise AssertionError("the request has no body")

    @property
    def lines(self) -> int:
        return sum(message.get("body", b"").count(b"\n") for message in self.messages)

    @property
    def is_whole(self) -> bool:
        return len(self.messages) > 1 and not self.messages[-1].get("more_body", False)


async def answered(pieces: Iterator[Piece], allowed: int) -> tuple[Sent, TidelogError | None, tuple[int, int], int]:
    """What is sent, the error that ends it, the bytes and files that are told, and the bytes of memory still held. The right is
    there for so many looks."""
    sent, budget, given = Sent(), MemoryBudget(1 << 20, "answers"), list[tuple[int, int]]()
    looks = itertools.count(1)

    async def check() -> None:
        await asyncio.sleep(0)
        if next(looks) > allowed:
            raise RequestRefused("no more")

    async def give(size_bytes: int, count: int) -> None:
        await asyncio.sleep(0)
        given.append((size_bytes, count))

    reservation = await budget.of("a").reserve_in_turn(100, wait_ms=0, waiting_max=1)
    response = LinesResponse(pieces, headers={}, pool=Pool("t", 1), reservation=reservation, check=check, give=give)
    error: TidelogError | None = None
    try:
        await response({}, sent.receive, sent.send)
    except TidelogError as problem:
        error = problem
    return sent, error, (sum(each[0] for each in given), sum(each[1] for each in given)), reservation.size_bytes


async def test_an_answer_is_sent_as_it_is_made() -> None:
    """All pieces, their bytes and files told, the memory given back."""
    sent, error, given, held = await answered(iter([Piece([{}], 5, 1), Piece([{}, {}], 7, 2)]), 100)
    assert (sent.lines, sent.is_whole, error, given, held) == (3, True, None, (12, 3), 0)


@pytest.mark.parametrize("allowed", range(4))
async def test_nothing_is_made_for_one_who_lost_the_right(allowed: int) -> None:
    """From the look on that finds it gone no URL is signed, and the answer does not end as a whole one does."""
    made = itertools.count(1)

    def pieces() -> Iterator[Piece]:
        for _ in range(50):
            next(made)
            yield Piece([{}], 1, 2)

    sent, error, given, held = await answered(pieces(), allowed)
    assert isinstance(error, RequestRefused)
    assert (sent.lines, given, held) == (allowed, (allowed, 2 * allowed), 0)
    assert next(made) == allowed + 1
    assert not sent.is_whole


async def test_damage_that_is_found_late_ends_the_answer_early() -> None:
    """Before the first piece it is a refusal like any other; later the client sees that something is missing."""

    def damaged(after: int) -> Iterator[Piece]:
        yield from [Piece([{}])] * after
        raise CorruptData("damaged")

    for after in (0, 2):
        sent, error, _, held = await answered(damaged(after), 100)
        assert isinstance(error, CorruptData)
        assert (sent.is_whole, bool(sent.messages), held) == (False, after > 0, 0)
