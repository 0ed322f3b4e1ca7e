"""Planted faults: a gateway that starts with this beside it takes an offset for one of whatever topic has the name, where it
reads, and where a transaction brings the offset.

``tests/torture/test_renewed.py`` starts one so. It has to find records of a topic that was made anew skipped, and offsets of a
former one that count.
"""

from msgspec.structs import replace

from gateway.engine import start_resolver
from gateway.transactions import preparing

_next_offsets = preparing._next_offsets
start_resolver.is_of_earlier_topic = lambda _wanted, _state: False  # type: ignore[assignment]
preparing._next_offsets = lambda offsets: [replace(one, topic_id=None) for one in _next_offsets(offsets)]
