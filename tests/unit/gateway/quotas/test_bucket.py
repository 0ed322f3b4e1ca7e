"""A bucket holds its span's worth, goes into debt, and keeps the rate over time."""

from __future__ import annotations

from gateway.quotas.bucket import Bucket


def test_a_request_passes_while_there_is_no_debt_and_may_make_one() -> None:
    """And the wait is exactly until the debt is paid."""
    bucket = Bucket(1_000, 1_000, now_ms=0)
    assert bucket.wait_ms(0) == 0
    bucket.spend(5_000, 0)
    assert bucket.wait_ms(0) == 4_000
    assert bucket.wait_ms(3_999) == 1
    assert bucket.wait_ms(4_000) == 0


def test_an_idle_bucket_holds_one_span_and_no_more() -> None:
    """A burst after a long rest is bounded."""
    bucket = Bucket(60, 60_000, now_ms=0)
    bucket.spend(61, 10 * 60_000)
    assert bucket.wait_ms(10 * 60_000) == 1_000
    assert not bucket.is_full(11 * 60_000 + 999)
    assert bucket.is_full(11 * 60_000 + 1_000)


def test_over_time_the_rate_is_kept_whatever_the_sizes() -> None:
    """Requests larger than the bucket change nothing in the long run."""
    bucket, passed = Bucket(1_000, 1_000, now_ms=0), 0
    for now_ms in range(0, 60_000, 10):
        if not bucket.wait_ms(now_ms):
            bucket.spend(1_700, now_ms)
            passed += 1_700
    assert 60_000 <= passed <= 60_000 + 1_000 + 1_700


def test_a_smaller_part_pays_its_debt_more_slowly_and_a_larger_one_faster() -> None:
    """A gateway's part changes under way, and no debt is forgiven."""
    bucket = Bucket(1_000, 1_000, now_ms=0)
    bucket.spend(3_000, 0)
    bucket.set_share(0.25, 0)
    assert bucket.wait_ms(0) == 8_000
    bucket.set_share(1.0, 4_000)
    assert bucket.wait_ms(4_000) == 1_000


def test_a_clock_that_stands_still_or_goes_back_refills_nothing() -> None:
    """A wrong clock gives no quota away."""
    bucket = Bucket(10, 1_000, now_ms=1_000)
    bucket.spend(20, 1_000)
    assert bucket.wait_ms(1_000) == bucket.wait_ms(500) == 1_000
