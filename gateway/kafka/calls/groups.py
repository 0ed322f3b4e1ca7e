"""Groups of consumers and their offsets: the calls of every module of the family."""

from __future__ import annotations

from typing import Final

from gateway.kafka.call import Calls
from gateway.kafka.calls import classic_groups, consumer_groups, coordinator, group_offsets, listed_groups

CALLS: Final[Calls] = {
    **coordinator.CALLS,
    **classic_groups.CALLS,
    **consumer_groups.CALLS,
    **group_offsets.CALLS,
    **listed_groups.CALLS,
}
