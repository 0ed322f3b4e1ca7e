"""From files to requests, and what the agent writes down between them.

1. A range of bytes is in one request. Its file's position moves past it only when that request was acknowledged.
2. ``snapshot`` must be on the disk before a request is sent. It moves no position past what is acknowledged.
3. After a crash ``read_again`` makes the request of an intent from the same bytes, or says which of them are gone.

Safe from any thread: one follows the files and gathers while another sends.
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
from tidelog.collect.followed import Followed, Truncated
from tidelog.collect.following import Following
from tidelog.collect.position import Position
from tidelog.collect.split import Records, Rest, split
from tidelog.collect.state import Intent, Range, State
from tidelog.unpacking import Damaged


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRules:
    """How bytes become records. ``unfinished_s``: how long a line without its end waits for it, in seconds."""

    form: RecordForm = field(default_factory=RecordForm)
    first_line: re.Pattern[bytes] | None = None
    unfinished_s: float = 5.0


class Collector:
    """What it gathers has the form that ``shape`` was given last."""

    def __init__(self, topic: str, following: Following, rules: RecordRules) -> None:
        self.topic = topic
        self._topic_form = TopicForm(partition_count=1, record_bytes_max=RECORD_BYTES_DEFAULT)
        self._following = following
        self._rules = rules
        self._lock = threading.RLock()
        self._last_served = 0

    def shape(self, form: TopicForm) -> bool:
        """Gather for a topic of this form from now on: whether it is another one than before.

        Raises ``ValueError`` when records of so few bytes would be headers mostly.
        """
        if form.record_bytes_max < limits.RECORD_BYTES_MIN:
            raise ValueError(
                f"the topic's max.message.bytes is {form.record_bytes_max}; collecting needs {limits.RECORD_BYTES_MIN}"
            )
        before, self._topic_form = self._topic_form, form
        return form != before

    def scan(self, now_s: float, now_ms: int) -> None:
        """Match the patterns again."""
        with self._lock:
            self._following.scan(now_s, now_ms)

    def look(self, now_s: float) -> None:
        """Take in what open files have grown."""
        with self._lock:
            self._following.look(now_s)

    def gather(self, now_s: float, now_ms: int, *, full_only: bool = False) -> Batch | None:
        """The next request, or None when there is nothing to send. ``full_only``: None unless it would be a full one."""
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
        """How much there is to read, where that is known."""
        with self._lock:
            return sum(followed.unread_bytes() for followed in self._following.files.values())

    def open_count(self) -> tuple[int, int]:
        """How many files are known, and how many of them are open."""
        with self._lock:
            files = self._following.files.values()
            return len(files), sum(followed.content is not None for followed in files)

    def path_of(self, file_id: int) -> str:
        """The name that a file's records carry; empty when it is forgotten."""
        with self._lock:
            followed = self._following.files.get(file_id)
            return "" if followed is None else followed.state.path

    def left_out(self, *, tell: bool) -> int:
        """How many files are left out as copies: those of which the journal was told; with ``tell`` it is told of all."""
        with self._lock:
            return self._following.left_out(tell=tell)

    def unread_files(self, *, ended: bool) -> int:
        """Of how many files something can't be read. ``ended``: no more is to come of any."""
        with self._lock:
            return self._following.unread_files(ended=ended)

    @property
    def waits_for_ends(self) -> bool:
        """Whether records without their end wait for it."""
        with self._lock:
            return any(followed.unfinished for followed in self._following.files.values())

    def snapshot(self, intent: Intent | None) -> State:
        """What to write down now."""
        with self._lock:
            return State(
                topic=self.topic,
                next_file_id=self._following.next_file_id,
                files=tuple(followed.state for followed in self._following.files.values()),
                intent=intent,
            )

    def _skip(self, builder: BatchBuilder) -> None:
        """Only the line breaks of lines that were sent without them: nothing to send, and nothing to wait for."""
        for each in builder.ranges:
            followed = self._following.files[each.file_id]
            if followed.state.position == each.start:
                followed.state = dataclasses.replace(followed.state, position=followed.read, tail=followed.tail)

    def accept(self, ranges: Sequence[Range]) -> None:
        """Note that the records of these ranges are in the topic."""
        with self._lock:
            for each in ranges:
                followed = self._following.files.get(each.file_id)
                if followed is not None:
                    followed.state = dataclasses.replace(followed.state, position=each.end, tail=each.tail)

    def resume_behind(self, ranges: Sequence[Range]) -> None:
        """As ``accept``, for what an earlier process had gathered: reading goes on behind it."""
        with self._lock:
            self.accept(ranges)
            for file_id in {each.file_id for each in ranges}:
                followed = self._following.files.get(file_id)
                if followed is not None:
                    followed.go_back()

    def read_again(self, ranges: Sequence[Range]) -> tuple[Batch | None, list[Range]]:
        """The request made of ``ranges`` from the same bytes, and those of them that are not there any more."""
        builder = self._builder()
        lost = []
        with self._lock:
            for each in ranges:
                followed = self._following.files.get(each.file_id)
                block = None if followed is None else _bytes_again(followed, each)
                if followed is None or block is None:
                    lost.append(each)
                    continue
                records = self._split(followed, block, each.start, Rest.WHOLE if each.whole else Rest.PART)
                builder.add(each.file_id, followed.state.path, each.start, block, records)
            return builder.build(), lost

    def close(self) -> None:
        """Close every file."""
        with self._lock:
            self._following.close()

    def _builder(self) -> BatchBuilder:
        return BatchBuilder(self._rules.form, self._partition)

    def _partition(self, path: str) -> int:
        return partition_for_key(os.fsencode(path), self._topic_form.partition_count)

    def _in_turn(self) -> list[Followed]:
        """The one behind the last that was served comes first."""
        turns = list(self._following.in_turn())
        later = [followed for followed in turns if followed.state.id > self._last_served]
        return later + [followed for followed in turns if followed.state.id <= self._last_served]

    def _value_bytes_max(self, path: str) -> int:
        """What is left for a value, half of it where a key may be as long."""
        room = self._topic_form.record_bytes_max - self._rules.form.cost_bytes(path)
        # A very long path must not leave next to nothing.
        room = max(room, limits.VALUE_BYTES_MIN)
        return min(room if self._rules.form.key is None else room // 2, limits.REQUEST_COST // 2)

    def _split(self, followed: Followed, block: bytes, start: Position, rest: Rest) -> Records:
        return split(
            block,
            start,
            rest=rest,
            value_bytes_max=self._value_bytes_max(followed.state.path),
            first_line=self._rules.first_line,
        )

    def _serve_all(self, builder: BatchBuilder, now_s: float, now_ms: int) -> bool:
        """A block of each file in turn; whether there may be more, and room for it."""
        served = False
        for followed in self._in_turn():
            if builder.is_full:
                return False
            served |= self._take(followed, builder, now_s, now_ms)
        return served

    def _take(self, followed: Followed, builder: BatchBuilder, now_s: float, now_ms: int) -> bool:
        """Put the next block of a file into the request; whether that changed anything."""
        waited = now_s - followed.grown_at_s >= self._rules.unfinished_s
        settled = not followed.has_unread
        if settled and not waited:
            return False
        size = limits.BLOCK_BYTES + self._value_bytes_max(followed.state.path)
        try:
            block = followed.read_block(size)
        except Truncated:
            self._following.truncated(followed, now_ms)
            return True
        except (OSError, Damaged) as error:
            self._following.unreadable(followed, error)
            return True
        start = followed.read
        damaged = followed.content is not None and followed.content.damaged
        ended = len(block) < size and not damaged
        records = self._split(followed, block, start, Rest.LEAVE)
        if (damaged or (ended and settled and waited)) and records.consumed < len(block):
            # A record of several lines counts as whole once its last line has its end.
            records = self._split(followed, block, start, Rest.WHOLE if block.endswith(b"\n") else Rest.PART)
        fitting = builder.fitting_bytes(followed.state.path, records)
        if fitting < records.consumed:
            if fitting == 0:
                return False
            block, ended = block[:fitting], False
            records = self._split(followed, block, start, Rest.WHOLE)
        self._last_served = followed.state.id
        self._following.unread.read(followed.state.last_path)
        if ended:
            followed.exhausted_bytes = followed.stored_bytes
            followed.unfinished = records.consumed < len(block)
        if not records.consumed:
            # Once a file is at its end the next one of its name is read.
            return not settled
        builder.add(followed.state.id, followed.state.path, start, block, records)
        followed.advance(block[: records.consumed], records.next)
        return True


def _bytes_again(followed: Followed, again: Range) -> bytes | None:
    size = again.size_bytes
    try:
        if followed.content is None:
            followed.open()
        assert followed.content is not None
        block = followed.content.read(again.start.offset, size)
    except (OSError, Damaged, Truncated):
        return None
    return block if len(block) == size and zlib.crc32(block) == again.crc32 else None
