"""Encoding one record as a Parquet object without Arrow's writer: the same bytes as ``encode_segment``, but much faster.

Arrow's set-up for a row costs many times the row's own work, and releases the interpreter's lock a dozen times. An object with
one plain record always has the same layout: seven pages, and a footer in which a few numbers change.

1. The bytes equal Arrow's (``tests/property/test_single_record_encoding_properties.py``). The footer's parts before the row
   group and after the key ``tidelog.row_groups`` are taken from an object that Arrow has encoded.
2. At the first record of a compression, a few probe records are encoded both ways. If any object differs, as another version of
   Arrow may cause, Arrow encodes all records of that compression.

Source: the Parquet format's ``parquet.thrift`` in Thrift's compact protocol, and its encodings PLAIN and DELTA_BINARY_PACKED.
"""

from __future__ import annotations

import struct
import threading
import zlib
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Final, NamedTuple

import pyarrow as pa

from log_format.records.single import RecordAtOffset, SingleRecord
from log_format.segments.encoding_options import CODECS
from log_format.segments.footer import MAGIC, ROW_GROUPS_KEY
from log_format.segments.run import Run
from log_format.segments.segment import EncodedSegment, encode_segment

try:
    from zstandard import ZstdCompressor
except ImportError:  # not part of Spark's distribution; gateways have it
    ZstdCompressor = None  # type: ignore[assignment, misc]

ONE_RECORD_BYTES_MAX: Final = 64 * 1024
"""Largest size of key and value together. Arrow ends a page at 1 MiB; for larger records its set-up costs little in
comparison."""

_FOOTER_TAIL_BYTES: Final = 8
_CODEC_NUMBERS: Final = {"zstd": 6, "lz4": 7, "snappy": 1, "gzip": 2, "uncompressed": 0}
_PRESENT: Final = b"\x02\0\0\0\x02\x01"
_NULL: Final = b"\x02\0\0\0\x02\0"
"""Definition levels of a page, for a value that is present and for a null: their length, and one value of RLE."""
_INT32: Final = b"\x80\x01\x04\x01"
_INT64: Final = b"\x80\x02\x04\x01"
"""Head of a DELTA_BINARY_PACKED page: blocks of 128 (int32) or 256 (int64) values in 4 miniblocks, and a count of one value."""
_DELTA_HEAD: Final = b",\x15\x02\x15\x0a\x15\x06\x15\x06\x1c"
_PLAIN_HEAD: Final = b",\x15\x02\x15\0\x15\x06\x15\x06\x1c\0\0\0"
"""Page header for one value in this encoding with levels in RLE, up to its statistics (only DELTA pages have them)."""
_HEADER_PAGE: Final = b"\x15\0\x15\x18\x15\x18" + _PLAIN_HEAD + _NULL * 2
"""Page of a null list of headers, with repetition and definition levels."""
_DELTA_END: Final = b"\x19\x1c\x15\0\x15\x0a\x15\x02\0<\x29\x06\x19\x26\0\x02\0\0\0"
_PLAIN_END: Final = b"I\x1c\x15\0\x15\0\x15\x02\0<\x16"
"""End of a column in the footer that has one page in this encoding."""
_PRESENT_END: Final = b"\x19\x06\x19\x26\0\x02\0\0\0"
_NULL_END: Final = b"\x19\x06\x19\x26\x02\0\0\0\0"
"""End of a column in the footer: how many values have each definition level."""
_LIST_START: Final = (
    b"\x26\0\x1c\x15\x0c\x19%%\x06\0\x19H\x07headers\x04list\x07element%c%b\x15\0\x16\x02\x16>\x16>\x26"
)
_LIST_END: Final = _PLAIN_END + b"\0\x19\x26\x02\0\x19V\x02\0\0\0\0\0\0\0"
_PROBES: Final = (
    RecordAtOffset(0, 0, SingleRecord(0, None, None)),
    RecordAtOffset(3, 2**40, SingleRecord(1_700_000_000_123, b"key", b"value" * 40)),
    RecordAtOffset(65_535, 2**63 - 2, SingleRecord(253_402_300_799_999, b"", bytes(range(256)) * 100)),
)
_THREAD_LOCAL: Final = threading.local()


class SegmentTemplate(NamedTuple):
    """The parts of an object that depend only on the compression: Arrow's footer before and after the row group, Parquet's number
    of the codec, and a function that returns a compressor."""

    before: bytes
    after: bytes
    number: bytes
    compressor: Callable[[], Callable[[bytes], bytes]]


def encode_single_record(placed: RecordAtOffset, *, compression: str) -> EncodedSegment:
    """Encode one record as ``encode_segment`` does; the record has a timestamp and at most ``ONE_RECORD_BYTES_MAX``.

    ``compression`` is a value of ``compression.type``; raises ``ValueError`` for any other.
    """
    template = _cached_template(compression)
    return (
        encode_segment(placed.table(), compression=compression)
        if template is None
        else _fill_template(placed, template)
    )


def _fill_template(placed: RecordAtOffset, template: SegmentTemplate) -> EncodedSegment:
    partition, offset, record = placed
    time_ms, key, value = record
    assert time_ms is not None
    compress = template.compressor()
    body = bytearray(MAGIC)
    footer = bytearray(template.before)
    uncompressed_bytes = 2 * len(_HEADER_PAGE)
    for name, kind, number, layout, blocks, is_compressed in (
        (b"partition", b"\x02", partition, "<i", _INT32, False),
        (b"offset", b"\x04", offset, "<q", _INT64, False),
        (b"timestamp", b"\x04", time_ms * 1000, "<q", _INT64, True),
    ):
        plain = struct.pack(layout, number)
        bound = b"%c%b" % (len(plain), plain)
        statistics = b"\x18%b\x18%b\x16\0(%b\x18%b\x11\x11\0" % (bound, bound, bound, bound)
        page = _PRESENT + blocks + _number(number)
        start, stored = len(body), compress(page) if is_compressed else page
        body += b"\x15\0\x15%b\x15%b" % (_number(len(page)), _number(len(stored)))
        body += _DELTA_HEAD + statistics + b"\0\0" + stored
        stored_bytes = len(body) - start
        page_bytes = stored_bytes + len(page) - len(stored)
        uncompressed_bytes += page_bytes
        footer += b"\x26\0\x1c\x15%b\x19%%\x06\x0a\x19\x18%c%b\x15%b\x16\x02\x16%b\x16%b\x26%b<%b" % (
            kind, len(name), name, template.number if is_compressed else b"\0",
            _number(page_bytes), _number(stored_bytes), _number(start), statistics,
        )  # fmt: skip
        footer += _DELTA_END
    for name, content in ((b"key", key), (b"value", value)):
        page = _NULL if content is None else b"%b%b%b" % (_PRESENT, struct.pack("<I", len(content)), content)
        start, stored = len(body), compress(page)
        body += b"\x15\0\x15%b\x15%b%b%b" % (_number(len(page)), _number(len(stored)), _PLAIN_HEAD, stored)
        stored_bytes = len(body) - start
        page_bytes = stored_bytes + len(page) - len(stored)
        uncompressed_bytes += page_bytes
        footer += b"\x26\0\x1c\x15\x0c\x19%%\x06\0\x19\x18%c%b\x15%b\x16\x02\x16%b\x16%b\x26%b%b%b%b" % (
            len(name), name, template.number, _number(page_bytes), _number(stored_bytes), _number(start),
            _PLAIN_END, _number(len(content or b"")), _NULL_END if content is None else _PRESENT_END,
        )  # fmt: skip
    for name in (b"key", b"value"):
        footer += _LIST_START % (len(name), name) + _number(len(body)) + _LIST_END
        body += _HEADER_PAGE
    size_bytes, footer_start = len(body) - len(MAGIC), len(body)
    crc32 = zlib.crc32(memoryview(body)[len(MAGIC) :])
    place = f"[[4,{size_bytes},{crc32},{partition},{offset},{offset + 1},1,{time_ms},{time_ms}]]".encode()
    footer += b"\x16%b\x16\x02\x26\x08\x16%b\0\x19\x1c\x18%c%b\x18%b%b" % (
        _number(uncompressed_bytes), _number(size_bytes), len(ROW_GROUPS_KEY), ROW_GROUPS_KEY, _varint(len(place)), place,
    )  # fmt: skip
    footer += template.after
    footer += struct.pack("<I", len(footer)) + MAGIC
    return EncodedSegment(
        data=bytes(body + footer),
        runs=(Run(partition, offset, offset + 1, 1, size_bytes, time_ms, time_ms),),
        footer_start=footer_start,
        footer_crc32=zlib.crc32(footer),
        nbytes=33 + record.size_bytes + (key is None) + (value is None),
    )


def derive_template(compression: str, arrows: Sequence[EncodedSegment]) -> SegmentTemplate | None:
    """Return the template of the compression, from the probes as Arrow encodes them; None if objects made here would differ
    from Arrow's."""
    footer = arrows[0].data[arrows[0].footer_start : -_FOOTER_TAIL_BYTES]
    before = footer.partition(b"\x26\0\x1c")[0]
    after = footer[footer.rindex(b"]]") + 2 :]
    template = SegmentTemplate(before, after, _number(_CODEC_NUMBERS[compression]), partial(_compressor, compression))
    return template if [_fill_template(probe, template) for probe in _PROBES] == list(arrows) else None


def encode_probes(compression: str) -> list[EncodedSegment]:
    """Return the probes as Arrow encodes them. Raises ``ValueError`` if ``compression`` is not a value of
    ``compression.type``."""
    return [encode_segment(probe.table(), compression=compression) for probe in _PROBES]


@lru_cache(maxsize=len(CODECS))
def _cached_template(compression: str) -> SegmentTemplate | None:
    return derive_template(compression, encode_probes(compression))


def _compressor(compression: str) -> Callable[[bytes], bytes]:
    """Return a compressor for one object, since gzip's has state. zstd's is shared within a thread, as Arrow creates a context
    per page."""
    name, level = CODECS[compression]
    if name == "none":
        return bytes
    if name == "zstd" and level is not None and ZstdCompressor is not None:
        if not hasattr(_THREAD_LOCAL, "zstd"):
            _THREAD_LOCAL.zstd = ZstdCompressor(level=level)
        compress: Callable[[bytes], bytes] = _THREAD_LOCAL.zstd.compress
        return compress
    codec = pa.Codec("lz4_raw" if name == "lz4" else name, compression_level=level)
    return partial(codec.compress, asbytes=True)


def _number(number: int) -> bytes:
    """Encode a non-negative number as Thrift and DELTA_BINARY_PACKED encode signed ones (zigzag)."""
    number <<= 1
    if number < 0x80:  # the usual case; calling ``_varint`` would take longer than the work
        return b"%c" % number
    return _varint(number)


def _varint(number: int) -> bytes:
    if number < 0x80:
        return b"%c" % number
    if number < 0x4000:
        return b"%c%c" % (number & 0x7F | 0x80, number >> 7)
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
