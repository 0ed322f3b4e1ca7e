"""Ids belong to the principal that got them: at every gateway, after a restart, and beside ids without an owner."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import msgspec
import pytest

from gateway.groups.calls.groups import JoinRequest
from log_format.errors import ErrorCode, RequestRefused
from log_format.topic.producer_id import TRANSACTIONAL
from log_format.topic.producers import ProducerStamp
from log_format.transactions.row import TransactionRow, decode_tag, encode_tag
from tests.support.engine import Gateway, make_gateway

ALICE, BOB, MALLORY, NOBODY = "User:alice", "User:bob", "User:mallory", ""


@pytest.fixture
def gateway() -> Gateway:
    return make_gateway()


def another(gateway: Gateway) -> Gateway:
    """One that has just started, on the same store."""
    return make_gateway(objects=gateway.store.objects)


async def refusal(work: Coroutine[Any, Any, object]) -> tuple[ErrorCode, str] | None:
    """Why it is refused; None: it is not."""
    try:
        await work
    except RequestRefused as refused:
        return refused.code, refused.detail
    return None


async def test_a_producer_id_is_its_owners(gateway: Gateway) -> None:
    """Another's is answered like one that no gateway issued; one without an owner serves all."""
    ids = gateway.engine.producer_ids
    owned, free = ProducerStamp(await ids.issue(owner=ALICE), 0, 0), ProducerStamp(await ids.issue(), 0, 0)
    invented = owned._replace(producer_id=owned.producer_id[:-1] + ("0" if owned.producer_id[-1] != "0" else "1"))
    for one in (gateway, another(gateway)):
        check = one.engine.check_producer
        assert await refusal(check(owned, ALICE)) is None
        for caller in (BOB, NOBODY):
            found = await refusal(check(owned, caller))
            assert found == (
                ErrorCode.UNKNOWN_PRODUCER,
                (await refusal(check(invented, caller)) or ("", ""))[1].replace(
                    invented.producer_id, owned.producer_id
                ),
            )
        for caller in (ALICE, BOB, NOBODY):
            assert await refusal(check(free, caller)) is None


async def test_a_transaction_is_its_owners(gateway: Gateway) -> None:
    """Another's is answered like one that was never begun; one from before authentication serves all."""
    owned = await gateway.engine.transactions.begin("mine", 60_000, owner=ALICE)
    free = await gateway.engine.transactions.begin("before", 60_000)
    for one in (gateway, another(gateway)):
        transactions = one.engine.transactions
        for caller in (ALICE, NOBODY):
            assert await refusal(transactions.check_owner(owned.transaction_id, caller)) is None
        found = await refusal(transactions.check_owner(owned.transaction_id, BOB))
        never = await refusal(transactions.look("t" + owned.transaction_id[1:-1] + "x"))
        assert found is not None
        assert never is not None
        assert found[0] == never[0] == ErrorCode.UNKNOWN_TRANSACTION
        for caller in (ALICE, BOB, NOBODY):
            assert await refusal(transactions.check_owner(free.transaction_id, caller)) is None


async def test_an_epoch_is_whose_request_raised_it(gateway: Gateway) -> None:
    """The principal that had it before is told that it is fenced, others that there is no such producer."""
    engine = gateway.engine
    row = await engine.transactions.new_epoch("mine", ALICE)
    again = await engine.transactions.new_epoch("mine", BOB)
    assert (again.producer_id, again.epoch) == (row.producer_id, row.epoch + 1)

    async def told(one: Gateway, epoch: int, caller: str) -> ErrorCode | None:
        found = await refusal(one.engine.check_producer(ProducerStamp(row.producer_id, epoch, 0), caller))
        return None if found is None else found[0]

    for one in (gateway, another(gateway)):
        assert [await told(one, epoch, ALICE) for epoch in (0, 1)] == [
            ErrorCode.FENCED_PRODUCER,
            ErrorCode.UNKNOWN_PRODUCER,
        ]
        assert [await told(one, epoch, BOB) for epoch in (0, 1)] == [ErrorCode.FENCED_PRODUCER, None]
        assert [await told(one, epoch, MALLORY) for epoch in (0, 1)] == [ErrorCode.UNKNOWN_PRODUCER] * 2
        assert [await told(one, epoch, NOBODY) for epoch in (0, 1)] == [ErrorCode.FENCED_PRODUCER, None]
    await engine.transactions.new_epoch("mine")
    assert await told(gateway, 2, MALLORY) is None
    for number in range(10):
        row = await engine.transactions.new_epoch("mine", f"User:{number}")
    assert len(row.owners) == 4


async def test_a_member_is_its_owners(gateway: Gateway) -> None:
    """In its group only. Members that joined without an owner serve all; ids stay in the order of joining."""
    groups = gateway.engine.groups
    await gateway.topic()

    async def joined(owner: str) -> str:
        joining = JoinRequest(
            topics=("t",), pattern=None, assignor="range", session_timeout_ms=60_000, client_id=None, instance_id=None,
            owner=owner,
        )  # fmt: skip
        return (await groups.join("g", joining))[1].member.member_id

    free, owned = await joined(NOBODY), await joined(ALICE)
    assert free < owned
    for one in (gateway, another(gateway)):
        check = one.engine.groups.member_ids.check
        for caller in (ALICE, NOBODY):
            assert await refusal(check("g", owned, caller)) is None
        for group, caller in (("g", BOB), ("other", ALICE)):
            found = await refusal(check(group, owned, caller))
            never = await refusal(check(group, "m00000000000000-never_issued", caller))
            assert found is not None
            assert never is not None
            assert found == (ErrorCode.UNKNOWN_MEMBER, never[1].replace("m00000000000000-never_issued", owned))
        for caller in (ALICE, BOB, NOBODY):
            assert await refusal(check("g", free, caller)) is None
    stripped = owned.rpartition("_")[0]
    assert (await refusal(groups.leave("g", stripped)) or ("",))[0] == ErrorCode.UNKNOWN_MEMBER


async def test_a_transactions_owner_is_in_its_id_only(gateway: Gateway) -> None:
    """A transactional id's producer id serves the owners of all its epochs: it is issued without an owner."""
    row = await gateway.engine.transactions.begin("mine", 60_000, owner=ALICE)
    ids = gateway.engine.producer_ids
    assert not await ids.is_of_another_owner(row.producer_id, BOB)
    assert await ids.is_of_another_owner(row.transaction_id, BOB)
    assert await ids.is_of_another_owner(await ids.issue(TRANSACTIONAL, BOB), ALICE)


def test_rows_of_before_have_no_owners() -> None:
    """A row of an earlier release has none, and an earlier release passes over what a row has more."""
    row = TransactionRow(
        transaction_id="t", transactional_id="mine", producer_id="p", epoch=1, state="open", began_at_ms=1, expires_at_ms=2,
        recorded_at_ms=3, owners=("a", "b"),
    )  # fmt: skip
    (members,) = msgspec.json.decode(encode_tag([row]))
    owners = members.index(["a", "b"])
    (before,) = decode_tag(msgspec.json.encode([members[:owners]]).decode())
    assert before == msgspec.structs.replace(row, owners=())
    assert decode_tag(msgspec.json.encode([[*members, "of a later release"]]).decode()) == [row]
