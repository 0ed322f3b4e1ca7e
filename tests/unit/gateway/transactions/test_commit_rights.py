"""A commit needs the rights to all that its staged objects name, however they came into the store."""

from __future__ import annotations

import pytest

from gateway.access.rights import Unauthorized
from gateway.transactions.needed_rights import Need
from log_format.transactions.staged_offsets import SUFFIX, StagedOffset, StagedOffsets, encode_offsets
from log_format.transactions.staged_records import StagedRecords, encode_staged, staged_name, staged_prefix
from log_format.transactions.staged_settlements import StagedSettlements, encode_settlements
from tests.support.all_allowed import all_allowed
from tests.support.engine import Gateway, batch_of, make_gateway, values_of


async def _with_forged_object(gateway: Gateway, name: str, content: bytes) -> str:
    """Return an open transaction with a record for topic ``own`` and an object that was put beside it by hand."""
    begun = await gateway.engine.transactions.begin("mine", 60_000)
    batch = batch_of(await gateway.topic("own", flush_ms=0), [b"own"])
    await gateway.engine.transactions.stage(begun.transaction_id, "own", batch, None)
    gateway.store.put(staged_prefix(begun.transaction_id) + name, content)
    transaction_id: str = begun.transaction_id
    return transaction_id


async def _forged_records(gateway: Gateway) -> bytes:
    topic = await gateway.topic("theirs", flush_ms=0)
    batch = batch_of(topic, [b"forged"])
    return encode_staged(
        StagedRecords(topic="theirs", topic_id=batch.topic_id, records=batch.records, partitions=batch.partitions)
    )


FORGED_OFFSETS = encode_offsets(
    StagedOffsets(
        group="their-group",
        member_id=None,
        generation=None,
        offsets=(StagedOffset(topic="their-topic", partition=0, offset=3),),
    )
)
FORGED_SETTLEMENTS = encode_settlements(StagedSettlements(queue="their-queue", pending_id="p"))


@pytest.mark.parametrize(
    ("content", "named", "missing"),
    [
        (None, "theirs", ("Write", "topic", "theirs")),
        (FORGED_OFFSETS, "their-group", ("Read", "group", "their-group")),
        (FORGED_OFFSETS, "their-group", ("Read", "topic", "their-topic")),
        (FORGED_SETTLEMENTS, "their-queue", ("Read", "group", "their-queue")),
    ],
)
async def test_an_object_put_there_by_hand_needs_the_rights_to_what_it_names(
    gateway: Gateway, content: bytes | None, named: str, missing: Need
) -> None:
    """The commit is refused, and nothing of the transaction is in a topic or a group."""
    content = content or await _forged_records(gateway)
    suffix = SUFFIX if named != "theirs" else ".arrow"
    transaction_id = await _with_forged_object(gateway, staged_name(7, named, None, "by-hand", suffix=suffix), content)

    def require(*need: str) -> None:
        if need == missing:
            raise Unauthorized(*missing)

    with pytest.raises(Unauthorized):
        await gateway.engine.transactions.commit(transaction_id, require)
    assert (await gateway.engine.transactions.look(transaction_id)).state == "open"
    assert values_of(await gateway.fetch(topic="own")) == []


async def test_what_the_caller_may_write_is_committed() -> None:
    """The rights asked for are those to what is staged, each once."""
    gateway = make_gateway()
    records = await _forged_records(gateway)
    transaction_id = await _with_forged_object(gateway, staged_name(7, "theirs", None, "by-hand"), records)
    asked: list[tuple[str, ...]] = []
    await gateway.engine.transactions.commit(transaction_id, lambda *need: asked.append(need))
    assert asked == [("Write", "topic", "own"), ("Write", "topic", "theirs")]
    assert values_of(await gateway.fetch(topic="theirs")) == [b"forged"]
    await gateway.engine.transactions.commit(transaction_id, all_allowed)
    await gateway.engine.drain()
