"""Refusal of an option."""

from __future__ import annotations

from log_format.errors import RequestRefused
from log_format.topic.config import check_topic_name


class OptionRefused(ValueError):
    """An option of source, sink or pipeline is missing, unknown, malformed or contradicts another.

    The message begins with the option's name.
    """

    def __init__(self, option: str, what: str) -> None:
        super().__init__(f"{option}: {what}")
        self.option = option


def check_topic(option: str, name: str) -> None:
    """Raise ``OptionRefused`` for an invalid topic name."""
    try:
        check_topic_name(name)
    except RequestRefused as refused:
        raise OptionRefused(option, refused.detail) from refused
