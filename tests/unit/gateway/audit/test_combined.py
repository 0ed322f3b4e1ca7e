"""Events that are combined: none is left out of the numbers, whatever clients make up."""

from __future__ import annotations

from gateway.audit.combined import HELD_MS, CombinedEvents
from gateway.audit.event import AuditEvent
from tests.support.clocks import ManualClock

APART_MS = 60_000


class Bench:
    def __init__(self, groups_max: int = 100) -> None:
        self.clock = ManualClock()
        self.events = CombinedEvents(
            ("principal", "resource", "route"), apart_ms=APART_MS, groups_max=groups_max, clock=self.clock
        )

    def event(self, principal: str = "User:a", topic: str = "t", count: int = 1) -> AuditEvent:
        return AuditEvent(
            time=self.clock.now_ms(), kind="signature", principal=principal, operation="Read", resource_type="topic",
            resource=topic, method="POST", route="/sign", request_id="r", source=None, count=count,
        )  # fmt: skip

    def taken(self, *, is_last: bool = False) -> list[tuple[str | None, str | None, int]]:
        return [(each.principal, each.resource, each.count) for each in self.events.take(is_last=is_last)]


def test_a_first_event_comes_soon_and_then_one_a_minute() -> None:
    """However many signatures a second there are; each counts once."""
    bench, told = Bench(), list[tuple[int, int]]()
    began_ms = bench.clock.now_ms()
    for _ in range(3_000):
        bench.events.note(bench.event(count=3))
        told += [(bench.clock.now_ms() - began_ms, count) for _, _, count in bench.taken()]
        bench.clock.pass_ms(100)
    assert [at_ms for at_ms, _ in told] == [HELD_MS + APART_MS * number for number in range(5)]
    assert sum(count for _, count in told) + bench.taken(is_last=True)[0][2] == 9_000


def test_beyond_the_bound_events_lose_names_and_not_their_number() -> None:
    """First the route's, then the topic's, last the caller's; and quiet groups are forgotten."""
    bench = Bench(groups_max=10)
    for number in range(100):
        bench.events.note(bench.event(f"User:{number % 2}", f"t{number}"))
    for number in range(100):
        bench.events.note(bench.event(f"User:{number}", "t"))
    assert bench.events.group_count <= 3 * 10 + 1
    found = bench.taken(is_last=True)
    assert sum(count for _, _, count in found) == 200
    assert found[0] == ("User:0", "t0", 1)
    assert ("User:0", None, 41) in found
    assert (None, None, 90) in found
    bench.clock.pass_ms(APART_MS + 1)
    assert bench.taken() == []
    assert bench.events.group_count == 0


def test_a_group_that_was_told_is_not_new_for_a_minute() -> None:
    """So with audit=required a client waits for one record a minute."""
    bench = Bench()
    assert bench.events.is_new(bench.event())
    bench.events.note_told(bench.event())
    bench.events.note(bench.event())
    assert not bench.events.is_new(bench.event())
    assert bench.events.is_new(bench.event(topic="other"))
    bench.clock.pass_ms(HELD_MS)
    assert bench.taken() == []
    bench.clock.pass_ms(APART_MS)
    assert bench.taken() == [("User:a", "t", 1)]
