"""Reading request bodies: limits, encodings, budgets, clients that go away."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import random
import threading
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

import pytest
import zstandard
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from gateway.codec.compression import Decompressor
from gateway.http.body import BodyLimits, request_body
from gateway.memory_budget import MemoryBudget
from log_format.errors import BackOff, RequestRefused

LIMITS = BodyLimits(bytes_max=1000, total_ms=60_000)


class Source:
    """A client that sends these pieces and counts how many were taken."""

    def __init__(self, pieces: Sequence[bytes | None], **headers: str) -> None:
        self.taken = 0
        self._pieces = pieces
        raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        self.request = Request({"type": "http", "headers": raw, "method": "POST"}, self._receive)

    async def _receive(self) -> Message:
        piece = self._pieces[self.taken]
        self.taken += 1
        if piece is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": piece, "more_body": self.taken < len(self._pieces)}


def read(source: Source, budget: MemoryBudget | None = None, limits: BodyLimits = LIMITS) -> bytes:
    async def scenario() -> bytes:
        with ThreadPoolExecutor(1) as pool:
            memory = budget or MemoryBudget(10_000, "tests")
            async with request_body(source.request, limits, memory, pool=pool) as body:
                return body.data

    return asyncio.run(scenario())


class NoPool(Executor):
    """Fails every request for a thread."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("a small body needs no pool")


async def test_pieces_become_the_body_and_are_released_after_it() -> None:
    """The bytes are exactly those sent; their memory is reserved while they are used and free afterwards."""
    budget = MemoryBudget(10_000, "tests")
    source = Source([b"ab", b"", b"cd"], content_type="text/plain")
    async with request_body(source.request, LIMITS, budget, pool=NoPool()) as body:
        assert (body.data, body.content_type, budget.used_bytes) == (b"abcd", "text/plain", 4)
    assert budget.used_bytes == 0


def test_an_announced_length_above_the_limit_is_refused_unread() -> None:
    """Content-Length alone is enough for 413, which names the limit."""
    source = Source([b"x"], content_length="1001")
    with pytest.raises(RequestRefused) as caught:
        read(source)
    assert (caught.value.status, caught.value.fields["limit_bytes"], source.taken) == (413, 1000, 0)


@pytest.mark.parametrize("length", ["abc", "-1", "1.0", "9" * 50, "٣"])
def test_an_absurd_length_is_refused(length: str) -> None:
    """A Content-Length that is no number is 400, one beyond all numbers at least a refusal."""
    raw = [(b"content-length", length.encode())]
    source = Source([b"x"])
    source.request = Request({"type": "http", "headers": raw}, source._receive)
    with pytest.raises(RequestRefused):
        read(source)


def test_an_unannounced_body_is_refused_at_the_limit() -> None:
    """Of an endless body nothing is read past the piece that is too much."""
    budget = MemoryBudget(10_000, "tests")
    source = Source([b"x" * 400] * 1000)
    with pytest.raises(RequestRefused) as caught:
        read(source, budget)
    assert (caught.value.status, source.taken, budget.used_bytes) == (413, 3, 0)


def test_a_body_of_exactly_the_limit_is_taken() -> None:
    """The limit itself is allowed."""
    assert len(read(Source([b"x" * 1000], content_length="1000"))) == 1000


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_compressed_bodies(encoding: str) -> None:
    """A compressed body in small pieces comes out as it was, whatever its name's case."""
    data = bytes(range(256)) * 3
    packed = gzip.compress(data) if encoding == "gzip" else zstandard.compress(data)
    pieces = [packed[index : index + 7] for index in range(0, len(packed), 7)]
    assert read(Source(pieces, content_encoding=encoding.upper())) == data


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
async def test_small_bodies_never_change_threads(encoding: str) -> None:
    """What is decompressed faster than a thread is changed stays where it is."""
    data = random.Random(1).randbytes(60_000)
    packed = gzip.compress(data) if encoding == "gzip" else zstandard.compress(data)
    limits, budget = BodyLimits(bytes_max=1 << 20, total_ms=60_000), MemoryBudget(1 << 20, "tests")
    source = Source([packed], content_encoding=encoding)
    async with request_body(source.request, limits, budget, pool=NoPool()) as body:
        assert body.data == data


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
async def test_large_bodies_are_decompressed_beside_the_event_loop(
    encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """16 MiB in chunks of any size come out in order and whole.

    The pool decompresses all but their beginning, while the event loop turns; only the body stays reserved.
    """
    size = 16 << 20
    data = random.Random(2).randbytes(size // 2) + b"0123456789abcdef" * (size // 32)
    packed = gzip.compress(data, 1) if encoding == "gzip" else zstandard.compress(data)
    cuts = [0, *sorted(random.Random(3).choices(range(len(packed)), k=150)), len(packed)]
    source = Source([packed[a:b] for a, b in itertools.pairwise(cuts)], content_encoding=encoding)
    turned = threading.Event()
    loop_fed = pool_fed = 0
    feed = Decompressor.feed

    def watched(self: Decompressor, chunk: bytes) -> bytes:
        nonlocal loop_fed, pool_fed
        if threading.current_thread() is threading.main_thread():
            loop_fed += len(chunk)
        else:
            pool_fed += len(chunk)
            turned.clear()
            assert turned.wait(30), "the event loop stands still"
        return feed(self, chunk)

    monkeypatch.setattr(Decompressor, "feed", watched)

    async def turn() -> None:
        while True:
            turned.set()
            await asyncio.sleep(0.001)

    budget = MemoryBudget(2 * size, "tests")
    turning = asyncio.create_task(turn())
    with ThreadPoolExecutor(1) as pool:
        limits = BodyLimits(bytes_max=size, total_ms=120_000)
        async with request_body(source.request, limits, budget, pool=pool) as body:
            assert body.data == data
            assert budget.used_bytes == size
    assert budget.used_bytes == 0
    turning.cancel()
    assert loop_fed <= 64 * 1024
    assert loop_fed + pool_fed == len(packed)


def test_what_waits_to_be_decompressed_is_reserved() -> None:
    """Compressed bytes count against the budget too while they are kept."""
    packed = zstandard.compress(random.Random(4).randbytes(400_000))
    budget = MemoryBudget(200_000, "tests")
    source = Source([packed[:100_000], packed[100_000:250_000], packed[250_000:]], content_encoding="zstd")
    with pytest.raises(BackOff):
        read(source, budget, BodyLimits(bytes_max=1 << 20, total_ms=60_000))
    assert (source.taken, budget.used_bytes) == (2, 0)


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_bomb_is_refused_at_the_limit(encoding: str) -> None:
    """A few bytes that would become 64 MiB are 413, and nothing stays reserved."""
    data = b"\0" * (64 << 20)
    packed = gzip.compress(data) if encoding == "gzip" else zstandard.compress(data)
    budget = MemoryBudget(1 << 20, "tests")
    with pytest.raises(RequestRefused) as caught:
        read(Source([packed], content_encoding=encoding), budget, BodyLimits(bytes_max=1 << 20, total_ms=60_000))
    assert (caught.value.status, budget.used_bytes) == (413, 0)


@pytest.mark.parametrize(("encoding", "status"), [("br", 415), ("gzip", 400), ("zstd", 400)])
def test_unknown_encodings_and_corrupt_streams(encoding: str, status: int) -> None:
    """An unknown encoding is 415; bytes that are not what they say are 400."""
    with pytest.raises(RequestRefused) as caught:
        read(Source([b"certainly not compressed"], content_encoding=encoding))
    assert caught.value.status == status


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_stream_that_ends_early_is_corrupt(encoding: str) -> None:
    """Half a compressed body is not half a request."""
    data = bytes(range(256)) * 3
    packed = gzip.compress(data) if encoding == "gzip" else zstandard.compress(data)
    with pytest.raises(RequestRefused) as caught:
        read(Source([packed[: len(packed) // 2]], content_encoding=encoding))
    assert caught.value.status == 400


def test_past_the_budget_is_overloaded() -> None:
    """What others hold counts; a body that does not fit beside them is 503 and gives everything back."""
    budget = MemoryBudget(900, "tests")
    budget.reserve(500)
    with pytest.raises(BackOff) as caught:
        read(Source([b"x" * 200, b"x" * 300]), budget)
    assert (str(caught.value.code), budget.used_bytes) == ("OVERLOADED", 500)


def test_a_client_that_goes_away_leaves_nothing() -> None:
    """A disconnect in the middle of a body is no body."""
    budget = MemoryBudget(900, "tests")
    with pytest.raises(ClientDisconnect):
        read(Source([b"x" * 200, None]), budget)
    assert budget.used_bytes == 0


def test_a_body_that_takes_too_long_is_refused() -> None:
    """However steadily it comes, there is an end."""
    with pytest.raises(RequestRefused) as caught:
        read(Source([b"x"] * 100), limits=BodyLimits(bytes_max=1000, total_ms=-1))
    assert caught.value.status == 400


async def test_records_that_never_fit_are_too_large() -> None:
    """What takes more than the whole budget is refused for good, so that its sender splits it; what others hold is 503."""
    budget = MemoryBudget(900, "tests")
    async with request_body(Source([b"abc"]).request, LIMITS, budget, pool=NoPool()) as body:
        with pytest.raises(RequestRefused, match="send fewer at once") as caught:
            body.transfer_memory(901)
        assert (caught.value.status, caught.value.fields["limit_bytes"]) == (413, 900)
        with budget.reserve(500), pytest.raises(BackOff):
            body.transfer_memory(900)
    assert budget.used_bytes == 0


async def test_a_kept_reservation_outlives_the_block() -> None:
    """A route that answers before the records are written keeps their memory reserved until they are."""
    budget = MemoryBudget(900, "tests")
    async with request_body(Source([b"abc"]).request, LIMITS, budget, pool=NoPool()) as body:
        kept = body.transfer_memory(2)
        assert (body.data, kept.size_bytes) == (b"", 3)
        with body.transfer_memory(5):
            assert budget.used_bytes == 8
    assert budget.used_bytes == 3
    kept.release()
    assert budget.used_bytes == 0
