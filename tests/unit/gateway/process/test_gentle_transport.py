"""What is known of an answer's way out, and in how many pieces it goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gateway.process.gentle_transport import JOINED_BYTES_MAX, GentleTransport

HEAD, BODY = b"HTTP/1.1 200 OK\r\n\r\n", b"body"


class _Transport:
    """Remembers what it was given."""

    def __init__(self, unsent_bytes: int = 0) -> None:
        self.calls: list[bytes | tuple[bytes, ...]] = []
        self.closed = False
        self.get_write_buffer_size = lambda: unsent_bytes
        self.get_extra_info = self.pause_reading = self.resume_reading = self.set_protocol = lambda: None

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.calls.append(data)

    def writelines(self, pieces: tuple[bytes, ...]) -> None:
        self.calls.append(tuple(pieces))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True


class _Gentle:
    """A connection, and its event loop."""

    def __init__(self, unsent_bytes: int = 0, carrier: Any = None) -> None:
        below: Any = _Transport(unsent_bytes)
        self.below = below
        self.turn: list[Callable[[], None]] = []
        protocol: Any = None
        self.transport = GentleTransport(below, protocol, carrier, call_soon=self.turn.append)

    def next_turn(self) -> None:
        """What was put off to the event loop's next turn."""
        for call in self.turn:
            call()
        self.turn.clear()


def test_what_tls_has_written_is_not_yet_sent() -> None:
    """Bytes that wait below TLS count as unsent: a connection is closed, or found to stall, by what the system has taken."""
    assert _Gentle(3).transport.unsent_bytes() == 3
    assert _Gentle(3, _Transport(5)).transport.unsent_bytes() == 8


def test_head_and_body_are_one_write() -> None:
    """The next answer's too; and all bytes are counted."""
    one = _Gentle()
    for _ in range(2):
        one.transport.write(HEAD)
        one.transport.write(BODY)
        one.next_turn()
    assert one.below.calls == [HEAD + BODY, HEAD + BODY]
    assert one.transport.written_bytes == 2 * len(HEAD + BODY)


def test_a_head_alone_goes_with_the_next_turn() -> None:
    """As that of an event stream, whose first event may come an hour later. Until then it counts as unsent."""
    one = _Gentle()
    one.transport.write(HEAD)
    assert one.below.calls == []
    assert one.transport.unsent_bytes() == len(HEAD)
    one.next_turn()
    assert one.below.calls == [HEAD]
    one.transport.write(BODY)
    assert one.below.calls == [HEAD, BODY]


def test_a_long_body_is_not_copied() -> None:
    """Its first piece goes with the head all the same."""
    one, piece = _Gentle(), bytes(JOINED_BYTES_MAX + 1)
    one.transport.write(HEAD)
    one.transport.write(piece)
    (sent,) = one.below.calls
    assert sent[0] is HEAD
    assert sent[1] is piece


def test_a_connection_that_ends_has_its_head_sent_first() -> None:
    """And one that was cut meanwhile gets nothing more."""
    one = _Gentle()
    one.transport.write(HEAD)
    one.transport.end()
    assert one.below.calls == [HEAD]
    assert one.below.closed
    one.next_turn()
    cut = _Gentle()
    cut.transport.write(HEAD)
    cut.below.close()
    cut.next_turn()
    assert cut.below.calls == []


def test_nothing_is_written_to_a_connection_that_has_ended() -> None:
    """uvloop raises for it, and the task of a request that was sent ahead does not learn that its client is gone."""
    one = _Gentle()
    one.below.closed = True
    one.transport.write(HEAD)
    one.transport.write(BODY)
    one.next_turn()
    assert one.below.calls == []
