"""A followed file: its stored state, and this process's progress in reading it."""

from __future__ import annotations

import dataclasses
from collections import deque

from tidelog.collect import limits
from tidelog.collect.content import Content
from tidelog.collect.position import Position, Tail
from tidelog.collect.state import FileState
from tidelog.unpacking import Damaged


class Truncated(Exception):
    """The bytes before the position differ from those that were read: the file was truncated or rewritten."""


class FollowedFile:
    """A followed file. ``state``: what is in the topic for certain; ``read`` and ``tail`` are ahead of it by what is in
    flight."""

    def __init__(self, state: FileState, *, follow_links: bool) -> None:
        self.state = state
        self._follow_links = follow_links
        self.read = state.position
        self.tail = state.tail
        self.marks: deque[tuple[int, Tail]] = deque(maxlen=limits.MARKS_MAX)
        """Last positions after the head up to which it was read, with their tails; oldest first."""
        self.content: Content | None = None
        self.present = False
        """Whether the newest scan found it."""
        self.stored_bytes = 0
        """Size on disk at the last check."""
        self.grown_at_s = 0.0
        """Time of the last observed growth, on the agent's clock."""
        self.exhausted_bytes: int | None = None
        """Size on disk at which everything but an unfinished record was read; None: there may be more."""
        self.unfinished = False
        """Whether bytes after ``read`` wait for the end of their record."""
        self.cut_off = False
        """Whether the last read of a compressed file reached the file's end in the middle of the stream."""
        self.postponed = False
        """Whether reading failed, and the next scan that finds the file tries again."""
        self.failed = False
        """Whether the file can't be read, which was reported."""

    @property
    def has_unread(self) -> bool:
        """Whether there may be something to read, besides an unfinished record."""
        return not self.failed and self.exhausted_bytes != self.stored_bytes

    @property
    def detached(self) -> bool:
        """Whether the described file was truncated."""
        return self.state.inode == 0

    @property
    def delivered(self) -> bool:
        """Whether everything that was read is in the topic."""
        return self.read == self.state.position

    def unread_bytes(self) -> int:
        """Return the number of bytes after ``read``, if known; for a compressed file its size until it is read."""
        if self.failed:
            return 0
        if self.state.compression is not None:
            return self.stored_bytes if self.has_unread else 0
        return max(0, self.stored_bytes - self.read.offset)

    def open(self) -> None:
        """Open the file by its newest name. Raises ``Truncated`` if the bytes differ, ``OSError`` also if that is another file
        now."""
        if self.content is not None:
            return
        content = Content(self.state.last_path, self.state.compression, follow_links=self._follow_links)
        try:
            if (content.device, content.inode) != (self.state.device, self.state.inode):
                raise FileNotFoundError(f"{self.state.last_path} is another file now")
            self.attach(content)
        except BaseException:
            self.content = None
            content.close()
            raise

    def attach(self, content: Content) -> None:
        """Read from ``content`` from now on. Raises ``Truncated`` when it lacks what was read before."""
        self.content = content
        self.stored_bytes = content.stored_bytes()
        self.check_before()
        self.learn_head()

    def check_before(self) -> None:
        """Raise ``Truncated`` if the bytes before ``read`` have changed."""
        assert self.content is not None
        head = self.content.read(0, len(self.state.head))
        if head != self.state.head or not self.tail.matches(self._before()):
            raise Truncated

    def look(self, now_s: float) -> None:
        """Update the file's size."""
        if self.content is None:
            return
        size = self.content.stored_bytes()
        if size == self.stored_bytes:
            return
        self.stored_bytes = size
        self.grown_at_s = now_s
        if self.state.compression is not None:
            self.content.rewind()

    def learn_head(self) -> None:
        """Store the first bytes, by which the file is recognized, as far as they exist."""
        if self.content is not None and len(self.state.head) < limits.HEAD_BYTES:
            head = self.content.read(0, limits.HEAD_BYTES)
            if head != self.state.head and head.startswith(self.state.head):
                self.state = dataclasses.replace(self.state, head=head)

    def read_block(self, size: int) -> bytes:
        """Return the bytes after ``read``, up to ``size``. Raises ``Truncated``, ``Damaged``, ``OSError``."""
        self.open()
        assert self.content is not None
        if self.state.compression is not None:
            # Compressed files are not truncated; checking would mean decompressing from the start.
            block = self.content.read(self.read.offset, size)
            self.cut_off = self.content.cut_off
            return block
        # One read for both, so that the checked bytes belong to the same state of the file as the used ones.
        if self.read.offset < len(self.state.head):
            data = self.content.read(0, max(self.read.offset + size, len(self.state.head)))
            if not data.startswith(self.state.head):
                raise Truncated
            return data[self.read.offset : self.read.offset + size]
        data = self.content.read(self.read.offset - self.tail.length, self.tail.length + size)
        if not self.tail.matches(data[: self.tail.length]):
            raise Truncated
        return data[self.tail.length :]

    def advance(self, consumed: bytes, position: Position) -> None:
        """Move ``read`` past ``consumed``, which followed it."""
        if consumed:
            self.tail = Tail.of(consumed)
            if position.offset > limits.HEAD_BYTES:
                self.marks.append((position.offset, self.tail))
        self.read = position
        self.learn_head()

    def go_back(self) -> None:
        """Reset ``read`` to what is in the topic."""
        self.read = self.state.position
        self.tail = self.state.tail
        self.exhausted_bytes = None

    def close(self) -> None:
        """Close the file, which can be opened again."""
        if self.content is not None:
            self.content.close()
            self.content = None

    def _before(self) -> bytes:
        assert self.content is not None
        try:
            return self.content.read(self.read.offset - self.tail.length, self.tail.length)
        except Damaged:
            return b""
