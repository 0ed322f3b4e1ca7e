"""Unit tests of ``tidelog doctor``: what it tells operators and programs, and with which exit code it ends."""

from __future__ import annotations

import json
from pathlib import Path

from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.delta.committer import Committer
from log_format.ids import random_id
from log_format.stores.local import LocalStore
from log_format.topic.append import Append
from log_format.topic.changes import CreateTopic
from log_format.topic.config import TopicConfig
from log_format.topic.producer_id import JOB, PLAIN, issue
from log_format.topic.producers import ProducerStamp
from log_format.transactions.job import CommitJob
from log_format.transactions.staged_records import staged_name
from log_format.transactions.transaction_finisher import TransactionFinisher
from tests.support.clocks import LaterClock, ManualClock
from tests.support.command_runs import Run
from tests.support.fake_gateway import FakeGateway
from tests.support.records import batch_of
from tidelog.cli.terminal.exit_code import ExitCode


def test_a_directory_that_can_be_used_is_well(run: Run, tmp_path: Path) -> None:
    """Every check is a line that says what is good, and the code is 0."""
    ended = run("doctor", "--store", str(tmp_path))
    assert ended.exit_code == ExitCode.OK
    assert [line[:6] for line in ended.stdout.splitlines()] == ["good  "] * 11


def test_a_gateway_that_can_not_write_is_told_from_this_program(
    run: Run, gateway: FakeGateway, tmp_path: Path, dead_url: str
) -> None:
    """It may have other credentials: it is asked itself where it is named, and so are ``cluster`` and ``top``."""
    told = {"since": 1_700_000_000_000, "reason": "access_denied", "detail": "access to the store is denied"}
    gateway.failing_writes = told
    said = "fail since 2023-11-14T22:13:20Z: access to the store is denied. What it holds can be read"
    ended = run("doctor", "--store", str(tmp_path))
    assert ended.exit_code == ExitCode.FAILED
    assert f"bad   gateway: Writes of {gateway.url} {said}." in ended.stdout
    assert f"writes       {said}\n" in run("cluster").stdout
    for _ in range(4):
        gateway.will_answer("GET /v1/groups", {"groups": []})
    assert f"Writes {said}." in run("top", "--every", "100ms").stdout
    assert json.loads(run("top", "--every", "100ms", "--json").stdout)["failing_writes"] == told
    away = run("doctor", "--store", str(tmp_path), "--url", dead_url, "--timeout", "100ms")
    assert (away.exit_code, "poor  gateway: " in away.stdout) == (ExitCode.OK, True)


def test_cluster_and_top_say_when_maintenance_ran_last(run: Run, gateway: FakeGateway) -> None:
    """Overdue, or never, it is a note of ``top``; otherwise only ``cluster`` says when it was."""
    told: dict[str, object] = {"seen_at": 1_700_000_000_000, "round_ended_at": None, "failed_topics": 1}
    for state, said, is_noted in (
        ("regular", "last seen at 2023-11-14T22:13:20Z; its last round failed for 1 topic", False),
        ("overdue", "overdue: last seen at 2023-11-14T22:13:20Z; its last round failed for 1 topic.", True),
        ("never", "has not run here yet: start tidelog maintain", True),
    ):
        maintenance = told | {"state": state} | ({"seen_at": None} if state == "never" else {})
        for _ in range(5):
            answer = {"gateways": [], "store": "memory://", "version": "1", "maintenance": maintenance}
            gateway.will_answer("GET /v1/cluster$", answer)
        assert f"maintenance  {said}" in run("cluster").stdout
        for _ in range(4):
            gateway.will_answer("GET /v1/groups", {"groups": []})
        assert (f"Maintenance {said}" in run("top", "--every", "100ms").stdout) is is_noted
        assert json.loads(run("top", "--every", "100ms", "--json").stdout)["maintenance"]["state"] == state


def test_programs_get_all_findings_at_once(run: Run, tmp_path: Path) -> None:
    """``--json`` is one value with a verdict for each check; ``--reader`` writes nothing."""
    ended = run("doctor", "--store", str(tmp_path), "--reader", "--json")
    assert ended.exit_code == ExitCode.OK
    answer = json.loads(ended.stdout)
    assert answer["ok"] is True
    assert {finding["verdict"] for finding in answer["findings"]} == {"good"}
    assert not list(tmp_path.iterdir())


def test_a_store_that_can_not_be_used_fails_with_advice(run: Run, tmp_path: Path) -> None:
    """What does not work is said with what to do about it, and the code is 1."""
    (tmp_path / "system").write_bytes(b"")
    ended = run("doctor", "--store", str(tmp_path))
    assert ended.exit_code == ExitCode.FAILED
    lines = ended.stdout.splitlines()
    assert [line[:3] for line in lines if not line.startswith(("good", " "))] == ["bad"]
    (advice,) = [line for line in lines if line.startswith("      ")]
    assert "This user must be allowed to" in advice
    assert "s3:" not in advice


def test_a_store_that_does_not_exist_is_wrong_usage(run: Run) -> None:
    """A URI that names no store is said as such."""
    assert run("doctor", "--store", "ftp://x").exit_code == ExitCode.USAGE


def test_a_decided_transaction_that_lacks_objects_is_found_and_ended(run: Run, tmp_path: Path) -> None:
    """It is named with what to type; that says what is lost, asks, and ends it, so that the next check is well."""
    store, clock = LocalStore(tmp_path), ManualClock()
    finishing = TransactionFinisher(
        store, clock, new_id=random_id, log_of=lambda topic: TopicLog(store, topic, clock), engine="tidelog-test"
    )
    name = staged_name(0, "orders", None, random_id())
    transaction_id = issue(JOB, clock.now_ms(), random_id(), b"key")
    job = CommitJob(
        transaction_id=transaction_id, staged=(name,), new_producer_id="p", transactional_id="query", number=1
    )
    finishing.decide(job)
    repair = ("doctor", "--store", str(tmp_path), "--repair", "system/transactions")
    found = run("doctor", "--store", str(tmp_path))
    assert found.exit_code == ExitCode.FAILED
    assert f"transaction {transaction_id}: It is decided, and lacks 1 of its staged objects" in found.stdout
    assert " ".join((*repair[:2], "STORE", *repair[3:])) in found.stdout
    declined = run(*repair)
    assert declined.exit_code == ExitCode.USAGE
    assert "give --yes" in declined.stderr
    assert name in declined.stderr
    assert finishing.log.refresh().transactions[transaction_id].state == "committing"
    (ended,) = json.loads(run(*repair, "--yes", "--json").stdout)["transactions"]
    assert (ended["transaction_id"], ended["state"]) == (transaction_id, "committed")
    assert ended["lost"] == [f"system/transactions/staged/{transaction_id}/{name}"]
    assert finishing.log.refresh().transactions[transaction_id].lost == 1
    assert run("doctor", "--store", str(tmp_path)).exit_code == ExitCode.OK
    assert "has lost staged objects" in run(*repair).stderr


def test_a_repair_waits_until_new_producers_are_taken(run: Run, tmp_path: Path) -> None:
    """One that starts when the command has ended can't have been in what is lost: it is not refused, however early the repair."""
    clock = LaterClock()
    clock.ahead_ms = -59_000  # a second is left of the minute
    log = TopicLog(LocalStore(tmp_path), "t", clock)
    committer = Committer(log, new_id=random_id)
    committer.commit(CreateTopic(name="t", partition_count=1, config=TopicConfig.parse({}), topic_id="id"))
    for value in (b"1", b"2"):
        committer.commit(Append([batch_of("id", [value])], random_id))
    (tmp_path / "topics" / "t" / "_delta_log" / f"{1:020d}.json").unlink()
    made = run("doctor", "--store", str(tmp_path), "--repair", "t", "--yes")
    assert "Waiting" in made.stderr
    producer = issue(PLAIN, SystemClock().now_ms(), random_id(), b"key")
    after = TopicLog(LocalStore(tmp_path), "t", SystemClock())
    numbered = batch_of("id", [b"3"], stamp=ProducerStamp(producer, 0, 0))
    (outcome,) = Committer(after, new_id=random_id).commit(Append([numbered], random_id)).result
    assert isinstance(outcome, tuple)
    assert [place.base_offset for place in outcome] == [2]
    assert "Waiting" not in run("doctor", "--store", str(tmp_path), "--repair", "t").stderr
