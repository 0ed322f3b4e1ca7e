"""The history costs two PUTs in five minutes at most, and nothing while nothing happens; it survives outages and ends."""

from __future__ import annotations

import json

import pytest

from gateway.metrics_history.reading import MetricsHistory
from gateway.metrics_history.series import Grid
from gateway.monitoring.maintenance_watch import MaintenanceWatch
from gateway.process.metrics_history import make_alarms, make_history
from gateway.settings.settings import Settings
from gateway.telemetry.metrics import Metrics
from log_format.errors import StoreUnavailable
from log_format.layout import METRICS_TOPIC, topic_root
from log_format.stores.memory import MemoryStore
from tests.support.clocks import EPOCH_MS, ManualClock
from tests.support.engine import Gateway, make_gateway
from tests.support.lone_gateway import lone_gateway

MINUTE_MS = 60_000
SETTINGS = Settings(store="memory://metrics", gateway_id="g1", log_level="error")


class _Recorded:
    """A gateway with a history, on a clock of its own."""

    def __init__(self, clock: ManualClock, other: _Recorded | None = None, gateway_id: str = "g1") -> None:
        self.clock = clock
        self.gateway: Gateway = make_gateway(None, None if other is None else other.gateway.store, clock=clock)
        metrics = Metrics()
        metrics.registry = self.gateway.registry
        engine = self.gateway.engine
        settings = SETTINGS.model_copy(update={"gateway_id": gateway_id})
        whole = lone_gateway(settings, engine)
        ownership = engine.groups.lag_watch._ownership
        self.settings = settings
        self.history: MetricsHistory = make_history(settings, engine, ownership, metrics, whole.codec_pool)
        assert self.history.recorder is not None
        self.recorder = self.history.recorder

    async def minutes(self, count: int, *, appends: int = 0) -> None:
        """Let minutes pass, with this many acknowledged records in each."""
        for _ in range(count):
            self.gateway.engine._metrics.appended_records.inc(appends)
            self.clock.pass_ms(MINUTE_MS)
            await self.recorder.minute()
            if self.recorder.is_due:
                await self.recorder.write()

    async def values(self, series: str, minutes: int, step_minutes: int = 1) -> list[float | None]:
        """The values of a series of the cluster since the beginning."""
        step_ms = step_minutes * MINUTE_MS
        grid = Grid(since_ms=EPOCH_MS // step_ms * step_ms, step_ms=step_ms, count=-(-minutes // step_minutes))
        found = await self.history.reader.read([series], grid, "cluster", self.gateway.memory)
        return list(found.series[0].values) if found.series else []

    def puts(self) -> int:
        """PUTs below the topic of metrics."""
        root, requests = topic_root(METRICS_TOPIC), self.gateway.store.requests
        return sum(1 for name, key in requests if name.startswith("put") and key.startswith(root))


@pytest.fixture
def recorded() -> _Recorded:
    return _Recorded(ManualClock())


async def test_an_hour_of_events_costs_two_puts_in_five_minutes(recorded: _Recorded) -> None:
    """24 an hour, beside those that create the topic, and a checkpoint after many commits."""
    await recorded.minutes(5, appends=1)
    created = recorded.puts()
    await recorded.minutes(60, appends=1)
    assert recorded.puts() - created <= 25
    assert await recorded.values("produced_records", 65) == [1.0] * 65
    await recorded.gateway.engine.drain()


async def test_nothing_is_written_while_nothing_happens(recorded: _Recorded) -> None:
    """Neither before the first event, nor after the last one, nor because the history is read."""
    await recorded.minutes(60)
    assert not [key for name, key in recorded.gateway.store.requests if name.startswith("put")]
    await recorded.minutes(5, appends=3)
    written = recorded.puts()
    for _ in range(12):
        assert (await recorded.values("produced_records", 65))[60:] == [3.0] * 5
        await recorded.minutes(60)
    assert recorded.puts() == written
    await recorded.minutes(5, appends=3)
    assert recorded.puts() == written + 2
    await recorded.gateway.engine.drain()


async def test_a_quiet_time_is_one_interval_without_events(recorded: _Recorded) -> None:
    """It is told apart from a time without a gateway, and thins out no busy quarter-hour."""
    await recorded.minutes(15, appends=2)
    await recorded.minutes(307)
    await recorded.minutes(18, appends=2)
    per_minute = await recorded.values("produced_records", 340)
    assert per_minute == [2.0] * 15 + [0.0] * 307 + [2.0] * 18
    quarters = await recorded.values("produced_records", 340, step_minutes=15)
    assert sum(value or 0 for value in quarters) == pytest.approx(66, abs=0.1)
    assert (quarters[0] or 0) > 15
    assert sum(value or 0 for value in quarters[-2:]) > 25
    await recorded.gateway.engine.drain()


async def test_coarser_intervals_come_with_each_write(recorded: _Recorded) -> None:
    """A gateway that is killed loses the minutes since its last write, and no quarter-hour or hour."""
    await recorded.minutes(7, appends=4)
    for step_minutes in (1, 15, 60):
        values = await recorded.values("produced_records", 60, step_minutes)
        assert sum(value or 0 for value in values) == pytest.approx(20, abs=0.1)
    await recorded.gateway.engine.drain()


async def test_minutes_of_an_outage_come_after_it_once(recorded: _Recorded) -> None:
    """Also those of the write whose answer was lost."""
    await recorded.minutes(5, appends=1)
    store, lost = recorded.gateway.store, False

    def lose_the_answer(operation: str, key: str) -> None:
        nonlocal lost
        if operation == "put_if_absent" and "_delta_log" in key and not lost:
            lost = True
            store.go_down()
            raise StoreUnavailable(key, "the answer is lost", may_have_happened=True)

    store.after = lose_the_answer
    await recorded.minutes(5, appends=1)
    assert lost
    store.come_back()
    await recorded.minutes(10, appends=1)
    values = await recorded.values("produced_records", 25)  # the clock passes during retries, too
    assert sum(value or 0 for value in values) == pytest.approx(20, abs=0.01)
    fetched = await recorded.gateway.fetch(topic=METRICS_TOPIC, records=1_000)
    keys = [key for table in fetched.records.tables for key in table.column("key").to_pylist()]
    assert len(keys) == len(set(keys)), "a minute is in the log twice"
    await recorded.gateway.engine.drain()


async def test_gateways_add_up_and_a_successor_goes_on(recorded: _Recorded) -> None:
    """A cluster's counts are sums, and another process of the same name adds to the history."""
    other = _Recorded(recorded.clock, recorded, "g2")
    recorded.gateway.engine._metrics.appended_records.inc(5)
    other.gateway.engine._metrics.appended_records.inc(7)
    recorded.clock.pass_ms(MINUTE_MS)
    for each in (recorded, other):
        await each.recorder.minute()
        await each.recorder.write()
    assert await recorded.values("produced_records", 1) == [12.0]
    successor = _Recorded(recorded.clock, recorded)
    await successor.minutes(5, appends=1)
    assert await other.values("produced_records", 6) == [12.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    for each in (recorded, other, successor):
        await each.gateway.engine.drain()


async def test_what_waits_is_written_at_the_end_of_a_gateway_that_ran_for_long(recorded: _Recorded) -> None:
    """One that ends earlier leaves nothing."""
    for minutes, expected in ((3, []), (8, [1.0] * 8)):
        each = _Recorded(ManualClock())
        each.recorder.start()
        await each.minutes(minutes, appends=1)
        await each.recorder.stop()
        assert await each.values("produced_records", minutes) == expected
        await each.gateway.engine.drain()


async def test_what_is_no_interval_is_left_out(recorded: _Recorded) -> None:
    """With auth=off anyone can append to the topic."""
    await recorded.minutes(5, appends=1)
    topic = await recorded.gateway.engine.open_topic(METRICS_TOPIC)
    values = [b"{", b"\xff", b'{"gateway": 1}']
    for bound, count in (("x", 1), ("nan", 1), ("1", -1), ("1", 10**400)):
        interval = {"gateway": "g", "run": 1, "start": EPOCH_MS, "end": EPOCH_MS + MINUTE_MS}
        values.append(json.dumps(interval | {"latencies": {"commit": {bound: count}}}).encode())
    await recorded.gateway.append(topic, values, keys=[b"%d" % number for number in range(len(values))])
    assert await recorded.values("produced_records", 5) == [1.0] * 5
    assert await recorded.values("commit_p99_ms", 5) == []
    await recorded.gateway.engine.drain()


@pytest.mark.parametrize(("history", "expected"), [(True, 7), (False, 6)])
async def test_one_look_at_the_lag_serves_history_and_alarms(recorded: _Recorded, history: bool, expected: int) -> None:
    """Once in five minutes, whether a history is kept or not; the alarms need one at once."""
    metrics = Metrics()
    metrics.registry = recorded.gateway.registry
    maintenance = MaintenanceWatch(MemoryStore("other"), recorded.clock, metrics.registry)
    alarms = make_alarms(recorded.settings, metrics, recorded.gateway.engine, maintenance)
    looks = set()
    for _ in range(30):
        if history:
            await recorded.minutes(1, appends=1)
        else:
            recorded.clock.pass_ms(MINUTE_MS)
        await alarms.minute()
        looks.add(recorded.gateway.engine.groups.lag_watch._looked_ms)
    assert len(looks) == expected
    await recorded.gateway.engine.drain()
