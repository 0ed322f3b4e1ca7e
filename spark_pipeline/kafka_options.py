"""Options of Spark's Kafka source and sink without effect here: a query that has them runs, with a warning."""

from __future__ import annotations

import warnings
from typing import Final

_PREFIXES: Final = ("kafka.", "kafkaconsumer.", "fetchoffset.", "groupidprefix")
_ALWAYS: Final = {"kafka.isolation.level": "read_committed", "kafka.acks": "all", "kafka.enable.idempotence": "true"}
"""Options that state what always holds here, and need no warning."""


def is_kafka_option(name: str) -> bool:
    """Return whether an option is for Kafka's client, or for Spark's use of it."""
    return name.lower().startswith(_PREFIXES)


def warn_no_effect(name: str, value: str = "") -> None:
    """Warn that the option has no effect."""
    if _ALWAYS.get(name.lower()) != value.strip().lower():
        instead = "give store, the address of the log" if name.lower() == "kafka.bootstrap.servers" else "leave it out"
        warnings.warn(
            f"format('tidelog'): option {name} has no effect, since no Kafka client is used; {instead}", stacklevel=2
        )
