"""Request headers that make a produce request idempotent, part of a transaction, or conditional."""

from __future__ import annotations

from typing import Annotated, Final, Self

from pydantic import BeforeValidator, Field, model_validator

from gateway.http import fields
from gateway.http.validation import faults_error
from log_format.topic.producers import ProducerStamp

PRODUCER_ID: Final = "Tidelog-Producer-Id"
PRODUCER_EPOCH: Final = "Tidelog-Producer-Epoch"
PRODUCER_SEQUENCE: Final = "Tidelog-Producer-Sequence"
EXPECTED_OFFSET: Final = "Tidelog-Expected-Offset"
TRANSACTION: Final = "Tidelog-Transaction"
NAMES: Final = (PRODUCER_ID, PRODUCER_EPOCH, PRODUCER_SEQUENCE, EXPECTED_OFFSET, TRANSACTION)


def _number(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else text


_Id = Annotated[
    str,
    Field(pattern="^[A-Za-z0-9_-]{1,255}$"),
    fields.ErrorMessage("must be 1 to 255 characters of A-Z a-z 0-9 _ -"),
]
_Number = Annotated[int, fields.Between(0), BeforeValidator(_number)]


TransactionId = _Id
"""Id of a transaction in a header."""


class ProducerHeaders(fields.Headers):
    """The producer's stamp: all three headers or none."""

    producer_id: Annotated[
        _Id | None, fields.NotNull(), Field(alias=PRODUCER_ID, description="From `POST /v1/producers`")
    ] = None
    producer_epoch: Annotated[
        _Number | None,
        fields.NotNull(),
        Field(alias=PRODUCER_EPOCH, description="From `POST /v1/producers`, with the id"),
    ] = None
    producer_sequence: Annotated[
        _Number | None,
        fields.NotNull(),
        Field(
            alias=PRODUCER_SEQUENCE,
            description="Sequence number of this producer's request to this topic, from 0. A repeated number appends nothing",
        ),
    ] = None

    @model_validator(mode="after")
    def _all_or_none(self) -> Self:
        stamp = zip(NAMES, (self.producer_id, self.producer_epoch, self.producer_sequence), strict=False)
        missing = [name for name, value in stamp if value is None]
        if 0 < len(missing) < 3:
            raise faults_error([((name,), "is missing: the three producer headers go together") for name in missing])
        return self

    @property
    def given(self) -> list[str]:
        """Names of the producer headers in the request."""
        return [type(self).model_fields[name].alias or name for name in self.model_fields_set]

    @property
    def stamp(self) -> ProducerStamp | None:
        """The stamp; None if the request has none."""
        if self.producer_id is None or self.producer_epoch is None or self.producer_sequence is None:
            return None
        return ProducerStamp(self.producer_id, self.producer_epoch, self.producer_sequence)


class ProduceHeaders(ProducerHeaders):
    """The producer's stamp, and the transaction to which the records belong."""

    transaction_id: Annotated[
        _Id | None,
        fields.NotNull(),
        Field(
            alias=TRANSACTION,
            description="From `POST /v1/transactions`: the records become visible when the transaction is committed",
        ),
    ] = None


class ConditionalHeaders(ProduceHeaders):
    """The producer's stamp and transaction, and the offset that the partition must have reached."""

    expected_offset: Annotated[
        _Number | None,
        fields.NotNull(),
        Field(alias=EXPECTED_OFFSET, description="The gateway appends only if this is the partition's next offset"),
    ] = None

    @model_validator(mode="after")
    def _not_in_a_transaction(self) -> Self:
        if self.expected_offset is not None and self.transaction_id is not None:
            raise faults_error([((EXPECTED_OFFSET,), "does not go with a transaction")])
        return self
