"""An agent without threads: real files, a real state file, and a topic in memory that knows requests again."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from tidelog.calls.producers import ProducerIdentity
from tidelog.collect.batch import TopicForm
from tidelog.collect.body import RecordForm
from tidelog.collect.collector import Collector, RecordRules
from tidelog.collect.counts import Counts
from tidelog.collect.delivery import Delivery
from tidelog.collect.file_follower import FileFollower
from tidelog.collect.journal import Level
from tidelog.collect.limits import OPEN_FILES_MAX
from tidelog.collect.sink import ProducerLost, Stored
from tidelog.collect.state import State
from tidelog.collect.state_file import StateFile

NOTED_MAX = 5


class Crash(BaseException):
    """The process is killed here."""


class Line(NamedTuple):
    """A record in the topic."""

    value: bytes
    file: str | None
    line: int | None
    part: int | None
    key: bytes | None
    partition: int | None


class MemoryTopic:
    """A topic that lives through crashes of the agent. ``before`` and ``after`` are called around each append."""

    def __init__(self, form: TopicForm) -> None:
        self.form = form
        self.requests: list[list[Line]] = []
        self.producers: dict[str, dict[int, int]] = {}
        self.before: Callable[[], None] = lambda: None
        self.after: Callable[[], None] = lambda: None

    @property
    def lines(self) -> list[Line]:
        return [line for request in self.requests for line in request]

    def topic_form(self) -> TopicForm:
        return self.form

    def open_producer(self) -> ProducerIdentity:
        name = f"producer-{len(self.producers)}"
        self.producers[name] = {}
        return ProducerIdentity(producer_id=name, epoch=0)

    def store(self, body: bytes, producer: ProducerIdentity, sequence: int, *, in_doubt: bool) -> Stored:
        assert len(body) <= 16 << 20
        known = self.producers.get(producer.producer_id)
        if known is None:
            raise ProducerLost("unknown", in_doubt=in_doubt)
        self.before()
        if sequence in known:
            assert sequence > len(known) - 1 - NOTED_MAX
            return Stored(record_count=known[sequence], duplicate=True)
        if sequence != len(known):
            raise ProducerLost("out of order", in_doubt=in_doubt)
        lines = _decode(body)
        self.requests.append(lines)
        known[sequence] = len(lines)
        self.after()
        return Stored(record_count=len(lines), duplicate=False)


def _decode(body: bytes) -> list[Line]:
    lines = []
    for row in pa.ipc.open_stream(body).read_all().to_pylist():
        headers = {header["key"]: header["value"] for header in row.get("headers", ())}
        numbers = {name: int(headers[name]) if name in headers else None for name in ("line", "part")}
        file = headers["file"].decode() if "file" in headers else None
        lines.append(Line(row["value"], file, numbers["line"], numbers["part"], row.get("key"), row["partition"]))
    return lines


class Journal:
    """Remembers what was told."""

    def __init__(self) -> None:
        self.told: list[tuple[Level, str, dict[str, Any]]] = []

    def report(self, level: Level, event: str, /, **fields: Any) -> None:
        self.told.append((level, event, fields))

    def errors(self) -> list[str]:
        return [event for level, event, _ in self.told if level is Level.ERROR]


class CrashingStateFile(StateFile):
    """A state file around whose writing the process may be killed."""

    def __init__(self, path: Path, bench: Workbench) -> None:
        super().__init__(path)
        self._bench = bench

    def save(self, state: State) -> None:
        self._bench.crash_before_save()
        super().save(state)
        self._bench.crash_after_save()


class Workbench:
    """One agent after the other on the same files, state and topic; time passes only by ``pass_time``."""

    def __init__(
        self,
        directory: Path,
        *patterns: str,
        first_line: str | None = None,
        key: str | None = None,
        headers: bool = True,
        record_bytes_max: int = 1 << 20,
        from_end: bool = False,
        follow_links: bool = False,
        open_files_max: int = OPEN_FILES_MAX,
    ) -> None:
        self.directory = directory
        self.logs = directory / "logs"
        self.logs.mkdir(exist_ok=True)
        self.patterns = [str(self.logs / pattern) for pattern in patterns or ("*.log*",)]
        self.topic = MemoryTopic(TopicForm(partition_count=3, record_bytes_max=record_bytes_max))
        self.rules = RecordRules(
            form=RecordForm(key=None if key is None else re.compile(key.encode()), headers=headers),
            first_line=None if first_line is None else re.compile(first_line.encode()),
            unfinished_s=5.0,
        )
        self.from_end = from_end
        self.follow_links = follow_links
        self.open_files_max = open_files_max
        self.lose: Callable[[int], None] = lambda _: None
        self.journal = Journal()
        self.now_s = 1_000.0
        self.crash_before_save: Callable[[], None] = lambda: None
        self.crash_after_save: Callable[[], None] = lambda: None
        self.running = False

    def start(self) -> None:
        """A new process."""
        self.states = CrashingStateFile(self.directory / "agent.state", self)
        state = self.states.load("topic")
        self.follower = FileFollower(
            self.patterns,
            state.files,
            state.next_file_id,
            self.journal,
            from_end=self.from_end and not state.files,
            follow_links=self.follow_links,
            open_files_max=self.open_files_max,
            lose=self.lose,
        )
        self.collector = Collector("topic", self.follower, self.rules)
        self.counts = Counts()
        self.delivery = Delivery(self.collector, self.topic, self.states, self.journal, self.counts)
        self.running = True
        self.scan()
        self.delivery.prepare()
        if state.intent is not None:
            self.delivery.recover(state.intent)

    def kill(self) -> None:
        """The process is gone."""
        if self.running:
            self.collector.close()
            self.states.close()
            self.running = False

    def scan(self) -> None:
        self.collector.scan(self.now_s, int(self.now_s * 1000))
        self.collector.look(self.now_s)

    def send(self) -> None:
        """Everything that is there, without looking for more."""
        while (batch := self.collector.next_batch(self.now_s, int(self.now_s * 1000))) is not None:
            self.delivery.deliver(batch)
        self.delivery.settle()

    def run(self) -> None:
        """Look, and send all; started when need be. A crash on the way ends the process."""
        try:
            if not self.running:
                self.start()
            self.scan()
            self.send()
        except Crash:
            self.kill()

    def pass_time(self, seconds: float = 6.0) -> None:
        self.now_s += seconds

    def values(self) -> list[bytes]:
        return [line.value for line in self.topic.lines]

    def write(self, name: str, data: bytes) -> Path:
        """Append to a log."""
        path = self.logs / name
        with path.open("ab") as file:
            file.write(data)
        return path
