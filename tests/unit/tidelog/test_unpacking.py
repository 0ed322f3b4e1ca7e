"""Compressed streams: all bytes of whole ones, those before the damage of others, and which of the two it was."""

from __future__ import annotations

import gzip
import io
import random

import pytest

from tests.support.packed import PACKERS as BY_SUFFIX
from tidelog.unpacking import SUFFIXES, Damaged, Unpacked, compression_by_magic, compression_of

DATA = b"".join(b"%d %s\n" % (number, random.Random(number).randbytes(20).hex().encode()) for number in range(20_000))


PACKERS = {SUFFIXES[suffix]: pack for suffix, pack in BY_SUFFIX.items()}
LOST_AT_MOST = {"gzip": 0, "zstd": 0, "bzip2": 0, "lz4": 1024}
every_compression = pytest.mark.parametrize("name", PACKERS)


def _read(name: str, packed: bytes, size: int = 100_000) -> tuple[bytes, Unpacked, bool]:
    unpacked = Unpacked(name, io.BytesIO(packed).read)
    data = b""
    try:
        while block := unpacked.read_all(size):
            assert len(block) <= size
            data += block
    except Damaged:
        return data, unpacked, True
    return data, unpacked, False


@every_compression
@pytest.mark.parametrize("size", [7_919, 1 << 20])
def test_whole_streams_are_what_was_compressed(name: str, size: int) -> None:
    """Also several of them one behind the other, an empty one among them, and whatever size is asked for."""
    pack = PACKERS[name]
    data, unpacked, damaged = _read(name, pack(DATA[:100_000]) + pack(b"") + pack(DATA[100_000:]), size)
    assert (data == DATA, damaged, unpacked.cut_off) == (True, False, False)


@every_compression
def test_a_stream_that_was_cut_off_is_read_to_there(name: str) -> None:
    """It is no damage, as the rest may come; it is said."""
    packed = PACKERS[name](DATA)
    data, unpacked, damaged = _read(name, packed[: len(packed) * 3 // 4])
    assert (damaged, unpacked.cut_off) == (False, True)
    assert DATA.startswith(data)
    assert len(data) > len(DATA) // 3


@every_compression
def test_what_is_before_a_damaged_place_is_given_out(name: str) -> None:
    """A whole stream, then one that is none: all of the first, then the damage, at each further read."""
    first = PACKERS[name](DATA)
    data, unpacked, damaged = _read(name, first + b"no stream " * 10)
    assert (damaged, unpacked.cut_off, unpacked.damaged) == (True, False, True)
    assert DATA.startswith(data)
    assert len(DATA) - len(data) <= LOST_AT_MOST[name]
    assert unpacked.taken_bytes <= len(first)
    with pytest.raises(Damaged):
        unpacked.read(1)


@pytest.mark.parametrize("name", ["gzip", "zstd", "bzip2"])
def test_a_flipped_byte_is_damage(name: str) -> None:
    """By the format's checksum at the latest."""
    packed = bytearray(PACKERS[name](DATA))
    packed[len(packed) // 2] ^= 255
    assert _read(name, bytes(packed))[2]


def test_padding_behind_gzip_is_nothing() -> None:
    """Zeros, as tapes have them, before the end or before another member."""
    packed = gzip.compress(b"1\n") + bytes(100_000) + gzip.compress(b"2\n") + bytes(10)
    data, unpacked, damaged = _read("gzip", packed)
    assert (data, damaged, unpacked.cut_off) == (b"1\n2\n", False, False)


@every_compression
def test_a_bomb_takes_no_memory(name: str) -> None:
    """A hundred megabytes of zeros are read in pieces of the size that was asked for."""
    unpacked = Unpacked(name, io.BytesIO(PACKERS[name](bytes(100 << 20))).read)
    total = 0
    while block := unpacked.read(1 << 16):
        assert len(block) <= 1 << 16
        total += len(block)
    assert total == 100 << 20


@every_compression
def test_names_and_first_bytes_tell_the_compression(name: str) -> None:
    """Of text neither does."""
    suffix = {"gzip": ".gz", "zstd": ".zst", "bzip2": ".bz2", "lz4": ".lz4"}[name]
    assert compression_of(f"a.log{suffix}") == name
    assert compression_by_magic(PACKERS[name](b"1\n")) == name
    assert compression_of("a.log") is compression_by_magic(b"text") is compression_by_magic(b"") is None
