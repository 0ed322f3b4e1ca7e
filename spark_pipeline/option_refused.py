"""The refusal of an option."""

from __future__ import annotations


class OptionRefused(ValueError):
    """An option of source, sink or pipeline is missing, unknown, malformed or contradicts another.

    The message begins with its name.
    """

    def __init__(self, option: str, what: str) -> None:
        super().__init__(f"{option}: {what}")
        self.option = option
