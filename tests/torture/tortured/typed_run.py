"""One run with typed topics: gateways that are killed and cut off, schemas that evolve, maintenance, and deltalake at the end."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import deltalake
import httpx
import pyarrow as pa

from tests.support.server_process import free_port
from tests.torture.tortured.history import History
from tests.torture.tortured.joined import joined
from tests.torture.tortured.maintainer import Maintainer
from tests.torture.tortured.misfortune import Misfortune
from tests.torture.tortured.run import Outcome
from tests.torture.tortured.service import STORE, Service, service
from tests.torture.tortured.typed_clients import SUBJECT, HttpProducer, KafkaProducer, Registrar
from tests.torture.tortured.typed_history import SHOWN_MAX, TypedHistory, TypedTopic, contradictions

PLANTED = Path(__file__).parents[1] / "planted_typed"
TOPICS: Final = {
    "orders": TypedTopic(),
    "events": TypedTopic(is_marking=True),
    "flows": TypedTopic(),
    "accounts": TypedTopic(is_compacted=True),
}
SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "orders": {"commit.mode": "own"},
    "events": {"commit.mode": "own", "data.on.error": "mark"},
    "flows": {"commit.mode": "shared", "drain.ms": 2_000},
    "accounts": {"commit.mode": "own", "cleanup.policy": "compact"},
}
PARTITIONS: Final = 2
SETTLED_SECONDS_MAX: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """``planted``: the gateways lose the marks of unfit records. ``version_seconds``: between two versions of the subject."""

    seconds: float
    seed: int
    gateways: int = 3
    version_seconds: float = 4.0
    pace_seconds: float = 0.3
    freeze_seconds: float = 8.0
    maintenance: bool = True
    planted: bool = False


def torture_typed(plan: Plan, directory: Path, *, progress: Callable[[str], None] = lambda text: None) -> Outcome:
    """Run the plan. Only what producers were told and what deltalake reads is compared."""
    began, history, failures = time.monotonic(), TypedHistory(), list[str]()
    kafka = [f"127.0.0.1:{free_port()}" for _ in range(plan.gateways)]
    planted = {"PYTHONPATH": str(PLANTED)} if plan.planted else {}
    environments = {index: {"TIDELOG_KAFKA_LISTEN": address, **planted} for index, address in enumerate(kafka)}
    with service(directory, plan.gateways, ("--heartbeat-ms", "500"), environments) as running:
        stopping, calm = threading.Event(), threading.Event()
        registrar = _bound(Registrar("registrar", running.urls, history, stopping, plan.seed), plan.version_seconds)
        work = _work(plan, running, kafka, history, stopping)
        threads = [_started("registrar", registrar, failures)]
        _wait(lambda: len(history.schemas) > 0, 30)
        _create(running)
        maintainer = _maintainer(plan, directory, running, history)
        threads += [_started(name, body, failures) for name, body in work]
        misfortune = Misfortune(running, _Faults(history), plan.seed, calm, plan.freeze_seconds)
        faults = _started("misfortune", misfortune.run, failures)
        if plan.maintenance:
            maintainer.start()
        deadline = time.monotonic() + plan.seconds
        while (left := deadline - time.monotonic()) > 0 and not failures and not maintainer.problems:
            progress(f"{left:.0f} s left, {len(history.sent)} values, {len(history.schemas)} versions")
            time.sleep(min(left, 1.0))
        calm.set()
        faults.join(60)
        time.sleep(3)
        stopping.set()
        failures += joined(threads, 120)
        if plan.maintenance:
            maintainer.stop()
        tables = _settled(running, history)
        failures += maintainer.problems
        failures += [f"gateway {i} ended with {code}" for i, one in enumerate(running.gateways) if (code := one.stop())]
    found = contradictions(history, TOPICS, tables)
    counts = history.counts() | dict(sorted(maintainer.counts.items()))
    counts["rows compared"] = sum(table.num_rows for table in tables.values())
    counts["contradictions in all"] = len(found)
    seconds = time.monotonic() - began
    return Outcome(counts=counts, contradictions=[*failures, *found[:SHOWN_MAX]], seconds=seconds)


class _Faults(History):
    """Counts what is done to the service."""

    def __init__(self, history: TypedHistory) -> None:
        super().__init__()
        self._counted = history

    def fault(self, what: str) -> None:
        self._counted.fault(what)


def _maintainer(plan: Plan, directory: Path, running: Service, history: TypedHistory) -> Maintainer:
    return Maintainer(
        directory,
        list(TOPICS),
        running.environment,
        _Faults(history),
        workers="local",
        seed=plan.seed,
        is_planted=False,
        is_verified=False,
    )


def _work(
    plan: Plan, running: Service, kafka: list[str], history: TypedHistory, stopping: threading.Event
) -> list[tuple[str, Callable[[], None]]]:
    found: list[tuple[str, Callable[[], None]]] = []
    for topic in TOPICS:
        for kind in ("numbered", "later", "transaction"):
            name = f"{topic}-{kind}"
            http = HttpProducer(name, running.urls, history, stopping, plan.seed)
            found.append((name, _bound(http, topic, kind, plan.pace_seconds)))
        name = f"{topic}-kafka"
        avro = KafkaProducer(name, running.urls, history, stopping, plan.seed)
        found.append((name, _bound(avro, topic, ",".join(kafka), plan.pace_seconds)))
    return found


def _bound(client: Registrar | HttpProducer | KafkaProducer, *given: Any) -> Callable[[], None]:
    def live() -> None:
        with contextlib.closing(client):
            client.run(*given)

    return live


def _create(running: Service) -> None:
    with httpx.Client(base_url=running.urls[0], timeout=60, trust_env=False) as http:
        for topic, settings in SETTINGS.items():
            config = {"value.schema": SUBJECT, "flush.ms": 20, **settings}
            made = http.post("/v1/topics", json={"name": topic, "partition_count": PARTITIONS, "config": config})
            assert made.status_code == 201, made.text


def _settled(running: Service, history: TypedHistory) -> dict[str, pa.Table]:
    """The tables, once all that was acknowledged is there, or it has taken too long."""
    tables: dict[str, pa.Table] = {}

    def look() -> bool:
        for topic in TOPICS:
            table = deltalake.DeltaTable(f"{STORE}/topics/{topic}", storage_options=running.environment)
            tables[topic] = table.to_pyarrow_table()
        missing = {(one.topic, one.value) for one in history.sent if one.outcome == "acknowledged"}
        for topic, kind in TOPICS.items():
            if kind.is_compacted:
                missing = {one for one in missing if one[0] != topic}
            missing -= {(topic, value) for value in tables[topic].column("value").to_pylist()}
        return not missing

    _wait(look, SETTLED_SECONDS_MAX)
    return tables


def _wait(holds: Callable[[], bool], seconds_max: float) -> None:
    deadline = time.monotonic() + seconds_max
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.5)


def _started(name: str, body: Callable[[], None], failures: list[str]) -> threading.Thread:
    def live() -> None:
        try:
            body()
        except Exception as problem:  # noqa: BLE001 - the run has failed
            failures.append(f"{name}: {problem!r}")

    thread = threading.Thread(name=name, target=live, daemon=True)
    thread.start()
    return thread
