"""Settings of a producer, as one checked value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from log_format import limits as contract
from tidelog import limits
from tidelog.arguments import check_compression

if TYPE_CHECKING:
    from tidelog.bodies.encode import Compression
    from tidelog.producer.conversion import Serializer
    from tidelog.producer.delivery import OnDelivery
    from tidelog.types.sealing import Sealing


class ProducerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a producer, named and explained as the arguments of ``Producer``.

    Creating one raises ``ValueError`` for an invalid value or combination, ``ModuleNotFoundError`` if a compression's library is
    missing.
    """

    linger_ms: float
    batch_bytes: int
    buffer_bytes: int
    max_block_ms: float
    max_in_flight: int
    enable_idempotence: bool
    delivery_timeout_ms: float
    request_timeout_ms: float
    compression: Compression | None
    key_serializer: Serializer | None
    value_serializer: Serializer | None
    envelope: Sealing | None
    on_delivery: OnDelivery | None
    transactional_id: str | None
    transaction_timeout_ms: int | None
    transaction_check_after_ms: int | None
    register: bool

    def __post_init__(self) -> None:
        self._check_at_least(0, "linger_ms", "max_block_ms")
        self._check_at_least(1, "batch_bytes", "max_in_flight")
        self._check_at_least(self.batch_bytes, "buffer_bytes")
        self._check_at_least(self.linger_ms, "delivery_timeout_ms")
        if self.batch_bytes > limits.REQUEST_TARGET_BYTES:
            raise ValueError(f"batch_bytes is {self.batch_bytes}, above {limits.REQUEST_TARGET_BYTES}")
        check_compression(self.compression)
        if self.register and self.value_serializer is not None:
            raise ValueError("register is for models; a value_serializer writes something else")
        if self.transactional_id is not None and not self.enable_idempotence:
            raise ValueError("transactions need enable_idempotence")
        least, most = contract.TRANSACTION_TIMEOUT_MS_MIN, contract.TRANSACTION_TIMEOUT_MS_MAX
        if not least <= self.abort_after_ms <= most:
            raise ValueError(f"transaction_timeout_ms is {self.abort_after_ms}, not {least} to {most}")

    @property
    def abort_after_ms(self) -> int:
        """Age at which gateways abort a transaction. If transactions are checked, the default is the longest allowed."""
        if self.transaction_timeout_ms is not None:
            return self.transaction_timeout_ms
        if self.transaction_check_after_ms is not None:
            return contract.TRANSACTION_TIMEOUT_MS_MAX
        return contract.TRANSACTION_TIMEOUT_MS_DEFAULT

    def _check_at_least(self, least: float, *names: str) -> None:
        for name in names:
            value: Any = getattr(self, name)
            if value < least:
                raise ValueError(f"{name} is {value}, below {least}")
