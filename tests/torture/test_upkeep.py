"""Maintenance killed again and again beside three gateways, producers, consumers and Spark's streams: no client notices.

Nothing is lost, doubled or out of order for any of them, Delta's own stream never fails, and after each kill the topics
verify. ``make torture-maintenance`` is the long run, in which files are deleted for good, too.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.tortured.upkeep_run import Plan, torture_upkeep

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1500)]


def test_a_short_run(tmp_path: Path) -> None:
    """Two kills, each behind a merge or so; then every reader is judged by what the producers were told."""
    outcome = torture_upkeep(Plan(seconds=5, seed=20, producers=2, pace_seconds=0.5, native=("accounts",)), tmp_path)
    assert outcome.contradictions == []
    assert outcome.others_agree == {"deltalake": True}
    assert outcome.counts["rewrites (merge): committed"] >= 1
    assert outcome.counts["fault: maintenance killed"] >= 2
