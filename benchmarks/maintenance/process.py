"""``python -m compaction`` as a process: its reports, and CPU and memory of all its processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import psutil

SAMPLE_SECONDS: Final = 0.25
END_SECONDS_MAX: Final = 60


@dataclass(slots=True)
class Memory:
    """Largest resident sizes in bytes: of each kind over the whole time, and of all together at one moment."""

    java: int = 0
    workers: int = 0
    """Python processes started by Java, together. Pages that they share after their fork count for each."""
    driver: int = 0
    all: int = 0

    def note(self, java: int, workers: int, driver: int) -> None:
        self.java = max(self.java, java)
        self.workers = max(self.workers, workers)
        self.driver = max(self.driver, driver)
        self.all = max(self.all, java + workers + driver)


class Maintenance:
    """A process started at construction; ``heap`` as Java's ``-Xmx`` (``1g`` is the default of a local session)."""

    def __init__(self, store: str, options: Sequence[str], heap: str = "1g") -> None:
        self.memory = Memory()
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - lives as long as the process
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        command = [sys.executable, "-m", "compaction", "--store", store, "--json", *options]
        environment = {**os.environ, "PYSPARK_SUBMIT_ARGS": f"--driver-memory {heap} pyspark-shell"}
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._errors, env=environment)
        self._cpu_seconds: dict[int, float] = {}
        self._ended = threading.Event()
        self._watching = threading.Thread(target=self._watch, daemon=True)
        self._watching.start()

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds so far of all its processes; of ended ones what was last seen."""
        return sum(self._cpu_seconds.values())

    def wait(self, seconds: float) -> None:
        """Wait until it ends by itself. Raises ``RuntimeError`` when it failed, ``TimeoutExpired`` when it has not ended."""
        try:
            status = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.stop()
            raise
        self._end()
        if status:
            self._errors.seek(0)
            raise RuntimeError(f"maintenance ended with {status}:\n{self._errors.read()[-2000:]}")

    def stop(self) -> None:
        """End it, by pid, as an operator would."""
        self._process.terminate()
        try:
            self._process.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(END_SECONDS_MAX)
        self._end()

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the reports so far with this event's name."""
        self._log.seek(0)
        lines = self._log.read().splitlines()
        found = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
        return [each for each in found if each["event"] == name]

    def _end(self) -> None:
        self._ended.set()
        self._watching.join()

    def _watch(self) -> None:
        while not self._ended.wait(SAMPLE_SECONDS):
            sizes = {"java": 0, "workers": 0, "driver": 0}
            try:
                driver = psutil.Process(self._process.pid)
                processes = [driver, *driver.children(recursive=True)]
            except psutil.NoSuchProcess:
                return
            for process in processes:
                try:
                    with process.oneshot():
                        kind = "driver" if process is driver else "java" if process.name() == "java" else "workers"
                        sizes[kind] += process.memory_info().rss
                        times = process.cpu_times()
                        self._cpu_seconds[process.pid] = times.user + times.system
                except psutil.NoSuchProcess:
                    continue
            self.memory.note(**sizes)
