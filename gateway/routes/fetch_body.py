"""The parts of the bodies of ``/v1/fetch`` and of a poll that select records."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from gateway.engine.fetch_answer import FetchFrom, FetchLimits
from gateway.http import fields
from gateway.http.parameters import INT64_MAX, integer
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


LIMITS: Final = tuple(
    integer(name, field.description or "", minimum=one.minimum, maximum=one.maximum, default=field.default)
    for name, field in Limits.model_fields.items()
    for one in field.metadata
    if isinstance(one, fields.Between)
)
"""The same as parameters of a query."""


class Start(fields.PartitionKey):
    """A partition, and where to begin."""

    offset: Annotated[
        fields.Offset | Literal["earliest", "latest"], fields.Says(f"must be an integer from 0 to {INT64_MAX}")
    ]


class FetchBody(Limits):
    """Of which partitions; limits are totals."""

    partitions: Annotated[list[Start], Field(max_length=PARTITIONS_MAX), AfterValidator(fields.each_partition_once)]

    def wanted(self) -> list[FetchFrom]:
        """For the engine."""
        names: dict[str, str] = {}
        return [
            FetchFrom(topic=names.setdefault(one.topic, one.topic), partition=one.partition, offset=one.offset)
            for one in self.partitions
        ]
