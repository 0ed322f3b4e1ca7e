"""The backlog of consumer groups: how far each is behind, how fast it and its producers are, and when it will have caught up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

import msgspec
from rich.table import Table

from tidelog.admin import Admin
from tidelog.cli.terminal.tables import table
from tidelog.cli.terminal.units import duration_text
from tidelog.errors import UnknownGroup
from tidelog.types.group import GroupLag, GroupSummary, PartitionLag
from tidelog.types.record import TopicPartition


class Look(NamedTuple):
    """A listed group and its lag at a time (``time.monotonic``)."""

    at_s: float
    group: GroupSummary
    lag: GroupLag


class GroupBacklog(msgspec.Struct, frozen=True, kw_only=True):
    """A group's backlog.

    ``topics``: those that it subscribes to or has committed for. ``lag``: records; from the log start on where nothing is
    committed. ``lag_ms``: age of the oldest of them; None if it is not known. Rates are records a
    second between two looks, in partitions that both have; None after one look. ``caught_up_in_ms``: None if the group is no
    faster than its producers.
    """

    group: str
    state: str
    generation: int
    member_count: int
    topics: tuple[str, ...]
    lag: int
    lag_ms: int | None
    produced_per_second: float | None = None
    consumed_per_second: float | None = None
    caught_up_in_ms: int | None = None

    @property
    def order(self) -> tuple[int, int, str]:
        """Key by which the group that is farthest behind, in time, comes first."""
        return -(self.lag_ms or 0), -self.lag, self.group


def look_at_all(admin: Admin, now_s: float) -> dict[str, Look]:
    """Return the lag of each group that the caller may describe; without those that are deleted meanwhile."""
    found: dict[str, Look] = {}
    for each in admin.list_groups():
        with suppress(UnknownGroup):
            found[each.group] = Look(now_s, each, admin.group_lag(each.group))
    return found


def backlogs(looks: Mapping[str, Look], before: Mapping[str, Look]) -> list[GroupBacklog]:
    """Return the backlogs of the groups in ``looks``, the farthest behind first; with rates where ``before`` has the group."""
    found = [backlog(look, before.get(name)) for name, look in looks.items()]
    return sorted(found, key=lambda each: each.order)


def backlog(look: Look, before: Look | None = None) -> GroupBacklog:
    """Return a group's backlog at a look; with rates since the look before."""
    ages_ms = (each.ms_behind for _, each in _partitions(look.lag))
    lag_ms = max((age_ms for age_ms in ages_ms if age_ms is not None), default=None)
    group = look.group
    found = GroupBacklog(
        group=group.group,
        state=group.state,
        generation=group.generation,
        member_count=group.member_count,
        topics=tuple(topic.topic for topic in look.lag.topics),
        lag=look.lag.records_behind,
        lag_ms=lag_ms,
    )
    if before is None or look.at_s <= before.at_s:
        return found
    then, seconds = dict(_partitions(before.lag)), look.at_s - before.at_s
    produced = consumed = 0
    for place, each in _partitions(look.lag):
        earlier = then.get(place)
        if earlier is not None and each.committed_offset is not None and earlier.committed_offset is not None:
            produced += each.high_watermark - earlier.high_watermark
            consumed += each.committed_offset - earlier.committed_offset
    # A reset moves offsets back, and a topic that was made anew begins at 0: that is no rate.
    produced_per_s, consumed_per_s = max(0, produced) / seconds, max(0, consumed) / seconds
    gained = consumed_per_s - produced_per_s
    left_ms = 0 if not found.lag else round(1000 * found.lag / gained) if gained > 0 else None
    return msgspec.structs.replace(
        found, produced_per_second=produced_per_s, consumed_per_second=consumed_per_s, caught_up_in_ms=left_ms
    )


def _partitions(lag: GroupLag) -> Iterator[tuple[TopicPartition, PartitionLag]]:
    for topic in lag.topics:
        for each in topic.partitions:
            yield TopicPartition(topic.topic, each.partition), each


def backlog_table(found: Iterable[GroupBacklog]) -> Table:
    """Return a table with a row for each group; with its rates, and when it will have caught up, after two looks."""
    groups = list(found)
    has_rates = any(each.produced_per_second is not None for each in groups)
    rates = ["in/s", "out/s", "caught up in"] if has_rates else []
    rows = table("group", "state", numbers=["members", "lag", "behind", *rates])
    for each in groups:
        rows.add_row(each.group, each.state, *lag_cells(each), *(_rate_cells(each) if has_rates else ()))
    return rows


def _rate_cells(found: GroupBacklog) -> tuple[str, str, str]:
    """Return the cells of a group's rates, and of the time until it has caught up; empty for a group that was looked at once."""
    if found.produced_per_second is None or found.consumed_per_second is None:
        return "", "", ""
    left = "never" if found.caught_up_in_ms is None else duration_text(found.caught_up_in_ms)
    return f"{found.produced_per_second:,.0f}", f"{found.consumed_per_second:,.0f}", left


def lag_cells(found: GroupBacklog) -> tuple[str, str, str]:
    """Return the cells of a group's members, lag, and how far it is behind."""
    behind = "-" if found.lag_ms is None else duration_text(found.lag_ms)
    return f"{found.member_count:,}", f"{found.lag:,}", behind
