"""A group's next row, made of the changes asked for: joins, leaves, acknowledgements, and what each member gets.

A row that may not grow takes in no member and no topic, but releases members that leave.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from gateway.engine.state_budget import StateBudget
from gateway.groups.assignment.next_row import (
    GroupEvents,
    Subscriptions,
    WantedTopics,
    members_after,
    next_row,
    restrict_to_assigned,
)
from gateway.groups.bounds import GROUP_PARTITIONS_MAX, LARGE_GROUP_PARTITIONS
from gateway.groups.subscription.subscribed_topics import SubscribedTopics
from gateway.problem import overloaded
from log_format.errors import BackOff, ErrorCode, RequestRefused, TidelogError
from log_format.groups.memory import row_bytes
from log_format.groups.row import GroupRow, MemberRow

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedChanges:
    """Changes that one call asks for. An empty one asks to assign anew if topics or partitions have changed."""

    join: MemberRow | None = None
    assignor: str = ""
    leaves: frozenset[str] = frozenset()
    subscribed: Mapping[str, WantedTopics] = field(default_factory=dict)
    acknowledged: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NextRow:
    """A group's next row, and its members' subscriptions. ``refusals``: one for each call, None if the row has what it asked
    for."""

    row: GroupRow
    subscriptions: Subscriptions
    refusals: Sequence[TidelogError | None]


class Regrouping:
    """Maker of groups' next rows. ``budget``: memory of all groups' rows. Used on the event loop only."""

    def __init__(
        self, subscribed: SubscribedTopics, budget: StateBudget, *, partitions_max: int = GROUP_PARTITIONS_MAX
    ) -> None:
        self._subscribed = subscribed
        self._budget = budget
        self._partitions_max = partitions_max

    async def next_row(
        self, row: GroupRow, asked: Sequence[RequestedChanges], acknowledged: Mapping[str, int]
    ) -> NextRow:
        """Return the row after ``row``. ``acknowledged``: newest generation of each member. Raises ``BackOff``."""
        assignor = assignor_of(row, asked)
        refusals: list[TidelogError | None] = [assignor_refusal(row, one, assignor) for one in asked]
        taken = [one for one, refusal in zip(asked, refusals, strict=True) if refusal is None]
        following, subscriptions, full = await self._that_fits(row, taken, acknowledged, assignor)
        refusals = [
            refusal or (None if one.join is None else full) for one, refusal in zip(asked, refusals, strict=True)
        ]
        return NextRow(row=following, subscriptions=subscriptions, refusals=refusals)

    async def _that_fits(
        self, row: GroupRow, asked: Sequence[RequestedChanges], acknowledged: Mapping[str, int], assignor: str
    ) -> tuple[GroupRow, Subscriptions, TidelogError | None]:
        """Return the next row, and the refusal of joins if there is no room for them."""
        happened = GroupEvents(
            joins=[one.join for one in asked if one.join is not None],
            leaves={name for one in asked for name in one.leaves},
            subscribed={name: wanted for one in asked for name, wanted in one.subscribed.items()},
            acknowledged={
                **acknowledged,
                **{name: generation for one in asked for name, generation in one.acknowledged.items()},
            },
        )
        try:
            following, subscriptions = await self._assigned(row, happened, assignor)
            self._budget.admit(row_bytes(following) - row_bytes(row))(None)
            return following, subscriptions, None
        except BackOff as refusal:
            if refusal.code != ErrorCode.OVERLOADED or not any(one.leaves or one.acknowledged for one in asked):
                raise
            following, subscriptions = await self._assigned(row, replace(happened, joins=()), assignor, is_frozen=True)
            return following, subscriptions, refusal

    async def _assigned(
        self, row: GroupRow, happened: GroupEvents, assignor: str, *, is_frozen: bool = False
    ) -> tuple[GroupRow, Subscriptions]:
        size = sum(len(numbers) for member in row.members for numbers in member.target.values())
        members = await _run_by_size(size + len(row.members), lambda: members_after(row, happened))
        subscriptions = await self._subscribed.resolve(members)
        counted = restrict_to_assigned(row, subscriptions) if is_frozen else subscriptions
        size = sum(counted.counts.values())
        if not is_frozen and size > self._partitions_max:
            raise overloaded(f"Group {row.group!r} would read {size} partitions; the most is {self._partitions_max}.")
        following = await _run_by_size(size + len(members), lambda: next_row(row, members, counted, assignor))
        return following, subscriptions


def assignor_of(row: GroupRow, asked: Sequence[RequestedChanges]) -> str:
    """Return the members' assignor; in an empty group the first join's; empty if nobody joins."""
    if row.members and row.assignor:
        return row.assignor
    return next((one.assignor for one in asked if one.join is not None), "")


def assignor_refusal(row: GroupRow, asked: RequestedChanges, assignor: str) -> RequestRefused | None:
    """Return the refusal of a join that asks for another assignor than the group's; None if it doesn't."""
    if asked.join is None or assignor in ("", asked.assignor):
        return None
    return RequestRefused(
        f"The members of group {row.group!r} use the assignor {assignor}, not {asked.assignor}.",
        code=ErrorCode.INCONSISTENT_ASSIGNOR,
    )


async def _run_by_size(size: int, work: Callable[[], T]) -> T:
    """Return the result of pure work; much work is done in a thread, so that the event loop goes on."""
    return work() if size < LARGE_GROUP_PARTITIONS else await asyncio.to_thread(work)
