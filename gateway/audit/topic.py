"""The settings of the topic of audit events."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

CONFIG: Final[Mapping[str, object]] = MappingProxyType({"retention.ms": 90 * 86_400_000})
"""Settings with which gateways create the topic."""
