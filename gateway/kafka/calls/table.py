"""All requests that are served, by API key. Everything else gets Kafka's answer to what it does not know."""

from __future__ import annotations

from typing import Final

from gateway.kafka.call import Calls
from gateway.kafka.calls import (
    administration,
    fetch,
    groups,
    metadata,
    offsets,
    produce,
    security,
    share_groups,
    share_offsets,
    share_records,
    transactions,
    versions,
)

CALLS: Final[Calls] = {
    **versions.CALLS,
    **metadata.CALLS,
    **produce.CALLS,
    **fetch.CALLS,
    **offsets.CALLS,
    **groups.CALLS,
    **share_groups.CALLS,
    **share_offsets.CALLS,
    **share_records.CALLS,
    **transactions.CALLS,
    **administration.CALLS,
    **security.CALLS,
}
