"""What a coordinator has claimed: one claim for all who ask at once, and an item stays until it is removed."""

from __future__ import annotations

import asyncio

from gateway.system_tables.claims import Claims
from log_format.errors import BackOff


class _Table:
    """Counts claims, each of which waits until ``stands``; ``refused`` of them fail."""

    def __init__(self, refused: int = 0) -> None:
        self.claimed: list[str] = []
        self.stands = asyncio.Event()
        self._refused = refused
        self.claims = Claims(self._claim)

    async def _claim(self, name: str) -> object:
        self.claimed.append(name)
        await self.stands.wait()
        if len(self.claimed) <= self._refused:
            raise BackOff("not now")
        item = object()
        self.claims.add(name, item)
        return item


async def test_concurrent_calls_share_a_claim() -> None:
    """All get the same item; a call that goes away ends nothing for the others; another name has a claim of its own."""
    table = _Table()
    calls = [asyncio.create_task(table.claims.claim("a")) for _ in range(3)]
    other = asyncio.create_task(table.claims.claim("b"))
    await asyncio.sleep(0)
    calls[0].cancel()
    await asyncio.sleep(0)
    table.stands.set()
    first, second = await asyncio.gather(*calls[1:])
    assert first is second is table.claims.get("a")
    assert await other is table.claims.get("b")
    assert table.claimed == ["a", "b"]
    assert list(table.claims) == [first, await other]


async def test_a_failed_claim_is_no_claim() -> None:
    """All who waited get the failure, and the next call claims again."""
    table = _Table(refused=1)
    table.stands.set()
    failures = await asyncio.gather(table.claims.claim("a"), table.claims.claim("a"), return_exceptions=True)
    assert [type(failure) for failure in failures] == [BackOff, BackOff]
    assert table.claims.get("a") is None
    assert await table.claims.claim("a") is table.claims.get("a")
    assert table.claimed == ["a", "a"]


async def test_an_item_is_removed_unless_another_took_its_place() -> None:
    """Who still has the former item takes nothing from the present one."""
    claims = _Table().claims
    former, present = object(), object()
    assert claims.add("a", former) is None
    assert claims.add("a", present) is former
    assert not claims.remove("a", former)
    assert claims.get("a") is present
    assert claims.remove("a", present)
    assert not claims.remove("a")
    assert len(claims) == 0


async def test_a_wait_ends_with_the_first_item() -> None:
    """It tells whether there was something to wait for."""
    claims = _Table().claims
    waits = asyncio.create_task(claims.wait_for_any())
    await asyncio.sleep(0)
    assert not waits.done()
    claims.add("a", object())
    assert await waits
    assert not await claims.wait_for_any()
