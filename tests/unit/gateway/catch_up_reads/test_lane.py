"""The lane's side of a task: what it makes of a reader that answers, fails, dies or says nothing, and whose turn it is."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from gateway.catch_up_reads.client_socket import DIRECT, GONE, WAITS
from gateway.catch_up_reads.lane import PIECE_MS_MAX, TASK_BYTES, Answer, HistoryLane
from gateway.catch_up_reads.readers import Reader, Readers
from gateway.catch_up_reads.service import PARALLEL_TASKS_MAX
from gateway.catch_up_reads.task import TASKS, Head, PlannedRun, Task, frame
from gateway.stores.counted import StoreRequests
from log_format.errors import BackOff, ErrorCode

TASK = Task("t", "id", 0, (PlannedRun("p", 9, 1, 2, 0, 5),), 10, 1000, "application/json", None, 5, 0)


class OneReader(Readers):
    """A reader that is this test: ``control`` is the other end of its control socket."""

    def __init__(self) -> None:
        super().__init__(1, [], [])
        ours, self.control = socket.socketpair()
        self.control.settimeout(10)
        process: Any = None
        self.reader: Reader | None = Reader(process, ours)
        self._ours = ours

    @property
    def live_count(self) -> int:
        return int(self.reader is not None)

    def choose(self, key: str) -> Reader | None:
        assert key == "id/0"
        return self.reader

    def take(self) -> socket.socket:
        """The socket of the next task, which has been read."""
        _, (descriptor,), _, _ = socket.recv_fds(self.control, 1, 1)
        taken = socket.socket(fileno=descriptor)
        taken.settimeout(10)
        (length,) = struct.unpack("<I", taken.recv(4, socket.MSG_WAITALL))
        assert TASKS.decode(taken.recv(length, socket.MSG_WAITALL)) == TASK
        return taken

    def close(self) -> None:
        self._ours.close()
        self.control.close()


@pytest.fixture
def readers() -> Iterator[OneReader]:
    """Closed at the end."""
    made = OneReader()
    yield made
    made.close()


def lane_of(readers: OneReader, requests: StoreRequests | None = None, piece_ms_max: int = PIECE_MS_MAX) -> HistoryLane:
    requests = requests or StoreRequests()
    return HistoryLane(
        readers,
        1,
        requests=requests,
        registry=CollectorRegistry(),
        has_principals=False,
        piece_ms_max=piece_ms_max,
    )


async def begun(lane: HistoryLane, readers: OneReader, head: Head, client: str = "a") -> tuple[Answer, socket.socket]:
    """A task whose reader has sent its head; the answer, and the reader's socket."""
    reading = asyncio.create_task(lane.read(TASK, client))
    taken = await asyncio.to_thread(readers.take)
    taken.sendall(frame(head))
    answer = await reading
    assert answer is not None
    return answer, taken


async def test_an_answer_comes_piece_by_piece_and_its_requests_count(readers: OneReader) -> None:
    """The head first, then the body as it was sent; a turn is held until the answer is closed."""
    requests = StoreRequests()
    lane = lane_of(readers, requests)
    head = Head(5, 5, 77, "zstd", asked=(("GET", "segment", 2, 300),))
    answer, taken = await begun(lane, readers, head)
    assert answer.head == head
    assert requests.taken() == (("GET", "segment", 2, 300),)
    assert lane.memory.used_bytes == TASK_BYTES
    body = bytes(range(256)) * 100
    taken.sendall(struct.pack("<I", len(body)) + body + struct.pack("<I", 3) + b"end" + struct.pack("<I", 0))
    assert b"".join([piece async for piece in answer.pieces()]) == body + b"end"
    answer.close()
    answer.close()
    taken.close()
    assert lane.memory.used_bytes == 0


class Client:
    """A client whose socket is lent; remembers what it is told."""

    def __init__(self) -> None:
        self.is_lost = False
        self.told: list[tuple[int, bool]] = []

    async def lend(self, on_lost: Callable[[], None]) -> int | None:
        raise AssertionError

    def count_written(self, byte_count: int, *, waits: bool) -> None:
        self.told.append((byte_count, waits))

    def take_back(self) -> None:
        raise AssertionError

    async def drop(self) -> None:
        self.is_lost = True


async def test_a_reader_that_writes_by_itself_is_given_the_socket_and_reports(readers: OneReader) -> None:
    """The descriptor comes along; the bytes are counted.

    When the gateway gives up the wait ends, and the reader sees it.
    """
    lane, client = lane_of(readers), Client()
    answer, taken = await begun(lane, readers, Head(5, 5, 77))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sending = asyncio.create_task(answer.send_directly(client, ours.fileno()))
        how, (descriptor,), _, _ = await asyncio.to_thread(socket.recv_fds, taken, 1, 1)
        with socket.socket(fileno=descriptor) as lent:
            lent.sendall(b"body")
        assert (how, theirs.recv(4)) == (DIRECT, b"body")
        for report in (10 | WAITS, WAITS, 5, 0):
            taken.sendall(struct.pack("<I", report))
        assert await sending == 15
        assert client.told == [(10, True), (0, True), (5, False)]
        sending = asyncio.create_task(answer.send_directly(client, ours.fileno()))
        await asyncio.sleep(0)
        answer.give_up()
        with pytest.raises(OSError, match="reader ended"):
            await sending
        assert taken.recv(1) == DIRECT
        assert taken.recv(1) == b""
    assert not client.is_lost
    answer.close()
    answer.give_up()
    taken.close()


async def test_a_client_that_is_gone_is_dropped(readers: OneReader) -> None:
    """The reader finds out first."""
    lane, client = lane_of(readers), Client()
    answer, taken = await begun(lane, readers, Head(5, 5, 77))
    taken.sendall(struct.pack("<I", GONE))
    with pytest.raises(ConnectionResetError), socket.socket() as lent:
        await answer.send_directly(client, lent.fileno())
    assert client.is_lost
    answer.close()
    taken.close()


async def test_a_reader_that_dies_refuses_or_cuts(readers: OneReader) -> None:
    """Before the head: 503, nothing happened, and the turn is free again. Behind it: the body ends with an error."""
    lane = lane_of(readers)
    reading = asyncio.create_task(lane.read(TASK, "a"))
    (await asyncio.to_thread(readers.take)).close()
    with pytest.raises(BackOff) as refusal:
        await reading
    assert refusal.value.code is ErrorCode.UNAVAILABLE
    assert not refusal.value.may_have_happened
    assert lane.memory.used_bytes == 0
    answer, taken = await begun(lane, readers, Head(5, 5, 77))
    taken.sendall(struct.pack("<I", 100) + b"half")
    taken.close()
    with pytest.raises(OSError, match=r"reader ended|Broken pipe"):
        [piece async for piece in answer.pieces()]
    answer.close()


async def test_without_a_reader_the_gateway_reads(readers: OneReader) -> None:
    """None that lives, or one whose control socket is closed."""
    lane = lane_of(readers)
    readers.close()
    assert await lane.read(TASK, "a") is None
    readers.reader = None
    assert not lane.is_open
    assert await lane.read(TASK, "a") is None
    assert lane.memory.used_bytes == 0


async def test_a_task_that_is_given_up_leaves_nothing(readers: OneReader) -> None:
    """Its socket is closed, so that the reader skips it, and its turn is free."""
    lane = lane_of(readers)
    reading = asyncio.create_task(asyncio.wait_for(lane.read(TASK, "a"), 0.2))
    taken = await asyncio.to_thread(readers.take)
    with pytest.raises(TimeoutError):
        await reading
    assert await asyncio.to_thread(taken.recv, 1) == b""
    taken.close()
    assert lane.memory.used_bytes == 0


async def test_one_turn_is_kept_for_a_client_that_holds_none(readers: OneReader) -> None:
    """A client with many tasks waits for its own; another one does not."""
    lane = lane_of(readers)
    held = [await begun(lane, readers, Head(5, 5, 7)) for _ in range(PARALLEL_TASKS_MAX - 1)]
    more = asyncio.create_task(lane.read(TASK, "a"))
    await asyncio.sleep(0.05)
    assert not more.done()
    other, theirs = await begun(lane, readers, Head(5, 5, 7), "b")
    other.close()
    theirs.close()
    assert not more.done()
    for answer, taken in held:
        answer.close()
        taken.close()
    taken = await asyncio.to_thread(readers.take)
    taken.sendall(frame(Head(5, 1, 1)))
    last = await more
    assert last is not None
    last.close()
    taken.close()


async def test_a_reader_that_freezes_in_an_answer_cuts_it_short(readers: OneReader) -> None:
    """By either way, once it has said nothing for too long; while a client holds it up it may."""
    lane, client = lane_of(readers, piece_ms_max=100), Client()
    answer, taken = await begun(lane, readers, Head(5, 5, 77))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sending = asyncio.create_task(answer.send_directly(client, ours.fileno()))
        taken.sendall(struct.pack("<I", 10 | WAITS))
        await asyncio.sleep(0.3)
        assert not sending.done()
        taken.sendall(struct.pack("<I", 5))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(sending, 5)
    answer.close()
    answer, passing = await begun(lane, readers, Head(5, 5, 77))
    passing.sendall(struct.pack("<I", 10) + b"half")
    pieces = answer.pieces()
    assert await anext(pieces) == b"half"
    with pytest.raises(TimeoutError):
        await anext(pieces)
    answer.close()
    taken.close()
    passing.close()
    assert lane.memory.used_bytes == 0
