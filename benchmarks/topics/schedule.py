"""When each request is due: fixed before the load starts, so that a slow gateway gets no fewer requests (open loop)."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple


class Due(NamedTuple):
    """One request: seconds after the start, its stream, its topic, and its number among the topic's requests of this stream."""

    seconds: float
    stream: int
    topic: int
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Equal requests at a steady rate to each of the topics ``[first_topic, first_topic + topics)``."""

    topics: int
    per_second: float
    """Requests a second and topic."""
    first_topic: int = 0
    records: int = 1
    value_bytes: int = 100
    at_once: bool = False
    """All topics' requests are due at the same moment; otherwise they are spread evenly."""


def due_times(streams: Sequence[Stream], seconds: float) -> Iterator[Due]:
    """Yield every request due before ``seconds``, in order of time."""
    return heapq.merge(*(_due_times(stream, number, seconds) for number, stream in enumerate(streams)))


def _due_times(stream: Stream, stream_number: int, seconds: float) -> Iterator[Due]:
    for place in count():
        number, topic = divmod(place, stream.topics)
        due = number / stream.per_second
        if not stream.at_once:
            due += topic / stream.topics / stream.per_second
        if due >= seconds:
            return
        yield Due(due, stream_number, stream.first_topic + topic, number)


def topic_count(streams: Sequence[Stream]) -> int:
    """Return the number of topics that the streams name."""
    return max(stream.first_topic + stream.topics for stream in streams)
