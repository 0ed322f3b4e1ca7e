"""Unit tests of ``log_format.inspection.diagnosis``: each trouble that a store can have is found and named, and nothing is left
behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from log_format import layout
from log_format.cluster.maintenance_sign import GRACE_MS, MaintenanceSign, put_sign
from log_format.errors import StoreReason, StoreUnavailable
from log_format.inspection import diagnosis
from log_format.inspection.diagnosis import (
    COMMITS_MAX,
    SEGMENTS_MAX,
    SKEW_MAX_MS,
    SKEW_NOTED_MS,
    SLOW_PUT_MS,
    _neglect,
    diagnose,
)
from log_format.inspection.finding import Finding, Verdict
from log_format.layout import segment_path
from log_format.manifest.manifest import Manifest
from log_format.segments.run import Run, SegmentRef
from tests.support.clocks import ManualClock
from tests.support.topic_bench import TopicBench

ALWAYS = 100
REFUSED = StoreUnavailable("key", "the credentials don't allow this: AccessDenied (403)", may_have_happened=False)


def findings(bench: TopicBench, *, is_reader: bool = False) -> dict[str, Finding]:
    made = list(diagnose(bench.store, bench.clock, bench.new_id, is_reader=is_reader))
    assert len({finding.what for finding in made}) == len(made)
    assert all(
        bool(finding.advice) == (finding.verdict is not Verdict.GOOD) for finding in made if finding.what != "topics"
    )
    return {finding.what: finding for finding in made}


def verdicts(bench: TopicBench, **options: bool) -> dict[str, Verdict]:
    return {
        what: found.verdict for what, found in findings(bench, **options).items() if found.verdict is not Verdict.GOOD
    }


def test_a_sound_store_is_sound_and_keeps_no_probe(bench: TopicBench) -> None:
    """On an empty store and on one with a topic all is well, and what was written is deleted again."""
    assert verdicts(bench) == {}
    assert list(bench.store.list("")) == []
    bench.append(bench.create(), {0: [b"a"]})
    assert verdicts(bench) == {}
    assert not list(bench.store.list(layout.PROBES))


@pytest.mark.parametrize(
    ("operation", "named", "permission"),
    [
        ("list", ["list"], "s3:ListBucket"),
        ("put_if_absent", ["write"], "s3:PutObject"),
        ("get", ["read", "maintenance", "transactions"], "s3:GetObject"),
        ("get_range", ["read"], "s3:GetObject"),
        ("head", ["read", "clock"], "s3:GetObject"),
        ("put", ["clock"], "s3:PutObject"),
    ],
)
def test_each_operation_that_is_refused_is_named_with_the_permission(
    bench: TopicBench, operation: str, named: list[str], permission: str
) -> None:
    """Whatever the credentials don't allow is said, with the reason and what is needed, and only that is."""
    bench.store.script[operation] = [REFUSED] * ALWAYS
    found = findings(bench)
    assert [what for what, each in found.items() if each.verdict is Verdict.BAD] == named
    assert all(permission in found[what].advice and REFUSED.detail in found[what].said for what in named)


def test_refused_deletes_are_named(bench: TopicBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway that can't delete could not leave, and nothing else is wrong with the store."""

    def refuse(key: str) -> None:
        raise REFUSED

    monkeypatch.setattr(bench.store, "delete", refuse)
    assert verdicts(bench) == {"delete": Verdict.BAD}


def test_a_store_that_ignores_conditions_is_named(bench: TopicBench) -> None:
    """A store that replaces what is there is found: on it gateways would overwrite each other's commits."""

    def replace(real: Callable[..., None], key: str, data: bytes) -> None:
        bench.store.put(key, data)

    bench.store.script["put_if_absent"] = [replace] * ALWAYS
    assert verdicts(bench) == {"put-if-absent": Verdict.BAD}


def test_a_store_that_answers_with_something_else_is_named(bench: TopicBench) -> None:
    """A cache before the store, which answers reads with what was, is found."""
    bench.store.script["get"] = [lambda real, key: b"what was"]
    assert verdicts(bench) == {"read": Verdict.BAD}


@pytest.mark.parametrize(
    ("skew_ms", "verdict"),
    [(SKEW_NOTED_MS, None), (-SKEW_NOTED_MS, None), (SKEW_MAX_MS, Verdict.POOR), (-SKEW_MAX_MS - 1, Verdict.BAD)],
)
def test_clocks_that_differ_are_named(
    bench: TopicBench, monkeypatch: pytest.MonkeyPatch, skew_ms: int, verdict: Verdict | None
) -> None:
    """Seconds are nothing, minutes are said, more is wrong; whichever of the two is ahead."""
    real = bench.clock.now_ms()
    monkeypatch.setattr(bench.store.objects, "_clock", ManualClock())
    monkeypatch.setattr(bench.clock, "now_ms", lambda: real + skew_ms)
    assert verdicts(bench) == ({} if verdict is None else {"clock": verdict})


def test_slow_puts_are_named(bench: TopicBench) -> None:
    """A store that takes longer for a PUT than a flush waits for company is worth a look."""

    def slowly(real: Callable[..., None], key: str, data: bytes) -> None:
        bench.clock.pass_ms(SLOW_PUT_MS + 1)
        real(key, data)

    bench.store.script["put_if_absent"] = [slowly] * ALWAYS
    assert verdicts(bench) == {"latency": Verdict.POOR}


def test_gateways_are_counted_by_their_heartbeats(bench: TopicBench) -> None:
    """One that beats is alive, one that stopped a moment ago is silent; when none beats any more it is worth a look."""
    bench.store.put("system/gateways/a.json", b"{}")
    assert findings(bench)["gateways"].said == "1 alive; 0 ended without leaving (harmless)."
    bench.clock.pass_ms(diagnosis.SILENT_MS + 1000)
    bench.store.put("system/gateways/b.json", b"{}")
    assert "1 alive; 0 ended without leaving (harmless). 1 silent for up to 13 s" in findings(bench)["gateways"].said
    bench.clock.pass_ms(diagnosis.HEARTBEAT_MS_MAX + 1)
    assert verdicts(bench) == {"gateways": Verdict.POOR}


def test_records_that_expired_long_ago_are_named(bench: TopicBench) -> None:
    """Retention that no maintenance carries out is found; records that expired a moment ago are no fault."""
    bench.append(bench.create(retention_ms=1000), {0: [b"a"], 1: [b"b"]})
    bench.clock.pass_ms(diagnosis.OVERDUE_MS)
    assert verdicts(bench) == {}
    bench.clock.pass_ms(2000)
    found = findings(bench)[f"topic {bench.name}"]
    assert found.verdict is Verdict.POOR
    assert "2 of its partitions" in found.said


def test_what_piles_up_is_named(bench: TopicBench) -> None:
    """Segments that no maintenance merges, and commits that no checkpoint covers, are found above their bound only."""
    state, now_ms = bench.create(1).log.state, bench.clock.now_ms()
    assert _neglect(state, COMMITS_MAX, now_ms) == ""
    assert "newest checkpoint" in _neglect(state, COMMITS_MAX + 1, now_ms)
    manifest = Manifest()
    for number in range(SEGMENTS_MAX):
        run = Run(0, number, number + 1, 1, 10, now_ms, now_ms)
        manifest.add(SegmentRef(segment_path(f"{number:032x}"), 100, 90, 7), [run])
    full = replace(state, manifest=manifest)
    assert _neglect(full, 0, now_ms) == ""
    run = Run(0, SEGMENTS_MAX, SEGMENTS_MAX + 1, 1, 10, now_ms, now_ms)
    manifest.add(SegmentRef(segment_path("f" * 32), 100, 90, 7), [run])
    assert "segments" in _neglect(full, 0, now_ms)


def test_a_damaged_log_is_named_and_hides_no_other(bench: TopicBench) -> None:
    """A commit that is no commit makes its topic bad, and only its topic."""
    bench.append(bench.create(), {0: [b"a"]})
    bench.store.put("topics/broken/_delta_log/00000000000000000000.json", b"{")
    assert verdicts(bench) == {"topic broken": Verdict.BAD, "topics": Verdict.POOR}


def test_a_reader_is_checked_without_a_single_write(bench: TopicBench) -> None:
    """``is_reader`` asks only for what a reader may do, and still finds what is wrong with topics."""
    bench.store.script = {name: [REFUSED] * ALWAYS for name in ("put", "put_if_absent")}
    assert set(findings(bench, is_reader=True)) == {"list", "topics"}


def test_maintenance_is_known_by_its_sign_of_life(bench: TopicBench) -> None:
    """Dead maintenance is poor minutes later, and so is one whose round fails for a topic; one that never ran is only told."""
    assert "has not run here yet" in findings(bench)["maintenance"].said
    now_ms = bench.clock.now_ms()
    for sign, verdict, said in (
        (MaintenanceSign(seen_at=now_ms, every_ms=60_000), Verdict.GOOD, "0 minutes ago."),
        (MaintenanceSign(seen_at=now_ms - 60_001 - GRACE_MS, every_ms=60_000), Verdict.POOR, "runs each 60 seconds"),
        (MaintenanceSign(seen_at=now_ms - 86_400_000), Verdict.GOOD, "1,440 minutes ago."),
        (MaintenanceSign(seen_at=now_ms, failed_topics=2), Verdict.POOR, "failed for 2 topics"),
        (MaintenanceSign(seen_at=now_ms + 10_000, every_ms=60_000), Verdict.GOOD, "0 minutes ago."),
        (MaintenanceSign(seen_at=now_ms + 86_400_000, every_ms=60_000), Verdict.POOR, "dated 86,400 s ahead"),
    ):
        put_sign(bench.store, sign)
        found = findings(bench)["maintenance"]
        assert (found.verdict, said in found.said) == (verdict, True), found
    assert "maintenance" not in findings(bench, is_reader=True)


def test_credentials_that_may_not_see_maintenance_are_told_so_and_need_no_more(bench: TopicBench) -> None:
    """Those of readers and of jobs that write may not: nothing is broken. A store that fails otherwise is."""
    put_sign(bench.store, MaintenanceSign(seen_at=bench.clock.now_ms(), every_ms=60_000))
    get = bench.store.get
    for reason, verdict in ((StoreReason.ACCESS_DENIED, Verdict.POOR), (StoreReason.FAILED, Verdict.BAD)):

        def denied(key: str, *, bytes_max: int | None = None, reason: StoreReason = reason) -> bytes:
            if key == layout.MAINTENANCE_KEY:
                raise StoreUnavailable(key, "AccessDenied (403)", may_have_happened=False, reason=reason)
            return get(key, bytes_max=bytes_max)

        bench.store.get = denied  # type: ignore[method-assign]
        found = findings(bench)["maintenance"]
        assert (found.verdict, "not allowed to see" in found.said) == (verdict, verdict is Verdict.POOR), found
