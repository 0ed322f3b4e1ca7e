"""Lines in = lines out, in order in each file, for any interleaving of writes, rotations, kills and lost producers.

The model is a list of lines for each file that ever was. A rotation is done as logrotate does it, in its steps, between which
the agent may look, send, or be killed before or after anything that it writes down or sends.
"""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
from collections import defaultdict
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from tests.support.collect_bench import Crash, Workbench

LOGS = ("app.log", "web.log")
SUFFIXES = ("", ".gz", ".zst")
log_names = st.sampled_from(LOGS)


class Rotations(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="tidelog-collect-"))
        self.bench = Workbench(self.directory, "*.log*")
        self.generation = dict.fromkeys(LOGS, 0)
        self.expected: dict[str, list[bytes]] = defaultdict(list)
        self.open_line = dict.fromkeys(LOGS, b"")
        self.copied: set[str] = set()
        self.count = 0

    def name(self, log: str) -> str:
        return f"{log} {self.generation[log]}"

    def path(self, log: str, number: int = 0, suffix: str = "") -> Path:
        return Path(self.bench.logs) / (f"{log}.{number}{suffix}" if number else log)

    @rule(log=log_names, count=st.integers(1, 30))
    def write(self, log: str, count: int) -> None:
        # Between copying and truncating a line may be lost, as with logrotate: only the writer could prevent that.
        if log in self.copied:
            return
        data = b""
        for _ in range(count):
            self.count += 1
            line = self.open_line[log] + b"%d" % self.count if self.open_line[log] else self.new_line(log)
            data += line[len(self.open_line[log]) :] + b"\n"
            self.open_line[log] = b""
            self.expected[self.name(log)].append(line)
        self.bench.write(log, data)

    @rule(log=log_names)
    def write_half_a_line(self, log: str) -> None:
        if log in self.copied or self.open_line[log]:
            return
        self.count += 1
        self.open_line[log] = self.new_line(log)
        self.bench.write(log, self.open_line[log])

    def new_line(self, log: str) -> bytes:
        return f"{self.name(log)} {self.count} ".encode() + b"x" * (self.count % 50)

    def finish_line(self, log: str) -> None:
        if self.open_line[log]:
            self.write(log, 1)

    def shift(self, log: str) -> None:
        """``.2`` becomes ``.3`` and so on, as they are, compressed or not."""
        for number in range(20, 0, -1):
            for suffix in SUFFIXES:
                path = self.path(log, number, suffix)
                if path.exists():
                    path.rename(self.path(log, number + 1, suffix))

    @rule(log=log_names)
    def rename(self, log: str) -> None:
        if log in self.copied or not self.path(log).exists():
            return
        self.finish_line(log)
        self.shift(log)
        self.path(log).rename(self.path(log, 1))
        self.generation[log] += 1

    @rule(log=log_names)
    def copy(self, log: str) -> None:
        if log in self.copied or not self.path(log).exists():
            return
        self.finish_line(log)
        self.shift(log)
        shutil.copy(self.path(log), self.path(log, 1))
        self.copied.add(log)

    @precondition(lambda self: self.copied)
    @rule(log=log_names)
    def truncate(self, log: str) -> None:
        if log in self.copied:
            os.truncate(self.path(log), 0)
            self.copied.discard(log)
            self.generation[log] += 1

    @rule(log=log_names, number=st.integers(1, 3), suffix=st.sampled_from(SUFFIXES[1:]), agent_looks=st.booleans())
    def compress(self, log: str, number: int, suffix: str, agent_looks: bool) -> None:
        path = self.path(log, number)
        if not path.exists() or (log in self.copied and number == 1):
            return
        data = path.read_bytes()
        packed = gzip.compress(data) if suffix == ".gz" else zstandard.compress(data)
        self.path(log, number, suffix).write_bytes(packed)
        if agent_looks:
            self.bench.run()
        path.unlink()

    @rule(log=log_names, number=st.integers(1, 3), suffix=st.sampled_from(SUFFIXES))
    def delete_what_was_sent(self, log: str, number: int, suffix: str) -> None:
        if self.path(log, number, suffix).exists() and log not in self.copied:
            self.bench.run()
            self.path(log, number, suffix).unlink()

    @rule()
    def run_agent(self) -> None:
        self.bench.run()

    @rule()
    def only_look(self) -> None:
        if self.bench.running:
            self.bench.pass_time(1.0)
            self.bench.scan()

    @rule()
    def only_send(self) -> None:
        if self.bench.running:
            self.bench.send()

    @rule()
    def kill(self) -> None:
        self.bench.kill()

    @rule(
        where=st.sampled_from(["before save", "after save", "before store", "after store"]), countdown=st.integers(1, 3)
    )
    def kill_while_it_runs(self, where: str, countdown: int) -> None:
        left = countdown

        def die() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise Crash

        bench = self.bench
        if where.endswith("save"):
            setattr(bench, f"crash_{where.replace(' ', '_')}", die)
        else:
            setattr(bench.topic, where.split(maxsplit=1)[0], die)
        bench.run()
        bench.crash_before_save = bench.crash_after_save = bench.topic.before = bench.topic.after = lambda: None

    def teardown(self) -> None:
        try:
            for log in LOGS:
                self.truncate(log)
                self.finish_line(log)
            for _ in range(4):
                self.bench.run()
                self.bench.pass_time(2.0)
            self.check()
        finally:
            self.bench.kill()
            shutil.rmtree(self.directory)

    def check(self) -> None:
        lines: list[bytes] = []
        newest: dict[str | None, int] = {}
        for line in self.bench.topic.lines:
            if line.part is not None and line.part > 1:
                lines[newest[line.file]] += line.value
            else:
                newest[line.file] = len(lines)
                lines.append(line.value)
        sent = defaultdict(list)
        for value in lines:
            log, generation, *_ = value.split(b" ")
            sent[f"{log.decode()} {int(generation)}"].append(value)
        assert dict(sent) == {name: lines for name, lines in self.expected.items() if lines}
        assert self.bench.journal.errors() == []


@pytest.mark.timeout(300)
def test_lines_in_are_lines_out() -> None:
    """Whatever is written comes out once and in order, and nothing is ever said to be in doubt."""
    run_state_machine_as_test(
        Rotations,
        settings=settings(
            max_examples=int(os.environ.get("TIDELOG_COLLECT_EXAMPLES", "150")),
            stateful_step_count=30,
            suppress_health_check=list(HealthCheck),
        ),
    )
