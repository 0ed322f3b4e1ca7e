"""Reading a segment's bytes from the store: never more than the log says it has, and never a footer above the size limit."""

from __future__ import annotations

from log_format.errors import ObjectTooLarge
from log_format.limits import FOOTER_BYTES_MAX
from log_format.segments.footer import Footer, decode_footer, raise_corrupt
from log_format.segments.run import SegmentRef
from log_format.store import ObjectReader


def read_segment(store: ObjectReader, key: str, segment: SegmentRef) -> bytes:
    """Return all bytes of the segment.

    Raises ``CorruptData`` if its size differs from the log's; ``ObjectMissing``, ``StoreUnavailable``.
    """
    try:
        body = store.get(key, bytes_max=segment.size_bytes)
    except ObjectTooLarge as problem:
        raise_corrupt(segment, f"it has {problem.size_bytes} bytes, not {segment.size_bytes}")
    if len(body) != segment.size_bytes:
        raise_corrupt(segment, f"it has {len(body)} bytes, not {segment.size_bytes}")
    return body


def read_footer(store: ObjectReader, key: str, segment: SegmentRef) -> Footer:
    """Return the segment's footer. Raises ``CorruptData``, ``ObjectMissing``, ``StoreUnavailable``."""
    if not 0 < segment.size_bytes - segment.footer_start <= FOOTER_BYTES_MAX:
        raise_corrupt(segment, f"by the log its footer begins at {segment.footer_start} of {segment.size_bytes} bytes")
    return decode_footer(store.get_range(key, segment.footer_start, segment.size_bytes), segment)
