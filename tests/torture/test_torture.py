"""Real gateways on a real MinIO under kill -9, SIGSTOP, a store that dies and connections that are cut: nothing lost, nothing
doubled (G1 to G6, G8). ``make torture`` is the long run, with Spark as a further witness."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.tortured.final_log import by_deltalake
from tests.torture.tortured.run import TOPICS, Plan, torture

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]


def test_a_short_torture(tmp_path: Path) -> None:
    """Each kind of fault once or more while producers, transactions and readers go on; then the checker finds nothing."""
    outcome = torture(
        Plan(seconds=25, seed=20, gateways=2, producers=4, readers=2, transactional=1, freeze_seconds=4),
        tmp_path,
        read_as=lambda service: {"deltalake": by_deltalake(TOPICS, service.environment)},
    )
    assert outcome.contradictions == []
    assert outcome.others_agree == {"deltalake": True}
    assert outcome.counts["idempotent request: acknowledged"] > 20
    assert outcome.counts["polls: commit acknowledged"] > 5
    assert outcome.counts["offsets: acknowledged"] > 5
    assert sum(count for name, count in outcome.counts.items() if name.startswith("fault: ")) >= 4
