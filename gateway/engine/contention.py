"""Count of commits of one topic that are lost in a row: another gateway takes itself for the owner, and one of the two is wrong.

The writer logs the 2nd, 4th, 8th loss and so on. With ``owners`` above 1 losses are expected, and none is logged.
"""

from __future__ import annotations

from log_format.topic.state import TopicState


class Contention:
    """Count of one topic's lost commits while the topic is open."""

    __slots__ = ("_lost_in_a_row",)

    def __init__(self) -> None:
        self._lost_in_a_row = 0

    def notice(self, state: TopicState, *, lost: bool) -> bool:
        """Count a commit that was won at the first try, or lost; return whether the loss is to be logged."""
        is_shared = state.exists and state.config.integer("owners") > 1
        self._lost_in_a_row = self._lost_in_a_row + 1 if lost and not is_shared else 0
        return self._lost_in_a_row > 1 and self._lost_in_a_row.bit_count() == 1
