"""The names that topics may have. Source: Kafka's rule for topics."""

from __future__ import annotations

import re
from typing import Final

from log_format.limits import TOPIC_NAME_CHARACTERS_MAX

NAME_RULE: Final = f"must be 1 to {TOPIC_NAME_CHARACTERS_MAX} characters of A-Z a-z 0-9 . _ - and not . or .."
"""What a name must be, as the rest of a sentence."""
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


def is_topic_name(name: object) -> bool:
    """Return whether a topic may have this name."""
    return (
        isinstance(name, str)
        and len(name) <= TOPIC_NAME_CHARACTERS_MAX
        and name not in {".", ".."}
        and _NAME.fullmatch(name) is not None
    )


def create_command(name: str) -> str | None:
    """Return what to type to create the topic; None if no topic can have this name."""
    if not is_topic_name(name):
        return None
    return f"tidelog topic create {'-- ' if name.startswith('-') else ''}{name}"
