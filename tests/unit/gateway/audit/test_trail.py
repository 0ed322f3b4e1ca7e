"""Events wait within a bound, administration keeps its room, and failed logins of one source become one event."""

from __future__ import annotations

import itertools

import msgspec
from prometheus_client import CollectorRegistry

from gateway.audit.combined import HELD_MS
from gateway.audit.event import AuditEvent, Kind
from gateway.audit.trail import LOGINS_APART_MS, SOURCES_MAX, AuditTrail
from tests.support.clocks import ManualClock


class Bench:
    def __init__(self, bytes_max: int = 1 << 20) -> None:
        self.clock = ManualClock()
        self.registry = CollectorRegistry()
        self.trail = AuditTrail(clock=self.clock, registry=self.registry, bytes_max=bytes_max)

    def note(self, kind: Kind, source: str | None = "192.0.2.1") -> bool:
        event = AuditEvent(
            time=self.clock.now_ms(),
            kind=kind,
            principal=None,
            operation=None,
            resource_type=None,
            resource=None,
            method="GET",
            route=None,
            request_id="r",
            source=source,
        )
        return self.trail.note(event) is not None

    def taken(self) -> list[dict[str, object]]:
        entries = self.trail.take(1 << 30, 1 << 30)
        self.trail.release(entries)
        return [msgspec.json.decode(entry.value) for entry in entries]

    def dropped(self) -> float | None:
        return self.registry.get_sample_value("tidelog_audit_events_dropped_total")


def test_an_event_has_the_members_of_the_contract_in_order() -> None:
    """Readers of the topic rely on them."""
    bench = Bench()
    bench.note("denial")
    (event,) = bench.taken()
    assert list(event) == [
        *("time", "kind", "principal", "operation", "resource_type", "resource"),
        *("method", "route", "request_id", "source", "count"),
    ]
    assert event["count"] == 1


def test_denials_leave_room_for_administration_and_what_is_dropped_is_counted() -> None:
    """A client without rights can't push administration out of the buffer."""
    bench = Bench(bytes_max=100_000)
    while bench.note("denial"):
        pass
    assert bench.trail.size_bytes <= 75_000
    assert bench.dropped() == 1
    assert bench.note("administration")
    while bench.note("vending"):
        pass
    assert bench.trail.size_bytes <= 100_000
    bench.taken()
    assert bench.trail.size_bytes == 0


def test_events_that_are_being_written_keep_their_room() -> None:
    """The bound holds for what is in memory, written or not yet."""
    bench = Bench(bytes_max=1_000)
    while bench.note("vending"):
        pass
    assert bench.trail.take(1, 1)
    assert not bench.note("vending")


def test_failed_logins_of_a_source_are_one_event_within_ten_seconds_and_one_in_ten_seconds() -> None:
    """Both hold for attempts that never stop, but for what writing takes."""
    bench = Bench()
    began_ms = bench.clock.now_ms()
    told: list[int] = []
    while (now_ms := bench.clock.now_ms() - began_ms) <= 60_000:
        bench.note("failed_login")
        bench.note("failed_login", source="192.0.2.2")
        for event in bench.taken():
            if event["source"] == "192.0.2.1":
                told.append(now_ms)
                assert bench.clock.now_ms() - int(str(event["time"])) <= LOGINS_APART_MS < 10_000
        bench.clock.pass_ms(max(1, bench.trail.due_in_ms(1_000)))
    assert told[0] == HELD_MS
    assert all(later - earlier >= LOGINS_APART_MS for earlier, later in itertools.pairwise(told))


def test_a_burst_of_failed_logins_is_counted() -> None:
    """None of them is lost in the one event."""
    bench = Bench()
    for _ in range(50):
        bench.note("failed_login")
    assert bench.taken() == []
    bench.clock.pass_ms(HELD_MS)
    assert [event["count"] for event in bench.taken()] == [50]


def test_sources_beyond_the_bound_become_one_and_quiet_ones_are_forgotten() -> None:
    """Addresses that an attacker makes up take bounded memory."""
    bench = Bench(bytes_max=10 << 20)
    for number in range(SOURCES_MAX + 100):
        bench.note("failed_login", source=str(number))
    assert bench.trail._combined["failed_login"].group_count == SOURCES_MAX + 1
    bench.clock.pass_ms(HELD_MS)
    events = bench.taken()
    assert len(events) == SOURCES_MAX + 1
    assert [event["count"] for event in events if event["source"] is None] == [100]
    bench.clock.pass_ms(LOGINS_APART_MS + 1)
    bench.taken()
    assert not bench.trail._combined["failed_login"].group_count
