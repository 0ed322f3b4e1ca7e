"""Maintenance gives a sign of life while its steps go on, once a minute at most, and never fails because of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from compaction.__main__ import main
from compaction.job import Job
from compaction.report import STEP
from compaction.sign_of_life import SIGN_EVERY_MS, SignOfLife
from compaction.workers import LocalWorkers
from log_format.cluster.maintenance_sign import STARTS_KEPT, MaintenanceSign, read_sign
from log_format.errors import StoreUnavailable
from log_format.stores.local import LocalStore
from log_format.stores.memory import MemoryStore
from tests.support.clocks import ManualClock


class Refusing(MemoryStore):
    """Counts PUTs, and refuses them while it is told to."""

    puts = 0
    refuses = False

    def put(self, key: str, data: bytes) -> None:
        self.puts += 1
        if self.refuses:
            raise StoreUnavailable(key, "denied", may_have_happened=False)
        super().put(key, data)


class Reported:
    """Remembers events."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def event(self, event: str, **fields: str | float) -> None:
        del fields
        self.events.append(event)


@pytest.fixture
def store() -> Refusing:
    return Refusing("s")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def sign(store: Refusing, clock: ManualClock) -> SignOfLife:
    return SignOfLife(Reported(), store, clock, every_ms=60_000)


def test_steps_give_one_sign_a_minute(sign: SignOfLife, store: Refusing, clock: ManualClock) -> None:
    """A round of hours is alive as long as it comes to further topics, or reports something; one that hangs is not."""
    began_ms = clock.now_ms()
    for _ in range(10):
        sign.event("rewrite", topic="t")
        sign.event(STEP)
    assert (store.puts, read_sign(store)) == (1, MaintenanceSign(seen_at=began_ms, every_ms=60_000))
    clock.pass_ms(SIGN_EVERY_MS)
    for _ in range(10):
        sign.event(STEP)
    assert store.puts == 2


def test_a_round_over_quiet_topics_gives_signs(store: Refusing, clock: ManualClock) -> None:
    """Each takes a minute and has nothing to report: a round of any length is alive at each of its topics."""

    class Slow(Reported):
        def event(self, event: str, **fields: str | float) -> None:
            super().event(event, **fields)
            clock.pass_ms(SIGN_EVERY_MS)

    for name in ("a", "b", "c"):
        store.put(f"topics/{name}/nothing", b"")
    store.puts = 0
    report = Slow()
    sign = SignOfLife(report, store, clock, every_ms=None)
    assert Job(store=store, workers=LocalWorkers(store), clock=clock, report=sign).run_round(collect=False).topics == 3
    assert (store.puts, report.events) == (3, [STEP] * 3)


def test_a_round_that_fails_otherwise_than_the_last_is_told_now(
    sign: SignOfLife, store: Refusing, clock: ManualClock
) -> None:
    """The first one, too; rounds that end alike each second give one sign a minute."""
    for number, (failed, puts) in enumerate([(0, 1), (0, 1), (2, 2), (2, 2), (0, 3)]):
        clock.pass_ms(1_000)
        sign.event("round", ms=1, failed_topics=failed)
        assert store.puts == puts, number
    found = read_sign(store)
    assert found is not None
    assert (found.round_ended_at, found.failed_topics) == (clock.now_ms(), 0)


def test_a_sign_that_is_refused_is_an_event(store: Refusing, clock: ManualClock) -> None:
    """Maintenance whose role may not put it goes on, and is not told more often than it tries."""
    reported = Reported()
    sign = SignOfLife(reported, store, clock, every_ms=None)
    store.refuses = True
    sign.event("merge")
    sign.event("merge")
    assert reported.events == ["merge", "no sign of life", "merge"]


@pytest.mark.parametrize(
    ("options", "signs"),
    [
        ((), True),
        (("--timer", "2h"), True),
        (("--dry-run",), False),
        (("--topic", "t"), False),
        (("--erase-only",), False),
    ],
)
def test_the_program_signs_where_it_maintains_everything(
    tmp_path: Path, options: tuple[str, ...], signs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A single round promises no other unless a timer is named; one over a part says nothing of the rest."""
    monkeypatch.setattr("signal.signal", lambda *_: None)
    store = LocalStore(tmp_path)
    store.put("topics/t/nothing", b"")
    assert main(["--store", str(tmp_path), "--once", "--workers", "local", *options]) == 0
    sign = read_sign(store)
    assert (sign is not None) is signs
    if sign is not None:
        every_ms = 7_200_000 if "--timer" in options else None
        assert (sign.every_ms, sign.failed_topics, sign.round_ended_at is not None) == (every_ms, 0, True)
        assert len(sign.started_at) == 1


def test_single_rounds_that_begin_at_an_interval_teach_it(store: Refusing, clock: ManualClock) -> None:
    """From the sixth on, a timer's that differ a little, too; one that comes much later makes it unknown."""
    taught = []
    for pause_ms in (0, 3_600_000, 3_500_000, 3_700_000, 3_600_000, 3_600_000, 9_000_000):
        clock.pass_ms(pause_ms)
        SignOfLife(Reported(), store, clock, every_ms=None, is_single=True).event(STEP)
        sign = read_sign(store)
        assert sign is not None
        assert sign.started_at[-1] == clock.now_ms()
        taught.append(sign.interval_ms)
    assert taught == [None, None, None, None, None, 3_700_000, None]


def test_a_process_with_rounds_of_its_own_teaches_no_interval(store: Refusing, clock: ManualClock) -> None:
    """However often it is started: it says its interval itself."""
    for _ in range(STARTS_KEPT):
        clock.pass_ms(1_000)
        SignOfLife(Reported(), store, clock, every_ms=60_000).event(STEP)
    sign = read_sign(store)
    assert sign is not None
    assert (sign.started_at, sign.interval_ms) == ((), 60_000)
