"""One run with maintenance: gateways, producers, consumers and Spark streams go on while maintenance is killed again and again.

``orders`` is merged; every reader has to see all of it. ``accounts`` has its keys compacted and, behind all its readers, its
records deleted. Nothing else disturbs a client: what a reader notices, maintenance did.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import urllib3

from tests.torture.tortured import clients
from tests.torture.tortured.checker import Checker, Log, summary
from tests.torture.tortured.final_log import by_deltalake, by_http
from tests.torture.tortured.group_history import contradictions as group_contradictions
from tests.torture.tortured.group_members import GroupMember
from tests.torture.tortured.history import History
from tests.torture.tortured.joined import joined
from tests.torture.tortured.maintainer import Maintainer
from tests.torture.tortured.run import REST_SECONDS_MAX, Outcome
from tests.torture.tortured.service import Service, service
from tests.torture.tortured.streams import Streams
from tests.torture.tortured.witness import Batches, Ends, Truth, contradictions, positions

ORDERS = {"orders": 4}
ACCOUNTS = {"accounts": 2}
TOPICS = ORDERS | ACCOUNTS
GROUP = "torture"
READY_SECONDS_MAX = 600.0
"""Java on a machine that is busy with a whole test suite."""
AGAIN_SECONDS = 3.0
"""Between two passes of the reader that always begins anew."""
DELETE_SECONDS = 1.0
KEPT_BEHIND = 40
"""Records of ``accounts`` that are left behind its slowest reader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """``seconds`` count from when Spark's streams run. ``kills_min``: it lasts longer where maintenance died less often."""

    seconds: float
    seed: int
    kills_min: int = 2
    producers: int = 3
    """For each topic."""
    transactional: int = 1
    pace_seconds: float = 0.1
    workers: str = "local"
    planted: bool = False
    """Maintenance loses records: the run has to find that out."""
    native: tuple[str, ...] = tuple(TOPICS)
    """What Delta's own source follows; ``format("tidelog")`` follows everything."""
    deleted_file_retention_ms: int = 600_000
    """Longer than any reader lags, and shorter than the run, if files are to be deleted in it."""


@dataclass(slots=True)
class _Run:
    """What is under way."""

    plan: Plan
    running: Service
    directory: Path
    histories: dict[str, History]
    streams: Streams
    maintainer: Maintainer
    failures: list[str] = field(default_factory=list)
    quiet: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)
    deletions: int = 0

    @property
    def is_broken(self) -> bool:
        """Whether something was found already, so that waiting on is of no use."""
        return bool(self.failures or self.maintainer.problems or self.streams.failure is not None)

    def client(self, name: str, topic: str, until: threading.Event) -> clients.Client:
        return clients.Client(name, self.running.urls, self.histories[topic], until, self.plan.seed)

    def start_writing(self) -> list[threading.Thread]:
        jobs: list[tuple[Callable[..., None], str, dict[str, int]]] = [
            (clients.produce, f"{topic}-{number}", {topic: count})
            for topic, count in TOPICS.items()
            for number in range(self.plan.producers)
        ]
        jobs += [(clients.transact, f"transactor-{number}", ORDERS) for number in range(self.plan.transactional)]
        pace = self.plan.pace_seconds
        return [
            clients.start(body, self.client(name, next(iter(topics)), self.quiet), topics, pace, failures=self.failures)
            for body, name, topics in jobs
        ]

    def start_reading(self, member: GroupMember) -> list[threading.Thread]:
        follower, again = self.client("reader", "orders", self.ended), self.client("newcomer", "orders", self.quiet)
        member.start()
        return [
            clients.start(clients.read, follower, ORDERS, failures=self.failures),
            clients.start(clients.read_again, again, ORDERS, AGAIN_SECONDS, failures=self.failures),
            member,
        ]

    def delete_behind(self, client: clients.Client) -> None:
        """Delete records of ``accounts`` that both of its readers are past, until it gets quiet."""
        while not client.stopping.wait(DELETE_SECONDS):
            seen = [
                positions(found) for name, found in self.streams.batches().items() if "accounts" in _topics_of(name)
            ]
            before = [
                {"partition": partition, "offset": past}
                for partition in range(ACCOUNTS["accounts"])
                if (past := min(each.get(("accounts", partition), 0) for each in seen) - KEPT_BEHIND) > 0
            ]
            if before:
                reply, _, _ = client.insist("POST", "/v1/topics/accounts:delete-records", {"before": before})
                assert reply.status == 200, reply
                self.deletions += 1

    def go_on(self, progress: Callable[[str], None]) -> None:
        """Let everything run for as long as the plan says, or until something has failed."""
        deadline = time.monotonic() + self.plan.seconds
        while (left := deadline - time.monotonic()) > 0 and not self.is_broken:
            writes = sum(len(history.writes) for history in self.histories.values())
            progress(f"{left:.0f} s left, {self.maintainer.kills} kills, {writes} writes, {self.deletions} deletions")
            time.sleep(min(left, 1.0))

    def until(self, holds: Callable[[], bool], seconds_max: float, what: str) -> None:
        """Wait; when it does not come about, that is what the run has found. What has failed already need not come about."""
        deadline = time.monotonic() + seconds_max
        while not self.is_broken and not holds():
            if time.monotonic() > deadline:
                self.failures.append(what)
            time.sleep(0.2)


def torture_upkeep(plan: Plan, directory: Path, *, progress: Callable[[str], None] = lambda text: None) -> Outcome:
    """Run the plan; histories and logs lie in the directory."""
    began = time.monotonic()
    with service(directory, 3) as running:
        _create_topics(plan, running)
        histories = {topic: History() for topic in TOPICS}
        run = _Run(
            plan=plan,
            running=running,
            directory=directory,
            histories=histories,
            streams=Streams(directory, list(TOPICS), plan.native, running.environment),
            maintainer=Maintainer(
                directory,
                list(TOPICS),
                running.environment,
                histories["orders"],
                workers=plan.workers,
                seed=plan.seed,
                is_planted=plan.planted,
            ),
        )
        member = GroupMember(
            "member", running.urls, GROUP, "orders", session_ms=60_000, work_seconds=0.01, stopping=run.ended
        )
        try:
            # Nothing else works while Java starts; then the streams find a log that was merged already.
            run.until(lambda: run.streams.has_session, READY_SECONDS_MAX, "Java does not start")
            writing = run.start_writing()
            reading = run.start_reading(member)
            run.maintainer.start()
            run.until(lambda: run.maintainer.has_worked(1), READY_SECONDS_MAX, "maintenance does nothing")
            run.streams.begin()
            run.until(lambda: run.streams.is_ready, READY_SECONDS_MAX, "Spark's streams do not start")
            deleter = run.client("deleter", "accounts", run.quiet)
            writing.append(clients.start(run.delete_behind, deleter, failures=run.failures))
            run.go_on(progress)
            run.until(
                lambda: run.maintainer.has_worked(plan.kills_min), READY_SECONDS_MAX, "maintenance does too little"
            )
            run.quiet.set()
            run.failures += joined(writing, REST_SECONDS_MAX)
            ends = _ends(running)
            run.until(lambda: _have_seen(run, member, ends), READY_SECONDS_MAX, "readers do not reach the end")
            run.maintainer.stop()
            return _judged(run, member, reading, ends, began)
        finally:
            run.quiet.set()
            run.ended.set()
            run.maintainer.stop()
            run.streams.kill()


def _create_topics(plan: Plan, running: Service) -> None:
    common = {"flush.ms": 50, "retention.ms": -1, "deleted.file.retention.ms": plan.deleted_file_retention_ms}
    admin = clients.Client("administrator", running.urls, History(), threading.Event(), plan.seed)
    for topic, count in TOPICS.items():
        config = common | ({"cleanup.policy": "compact"} if topic in ACCOUNTS else {})
        reply, _, _ = admin.insist("POST", "/v1/topics", {"name": topic, "partition_count": count, "config": config})
        assert reply.status in {200, 201}, reply


def _judged(run: _Run, member: GroupMember, reading: list[threading.Thread], ends: Ends, began: float) -> Outcome:
    run.ended.set()
    run.failures += joined(reading, REST_SECONDS_MAX)
    run.streams.stop()
    orders, maintainer, url = run.histories["orders"], run.maintainer, run.running.urls[0]
    log = _whole(lambda: by_http(url, ORDERS), run.failures)
    others = {
        "deltalake": _whole(lambda: by_deltalake(ORDERS, run.running.environment), run.failures) == log,
    }
    committed, (accounts, starts) = _committed(url), _accounts(url)
    codes = [gateway.stop() for gateway in run.running.gateways]
    found = [*run.failures, *maintainer.problems, *([run.streams.failure] if run.streams.failure else [])]
    found += [f"gateway {index} ended with {code}" for index, code in enumerate(codes) if code != 0]
    found += sorted({fault.what for fault in orders.faults if "refused" in fault.what})
    found += Checker(orders, log).contradictions()
    found += group_contradictions(member.histories, committed)
    truth = Truth([write for history in run.histories.values() for write in history.writes], ACCOUNTS)
    witnesses = {**run.streams.batches(), "the member": _once(member), "the log of accounts": [accounts]}
    for name, batches in witnesses.items():
        wanted = {line: end for line, end in ends.items() if line[0] in _topics_of(name)}
        found += contradictions(name, batches, truth, starts if name == "the log of accounts" else {}, wanted)
    run.histories["accounts"].save(run.directory / "accounts.jsonl")
    orders.save(run.directory / "orders.jsonl")
    counts = summary(orders, log) | dict(sorted(maintainer.counts.items()))
    counts["records of accounts acknowledged"] = sum(topic == "accounts" for topic, _, _ in truth.values)
    counts["records of accounts left"] = len(accounts)
    counts["deletions of records"] = run.deletions
    counts |= {f"records read by {name}": sum(map(len, batches)) for name, batches in witnesses.items()}
    return Outcome(counts=counts, contradictions=found, seconds=time.monotonic() - began, others_agree=others)


def _whole(read: Callable[[], Log], failures: list[str]) -> Log:
    """What is read; a gap in it is a failure."""
    try:
        return read()
    except AssertionError as gap:
        failures.append(str(gap))
        return {(topic, partition): [] for topic, count in ORDERS.items() for partition in range(count)}


def _topics_of(witness: str) -> tuple[str, ...]:
    if witness == "tidelog":
        return tuple(TOPICS)
    return ("accounts",) if "accounts" in witness else ("orders",)


def _once(member: GroupMember) -> Batches:
    """What the member was given.

    Each record once, in order, when the member lost sight of a commit or had to join again: it then begins anew at what it had
    committed, as groups do.
    """
    commits = [commit for history in member.histories for commit in history.commits]
    if len(member.histories) == 1 and all(commit.ended is not None for commit in commits):
        return member.seen
    return [sorted({row for rows in member.seen for row in rows})]


def _have_seen(run: _Run, member: GroupMember, ends: Ends) -> bool:
    witnesses = {**run.streams.batches(), "the member": member.seen}
    for name, batches in witnesses.items():
        reached = positions(batches)
        if any(reached.get(line, 0) < end for line, end in ends.items() if line[0] in _topics_of(name)):
            return False
    return True


def _get(url: str) -> Any:
    with urllib3.PoolManager(retries=urllib3.Retry(10, backoff_factor=0.3, status_forcelist=[503]), timeout=60) as http:
        return msgspec.json.decode(http.request("GET", url).data)


def _ends(running: Service) -> dict[tuple[str, int], int]:
    return {
        (topic, each["partition"]): each["high_watermark"]
        for topic in TOPICS
        for each in _get(f"{running.urls[0]}/v1/topics/{topic}")["partitions"]
    }


def _committed(url: str) -> dict[int, int]:
    return {row["partition"]: row["offset"] for row in _get(f"{url}/v1/groups/{GROUP}/offsets")["offsets"]}


def _accounts(url: str) -> tuple[list[tuple[str, int, int, str]], dict[tuple[str, int], int]]:
    """Every record of ``accounts`` that is left, and where each partition begins."""
    rows: list[tuple[str, int, int, str]] = []
    starts: dict[tuple[str, int], int] = {}
    for partition in range(ACCOUNTS["accounts"]):
        path = f"{url}/v1/topics/accounts/partitions/{partition}/records?max_records=10000&offset="
        offset: int | str = "earliest"
        while True:
            body = _get(f"{path}{offset}")
            starts["accounts", partition] = body["log_start_offset"]
            rows += [("accounts", partition, record["offset"], record["value"]) for record in body["records"]]
            offset = body["next_offset"]
            if offset == body["high_watermark"]:
                break
    return rows, starts
