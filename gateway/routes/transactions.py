"""Transactions: begin, describe, commit, abort. Their records come by the produce routes."""

from __future__ import annotations

from itertools import groupby
from typing import Annotated, Final, NotRequired

from fastapi import APIRouter
from starlette.requests import Request
from typing_extensions import TypedDict

from gateway.gateway import engine_of
from gateway.http import fields
from gateway.openapi.problems import BODY_ERRORS, CHANGE_ERRORS, problems
from gateway.routes.group_offsets import OFFSET_ERRORS, Committing, Offsets
from gateway.routes.groups import MEMBER_ERRORS
from gateway.routes.typed_route import TypedRoute
from log_format import limits
from log_format.errors import ErrorCode
from log_format.transactions.row import NO_NUMBER, TransactionRow
from log_format.transactions.staged_offsets import StagedOffset, StagedOffsets

router = APIRouter(route_class=TypedRoute, tags=["transactions"])

TIMEOUT_MS_DEFAULT: Final = limits.TRANSACTION_TIMEOUT_MS_DEFAULT
NUMBER_MAX: Final = 2**53 - 1
"""What every JSON parser keeps exactly."""
_TIMEOUTS: Final = fields.Between(limits.TRANSACTION_TIMEOUT_MS_MIN, limits.TRANSACTION_TIMEOUT_MS_MAX)


class NewTransaction(
    fields.Body, example={"transactional_id": "billing-7", "timeout_ms": TIMEOUT_MS_DEFAULT, "number": 42}
):
    """The transaction to begin. `number` is the client's own and is stored with it."""

    transactional_id: fields.Identifier
    timeout_ms: Annotated[int, _TIMEOUTS] = TIMEOUT_MS_DEFAULT
    number: Annotated[Annotated[int, fields.Between(0, NUMBER_MAX)] | None, fields.NotNull()] = None


class GroupOffsets(
    Committing, example={"group": "billing", "offsets": [{"topic": "flights", "partition": 3, "offset": 42}]}
):
    """Offsets of a group, to be committed with the transaction."""

    group: fields.Identifier
    offsets: Offsets

    def staged(self) -> StagedOffsets:
        """As the transaction keeps them."""
        offsets = tuple(
            StagedOffset(topic=one.topic, partition=one.partition, offset=one.offset, metadata=one.metadata)
            for one in self.offsets
        )
        return StagedOffsets(group=self.group, member_id=self.member_id, generation=self.generation, offsets=offsets)


class Nothing(fields.Body, example={}):
    """An empty object."""


class BegunTransaction(TypedDict):
    """The open transaction. `last_number` is there when a `number` was sent; null: nothing was committed yet."""

    transaction_id: fields.Opaque
    producer_id: fields.Opaque
    epoch: fields.Count
    expires_at: fields.Count
    last_number: NotRequired[fields.Count | None]


class AppendedPartition(TypedDict):
    """The offsets that the records of one partition have."""

    partition: fields.Partition
    base_offset: fields.Offset
    last_offset: fields.Offset
    count: fields.Count


class AppendedTopic(TypedDict):
    """The offsets that the records of one topic have."""

    topic: fields.TopicName
    partitions: list[AppendedPartition]


class Committed(TypedDict):
    """The transaction is committed: every record is visible."""

    state: Annotated[str, fields.OneOf("committed")]
    topics: list[AppendedTopic]


class Aborted(TypedDict):
    """The transaction is aborted: none of its records will be visible."""

    state: Annotated[str, fields.OneOf("aborted")]


class Transaction(TypedDict):
    """A transaction as it is now. `topics` is there once it is committed."""

    state: Annotated[str, fields.OneOf("open", "committing", "committed", "aborted")]
    transactional_id: str
    producer_id: fields.Opaque
    epoch: fields.Count
    expires_at: fields.Count
    topics: NotRequired[list[AppendedTopic]]


class StagedCount(TypedDict):
    """The number of offsets in the request."""

    staged: fields.Count


_NOTHING: Final = Nothing()
_ENDED_ERRORS: Final = (
    ErrorCode.UNKNOWN_TRANSACTION,
    ErrorCode.TRANSACTION_NOT_OPEN,
    ErrorCode.FENCED_PRODUCER,
    ErrorCode.OUTCOME_UNKNOWN,
)


@router.post("/v1/transactions", status_code=201, responses=problems(*CHANGE_ERRORS))
async def begin_transaction(request: Request, wanted: NewTransaction) -> BegunTransaction:
    """Begin a transaction. An older one of the same transactional id is fenced and aborted.

    A client that sends a `number` is told `last_number`, the newest that the transactional id has committed. Nothing of an older
    epoch is committed after this answer. So a client that repeats a piece of work knows whether an earlier try has committed it.
    """
    number = NO_NUMBER if wanted.number is None else wanted.number
    row = await engine_of(request).transactions.begin(wanted.transactional_id, wanted.timeout_ms, number)
    begun: BegunTransaction = {
        "transaction_id": row.transaction_id,
        "producer_id": row.producer_id,
        "epoch": row.epoch,
        "expires_at": row.expires_at_ms,
    }
    if number != NO_NUMBER:
        begun["last_number"] = None if row.last_number == NO_NUMBER else row.last_number
    return begun


@router.get(
    "/v1/transactions/{transaction}", responses=problems(ErrorCode.UNKNOWN_TRANSACTION, ErrorCode.OUTCOME_UNKNOWN)
)
async def describe_transaction(request: Request, transaction: fields.TransactionPath) -> Transaction:
    """Describe a transaction."""
    row = await engine_of(request).transactions.look(transaction)
    described: Transaction = {
        "state": row.state,
        "transactional_id": row.transactional_id,
        "producer_id": row.producer_id,
        "epoch": row.epoch,
        "expires_at": row.expires_at_ms,
    }
    if row.state == "committed":
        described["topics"] = topics_of(row)
    return described


@router.post(
    "/v1/transactions/{transaction}:commit",
    responses=problems(*_ENDED_ERRORS, ErrorCode.STALE_GENERATION, ErrorCode.FENCED_MEMBER, *BODY_ERRORS),
)
async def commit_transaction(request: Request, transaction: fields.TransactionPath, _: Nothing = _NOTHING) -> Committed:
    """Commit a transaction: every record becomes visible, or none. A repeat gets the same answer."""
    row = await engine_of(request).transactions.commit(transaction)
    return {"state": "committed", "topics": topics_of(row)}


@router.post("/v1/transactions/{transaction}:abort", responses=problems(*_ENDED_ERRORS, *BODY_ERRORS))
async def abort_transaction(request: Request, transaction: fields.TransactionPath, _: Nothing = _NOTHING) -> Aborted:
    """Abort a transaction. Repeating it changes nothing."""
    await engine_of(request).transactions.abort(transaction)
    return {"state": "aborted"}


@router.post(
    "/v1/transactions/{transaction}/offsets",
    status_code=202,
    responses=problems(*_ENDED_ERRORS, *MEMBER_ERRORS, *OFFSET_ERRORS, *BODY_ERRORS),
)
async def add_offsets(request: Request, transaction: fields.TransactionPath, wanted: GroupOffsets) -> StagedCount:
    """Add offsets of a group, to be committed with the transaction. The group's rules are checked now and at the commit."""
    await engine_of(request).transactions.stage_offsets(transaction, wanted.staged())
    return {"staged": len(wanted.offsets)}


def topics_of(row: TransactionRow) -> list[AppendedTopic]:
    """Where the records of a committed transaction are, as the contract has it."""
    return [
        {
            "topic": topic,
            "partitions": [
                {
                    "partition": place.partition,
                    "base_offset": place.base_offset,
                    "last_offset": place.base_offset + place.record_count - 1,
                    "count": place.record_count,
                }
                for place in places
            ],
        }
        for topic, places in groupby(row.places, key=lambda place: place.topic)
    ]
