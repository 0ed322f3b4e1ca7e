"""Maintenance under torture: a process that is killed in the middle of its work and started again.

Before each start the run checks that what the process left is whole.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

from log_format.errors import StoreError
from log_format.inspection.verify import verify_topic
from log_format.stores import open_store
from tests.torture.tortured.history import History
from tests.torture.tortured.service import STORE

PLANTED = Path(__file__).parents[1] / "planted_rewrite"
COMMIT_SECONDS_MAX = 120
"""How long a kill waits for something to be committed; less may have been flushed than is worth a merge."""
EARLY_SHARE = 0.25
EARLY_SECONDS_MAX = 4
"""Some kills wait for nothing but a moment: they meet a process that starts, loads or is at its first rewrite."""


class Maintainer(threading.Thread):
    """``tidelog maintain`` again and again. ``problems``: what must not have happened.

    ``is_verified``: each topic is verified after each kill; else only once it is stopped, since the store may be down before.
    """

    def __init__(
        self,
        directory: Path,
        topics: Sequence[str],
        environment: dict[str, str],
        history: History,
        *,
        workers: str,
        seed: int,
        is_planted: bool,
        is_verified: bool = True,
    ) -> None:
        super().__init__(name="maintainer", daemon=True)
        self.kills = 0
        self.problems: list[str] = []
        self.counts: Counter[str] = Counter()
        self._directory = directory
        self._topics = topics
        planted = {"PYTHONPATH": f"{PLANTED}:{os.environ.get('PYTHONPATH', '')}"} if is_planted else {}
        self._environment = {**os.environ, **environment, **planted}
        with mock.patch.dict(os.environ, environment):
            self._store = open_store(STORE)
        self._is_verified = is_verified
        self._history = history
        self._workers = workers
        self._rng = random.Random(f"{seed}-maintainer")
        self._stopping = threading.Event()

    def run(self) -> None:
        """Until told to stop, which is one more kill."""
        while not self._stopping.is_set():
            self._live_and_die()
            for topic in self._topics if self._is_verified or self._stopping.is_set() else ():
                self._verify(topic)

    def has_worked(self, kills_min: int) -> bool:
        """Whether it was killed so often, and committed anything that it lived to tell of."""
        return self.kills >= kills_min and any(what.endswith(": committed") for what in list(self.counts))

    def stop(self) -> None:
        """Kill what runs, look at what it left, and end."""
        self._stopping.set()
        if self.is_alive():
            self.join()

    def _live_and_die(self) -> None:
        output = self._directory / f"maintenance-{self.kills}.json"
        command = [sys.executable, "-m", "tidelog", "maintain", "--store", STORE, "--workers", self._workers]
        with output.open("wb") as out, (self._directory / "maintenance.log").open("ab") as log:
            process = subprocess.Popen(
                [*command, "--every", "1s", "--json"], stdout=out, stderr=log, env=self._environment
            )
        try:
            is_early = self.kills > 0 and self._rng.random() < EARLY_SHARE
            wait_seconds = self._rng.uniform(0, EARLY_SECONDS_MAX) if is_early else COMMIT_SECONDS_MAX
            deadline = time.monotonic() + wait_seconds
            while b'"committed"' not in output.read_bytes() and process.poll() is None and time.monotonic() < deadline:
                if self._stopping.wait(0.1):
                    break
            self._stopping.wait(self._rng.choice((0, 0.2, 3)) * self._rng.random())
        finally:
            code = process.poll()
            process.kill()
            process.wait()
        if code is not None:
            self.problems.append(f"maintenance ended with {code}")
        self.kills += 1
        self._history.fault("maintenance killed")
        for line in output.read_bytes().split(b"\n")[:-1]:
            self._count(json.loads(line))

    def _count(self, event: dict[str, str]) -> None:
        match event["event"]:
            case "rewrite":
                self.counts[f"rewrites ({event['reason']}): {event['outcome']}"] += 1
            case "delete":
                self.counts[f"objects deleted: {event['why']}"] += 1
            case "failed":
                self.counts["rounds over a topic that failed, and went on in the next"] += 1

    def _verify(self, topic: str) -> None:
        """As ``tidelog verify`` does, without a program for each."""
        self.counts["verified"] += 1
        try:
            problems = verify_topic(self._store, topic).problems
        except StoreError as error:
            problems = (str(error),)
        if problems:
            what = "\n".join(problems)[-2000:]
            self.problems.append(f"topic {topic} is not whole after kill {self.kills}: {what}")
