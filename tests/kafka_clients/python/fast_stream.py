"""What a program of FastStream does: publish, groups with manual acknowledgement, again what was not acknowledged, batches.

Arguments: bootstrap servers, prefix of topics and groups, ``aiokafka`` or ``confluent``.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Annotated, Any

from faststream import AckPolicy, Context

from tests.kafka_clients.python import topics

COUNT = 60
SECONDS = 60
Handler = Callable[..., Coroutine[Any, Any, None]]
Message = Annotated[Any, Context("message")]


class Seen:
    """Values in the order in which they came."""

    def __init__(self) -> None:
        self.values: list[str] = []
        self._last = time.monotonic()

    def add(self, *values: str) -> None:
        """Those came now."""
        self.values += values
        self._last = time.monotonic()

    async def has(self, count: int, *, and_no_more: bool = True) -> None:
        """Return when so many came, and 2 seconds brought none. Raises ``AssertionError`` after a minute."""
        late = time.monotonic() + SECONDS
        while len(self.values) < count or (and_no_more and time.monotonic() < self._last + 2):
            assert time.monotonic() < late, f"{len(self.values)} of {count}"
            await asyncio.sleep(0.02)

    def expect(self, wanted: Sequence[str], what: str) -> None:
        """Each of them came once."""
        counts = Counter(self.values)
        missing = sorted(set(wanted) - set(counts))
        assert counts == Counter(wanted), (
            f"{what}: {len(self.values)} came, without {missing[:5]}, {counts.most_common(2)}"
        )


class Program:
    """One library below FastStream."""

    def __init__(self, servers: str, prefix: str, library: str) -> None:
        self._servers, self._prefix = servers, prefix
        self._module = importlib.import_module(
            {"aiokafka": "faststream.kafka", "confluent": "faststream.confluent"}[library]
        )

    def name(self, name: str) -> str:
        """Of a topic, and of the group that reads it."""
        return f"{self._prefix}.{name}"

    def broker(self) -> Any:
        """A new one, which does not run."""
        return self._module.KafkaBroker(self._servers, logger=None)

    def subscribed(self, topic: str, handler: Handler, **more: Any) -> Any:
        """A broker with one subscriber, a member of the topic's group that begins at the topic's beginning."""
        broker = self.broker()
        name = self.name(topic)
        broker.subscriber(name, group_id=name, auto_offset_reset="earliest", **more)(handler)
        return broker

    async def publish(self, topic: str, word: str) -> list[str]:
        """Half of them one by one, with keys and headers, half of them in a batch."""
        values = [f"{word} {number}" for number in range(COUNT)]
        single, batch = values[: COUNT // 2], values[COUNT // 2 :]
        more = {"topic": self.name(topic)}
        async with self.broker() as broker:
            sent = (broker.publish(value, key=value.encode(), headers={"value": value}, **more) for value in single)
            await asyncio.gather(*sent)
            await broker.publish_batch(*batch, **more)
        return values


async def manual(program: Program) -> None:
    """A member acknowledges by hand and is stopped midway, two others go on."""
    wanted = await program.publish("manual", "first")
    seen = Seen()

    async def handle(value: str, message: Message) -> None:
        await message.ack()
        seen.add(value if message.headers.get("value", value) == value else f"{value} {message.headers}")

    def member() -> Any:
        return program.subscribed("manual", handle, ack_policy=AckPolicy.MANUAL)

    async with member() as first:
        await first.start()
        await seen.has(COUNT // 3, and_no_more=False)
    async with member() as one, member() as other:
        await asyncio.gather(one.start(), other.start())
        await seen.has(COUNT)
        wanted += await program.publish("manual", "second")
        await seen.has(2 * COUNT)
    seen.expect(wanted, "records of a group with manual acknowledgement")


async def again(program: Program) -> None:
    """A record whose handler fails comes again; the group goes on behind it."""
    wanted = await program.publish("again", "again")
    done, failed, later = Seen(), Seen(), Seen()

    async def handle(value: str) -> None:
        if value.endswith("7") and value not in failed.values:
            failed.add(value)
            raise RuntimeError(value)
        done.add(value)

    async def handle_later(value: str) -> None:
        later.add(value)

    async with program.subscribed("again", handle, ack_policy=AckPolicy.NACK_ON_ERROR) as broker:
        await broker.start()
        await done.has(COUNT)
    failed.expect([value for value in wanted if value.endswith("7")], "records that failed")
    done.expect(wanted, "records of which some failed once")
    wanted = await program.publish("again", "more")
    async with program.subscribed("again", handle_later, ack_policy=AckPolicy.ACK) as broker:
        await broker.start()
        await later.has(COUNT)
    later.expect(wanted, "records after failures")


async def batches(program: Program, word: str) -> None:
    """Batches, acknowledged when they are done, in a group that was stopped before."""
    wanted = await program.publish("batches", word)
    seen, sizes = Seen(), set()

    async def handle(values: list[str]) -> None:
        seen.add(*values)
        sizes.add(len(values))

    reading = program.subscribed("batches", handle, batch=True, max_records=20, ack_policy=AckPolicy.ACK)
    async with reading as broker:
        await broker.start()
        await seen.has(COUNT)
    seen.expect(wanted, f"{word} records in batches")
    assert 1 < max(sizes) <= 20, sizes


async def main(servers: str, prefix: str, library: str) -> None:
    """Raises for what is not as it should be."""
    program = Program(servers, prefix, library)
    topics.create(servers, *(program.name(name) for name in ("manual", "again", "batches")))
    await manual(program)
    await again(program)
    await batches(program, "early")
    await batches(program, "late")
    print("all is as it should be")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
