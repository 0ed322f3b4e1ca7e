"""Counts commits of one topic that are lost in a row: another gateway takes itself for the owner, and one of the two is wrong.

The writer tells of the 2nd, 4th, 8th loss and so on. With ``owners`` above 1 losses are expected, and it tells of none.
"""

from __future__ import annotations

from log_format.topic.state import TopicState


class Contention:
    """Of one topic, as long as it is open."""

    __slots__ = ("_lost_in_a_row",)

    def __init__(self) -> None:
        self._lost_in_a_row = 0

    def notice(self, state: TopicState, *, lost: bool) -> bool:
        """A commit was won at the first try, or was lost: whether that is to be told."""
        is_shared = state.exists and state.config.integer("owners") > 1
        self._lost_in_a_row = self._lost_in_a_row + 1 if lost and not is_shared else 0
        return self._lost_in_a_row > 1 and self._lost_in_a_row.bit_count() == 1
