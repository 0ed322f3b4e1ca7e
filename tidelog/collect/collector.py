"""Conversion of files to requests, and the state to store in between.

1. A byte range is in one request. Its file's position moves past it only when that request is acknowledged.
2. A ``snapshot`` must be durable before a request is sent. It moves no position past acknowledged data.
3. After a crash ``read_again`` rebuilds the request of an intent from the same bytes, or reports which of them are gone.

Thread-safe: one thread follows the files and gathers while another sends.
"""

from __future__ import annotations

import dataclasses
import os
import re
import threading
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from log_format.limits import RECORD_BYTES_DEFAULT
from log_format.records.partitioner import partition_for_key
from tidelog.collect import limits
from tidelog.collect.batch import Batch, BatchBuilder, TopicForm
from tidelog.collect.body import RecordForm
from tidelog.collect.file_follower import FileFollower
from tidelog.collect.followed_file import FollowedFile, Truncated
from tidelog.collect.position import Position
from tidelog.collect.split import Records, Remainder, split
from tidelog.collect.state import Intent, Range, State
from tidelog.unpacking import Damaged


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRules:
    """Rules for converting bytes to records. ``unfinished_s``: how long an unfinished line waits for its end, in seconds."""

    form: RecordForm = field(default_factory=RecordForm)
    first_line: re.Pattern[bytes] | None = None
    unfinished_s: float = 5.0


class Collector:
    """Collector of requests in the form last given to ``shape``."""

    def __init__(self, topic: str, follower: FileFollower, rules: RecordRules) -> None:
        self.topic = topic
        self._topic_form = TopicForm(partition_count=1, record_bytes_max=RECORD_BYTES_DEFAULT)
        self._follower = follower
        self._rules = rules
        self._lock = threading.RLock()
        self._last_served = 0

    def set_form(self, form: TopicForm) -> bool:
        """Set the topic's form, and return whether it has changed.

        Raises ``ValueError`` when records would be so small that they would consist mostly of headers.
        """
        if form.record_bytes_max < limits.RECORD_BYTES_MIN:
            raise ValueError(
                f"the topic's max.message.bytes is {form.record_bytes_max}; collect needs at least {limits.RECORD_BYTES_MIN}"
            )
        before, self._topic_form = self._topic_form, form
        return form != before

    def scan(self, now_s: float, now_ms: int) -> None:
        """Match the patterns."""
        with self._lock:
            self._follower.scan(now_s, now_ms)

    def look(self, now_s: float) -> None:
        """Update the sizes of open files."""
        with self._lock:
            self._follower.look(now_s)

    def next_batch(self, now_s: float, now_ms: int, *, full_only: bool = False) -> Batch | None:
        """Return the next request, or None if there is nothing to send. ``full_only``: None unless it would be full."""
        with self._lock:
            if full_only and self.unread_bytes() < limits.REQUEST_COST:
                return None
            builder = self._builder()
            while self._serve_all(builder, now_s, now_ms):
                pass
            batch = builder.build()
            if batch is None:
                self._skip(builder)
            return batch

    def unread_bytes(self) -> int:
        """Return the number of unread bytes, as far as known."""
        with self._lock:
            return sum(followed.unread_bytes() for followed in self._follower.files.values())

    def open_count(self) -> tuple[int, int]:
        """Return the number of known files, and of open files."""
        with self._lock:
            files = self._follower.files.values()
            return len(files), sum(followed.content is not None for followed in files)

    def path_of(self, file_id: int) -> str:
        """Return the name that a file's records carry; empty for a forgotten file."""
        with self._lock:
            followed = self._follower.files.get(file_id)
            return "" if followed is None else followed.state.path

    def count_skipped(self, *, report: bool) -> int:
        """Return the number of reported files that are left out as copies. ``report``: report all of them now."""
        with self._lock:
            return self._follower.count_skipped(report=report)

    def unread_files(self, *, ended: bool) -> int:
        """Return the number of files that can't be read to their end. ``ended``: no more data is expected."""
        with self._lock:
            return self._follower.unread_files(ended=ended)

    @property
    def has_unfinished_lines(self) -> bool:
        """Whether unfinished records wait for their end."""
        with self._lock:
            return any(followed.unfinished for followed in self._follower.files.values())

    def snapshot(self, intent: Intent | None) -> State:
        """Return the state to store now."""
        with self._lock:
            return State(
                topic=self.topic,
                next_file_id=self._follower.next_file_id,
                files=tuple(followed.state for followed in self._follower.files.values()),
                intent=intent,
            )

    def _skip(self, builder: BatchBuilder) -> None:
        """Advance over the line breaks of lines that were sent without them, which need no request."""
        for each in builder.ranges:
            followed = self._follower.files[each.file_id]
            if followed.state.position == each.start:
                followed.state = dataclasses.replace(followed.state, position=followed.read, tail=followed.tail)

    def accept(self, ranges: Sequence[Range]) -> None:
        """Record that the records of these ranges are in the topic."""
        with self._lock:
            for each in ranges:
                followed = self._follower.files.get(each.file_id)
                if followed is not None:
                    followed.state = dataclasses.replace(followed.state, position=each.end, tail=each.tail)

    def resume_after(self, ranges: Sequence[Range]) -> None:
        """Accept ranges that an earlier process had gathered, and continue reading behind them."""
        with self._lock:
            self.accept(ranges)
            for file_id in {each.file_id for each in ranges}:
                followed = self._follower.files.get(file_id)
                if followed is not None:
                    followed.go_back()

    def read_again(self, ranges: Sequence[Range]) -> tuple[Batch | None, list[Range]]:
        """Return the request rebuilt from the bytes of ``ranges``, and the ranges whose bytes are gone."""
        builder = self._builder()
        lost = []
        with self._lock:
            for each in ranges:
                followed = self._follower.files.get(each.file_id)
                block = None if followed is None else _bytes_again(followed, each)
                if followed is None or block is None:
                    lost.append(each)
                    continue
                records = self._split(followed, block, each.start, Remainder.WHOLE if each.whole else Remainder.PART)
                builder.add(each.file_id, followed.state.path, each.start, block, records)
            return builder.build(), lost

    def close(self) -> None:
        """Close every file."""
        with self._lock:
            self._follower.close()

    def _builder(self) -> BatchBuilder:
        return BatchBuilder(self._rules.form, self._partition)

    def _partition(self, path: str) -> int:
        return partition_for_key(os.fsencode(path), self._topic_form.partition_count)

    def _readable_in_order(self) -> list[FollowedFile]:
        """Return the files to serve, beginning after the last one served."""
        turns = list(self._follower.rotation())
        later = [followed for followed in turns if followed.state.id > self._last_served]
        return later + [followed for followed in turns if followed.state.id <= self._last_served]

    def _value_bytes_max(self, path: str) -> int:
        """Return the limit of a value: half of the room if a key may be as long."""
        room = self._topic_form.record_bytes_max - self._rules.form.cost_bytes(path)
        # A very long path must still leave room for a value.
        room = max(room, limits.VALUE_BYTES_MIN)
        return min(room if self._rules.form.key is None else room // 2, limits.REQUEST_COST // 2)

    def _split(self, followed: FollowedFile, block: bytes, start: Position, rest: Remainder) -> Records:
        return split(
            block,
            start,
            rest=rest,
            value_bytes_max=self._value_bytes_max(followed.state.path),
            first_line=self._rules.first_line,
        )

    def _serve_all(self, builder: BatchBuilder, now_s: float, now_ms: int) -> bool:
        """Take a block of each file, and return whether there may be more, and room for it."""
        served = False
        for followed in self._readable_in_order():
            if builder.is_full:
                return False
            served |= self._take(followed, builder, now_s, now_ms)
        return served

    def _take(self, followed: FollowedFile, builder: BatchBuilder, now_s: float, now_ms: int) -> bool:
        """Add the next block of a file to the request, and return whether anything changed."""
        waited = now_s - followed.grown_at_s >= self._rules.unfinished_s
        settled = not followed.has_unread
        if settled and not waited:
            return False
        size = limits.BLOCK_BYTES + self._value_bytes_max(followed.state.path)
        try:
            block = followed.read_block(size)
        except Truncated:
            self._follower.note_truncation(followed, now_ms)
            return True
        except (OSError, Damaged) as error:
            self._follower.note_unreadable(followed, error)
            return True
        start = followed.read
        damaged = followed.content is not None and followed.content.damaged
        ended = len(block) < size and not damaged
        records = self._split(followed, block, start, Remainder.LEAVE)
        if (damaged or (ended and settled and waited)) and records.consumed < len(block):
            # A multi-line record is complete once its last line is.
            records = self._split(followed, block, start, Remainder.WHOLE if block.endswith(b"\n") else Remainder.PART)
        fitting = builder.fitting_bytes(followed.state.path, records)
        if fitting < records.consumed:
            if fitting == 0:
                return False
            block, ended = block[:fitting], False
            records = self._split(followed, block, start, Remainder.WHOLE)
        self._last_served = followed.state.id
        self._follower.unread.read(followed.state.last_path)
        if ended:
            followed.exhausted_bytes = followed.stored_bytes
            followed.unfinished = records.consumed < len(block)
        if not records.consumed:
            # When a file is at its end, the next one of its name is read.
            return not settled
        builder.add(followed.state.id, followed.state.path, start, block, records)
        followed.advance(block[: records.consumed], records.next)
        return True


def _bytes_again(followed: FollowedFile, again: Range) -> bytes | None:
    size = again.size_bytes
    try:
        if followed.content is None:
            followed.open()
        assert followed.content is not None
        block = followed.content.read(again.start.offset, size)
    except (OSError, Damaged, Truncated):
        return None
    return block if len(block) == size and zlib.crc32(block) == again.crc32 else None
