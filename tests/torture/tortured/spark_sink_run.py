"""One run of Spark's sink: source -> sink -> Delta, while drivers and gateways are killed; then every input is there once.

Every other driver is killed as soon as a batch of it is seen to be decided, which is before Spark has noted it as done: it is
repeated by the next driver, and must not be written twice. The others are killed at any moment. Gateways are killed all the time.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import deltalake
from tortured.killed_driver import killed_driver
from tortured.run import Outcome
from tortured.service import STORE, Service, service
from tortured.spark_sink_job import LAKE, SOURCE, WAYS, topics_of

from log_format.clock import SystemClock
from log_format.errors import StoreError
from log_format.stores import open_store
from log_format.table_log import TableLog
from log_format.transactions_state import transactions_table
from tidelog import Admin, Producer

JOB = Path(__file__).with_name("spark_sink_job.py")
PLANTED = Path(__file__).parents[1] / "planted"
INPUTS = 240
"""New records before each start of a driver."""
BATCH = 60
DRIVER_SECONDS_MAX = 240.0
LAST_SECONDS_MAX = 600.0
LAST_STARTS_MAX = 5
RANDOM_SECONDS_MAX = 6.0
GATEWAY_PAUSE_SECONDS = (2.0, 6.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """``planted``: the batches' names are ignored, so that the run must find records twice."""

    restarts: int
    seed: int
    gateways: int = 2
    planted: bool = False


class SparkSinkRun:
    """What is under way."""

    def __init__(self, plan: Plan, running: Service, directory: Path, progress: Callable[[str], None]) -> None:
        self._plan = plan
        self._running = running
        self._directory = directory
        self._progress = progress
        self._chosen = random.Random(plan.seed)
        self._calm = threading.Event()
        self._checkpoints = directory / "checkpoints"
        self._transactions = TableLog(open_store(STORE), transactions_table(), SystemClock())
        self.counts = Counter[str]()
        self.failures: list[str] = []

    def run(self) -> None:
        """All of the plan; at its end everything is in the Delta table that was sent."""
        with Admin(self._running.urls) as admin:
            for topic in (SOURCE, *(topic for way in WAYS for topic in topics_of(way))):
                admin.create_topic(topic, partition_count=2, config={"flush.ms": 50})
        misfortune = threading.Thread(target=self._kill_gateways, name="misfortune", daemon=True)
        misfortune.start()
        try:
            for restart in range(self._plan.restarts):
                self._progress(f"driver {restart} of {self._plan.restarts}, {dict(self.counts)}")
                self._feed()
                self._run_driver(restart)
        finally:
            self._calm.set()
            misfortune.join()
        for _ in range(LAST_STARTS_MAX):
            if self._run_driver(None) == 0:
                return
        self.failures.append(f"{LAST_STARTS_MAX} drivers that nobody killed did not come to their end")

    def judge(self) -> list[str]:
        """What is missing or there twice, in the topics and in the Delta table."""
        sent = {str(number) for number in range(self.counts["inputs"])}
        storage = self._running.environment
        lake = deltalake.DeltaTable(f"{STORE}/{LAKE}", storage_options=storage).to_pyarrow_table()
        found = {
            (LAKE, topic): Counter[str](
                value for name, value in zip(*(c.to_pylist() for c in lake.columns), strict=True) if name == topic
            )
            for way in WAYS
            for topic in topics_of(way)
        }
        for _, topic in list(found):
            table = deltalake.DeltaTable(f"{STORE}/topics/{topic}", storage_options=storage)
            values = table.to_pyarrow_table(columns=["value"]).column("value").to_pylist()
            found["topic", topic] = Counter(value.decode() for value in values)
        wrong = []
        for (where, topic), values in sorted(found.items()):
            self.counts["records compared"] += values.total()
            missing, twice = sent - values.keys(), [value for value, count in values.items() if count > 1]
            if missing or twice or values.keys() - sent:
                wrong.append(f"{where} {topic}: {len(missing)} missing, {len(twice)} more than once")
        return wrong

    def _feed(self) -> None:
        with Producer(self._running.urls) as producer:
            for number in range(self.counts["inputs"], self.counts["inputs"] + INPUTS):
                producer.send(SOURCE, str(number), key=str(number))
        self.counts["inputs"] += INPUTS

    def _run_driver(self, restart: int | None) -> int:
        """One driver, killed on its way; None: the last one, which should come to its end. How it ended."""
        batch = str(BATCH if restart is not None else BATCH * 10)
        command = [str(JOB), STORE, ",".join(self._running.urls), str(self._checkpoints), batch]
        log = self._directory / f"driver-{'last' if restart is None else restart}.log"
        with killed_driver(command, log, planted=PLANTED if self._plan.planted else None) as process:
            try:
                if restart is None:
                    process.wait(LAST_SECONDS_MAX)
                else:
                    self._until_it_is_killed(process, at_a_decision=restart % 2 == 0)
            except subprocess.TimeoutExpired:
                self.counts["drivers that took too long"] += 1
        code = process.wait()
        if code not in (0, -signal.SIGKILL):
            # Spark waits 10 s for its own Python processes, which a busy machine may need: it is started again, as anybody would.
            self.counts["drivers that gave up by themselves"] += 1
        elif restart is not None:
            self.counts["drivers killed" if code else "drivers that were done before"] += 1
        repeated = [way for way in WAYS if self._is_decided_and_not_noted(way)]
        self.counts["batches decided, their driver killed before Spark's note"] += len(repeated)
        return code

    def _until_it_is_killed(self, process: subprocess.Popen[bytes], *, at_a_decision: bool) -> None:
        deadline = time.monotonic() + DRIVER_SECONDS_MAX
        before = self._batches()
        started: float | None = None
        enough = self._chosen.uniform(0, RANDOM_SECONDS_MAX)
        while process.poll() is None and time.monotonic() < deadline:
            if started is None and self._batches() != before:
                started = time.monotonic()
            if at_a_decision and started is not None and any(self._is_decided_and_not_noted(way) for way in WAYS):
                return
            if not at_a_decision and started is not None and time.monotonic() - started > enough:
                return
            time.sleep(0.02)

    def _batches(self) -> list[int]:
        return [self._newest(way, "offsets") for way in WAYS]

    def _newest(self, way: str, kind: str) -> int:
        """The newest batch that Spark has begun (``offsets``) or ended (``commits``); -1: none."""
        folder = self._checkpoints / way / kind
        names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        return max((int(name) for name in names if name.isdecimal()), default=-1)

    def _is_decided_and_not_noted(self, way: str) -> bool:
        begun = self._newest(way, "offsets")
        if begun <= self._newest(way, "commits"):
            return False
        metadata = self._checkpoints / way / "metadata"
        try:
            query_id = json.loads(metadata.read_text())["id"]
            state = self._transactions.refresh()
        except (OSError, ValueError, StoreError):
            return False
        row = state.producers.get(f"spark-{query_id}")
        return row is not None and row.committed_number == begun

    def _kill_gateways(self) -> None:
        chosen = random.Random(self._plan.seed + 1)
        while not self._calm.wait(chosen.uniform(*GATEWAY_PAUSE_SECONDS)):
            gateway = chosen.choice(self._running.gateways)
            gateway.kill()
            self.counts["gateways killed"] += 1
            self._calm.wait(chosen.uniform(0, 2))
            try:
                gateway.start()
            except RuntimeError as problem:
                self.failures.append(str(problem))
                return


def torture_spark_sink(plan: Plan, directory: Path, *, progress: Callable[[str], None] = lambda _text: None) -> Outcome:
    """Run the plan and judge what is there at its end."""
    began = time.monotonic()
    with service(directory, plan.gateways) as running, mock.patch.dict(os.environ, running.environment):
        run = SparkSinkRun(plan, running, directory, progress)
        run.run()
        contradictions = run.judge() if not run.failures else []
        run.failures += [
            f"gateway {i} ended with {code}" for i, g in enumerate(running.gateways) if (code := g.stop()) != 0
        ]
    return Outcome(
        counts=dict(run.counts), contradictions=run.failures + contradictions, seconds=time.monotonic() - began
    )
