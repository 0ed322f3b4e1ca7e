"""Spark's streams beside the torture: started, watched, and what they have seen so far (``stream_process``)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.java import INTERPRETED
from tests.torture.tortured.service import STORE
from tests.torture.tortured.witness import Batches

END_SECONDS_MAX = 60


class Streams:
    """The process, by its pid, and its files."""

    def __init__(
        self, directory: Path, topics: Sequence[str], native: Sequence[str], environment: dict[str, str]
    ) -> None:
        self._output = directory / "streams"
        self._output.mkdir()
        self._log = directory / "streams.log"
        self._names = ["tidelog", *(f"delta-{topic}" for topic in native)]
        self._seen: dict[Path, list[tuple[str, int, int, str]]] = {}
        program = str(Path(__file__).with_name("stream_process.py"))
        self._command = [sys.executable, program, "--store", STORE, "--output", str(self._output)]
        self._command += ["--topics", ",".join(topics), "--native", ",".join(native)]
        self._environment = {**os.environ, **environment, "SPARK_SUBMIT_OPTS": INTERPRETED}
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(self._command, stdout=log, stderr=log, env=self._environment)

    def start_again(self) -> None:
        """The streams go on from their checkpoints, once the process has ended."""
        self._process = self._start()

    @property
    def has_session(self) -> bool:
        """Whether Java has started, which takes longer than anything else."""
        return (self._output / "session").exists()

    def begin(self) -> None:
        """Let the streams start, now or once there is a session."""
        (self._output / "begin").touch()

    @property
    def is_ready(self) -> bool:
        """Whether all streams run."""
        return (self._output / "ready").exists()

    @property
    def differences(self) -> list[str]:
        """Micro-batches that had other rows when they came again."""
        return [path.read_text() for path in sorted(self._output.glob("*.differs"))]

    @property
    def failure(self) -> str | None:
        """Why the process has ended, if it has."""
        code = self._process.poll()
        if code is None or (code == 0 and (self._output / "stop").exists()):
            return None
        return f"Spark's streams ended with {code}: {self._log.read_text(errors='replace')[-3000:]}"

    def batches(self) -> dict[str, Batches]:
        """By stream: its micro-batches so far, in order."""
        found: dict[str, Batches] = {}
        for name in self._names:
            paths = sorted((self._output / name).glob("*.json"))
            for path in paths:
                if path not in self._seen:
                    self._seen[path] = [tuple(row) for row in json.loads(path.read_text())]
            found[name] = [self._seen[path] for path in paths]
        return found

    def stop(self) -> None:
        """Let the streams end what they are at."""
        (self._output / "stop").touch()
        try:
            self._process.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it at once; Java, which it has started, ends with it."""
        self._process.kill()
        self._process.wait()
