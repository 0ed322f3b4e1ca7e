"""Refusals that only clients of the classic protocol tell apart. Any other caller sees the code of a kind that it knows."""

from __future__ import annotations

from log_format.errors import BackOff, ErrorCode, RequestRefused


class Rebalancing(RequestRefused):
    """The members are about to agree on the next generation: join again."""

    def __init__(self, group: str) -> None:
        super().__init__(f"Group {group!r} is about to begin its next generation.", code=ErrorCode.STALE_GENERATION)


class GroupFull(BackOff):
    """The group has the maximum number of members."""

    def __init__(self, group: str, members_max: int) -> None:
        super().__init__(f"Group {group!r} has {members_max} members already.", code=ErrorCode.OVERLOADED)


def inconsistent(group: str, what: str) -> RequestRefused:
    """Return the refusal of a member whose protocols do not fit the group's members."""
    return RequestRefused(f"Group {group!r}: {what}.", code=ErrorCode.INCONSISTENT_ASSIGNOR)
