"""One run of Spark's sink: source -> sink -> Delta, while drivers and gateways are killed; then every input is there once.

Every other driver is killed as soon as one of its batches is decided, before Spark has noted it as done. The next driver
repeats the batch, which must not be written twice. The others are killed at any moment. Gateways are killed all the time.
"""

from __future__ import annotations

import contextlib
import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import deltalake

from log_format.clock import SystemClock
from log_format.delta.log import TableLog
from log_format.errors import StoreError
from log_format.stores import open_store
from log_format.transactions.state import transactions_table
from tests.torture.tortured.driver_run import DriverRun, Plan
from tests.torture.tortured.service import STORE, Service
from tests.torture.tortured.spark_sink_job import LAKE, SOURCE, WAYS, topics_of

JOB = Path(__file__).with_name("spark_sink_job.py")
BATCH = 60
GATEWAY_PAUSE_SECONDS = (2.0, 6.0)


class SparkSinkRun(DriverRun):
    """The point: a batch is decided, and Spark has not noted it as done."""

    GATEWAYS = 2
    PLANTED = Path(__file__).parents[1] / "planted"
    TOPICS = (SOURCE, *(topic for way in WAYS for topic in topics_of(way)))
    FED = 240
    RANDOM_SECONDS_MAX = 6.0

    def __init__(self, plan: Plan, running: Service, directory: Path, progress: Callable[[str], None]) -> None:
        super().__init__(plan, running, directory, progress)
        self._checkpoints = directory / "checkpoints"
        self._transactions = TableLog(open_store(STORE), transactions_table(), SystemClock())

    def judge(self) -> list[str]:
        """What is missing or there twice, in the topics and in the Delta table."""
        sent = {str(number) for number in range(self.counts["records"])}
        storage = self.running.environment
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

    def command(self, *, is_last: bool) -> list[str]:
        """The last one takes larger batches."""
        batch = str(BATCH * 10 if is_last else BATCH)
        return [str(JOB), STORE, ",".join(self.running.urls), str(self._checkpoints), batch]

    def steps(self) -> Sequence[int]:
        """The newest batch that Spark has begun of each way."""
        return [self._newest(way, "offsets") for way in WAYS]

    def is_at_the_point(self, before: Sequence[int]) -> bool:
        """Of any way."""
        del before
        return any(self._is_decided_and_not_noted(way) for way in WAYS)

    def count_what_was_cut_off(self) -> None:
        """Batches that the next driver repeats, and that must not be written twice."""
        repeated = sum(self._is_decided_and_not_noted(way) for way in WAYS)
        self.counts["batches decided, their driver killed before Spark's note"] += repeated

    @contextlib.contextmanager
    def misfortune(self, chosen: random.Random) -> Iterator[None]:
        """Gateways are killed, one at a time."""
        calm = threading.Event()
        killer = threading.Thread(target=self._kill_gateways, args=(chosen, calm), name="misfortune", daemon=True)
        killer.start()
        try:
            yield
        finally:
            calm.set()
            killer.join()

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

    def _kill_gateways(self, chosen: random.Random, calm: threading.Event) -> None:
        while not calm.wait(chosen.uniform(*GATEWAY_PAUSE_SECONDS)):
            gateway = chosen.choice(self.running.gateways)
            gateway.kill()
            self.counts["gateways killed"] += 1
            calm.wait(chosen.uniform(0, 2))
            try:
                gateway.start()
            except RuntimeError as problem:
                self.failures.append(str(problem))
                return
