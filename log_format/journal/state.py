"""The state of a journal at one version: its topics, and where the records are that are not drained yet.

1. A run continues its partition exactly. A commit that breaks this makes the log corrupt.
2. An object is needed while one of its runs is undrained. Any commit may remove the others.
3. ``runs`` is shared with later states, like a topic's manifest: runs are only added to it, or dropped once drained. So is
   ``committed``.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Self

from log_format.delta.actions import Commit, plain_path
from log_format.delta.table import NO_LOG
from log_format.errors import CorruptData
from log_format.journal.committed_versions import CommittedVersions
from log_format.journal.content import decode_content
from log_format.journal.object_tags import CommittedObject
from log_format.journal.topics import NO_TOPICS, JournalTopic, JournalTopics
from log_format.journal.undrained import Undrained, UndrainedRun
from log_format.segments.run import Run

_FILE_BYTES: Final = 700
"""Memory of a live object in bytes: its reference, and its entry here."""


@dataclass(slots=True)
class _File:
    """A live object: its size, and how many of its topics are not drained."""

    size_bytes: int
    topics_left: int


class JournalRuns:
    """The undrained runs of all topics, and the objects that no topic needs. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_topic: dict[str, Undrained] = {}
        self._files: dict[str, _File] = {}
        self._unneeded: dict[str, int] = {}
        self._undrained_bytes = 0
        self.run_count = 0
        """Number of undrained runs, over all topics."""

    def of(self, topic_id: str | None) -> Undrained | None:
        """Return the undrained runs of one topic; None if all its records are in its own table."""
        return None if topic_id is None else self._by_topic.get(topic_id)

    @property
    def memory_bytes(self) -> int:
        """Estimated memory in bytes."""
        return _FILE_BYTES * len(self._files) + self._undrained_bytes

    def file_count(self) -> int:
        """Return the number of live objects."""
        return len(self._files)

    def has_file(self, path: str) -> bool:
        """Return whether the object is live."""
        return path in self._files

    def unneeded(self, count_max: int) -> list[tuple[str, int]]:
        """Return paths and sizes of live objects whose records are all in the topics' tables, oldest first."""
        with self._lock:
            return [pair for pair, _ in zip(self._unneeded.items(), range(count_max), strict=False)]

    def add(self, placed: CommittedObject, topics: JournalTopics) -> None:
        """Add an object, with those of its topics that have records not below ``drained``. Raises ``CorruptData``."""
        left = 0
        with self._lock:
            for content in placed.topics:
                topic = topics.by_id.get(content.topic_id)
                if topic is None or not _has_undrained(content.runs, topic):
                    continue
                left += 1
                undrained = self._by_topic.get(topic.topic_id)
                if undrained is None:
                    undrained = self._by_topic[topic.topic_id] = Undrained(topic.drained)
                    self._count(undrained)
                self._undrained_bytes += undrained.add(placed.ref, content.runs)
                self.run_count += len(content.runs)
            path = placed.ref.path
            if path in self._files:
                raise CorruptData(f"The log of a journal adds {path} twice.", segment=path)
            self._files[path] = _File(placed.ref.size_bytes, left)
            if not left:
                self._unneeded[path] = placed.ref.size_bytes

    def remove(self, path: str) -> None:
        """Drop an object that left the table."""
        with self._lock:
            self._files.pop(path, None)
            self._unneeded.pop(path, None)

    def forget_drained(self, topic_id: str, topic: JournalTopic | None) -> None:
        """Drop the topic's objects that are entirely in its own table; all of them if ``topic`` is None."""
        with self._lock:
            undrained = self._by_topic.pop(topic_id, None)
            if undrained is None:
                return
            self._count(undrained, -1)
            kept = []
            for part in undrained.parts():
                if topic is not None and _has_undrained(part.runs, topic):
                    kept.append(part)
                    continue
                if (file := self._files.get(part.ref.path)) is not None:
                    file.topics_left -= 1
                    if not file.topics_left:
                        self._unneeded[part.ref.path] = file.size_bytes
            if topic is not None and kept:
                self._by_topic[topic.topic_id] = undrained = Undrained(topic.drained, kept)
                self._count(undrained)

    def _count(self, undrained: Undrained, sign: int = 1) -> None:
        self.run_count += sign * undrained.run_count
        self._undrained_bytes += sign * undrained.memory_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalState:
    """One journal at one version. Immutable except for ``runs`` and ``committed``."""

    journal: int
    version: int = NO_LOG
    topics: JournalTopics = NO_TOPICS
    modification_time_ms: int = 0
    runs: JournalRuns = field(default_factory=JournalRuns, compare=False)
    committed: CommittedVersions = field(default_factory=CommittedVersions, compare=False)

    def topic(self, topic_id: str | None) -> JournalTopic | None:
        """Return the journal's state of a topic, None if it has none."""
        return None if topic_id is None else self.topics.by_id.get(topic_id)

    def apply(self, commit: Commit, version: int) -> Self:
        """Return the state after the next commit. Call it once per commit. Raises ``CorruptData``."""
        if version != self.version + 1:
            raise ValueError(f"commit {version} does not follow version {self.version}")
        content = decode_content(commit)
        topics = content.apply_to(self.topics)
        for topic_id in dict.fromkeys(entry.topic_id for entry in content.entries):
            before, after = self.topics.by_id.get(topic_id), topics.by_id.get(topic_id)
            if before is not None and (after is None or after.drained is not before.drained):
                self.runs.forget_drained(topic_id, after if after is not None and after.first == before.first else None)
        for one in content.objects:
            self.runs.add(one, topics)
            self.committed.add(one.ref.path, version)
        for remove in commit.removes:
            self.runs.remove(plain_path(remove.path))
            self.committed.add(plain_path(remove.path), version)
        newest_ms = max([self.modification_time_ms, *(add.modification_time for add in commit.adds)])
        return replace(self, version=version, topics=topics, modification_time_ms=newest_ms)


def _has_undrained(runs: Sequence[Run | UndrainedRun], topic: JournalTopic) -> bool:
    drained = topic.drained
    for run in runs:  # noqa: SIM110 - the generator of any() costs more than the usual one run
        if run.end_offset > drained[run.partition]:
            return True
    return False
