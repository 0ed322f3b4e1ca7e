"""The rights that a topic's settings need beyond the right to set them, since they reach other resources."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request

from gateway.gateway import require
from log_format.topic.config import dead_letter_topics_named, subjects_named


def require_named(request: Request, topic: str, config: Mapping[str, object]) -> None:
    """Raise ``Unauthorized`` unless the caller may write to what the settings name: subjects, and the topic of dead letters."""
    require(request, "Write", "subject", *subjects_named(config))
    require(request, "Write", "topic", *dead_letter_topics_named(topic, config))
