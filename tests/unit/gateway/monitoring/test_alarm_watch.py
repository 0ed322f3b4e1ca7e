"""Alarms fire after their time, each set of labels by itself, and end late enough not to flicker."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, Gauge

from gateway.engine.metrics import EngineMetrics
from gateway.monitoring.alarm_watch import CLEAR_MINUTES, AlarmWatch
from tests.support.clocks import ManualClock


async def no_lag() -> None:
    """There are no groups."""


class Watched:
    """A watch over metrics that a test sets."""

    def __init__(self) -> None:
        self.clock, self.registry = ManualClock(), CollectorRegistry()
        registry = self.registry
        self.metrics = EngineMetrics(registry)
        self.lag = Gauge("tidelog_group_lag_seconds", "Lag.", ("group", "topic"), registry=registry)
        self.watch = AlarmWatch(registry, self.clock, no_lag)

    def minutes(self, count: int) -> list[tuple[str, tuple[str, ...]]]:
        """What fires after so many minutes."""
        for _ in range(count):
            self.clock.pass_ms(60_000)
            self.watch.judge()
        return [(one.rule.name, one.about) for one in self.watch.firing()]


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_a_lag_fires_after_its_time_for_its_group_only(watched: Watched) -> None:
    """Ten minutes past the threshold, and not because of another group's."""
    watched.lag.labels("g", "t").set(901)
    watched.lag.labels("fine", "t").set(900)
    assert watched.minutes(10) == []
    assert watched.minutes(1) == [("ConsumerBehind", ("g", "t"))]
    assert watched.watch.firing()[0].said == "g/t: the oldest unread record is 901 s old."


def test_one_good_minute_begins_the_time_anew_and_does_not_end_an_alarm(watched: Watched) -> None:
    """Before it fires and after."""
    lag = watched.lag.labels("g", "t")
    for seconds, minutes in ((901, 9), (0, 1), (901, 10)):
        lag.set(seconds)
        assert watched.minutes(minutes) == []
    assert watched.minutes(1) != []
    lag.set(0)
    assert watched.minutes(CLEAR_MINUTES - 1) != []
    lag.set(901)
    assert watched.minutes(1) != []
    lag.set(0)
    assert watched.minutes(CLEAR_MINUTES) == []


def test_failed_flushes_and_slow_acknowledgements_fire_while_they_last(watched: Watched) -> None:
    """Of what was counted since the window's begin, not since the start."""
    watched.metrics.flush_failures.labels("UNAVAILABLE").inc(5)
    fired = []
    for _ in range(12):
        watched.metrics.flush_failures.labels("UNAVAILABLE").inc()
        watched.metrics.acknowledgement_seconds.observe(4)
        fired = watched.minutes(1)
    assert fired == [("AcknowledgementSlow", ()), ("FlushesFail", ("UNAVAILABLE",))]
    assert watched.minutes(5 + CLEAR_MINUTES) == []


def test_a_certificate_fires_fourteen_days_before_its_end(watched: Watched) -> None:
    """At once, since nothing is gained by waiting; none is known without TLS."""
    assert watched.minutes(1) == []
    expiry = Gauge("tidelog_certificate_expiry_timestamp_seconds", "End.", registry=watched.registry)
    expiry.set(watched.clock.now_ms() / 1000 + 15 * 86_400)
    assert watched.minutes(1) == []
    watched.clock.pass_ms(86_400_000)
    assert watched.minutes(1) == [("CertificateExpires", ())]


def test_a_passed_threshold_is_pending_within_a_minute(watched: Watched) -> None:
    """With the time at which it was passed first, until it fires; one that is not passed any more is dropped at once."""
    watched.metrics.topics_behind.set(2)
    began_ms = watched.clock.now_ms() + 60_000
    assert watched.minutes(3) == []
    (pending,) = watched.watch.pending()
    assert (pending.rule.name, pending.since_ms) == ("TopicsUnmaintained", began_ms)
    assert pending.said.startswith("2 topics have more segments")
    assert watched.minutes(13) == [("TopicsUnmaintained", ())]
    assert watched.watch.pending() == []
    watched.lag.labels("g", "t").set(901)
    watched.minutes(1)
    assert [one.about for one in watched.watch.pending()] == [("g", "t")]
    watched.lag.labels("g", "t").set(0)
    watched.minutes(1)
    assert watched.watch.pending() == []


def test_failing_writes_fire_after_a_minute_whatever_the_reason(watched: Watched) -> None:
    """A reason that changes does not begin the minute anew."""
    failing = Gauge("tidelog_store_writes_failing", "Fail.", ("reason",), registry=watched.registry)
    for now, before in (("busy", "failed"), ("failed", "busy")):
        failing.labels(now).set(1)
        failing.labels(before).set(0)
        fired = watched.minutes(1)
    assert fired == [("WritesFail", ())]


def test_what_is_passed_now_is_pending_before_the_next_judgement(watched: Watched) -> None:
    """A screen need not wait for the minute; what fires already is not told twice, and nothing is remembered of the look."""
    watched.minutes(1)
    watched.clock.pass_ms(1_000)
    watched.metrics.topics_behind.set(2)
    assert [(one.rule.name, one.since_ms) for one in watched.watch.pending()] == [
        ("TopicsUnmaintained", watched.clock.now_ms())
    ]
    watched.metrics.topics_behind.set(0)
    assert watched.watch.pending() == []
    watched.metrics.topics_behind.set(2)
    assert watched.minutes(16) == [("TopicsUnmaintained", ())]
    assert watched.watch.pending() == []


def test_a_store_that_becomes_slow_is_pending_within_a_minute_whatever_was_quick_before(watched: Watched) -> None:
    """Over the five minutes of the rule, slow answers are too few for a while: slow senders send less."""
    for _ in range(5):
        for _ in range(2_000):
            watched.metrics.acknowledgement_seconds.observe(0.01)
        assert watched.minutes(1) == []
    for _ in range(20):
        watched.metrics.acknowledgement_seconds.observe(4)
    watched.clock.pass_ms(59_000)
    (pending,) = watched.watch.pending()
    assert (pending.rule.name, pending.rule.severity) == ("AcknowledgementSlow", "page")
    assert pending.said.startswith("In the last minute")
