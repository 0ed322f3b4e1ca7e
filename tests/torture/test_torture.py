"""Real gateways on a real MinIO under kill -9, SIGSTOP, a store that dies and connections that are cut: nothing lost, nothing
doubled (G1 to G6, G8). ``make torture`` is the long run, with Spark as a further witness."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.torture.tortured.final_log import by_deltalake
from tests.torture.tortured.rights_run import Plan as RightsPlan
from tests.torture.tortured.rights_run import torture_rights
from tests.torture.tortured.run import TOPICS, Plan, torture
from tests.torture.tortured.table_readers import by_table_readers

pytestmark = pytest.mark.timeout(600)
LEAST = {
    "topics made anew": 2,
    "renewed: records read": 21,
    "polls: commit acknowledged": 6,
    "offsets: acknowledged": 6,
    "idempotent request: acknowledged": 6,
}


def _tortured(directory: Path, others: set[str], least: dict[str, int], **plan: Any) -> dict[str, int]:
    """Each kind of fault once or more while producers, transactions, groups and readers go on; then the checker finds nothing,
    and the ``others`` read the same. So do the clients of Iceberg and Delta Sharing, also at each version that they see
    meanwhile. What happened how often."""
    outcome = torture(
        Plan(
            seconds=32,
            gateways=3,
            readers=2,
            transactional=1,
            pace_seconds=0.6,
            freeze_seconds=4,
            renew_seconds=3,
            least=LEAST | least,
            **plan,
        ),
        directory,
        read_as=lambda service: (
            {"deltalake": by_deltalake(TOPICS, service.environment)} | by_table_readers(service, TOPICS)
        ),
    )
    assert outcome.contradictions == []
    assert outcome.others_agree == dict.fromkeys(others | {"Iceberg", "Delta Sharing"}, True)
    assert outcome.counts["tables: compared"] >= 2
    assert {name: count for name, count in (LEAST | least).items() if outcome.counts.get(name, 0) < count} == {}
    assert sum(count for name, count in outcome.counts.items() if name.startswith("fault: ")) >= 4
    return outcome.counts


def test_a_short_torture_with_topics_that_move(tmp_path: Path) -> None:
    """An operator moves topics between their own commits and journals meanwhile. In the end each table has everything."""
    counts = _tortured(
        tmp_path,
        {"deltalake"},
        {"idempotent request: acknowledged": 21, "request of several topics: acknowledged": 6},
        seed=21,
        producers=4,
        mode_seconds=1.5,
    )
    assert sum(counts.get(f"commit.mode: {mode}", 0) for mode in ("own", "shared", "auto")) >= 3


def test_a_short_torture_with_kafkas_clients(tmp_path: Path) -> None:
    """Clients by Kafka's protocol beside those over HTTP: what came in by one door is read by the other, at the same offset."""
    _tortured(
        tmp_path,
        {"deltalake", "Kafka"},
        {"Kafka: record: acknowledged": 6, "Kafka: transaction: acknowledged": 1},
        seed=22,
        producers=3,
        kafka_clients=1,
    )


def test_a_short_torture_of_rights(tmp_path: Path) -> None:
    """Rights come and go, tokens are rotated and revoked at any of three gateways: each lets in and refuses as it must within
    five seconds, and what was acknowledged stays. ``make torture-rights`` is the long run, with gateways killed."""
    outcome = torture_rights(
        RightsPlan(seconds=18, seed=1, users=4, change_seconds=0.7, kill_seconds=None, renew_seconds=3), tmp_path
    )
    assert outcome.contradictions == []
    assert outcome.counts["topics made anew"] >= 2
    assert outcome.counts["refused as it had to be"] > 20
    assert outcome.counts["let in as it had to be"] > 20
    assert outcome.counts["stream: unauthorized"] >= 1
