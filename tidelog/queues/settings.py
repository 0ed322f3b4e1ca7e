"""Settings of a queue consumer, as one checked value."""

from __future__ import annotations

from typing import Literal

import msgspec

from log_format import limits as contract
from tidelog.types.sealing import Sealing


class QueueConsumerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a queue consumer, named and explained as the arguments of ``QueueConsumer``.

    Creating one raises ``ValueError`` for a value out of range.
    """

    max_poll_records: int
    fetch_max_bytes: int
    lock_ms: int | None
    envelope: Sealing | None
    client_id: str | None
    consumer_timeout_ms: float | None
    request_timeout_ms: float
    api_timeout_ms: float
    compression: Literal["gzip", "zstd"] | None

    def __post_init__(self) -> None:
        if not 1 <= self.max_poll_records <= contract.FETCH_RECORDS_MAX:
            raise ValueError(f"max_poll_records is {self.max_poll_records}, not 1 to {contract.FETCH_RECORDS_MAX}")
        if not 1 <= self.fetch_max_bytes <= contract.FETCH_BYTES_MAX:
            raise ValueError(f"fetch_max_bytes is {self.fetch_max_bytes}, not 1 to {contract.FETCH_BYTES_MAX}")
