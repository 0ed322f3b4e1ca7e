"""How many of some things find a partner of their own among others."""

from __future__ import annotations

from collections.abc import Callable


def largest_matching(left: int, right: int, fits: Callable[[int, int], bool]) -> int:
    """Return the size of the largest matching of two groups.

    Args:
        left: Number of the one group.
        right: Number of the other group.
        fits: Tells whether one of the left may have one of the right as its partner. Asked again and again.
    """
    of_left: dict[int, int] = {}
    of_right: dict[int, int] = {}
    for start in range(left):
        asked_by: dict[int, int] = {}
        waiting = [start]
        for one in waiting:
            free = None
            for other in range(right):
                if other not in asked_by and fits(one, other):
                    asked_by[other] = one
                    if other not in of_right:
                        free = other
                        break
                    waiting.append(of_right[other])
            if free is not None:
                _hand_on(free, asked_by, of_left, of_right)
                break
    return len(of_left)


def _hand_on(free: int, asked_by: dict[int, int], of_left: dict[int, int], of_right: dict[int, int]) -> None:
    """Give the free partner to who asked, whose former partner goes to who asked for that, and so on."""
    other: int | None = free
    while other is not None:
        one = asked_by[other]
        former = of_left.get(one)
        of_left[one], of_right[other] = other, one
        other = former
