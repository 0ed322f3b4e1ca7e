"""Which row groups of a segment may have a key, by Parquet's own Bloom filters on the column ``key``.

A segment that maintenance wrote has one filter for each row group, one directly after another between the row groups and the
footer, or the page index of a file that is laid out (docs/format/segments.md, section 4.6). The footer says where each is, and a
tag of the segment's ``add`` where they begin, and the CRC-32 of all up to the footer. Readers of records do not touch them. Other
programs may skip row groups by them.

Source: Parquet format, "Parquet Bloom Filter": split blocks of 256 bits, XXH64 of the plain bytes with seed 0, no compression.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from log_format.limits import FOOTER_BYTES_MAX
from log_format.segments.footer import filter_ranges, raise_corrupt
from log_format.segments.run import SegmentRef
from log_format.store import ObjectReader

_SALT: Final = np.array(
    [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31], np.uint32
)
_BLOCK_BYTES: Final = 32
_PRIMES: Final = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_MASK: Final = 2**64 - 1

Hashes = npt.NDArray[np.uint64]


class KeyFilters(NamedTuple):
    """Where a segment's filters are: ``[start, footer start)``, with this CRC-32."""

    start: int
    crc32: int


def hash_key(key: bytes) -> int:
    """Return the hash by which filters know a key: XXH64 with seed 0."""
    one, two, three, four, five = _PRIMES
    at, length = 0, len(key)
    if length >= 32:
        lanes = [(one + two) & _MASK, two, 0, -one & _MASK]
        for at in range(0, length - 31, 32):
            for lane in range(4):
                word = int.from_bytes(key[at + 8 * lane : at + 8 * lane + 8], "little")
                lanes[lane] = _round(lanes[lane], word)
        at += 32
        found = sum(_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for lane in lanes:
            found = ((found ^ _round(0, lane)) * one + four) & _MASK
    else:
        found = five
    found = (found + length) & _MASK
    while at + 8 <= length:
        found = (_rotated(found ^ _round(0, int.from_bytes(key[at : at + 8], "little")), 27) * one + four) & _MASK
        at += 8
    if at + 4 <= length:
        word = int.from_bytes(key[at : at + 4], "little")
        found = (_rotated(found ^ (word * one & _MASK), 23) * two + three) & _MASK
        at += 4
    for byte in key[at:]:
        found = _rotated(found ^ (byte * five & _MASK), 11) * one & _MASK
    found = (found ^ (found >> 33)) * two & _MASK
    found = (found ^ (found >> 29)) * three & _MASK
    return found ^ (found >> 32)


class _Footer(Protocol):
    @property
    def metadata(self) -> Any:
        """pyarrow's ``FileMetaData``."""


FooterT = TypeVar("FooterT", bound=_Footer)


def read_filters(
    store: ObjectReader,
    key: str,
    segment: SegmentRef,
    filters: KeyFilters,
    decode: Callable[[memoryview, SegmentRef], FooterT],
) -> tuple[FooterT, Callable[[int, Hashes], bool]] | None:
    """Read a segment's footer and filters, in one request.

    Args:
        store: where the segment is.
        key: the segment's key in it.
        segment: the segment.
        filters: its filters, by the log.
        decode: decodes its footer, ``decode_footer`` unless it is laid out.

    Returns:
        The footer, and a function that says whether a row group may have a key with any of the hashes: if it says no, the row
        group has none of them. None if the filters are damaged, or not of the kind that Tidelog writes.

    Raises ``CorruptData`` for a damaged footer, ``ObjectMissing``, ``StoreUnavailable``.
    """
    if not 0 < filters.start <= segment.footer_start < segment.size_bytes <= segment.footer_start + FOOTER_BYTES_MAX:
        raise_corrupt(segment, f"by the log its filters begin at {filters.start}, its footer at {segment.footer_start}")
    data = memoryview(store.get_range(key, filters.start, segment.size_bytes))
    size_bytes = segment.footer_start - filters.start
    footer = decode(data[size_bytes:], segment)
    ranges = filter_ranges(footer.metadata)
    if ranges is None or zlib.crc32(data[:size_bytes]) != filters.crc32:
        return None
    if [start for start, _ in ranges][:1] != [filters.start] or ranges[-1][1] > segment.footer_start:
        return None
    bitsets = [_bitset(data[start - filters.start : end - filters.start]) for start, end in ranges]
    if any(bitset is None for bitset in bitsets):
        return None

    def may_have(index: int, hashes: Hashes) -> bool:
        words = bitsets[index]
        assert words is not None
        return _may_have(words, hashes)

    return footer, may_have


def as_hashes(hashes: Sequence[int]) -> Hashes:
    """Return hashes of keys in the form in which filters are asked for them."""
    return np.array(hashes, np.uint64)


def _bitset(encoded: memoryview) -> npt.NDArray[np.uint32] | None:
    """Return the blocks of a filter, eight words each; None if its header is not that of a filter as Tidelog writes it."""
    for length_bytes in range(1, 6):
        header_bytes = len(_header(b"\0" * length_bytes))
        size_bytes = len(encoded) - header_bytes
        if size_bytes <= 0 or size_bytes % _BLOCK_BYTES or len(_varint(2 * size_bytes)) != length_bytes:
            continue
        if encoded[:header_bytes] == _header(_varint(2 * size_bytes)):
            return np.frombuffer(encoded[header_bytes:], "<u4").reshape(-1, _BLOCK_BYTES // 4)
    return None


def _header(length: bytes) -> bytes:
    """Return a ``BloomFilterHeader`` (Thrift, compact): the length, then BLOCK, XXHASH and UNCOMPRESSED."""
    return b"\x15" + length + b"\x1c\x1c\0\0" * 3 + b"\0"


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _may_have(blocks: npt.NDArray[np.uint32], hashes: Hashes) -> bool:
    chosen = blocks[((hashes >> np.uint64(32)) * np.uint64(len(blocks))) >> np.uint64(32)]
    low = (hashes & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    bits = np.uint32(1) << ((low[:, None] * _SALT) >> np.uint32(27))
    return bool(((chosen & bits) == bits).all(axis=1).any())


def _round(lane: int, word: int) -> int:
    return _rotated((lane + word * _PRIMES[1]) & _MASK, 31) * _PRIMES[0] & _MASK


def _rotated(number: int, bits: int) -> int:
    return ((number << bits) | (number >> (64 - bits))) & _MASK
