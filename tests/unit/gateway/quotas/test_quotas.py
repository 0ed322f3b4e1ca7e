"""A principal's requests pass while its quotas are not in debt; what is remembered of principals is bounded."""

from __future__ import annotations

import pytest

from gateway.quotas.limits import CONNECTIONS, FETCH_BYTES, PARTITIONS, PRODUCE_BYTES, REQUESTS, STREAMS, Limits
from gateway.quotas.quotas import Connection, Quotas, Throttled
from gateway.quotas.sharing import DEMANDS_MAX, WHOLE, QuotaSharing
from log_format.errors import ErrorCode
from tests.support.clocks import ManualClock


class Bench:
    """``limits``: of each principal that is named; others have none."""

    def __init__(self, limits: dict[str, Limits], accounts_max: int = 100) -> None:
        self.limits = limits
        self.clock = ManualClock()
        self.sharing = QuotaSharing(old_after_ms=12_000)
        self.quotas = Quotas(self.limits.get, self.sharing, clock=self.clock, accounts_max=accounts_max)

    def refusal(self, principal: str, *rates: str) -> Throttled:
        with pytest.raises(Throttled) as caught:
            self.quotas.admit(principal, rates)
        return caught.value


def test_a_refusal_names_the_quota_and_when_it_will_pass() -> None:
    """Then it passes, and other rates were never meant."""
    bench = Bench({"User:a": {PRODUCE_BYTES: 1_000, FETCH_BYTES: 1_000}})
    bench.quotas.admit("User:a", (PRODUCE_BYTES,))
    bench.quotas.spend("User:a", PRODUCE_BYTES, 3_500)
    refusal = bench.refusal("User:a", PRODUCE_BYTES)
    assert (refusal.code, refusal.status) == (ErrorCode.THROTTLED, 429)
    assert refusal.retryable
    assert not refusal.may_have_happened
    assert refusal.fields == {"quota": PRODUCE_BYTES, "retry_after_ms": 2_500}
    bench.quotas.admit("User:a", (FETCH_BYTES,))
    bench.quotas.admit("User:a")
    bench.clock.pass_ms(2_500)
    bench.quotas.admit("User:a", (PRODUCE_BYTES,))


def test_requests_are_counted_one_by_one_and_refused_ones_are_not() -> None:
    """A client that hammers does not lengthen its own wait."""
    bench = Bench({"User:a": {REQUESTS: 5}})
    for _ in range(6):
        bench.quotas.admit("User:a")
    for _ in range(10):
        assert bench.refusal("User:a").fields["retry_after_ms"] == 200
    bench.clock.pass_ms(200)
    bench.quotas.admit("User:a")


def test_partitions_have_a_minute() -> None:
    """Their debt is paid by the minute's rate."""
    bench = Bench({"User:a": {PARTITIONS: 60}})
    bench.quotas.spend("User:a", PARTITIONS, 100)
    assert bench.refusal("User:a", PARTITIONS).fields["retry_after_ms"] == 40_000


def test_principals_do_not_meet_and_one_without_quotas_is_never_refused() -> None:
    """Each has buckets of its own."""
    bench = Bench({"User:a": {REQUESTS: 1}, "User:b": {REQUESTS: 1}})
    for _ in range(2):
        bench.quotas.admit("User:a")
    bench.refusal("User:a")
    bench.quotas.admit("User:b")
    for _ in range(100):
        bench.quotas.admit("User:c", (PRODUCE_BYTES,))
        bench.quotas.spend("User:c", PRODUCE_BYTES, 10**9)


def test_changed_quotas_hold_at_once_and_the_same_ones_anew_forgive_no_debt() -> None:
    """Setting a quota again is no way around it."""
    bench = Bench({"User:a": {PRODUCE_BYTES: 1}})
    bench.quotas.spend("User:a", PRODUCE_BYTES, 100)
    bench.limits["User:a"] = {PRODUCE_BYTES: 1}
    bench.refusal("User:a", PRODUCE_BYTES)
    bench.limits["User:a"] = {PRODUCE_BYTES: 1_000}
    bench.quotas.admit("User:a", (PRODUCE_BYTES,))


def test_a_connection_counts_once_for_each_principal_until_it_ends() -> None:
    """However many requests it carries; a proxy's connection counts for each of its users."""
    bench = Bench({"User:a": {CONNECTIONS: 2}})
    connections = [Connection() for _ in range(3)]
    for connection in connections[:2]:
        connection.used_by("User:a", bench.quotas)
        connection.used_by("User:a", bench.quotas)
        connection.used_by("User:b", bench.quotas)
    with pytest.raises(Throttled) as refusal:
        connections[2].used_by("User:a", bench.quotas)
    assert refusal.value.fields["quota"] == CONNECTIONS
    connections[2].end()
    connections[0].end()
    connections[0].end()
    connections[2].used_by("User:a", bench.quotas)
    assert bench.quotas.open_count("User:a", CONNECTIONS) == 2
    assert bench.quotas.open_count("User:b", CONNECTIONS) == 1


def test_connections_from_before_the_quota_count() -> None:
    """Else those open today would never count."""
    bench = Bench({})
    for _ in range(3):
        Connection().used_by("User:a", bench.quotas)
    bench.limits["User:a"] = {CONNECTIONS: 3}
    with pytest.raises(Throttled):
        Connection().used_by("User:a", bench.quotas)


def test_counts_over_gateways_go_where_they_are_asked_for() -> None:
    """A gateway alone in use gets them all, beat by beat."""
    bench = Bench({"User:a": {STREAMS: 4}})
    bench.sharing.update_from_peers([{}] * 3, 0)
    bench.quotas.enter("User:a", STREAMS)
    with pytest.raises(Throttled):
        bench.quotas.enter("User:a", STREAMS)
    assert list(bench.quotas.publish().values()) == [WHOLE // 2]
    for _ in range(2):
        bench.quotas.enter("User:a", STREAMS)
    with pytest.raises(Throttled):
        bench.quotas.enter("User:a", STREAMS)


def test_idle_principals_are_forgotten_and_more_than_the_bound_never_remembered() -> None:
    """Memory is bounded, and what is open is not forgotten."""
    bench = Bench({f"User:{number}": {REQUESTS: 10, CONNECTIONS: 5} for number in range(200)}, accounts_max=100)
    for principal in bench.limits:
        bench.quotas.admit(principal)
    assert len(bench.quotas._accounts) == 100
    bench.quotas.enter("User:199", CONNECTIONS)
    for _ in range(20):
        bench.clock.pass_ms(3_000)
        assert len(bench.quotas.publish()) <= DEMANDS_MAX
    assert list(bench.quotas._accounts) == ["User:199"]
    bench.quotas.leave("User:199", CONNECTIONS)
    for _ in range(2):
        bench.clock.pass_ms(3_000)
        bench.quotas.publish()
    assert not bench.quotas._accounts
    assert not bench.quotas._open
