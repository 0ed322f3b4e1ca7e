"""The settings of the topic of audit events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from gateway.problem import refused
from log_format.errors import ErrorCode
from log_format.layout import AUDIT_TOPIC

CONFIG: Final[Mapping[str, object]] = MappingProxyType({"retention.ms": 90 * 86_400_000})
"""Settings with which gateways create the topic."""
_ALTERED: Final = frozenset({"retention.ms", "retention.bytes", "commit.mode"})
"""Settings that may be altered: others could make the topic's events unwritable, or rewrite them."""


def check_change(config: Iterable[str]) -> None:
    """Raise ``RequestRefused`` (``INVALID_CONFIG``) for a setting that may not be altered."""
    for name in config:
        if name not in _ALTERED:
            what = f"is not altered for {AUDIT_TOPIC}; {', '.join(sorted(_ALTERED))} are"
            raise refused(f"{name} {what}.", [(f"/config/{name}", what)], code=ErrorCode.INVALID_CONFIG)
