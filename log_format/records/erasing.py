"""Which records an erasure is about, and those records without what it erases. Pure.

A request knows keys and header values only by their digests, so neither the log nor a trail of requests names a person. Each
distinct value of a table is hashed once, not each record.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from log_format.errors import CorruptData
from log_format.records.condition import Condition, parse_canonical
from log_format.records.typed_columns import TYPED_NAMES

DIGEST_DIGITS: Final = 32
_DOMAIN: Final = b"tidelog erasure\0"

Rows = npt.NDArray[np.bool_]


class Matcher(NamedTuple):
    """What a record must have: a key with this digest or, if ``header`` is a name, a header of that name whose value has it."""

    digest: str
    header: str | None = None


def digest_of(secret: bytes, value: bytes, header: str | None = None) -> str:
    """Return the digest of a key, or of the value of a header: the first 32 hexadecimal digits of an HMAC-SHA-256.

    Args:
        secret: the cluster's key.
        value: the key, or the header's value.
        header: the header's name; None for a key.
    """
    what = b"key\0" if header is None else b"header\0%b\0" % header.encode()
    return hmac.digest(secret, _DOMAIN + what + value, "sha256").hex()[:DIGEST_DIGITS]


def mask_of(secret: bytes, digest: str) -> int:
    """Return 64 bits that nobody knows who has the digest of a key but not the cluster's key."""
    return int.from_bytes(hmac.digest(secret, _DOMAIN + b"filter\0" + digest.encode(), "sha256")[:8], "big")


class HiddenCondition(NamedTuple):
    """A condition that nobody can read without the cluster's key. ``digest``: the same for the same condition."""

    digest: str
    hidden: str


def hide_condition(secret: bytes, condition: Condition) -> HiddenCondition:
    """Hide a condition under the cluster's key. The digest of its text is what makes the mask, so no two texts share one."""
    text = condition.text.encode()
    digest = hmac.digest(secret, _DOMAIN + b"where\0" + text, "sha256").hex()[:DIGEST_DIGITS]
    return HiddenCondition(digest, _masked(secret, digest, text).hex())


def reveal_condition(secret: bytes, hidden: HiddenCondition) -> Condition:
    """Return a hidden condition. Raises ``CorruptData`` if it was hidden under another key, or is damaged."""
    try:
        condition = parse_canonical(_masked(secret, hidden.digest, bytes.fromhex(hidden.hidden)).decode())
    except ValueError:
        condition = None
    if condition is None or hide_condition(secret, condition) != hidden:
        raise CorruptData("The condition of a request to erase can't be read with this cluster's key.")
    return condition


def find_matches(records: pa.Table, wanted: Iterable[Matcher], secret: bytes) -> Rows:
    """Return which records match any of ``wanted``: a mask, one element for each record of ``RECORD_SCHEMA``."""
    found = np.zeros(records.num_rows, np.bool_)
    by_header: dict[str | None, set[str]] = {}
    for one in wanted:
        by_header.setdefault(one.header, set()).add(one.digest)
    keys = by_header.pop(None, None)
    if keys is not None:
        found |= _have_digest(records.column("key"), keys, secret, None)
    if not by_header or records.column("headers").null_count == records.num_rows:
        return found
    headers = _combined(records.column("headers"))
    parents, pairs = pc.list_parent_indices(headers).to_numpy(), pc.list_flatten(headers)
    for name, digests in by_header.items():
        named = pc.equal(pairs.field("key"), name).to_numpy(zero_copy_only=False)
        rows = parents[named]
        found[rows[_have_digest(pairs.field("value").filter(pa.array(named)), digests, secret, name)]] = True
    return found


def are_erased(records: pa.Table) -> Rows:
    """Return which records have nothing that an erasure which keeps the key would take: no value, headers or typed columns."""
    empty = pc.is_null(records.column("value"))
    empty = pc.and_(empty, pc.equal(pc.fill_null(pc.list_value_length(records.column("headers")), 0), 0))
    for name in set(TYPED_NAMES).intersection(records.column_names):
        empty = pc.and_(empty, pc.is_null(records.column(name)))
    return _mask(empty)


def without_contents(records: pa.Table, erased: Rows) -> pa.Table:
    """Return the records, of which the erased ones have only their place, time and key. The others stay as they are."""
    if not erased.any():
        return records
    kept = pa.array(~erased)
    for name in ("value", "headers", *TYPED_NAMES):
        at = records.schema.get_field_index(name)
        if at >= 0:
            field = records.schema.field(at)
            # Takes the values that stay, so that no buffer has the others.
            values = _combined(records.column(at)).filter(kept)
            places = pa.array(np.cumsum(~erased) - 1, mask=erased)
            records = records.set_column(at, field, values.take(places))
    return records


def _have_digest(values: pa.ChunkedArray | pa.Array, digests: set[str], secret: bytes, header: str | None) -> Rows:
    distinct: Sequence[bytes | None] = pc.unique(values).to_pylist()
    matching = [value for value in distinct if value is not None and digest_of(secret, value, header) in digests]
    if not matching:
        return np.zeros(len(values), np.bool_)
    return _mask(pc.is_in(values, pa.array(matching, pa.binary())))


def _masked(secret: bytes, digest: str, text: bytes) -> bytes:
    """Return the text with a mask of its digest put on, or taken off."""
    blocks = [
        hmac.digest(secret, _DOMAIN + b"text\0%b\0%d" % (digest.encode(), number), "sha256")
        for number in range(-(-len(text) // 32))
    ]
    return bytes(one ^ other for one, other in zip(text, b"".join(blocks), strict=False))


def _combined(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks()


def _mask(found: pa.ChunkedArray | pa.Array) -> Rows:
    plain = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    return np.asarray(plain.to_numpy(zero_copy_only=False), np.bool_)
