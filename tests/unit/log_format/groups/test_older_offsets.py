"""Offsets that were written before leader epochs were kept can be read; what is written now is read by those that know none."""

from __future__ import annotations

import msgspec

from log_format.groups.row import NO_EPOCH, GroupChanges, OffsetRow, decode_tag, encode_tag
from log_format.transactions.staged_offsets import decode_offsets

_OLDER_TAG = '[{"offsets":[["g","t",0,"id",5,null,null,-1,7]]}]'
_OLDER_STAGED = (
    b'{"group":"g","member_id":null,"generation":null,'
    b'"offsets":[{"topic":"t","partition":0,"offset":5,"metadata":null}]}'
)


class _OlderRow(msgspec.Struct, array_like=True):
    """As earlier gateways decode it."""

    group: str
    topic: str
    partition: int
    topic_id: str
    offset: int | None
    metadata: str | None
    member: str | None
    generation: int
    committed_at_ms: int


def test_an_older_row_has_no_epoch() -> None:
    """Neither in a tag nor in a staged object."""
    ((row,),) = [changes.offsets for changes in decode_tag(_OLDER_TAG)]
    assert (row.offset, row.committed_at_ms, row.leader_epoch) == (5, 7, NO_EPOCH)
    (staged,) = decode_offsets(_OLDER_STAGED, "key").offsets
    assert (staged.offset, staged.leader_epoch) == (5, NO_EPOCH)


def test_an_older_gateway_reads_a_row_with_an_epoch() -> None:
    """During an upgrade both are there."""
    row = OffsetRow(group="g", topic="t", partition=0, topic_id="id", offset=5, committed_at_ms=7, leader_epoch=3)
    tag = encode_tag([GroupChanges(offsets=(row,))])
    ((older,),) = [one["offsets"] for one in msgspec.json.decode(tag, type=list[dict[str, list[_OlderRow]]])]
    assert (older.offset, older.committed_at_ms) == (5, 7)
    assert decode_tag(tag)[0].offsets == (row,)
