"""All topics, page by page."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.deadline import Deadline
from tidelog.http.transport import Request, Transport, target
from tidelog.types.topic import Topic


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    topics: tuple[Topic, ...]
    next: str | None = None


def list_topics(transport: Transport, timeout_ms: float, prefix: str | None = None) -> list[Topic]:
    """The topics whose name begins with ``prefix``, by name. Each page has ``timeout_ms``. Raises as ``Transport.call``."""
    topics: list[Topic] = []
    after: str | None = None
    while True:
        where = target("topics", prefix=prefix, after=after)
        reply = transport.call(Request(method="GET", target=where, repeatable=True, reads=True), Deadline(timeout_ms))
        page = reply.decode(_Page)
        topics += page.topics
        after = page.next
        if after is None:
            return topics
