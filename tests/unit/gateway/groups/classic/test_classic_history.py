"""Two gateways that both believe to coordinate a group: no commit of an older generation succeeds after one of a newer, and
within a generation no partition is two members'."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter

from gateway.groups.classic.consumer_protocol import assigned_partitions, assignment_of
from gateway.groups.classic.refusal import Rebalancing
from log_format.errors import BackOff, OutcomeUnknown, TidelogError
from log_format.groups.changes import CoordinatorFenced
from tests.support.classic_groups import ClassicWorld, GroupsInMemory, settled, wish_of

CLIENTS = 4
STEPS = 150
PARTITIONS = 6
SEEDS = 20


class _History:
    """What clients did, and what must hold of it."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.table = GroupsInMemory()
        self.worlds = [ClassicWorld(self.table), ClassicWorld(self.table)]
        self.holders: dict[tuple[int, int], str] = {}
        self.newest = 0
        self.counts: Counter[str] = Counter()

    async def run(self) -> None:
        """Clients, take-overs, time and failures, in an order that follows from the seed."""
        for world in self.worlds:
            await world.claim(str(id(world)))
        clients = [asyncio.create_task(self._client(number)) for number in range(CLIENTS)]
        for _ in range(STEPS):
            await self._step()
        for client in clients:
            client.cancel()
        ended = await asyncio.gather(*clients, return_exceptions=True)
        assert all(isinstance(one, asyncio.CancelledError) for one in ended), ended

    async def _step(self) -> None:
        chance = self.chance.random()
        if chance < 0.06:
            world = self.chance.choice(self.worlds)
            with contextlib.suppress(TidelogError):
                await world.claim(str(id(world)))
        elif chance < 0.12:
            self.table.fails = self.chance.choice([BackOff("not now"), OutcomeUnknown("perhaps")])
        for world in self.worlds:
            with contextlib.suppress(TidelogError):
                await world.passes(self.chance.choice((100, 500, 3_000)))
        await settled()

    async def _client(self, number: int) -> None:
        member_id = ""
        while True:
            world = self.chance.choice(self.worlds)
            instance = f"i{number}" if number == 0 else None
            try:
                member_id = await self._life(world, member_id, instance)
            except Rebalancing:
                pass
            except CoordinatorFenced:
                await asyncio.sleep(0)
            except TidelogError:
                member_id = ""
            for _ in range(self.chance.randrange(1, 40)):
                await asyncio.sleep(0)

    async def _life(self, world: ClassicWorld, member_id: str, instance: str | None) -> str:
        """Join, get an assignment, and commit until something happens. The member's id, unless it has left."""
        group, new_id = world.group, f"{instance}-{self.chance.randrange(10**9)}"
        joined = await group.join(wish_of(member_id, instance=instance, requires_id=True), new_id)
        if joined is None:
            return new_id
        me, generation = joined.member_id, joined.generation
        names = [name for name, _, _ in joined.members]
        plans: dict[str, bytes] = {}
        for turn, name in enumerate(names):
            plans[name] = assignment_of({"t": tuple(range(turn, PARTITIONS, len(names)))})
        given = await group.sync(me, instance, generation, None, {} if joined.skip_assignment else plans)
        mine = assigned_partitions(given).get("t", ())
        for partition in mine:
            holder = self.holders.setdefault((generation, partition), me)
            is_successor = holder.partition("-")[0] == me.partition("-")[0] and instance is not None
            assert holder == me or is_successor, (generation, partition, holder, me)
        self.counts["generations"] += 1
        for _ in range(self.chance.randrange(1, 12)):
            await self._commit(me, generation)
            for _ in range(self.chance.randrange(60)):
                await asyncio.sleep(0)
            if self.chance.random() < 0.8:  # else it is a zombie that commits what it has
                group.heartbeat(me, instance, generation)
        if self.chance.random() < 0.3:
            await group.leave([(me, instance)])
            return ""
        return me

    async def _commit(self, member_id: str, generation: int) -> None:
        """Through a gateway that does not coordinate the group: only the table judges it."""
        refusal = await self.table.commit(member_id, generation, self.counts["accepted"])
        if refusal is not None:
            self.counts["refused"] += 1
            return
        assert generation >= self.newest, f"generation {generation} committed after {self.newest}"
        self.newest = generation
        self.counts["accepted"] += 1


async def test_no_older_generation_commits_after_a_newer() -> None:
    """Whichever gateway takes the group from which, and whatever fails amid it."""
    counts: Counter[str] = Counter()
    for seed in range(SEEDS):
        history = _History(seed)
        try:
            await history.run()
        except AssertionError as problem:
            raise AssertionError(f"seed {seed}: {problem}") from problem
        counts += history.counts
    assert counts["accepted"] > 50 * SEEDS, counts
    assert counts["generations"] > 10 * SEEDS, counts
    assert counts["refused"] > SEEDS, counts
