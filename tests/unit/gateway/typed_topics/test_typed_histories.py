"""Histories of a typed topic at two gateways: it moves, its schemas change, gateways die, and each record keeps its judgement."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.errors import BackOff, TopicReplaced
from log_format.schemas.columns.subject_readers import StoredReaders
from log_format.stores.memory import MemoryStore
from tests.support.engine import Gateway, batch_of, make_gateway
from tests.support.registry import record
from tests.support.typed_topic import register_in, stored_columns

STEPS = 40
SUBJECTS = ("a-value", "b-value")


class History:
    """Two gateways, one topic, and what each acknowledged record was judged to be.

    A version's default of member ``v`` is its number, and documents leave it out. So ``v`` says which version judged a record.
    Each second version has one more member, so that tables widen.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.objects = MemoryStore()
        self.gateways = [self._gateway(), self._gateway()]
        self.versions = dict.fromkeys(SUBJECTS, 0)
        self.judged: dict[int, int | None] = {}
        self.sent = 0

    def _gateway(self) -> Gateway:
        return make_gateway(objects=self.objects, overtake_ms=50)

    async def begin(self) -> None:
        """Make the topic."""
        for subject in SUBJECTS:
            await self.register(subject)
        await self.gateways[0].topic("t", flush_ms=1, commit_mode="shared", drain_ms=600_000, value_schema=SUBJECTS[0])

    async def register(self, subject: str) -> None:
        """Register the next version of the subject."""
        self.versions[subject] += 1
        version = 100 * SUBJECTS.index(subject) + self.versions[subject]
        more = {f"{subject[0]}{number}": (["null", "long"], None) for number in range(self.versions[subject] // 2)}
        register_in(self.objects, subject, record("Order", id="long", v=("long", version), **more))

    async def send(self, gateway: Gateway) -> None:
        """Produce a document until it is acknowledged, judged anew whenever the topic's schemas have changed meanwhile."""
        number, self.sent = self.sent, self.sent + 1
        while True:
            topic = await gateway.engine.open_topic("t")
            subjects = (await topic.fresh()).config.subjects
            batch, version = batch_of(topic, [b'{"id":%d}' % number]), None
            if subjects.are_set:
                typed = StoredReaders(self.objects, SystemClock()).newest(subjects).typed(batch.records)[0]
                version = typed.column("data")[0].as_py()["v"]
                batch = batch.with_typed(typed, subjects)
            await asyncio.sleep(self.rng.random() * 0.004)
            try:
                await topic.appending.await_acknowledgement(topic.submit(batch, None))
            except TopicReplaced:
                continue
            self.judged[number] = version
            return

    async def alter(self, gateway: Gateway) -> None:
        """Change the schema, or the place."""
        name, values = self.rng.choice(
            (
                ("value.schema", (*SUBJECTS, None)),
                ("commit.mode", ("own", "shared")),
                ("commit.mode", ("own", "shared")),
            )
        )
        try:
            await gateway.engine.administration.alter("t", None, {name: self.rng.choice(values)})
        except BackOff:
            return  # the other gateway changed it all the time

    async def drain(self, gateway: Gateway) -> None:
        """Drain some records, perhaps read from the store."""
        if self.rng.random() < 0.5:
            gateway.forget_tail()
        topic = await gateway.engine.open_topic("t")
        await topic.fresh()
        await topic.moving.drain()

    def die(self) -> None:
        """A gateway ends with the notes that it had not given to the journal yet; another takes its place."""
        self.gateways[self.rng.randrange(2)] = self._gateway()

    async def step(self) -> None:
        """Some things at once."""
        works: list[Callable[[Gateway], Awaitable[None]]] = [self.send, self.send, self.send]
        works += self.rng.choices((self.alter, self.drain), k=2)
        if self.rng.random() < 0.3:
            await self.register(self.rng.choice(SUBJECTS))
        await asyncio.gather(*(work(self.rng.choice(self.gateways)) for work in works))
        if self.rng.random() < 0.1:
            self.die()


@pytest.mark.parametrize("seed", range(4))
async def test_each_record_has_the_columns_of_its_judgement(seed: int) -> None:
    """Wherever it was acknowledged, whoever drained it, and whatever was registered or altered before that."""
    history = History(seed)
    await history.begin()
    for _ in range(STEPS):
        await history.step()
    last = make_gateway(objects=history.objects)
    topic = await last.engine.open_topic("t")
    await topic.fresh()
    await topic.moving.drain_all()
    found = stored_columns(history.objects, "t")
    assert len(found) == history.sent == 3 * STEPS
    assert [error for _, error in found if error is not None] == []
    assert sum(data is not None for data, _ in found) > STEPS
    has = {data["id"]: data["v"] for data, _ in found if data is not None}
    assert has == {number: version for number, version in history.judged.items() if version is not None}
    state = TopicLog(history.objects, "t", SystemClock()).refresh()
    assert state.next_offsets.tolist() == [history.sent]
    assert state.columns.data is not None
    members = {name for data, _ in found if data is not None for name in data}
    assert len(members) > 2
    assert members <= {field.name for field in state.columns.data}, "the table has all columns of its segments"
