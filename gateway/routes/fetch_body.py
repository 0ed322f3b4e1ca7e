"""What a fetch, a fetch of several, and a poll say of the records that they want."""

from __future__ import annotations

from typing import Annotated, Final, Self

from pydantic import AfterValidator, ConfigDict, Field, PrivateAttr, field_validator, model_validator

from gateway.engine.fetch_answer import FetchFrom, FetchLimits, StartWord
from gateway.http import fields
from log_format import limits

RECORDS_DEFAULT: Final = 500
RECORDS_MAX: Final = limits.FETCH_RECORDS_MAX
BYTES_DEFAULT: Final = 1024 * 1024
BYTES_MAX: Final = limits.FETCH_BYTES_MAX
WAIT_MS_MAX: Final = limits.FETCH_WAIT_MS_MAX
PARTITIONS_MAX: Final = 10_000
"""Partitions of one fetch."""


class Limits(fields.Body):
    """How much of it, and how long to wait for it."""

    max_records: Annotated[int, fields.Between(1, RECORDS_MAX), Field(description="At most so many")] = RECORDS_DEFAULT
    max_bytes: Annotated[int, fields.Between(1, BYTES_MAX), Field(description="Keys, values, headers")] = BYTES_DEFAULT
    min_bytes: Annotated[int, fields.Between(0), Field(description="Wait for so many")] = 1
    max_wait_ms: Annotated[int, fields.Between(0, WAIT_MS_MAX), Field(description="Wait so long")] = 0

    def limits(self) -> FetchLimits:
        """For the engine."""
        return FetchLimits(
            records_max=self.max_records,
            bytes_max=self.max_bytes,
            bytes_min=self.min_bytes,
            wait_ms_max=self.max_wait_ms,
        )


class FetchQuery(Limits):
    """Where to begin, and how much of it."""

    offset: Annotated[
        fields.Offset | StartWord | None,
        fields.NotNull(),
        fields.Says(f"must be an integer from 0 to {fields.INT64_MAX}, or one of earliest, latest"),
        Field(description="Where to begin; exactly one of this and `timestamp`"),
    ] = None
    timestamp: Annotated[
        fields.Timestamp | None,
        fields.NotNull(),
        Field(description="Begin with the first record, in offset order, of this time or later"),
    ] = None

    _digits = field_validator("*", mode="before")(fields.number)


class FetchHeaders(fields.Headers):
    """Other headers are not looked at."""

    model_config = ConfigDict(extra="ignore")

    last_event_id: Annotated[
        fields.Offset | None,
        fields.NotNull(),
        fields.Digits,
        Field(alias="Last-Event-ID", description="Event streams: where to go on; wins over `offset`"),
    ] = None


class Start(fields.PartitionKey):
    """A partition, and where to begin."""

    offset: Annotated[fields.Offset | StartWord, fields.Says(f"must be an integer from 0 to {fields.INT64_MAX}")]


class FetchBody(
    Limits,
    example={"partitions": [{"topic": "flights", "partition": 3, "offset": "earliest"}], "max_wait_ms": 1000},
):
    """Of which partitions; limits are totals."""

    partitions: Annotated[list[Start], Field(max_length=PARTITIONS_MAX), AfterValidator(fields.each_partition_once)]
    _wanted: list[FetchFrom] = PrivateAttr()

    @model_validator(mode="after")
    def _make_wanted(self) -> Self:
        # Here, where a long body is checked: not on the event loop.
        names: dict[str, str] = {}
        self._wanted = [
            FetchFrom(topic=names.setdefault(one.topic, one.topic), partition=one.partition, offset=one.offset)
            for one in self.partitions
        ]
        return self

    @property
    def wanted(self) -> list[FetchFrom]:
        """For the engine."""
        return self._wanted
