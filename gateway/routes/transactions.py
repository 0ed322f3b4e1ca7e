"""Transactions: begin, describe, commit, abort. The produce routes add their records."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import Annotated, Final, Literal, NotRequired, Self

from fastapi import APIRouter, Query
from pydantic import AfterValidator, Field, model_validator
from starlette.requests import Request
from typing_extensions import TypedDict

from gateway.access.needs import Need, needs
from gateway.gateway import (
    allowing,
    check_member,
    check_transaction,
    engine_of,
    gateway_of,
    owner_of,
    require,
    standing_of,
)
from gateway.http import fields
from gateway.http.validation import faults_error
from gateway.openapi.problems import BODY_ERRORS, CHANGE_ERRORS, problems
from gateway.routes.administration import authorize_as_owner_or_administrator
from gateway.routes.group_offsets import OFFSET_ERRORS, Committing, Offsets
from gateway.routes.groups import MEMBER_ERRORS
from gateway.routes.typed_route import TypedRoute
from gateway.transactions.check_back import state_of
from log_format import limits
from log_format.errors import ErrorCode
from log_format.transactions.row import NO_NUMBER, Place, TransactionRow
from log_format.transactions.staged_offsets import StagedOffsets

router = APIRouter(route_class=TypedRoute, tags=["transactions"])

TIMEOUT_MS_DEFAULT: Final = limits.TRANSACTION_TIMEOUT_MS_DEFAULT
NUMBER_MAX: Final = 2**53 - 1
"""Largest number that every JSON parser keeps exactly."""
_TIMEOUTS: Final = fields.Between(limits.TRANSACTION_TIMEOUT_MS_MIN, limits.TRANSACTION_TIMEOUT_MS_MAX)


def _prefix(text: str) -> str:
    if text and not fields.is_identifier(text):
        raise faults_error([((), "must be at most 255 bytes without control characters")])
    return text


class NewTransaction(
    fields.Body, example={"transactional_id": "billing-7", "timeout_ms": TIMEOUT_MS_DEFAULT, "number": 42}
):
    """The transaction to begin. `number` is the client's own and is stored with it."""

    transactional_id: fields.Identifier
    timeout_ms: Annotated[int, _TIMEOUTS] = TIMEOUT_MS_DEFAULT
    number: Annotated[Annotated[int, fields.Between(0, NUMBER_MAX)] | None, fields.NotNull()] = None
    check_after_ms: Annotated[
        Annotated[int, _TIMEOUTS] | None,
        fields.NotNull(),
        Field(description="After so long the transaction is offered to `POST /v1/transactions:check`"),
    ] = None

    @model_validator(mode="after")
    def _check_before_the_end(self) -> Self:
        if self.check_after_ms is not None and self.check_after_ms > self.ends_after_ms:
            raise faults_error([(("check_after_ms",), f"must not be above timeout_ms, {self.ends_after_ms}")])
        return self

    @property
    def ends_after_ms(self) -> int:
        """The given `timeout_ms`; if none was given, a transaction with `check_after_ms` has the longest timeout."""
        is_given = self.check_after_ms is None or "timeout_ms" in self.model_fields_set
        return self.timeout_ms if is_given else limits.TRANSACTION_TIMEOUT_MS_MAX


class Checking(fields.Body, example={"transactional_id_prefix": "orders-", "max_records": 10, "max_wait_ms": 30000}):
    """Transactions that the caller decides, and how many at a time."""

    transactional_id_prefix: Annotated[str, AfterValidator(_prefix)]
    max_records: Annotated[int, fields.Between(1, 1_000)] = 10
    max_wait_ms: Annotated[int, fields.Between(0, 60_000)] = 0


class TransactionsQuery(fields.Parameters):
    """Filter and page of the list of transactions."""

    state: Annotated[
        Literal["open", "committing", "committed", "aborted"] | None,
        fields.NotNull(),
        fields.OneOf("open", "committing", "committed", "aborted"),
    ] = None
    transactional_id_prefix: Annotated[str, AfterValidator(_prefix)] = ""
    after: Annotated[str | None, fields.NotNull(), Field(description="`next` of the previous page")] = None
    limit: fields.Limit = fields.LIST_LIMIT


class GroupOffsets(
    Committing, example={"group": "billing", "offsets": [{"topic": "flights", "partition": 3, "offset": 42}]}
):
    """Offsets of a group, to be committed with the transaction."""

    group: fields.Identifier
    offsets: Offsets

    def staged(self) -> StagedOffsets:
        """Return the offsets as the transaction stages them."""
        offsets = tuple(one.staged() for one in self.offsets)
        return StagedOffsets(group=self.group, member_id=self.member_id, generation=self.generation, offsets=offsets)


class Nothing(fields.Body, example={}):
    """An empty object."""


class BegunTransaction(TypedDict):
    """The open transaction. `last_number` is present if a `number` was sent; null: nothing was committed yet."""

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
    """A transaction as it is now. `topics` is present once it is committed: the topics that the caller may describe. `lost`:
    number of staged objects that are missing from the commit because another program had deleted them."""

    state: Annotated[str, fields.OneOf("open", "committing", "committed", "aborted")]
    transactional_id: str
    producer_id: fields.Opaque
    epoch: fields.Count
    expires_at: fields.Count
    topics: NotRequired[list[AppendedTopic]]
    lost: NotRequired[fields.Count]


class OfferedTransaction(TypedDict):
    """An open transaction that the caller is asked to commit or abort. `checks`: times offered, including this one."""

    transaction_id: fields.Opaque
    transactional_id: str
    began_at: fields.Count
    checks: fields.Count


class OfferedTransactions(TypedDict):
    """Offered transactions. Each is offered to no other caller for 30 seconds."""

    transactions: list[OfferedTransaction]


class ListedTransaction(OfferedTransaction):
    """A transaction as it is now."""

    state: Annotated[str, fields.OneOf("open", "committing", "committed", "aborted")]
    producer_id: fields.Opaque
    epoch: fields.Count
    expires_at: fields.Count


class ListedTransactions(TypedDict):
    """Transactions, sorted by transactional id."""

    transactions: list[ListedTransaction]
    next: NotRequired[str]


class StagedCount(TypedDict):
    """The number of offsets in the request."""

    staged: fields.Count


_NOTHING: Final = Nothing()
_END_ERRORS: Final = (
    ErrorCode.UNKNOWN_TRANSACTION,
    ErrorCode.TRANSACTION_NOT_OPEN,
    ErrorCode.FENCED_PRODUCER,
    ErrorCode.OUTCOME_UNKNOWN,
)


@router.post("/v1/transactions", status_code=201, responses=problems(*CHANGE_ERRORS))
@needs(Need("Write", "transactional_id"))
async def begin_transaction(request: Request, wanted: NewTransaction) -> BegunTransaction:
    """Begin a transaction. An older one of the same transactional id is fenced and aborted.

    A client that sends a `number` gets `last_number`, the newest number that the transactional id has committed. Nothing of an
    older epoch is committed after this answer, so a client that repeats work knows whether an earlier try has committed it.
    """
    require(request, "Write", "transactional_id", wanted.transactional_id)
    number = NO_NUMBER if wanted.number is None else wanted.number
    row = await engine_of(request).transactions.begin(
        wanted.transactional_id, wanted.ends_after_ms, number, owner_of(request), wanted.check_after_ms
    )
    begun: BegunTransaction = {
        "transaction_id": row.transaction_id,
        "producer_id": row.producer_id,
        "epoch": row.epoch,
        "expires_at": row.expires_at_ms,
    }
    if number != NO_NUMBER:
        begun["last_number"] = None if row.last_number == NO_NUMBER else row.last_number
    return begun


@router.get("/v1/transactions", responses=problems())
@needs()
async def list_transactions(request: Request, query: Annotated[TransactionsQuery, Query()]) -> ListedTransactions:
    """List the transactions of transactional ids, in pages."""
    engine = engine_of(request)
    shown = allowing(request, "Describe", "transactional_id")
    after_id, _, after_transaction = (query.after or "").partition("\n")
    rows = await engine.check_back.list_rows(
        query.state, query.transactional_id_prefix, (after_id, after_transaction), query.limit + 1, shown
    )
    now_ms = engine.clock.now_ms()
    listed: list[ListedTransaction] = [
        {
            **_offered_transaction(row),
            "state": state_of(row, now_ms),
            "producer_id": row.producer_id,
            "epoch": row.epoch,
            "expires_at": row.expires_at_ms,
        }
        for row in rows[: query.limit]
    ]
    answer: ListedTransactions = {"transactions": listed}
    if len(rows) > query.limit:
        last = rows[query.limit - 1]
        answer["next"] = f"{last.transactional_id}\n{last.transaction_id}"
    return answer


@router.post("/v1/transactions:check", responses=problems(*CHANGE_ERRORS))
@needs()
async def check_transactions(request: Request, wanted: Checking) -> OfferedTransactions:
    """Get open transactions without recent requests, to commit or abort each. Transactions that stay open are returned again."""
    standing, allowed = standing_of(request), allowing(request, "Write", "transactional_id")

    def shown(transactional_id: str) -> bool:
        standing.check()
        return allowed(transactional_id)

    rows = await engine_of(request).check_back.offer(
        wanted.transactional_id_prefix, wanted.max_records, wanted.max_wait_ms, shown
    )
    if not rows:  # transactions that were offered must be answered
        standing.check()
    return {"transactions": [_offered_transaction(row) for row in rows]}


@router.get(
    "/v1/transactions/{transaction}", responses=problems(ErrorCode.UNKNOWN_TRANSACTION, ErrorCode.OUTCOME_UNKNOWN)
)
@needs(Need("Describe", "transactional_id"))
async def describe_transaction(request: Request, transaction: fields.TransactionPath) -> Transaction:
    """Describe a transaction."""
    await check_transaction(request, transaction)
    await _require(request, "Describe", transaction)
    row = await engine_of(request).transactions.look(transaction)
    described: Transaction = {
        "state": row.state,
        "transactional_id": row.transactional_id,
        "producer_id": row.producer_id,
        "epoch": row.epoch,
        "expires_at": row.expires_at_ms,
    }
    if row.lost:
        described["lost"] = row.lost
    if row.state == "committed":
        shown = allowing(request, "Describe", "topic")
        described["topics"] = appended_topics([place for place in row.places if shown(place.topic)])
    return described


@router.post(
    "/v1/transactions/{transaction}:commit",
    responses=problems(
        *_END_ERRORS,
        ErrorCode.STALE_GENERATION,
        ErrorCode.FENCED_MEMBER,
        ErrorCode.LEASE_EXPIRED,
        *BODY_ERRORS,
    ),
)
@needs(Need("Write", "transactional_id"))
async def commit_transaction(request: Request, transaction: fields.TransactionPath, _: Nothing = _NOTHING) -> Committed:
    """Commit a transaction: every record becomes visible, or none. A repeat gets the same answer."""
    await check_transaction(request, transaction)
    await require_write(request, transaction)
    row = await engine_of(request).transactions.commit(transaction, partial(require, request))
    return {"state": "committed", "topics": appended_topics(row.places)}


@router.post("/v1/transactions/{transaction}:abort", responses=problems(*_END_ERRORS, *BODY_ERRORS))
@needs(Need("Write", "transactional_id"))
async def abort_transaction(request: Request, transaction: fields.TransactionPath, _: Nothing = _NOTHING) -> Aborted:
    """Abort a transaction. Repeating it changes nothing."""
    abort = partial(engine_of(request).transactions.abort, transaction)
    await authorize_as_owner_or_administrator(request, _check_own(request, transaction), abort)
    return {"state": "aborted"}


async def _check_own(request: Request, transaction: str) -> None:
    await check_transaction(request, transaction)
    await require_write(request, transaction)


@router.post(
    "/v1/transactions/{transaction}/offsets",
    status_code=202,
    responses=problems(*_END_ERRORS, *MEMBER_ERRORS, *OFFSET_ERRORS, *BODY_ERRORS),
)
@needs(Need("Write", "transactional_id"), Need("Read", "group"), Need("Read", "topic"))
async def add_offsets(request: Request, transaction: fields.TransactionPath, wanted: GroupOffsets) -> StagedCount:
    """Add offsets of a group, to be committed with the transaction. The membership is checked now and at the commit."""
    await check_transaction(request, transaction)
    await require_write(request, transaction)
    require(request, "Read", "group", wanted.group)
    require(request, "Read", "topic", *(one.topic for one in wanted.offsets))
    await check_member(request, wanted.group, wanted.member_id)
    await engine_of(request).transactions.stage_offsets(transaction, wanted.staged())
    return {"staged": len(wanted.offsets)}


def _offered_transaction(row: TransactionRow) -> OfferedTransaction:
    return {
        "transaction_id": row.transaction_id,
        "transactional_id": row.transactional_id,
        "began_at": row.began_at_ms,
        "checks": row.checks,
    }


async def require_write(request: Request, transaction: str) -> None:
    """Raise ``Unauthorized`` unless the caller may write with the transaction's id. Raise as ``Transactions.transactional_id``
    does."""
    await _require(request, "Write", transaction)


async def _require(request: Request, operation: Literal["Write", "Describe"], transaction: str) -> None:
    if gateway_of(request).rights.enforced:
        name = await engine_of(request).transactions.transactional_id(transaction)
        require(request, operation, "transactional_id", name)


def appended_topics(placed: Sequence[Place]) -> list[AppendedTopic]:
    """Return the offsets of a committed transaction's records, as the API lists them."""
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
        for topic, places in groupby(placed, key=lambda place: place.topic)
    ]
