"""``tidelog top``: the busiest topics and the groups that are farthest behind, as they are now."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Annotated, Final

import msgspec
import typer
from rich.table import Table

from log_format.access.acls import RESERVED
from tidelog.admin import Admin
from tidelog.cli.commands.cluster import failing_text, maintenance_text
from tidelog.cli.terminal import watching
from tidelog.cli.terminal.admin_call import TableCall
from tidelog.cli.terminal.backlogs import GroupBacklog, Look, backlog_table, backlogs, look_at_all
from tidelog.cli.terminal.durations import in_seconds
from tidelog.cli.terminal.tables import table
from tidelog.cli.terminal.watching import Shown
from tidelog.types.topic import Topic

_ROWS: Final = 10


class TopicRate(msgspec.Struct, frozen=True, kw_only=True):
    """A topic between two looks. ``record_count``: offsets from the log start to the high watermarks; ``lag``: records, of all
    groups together."""

    topic: str
    partition_count: int
    record_count: int
    produced_per_second: float
    group_count: int
    lag: int


def top(
    *,
    every: Annotated[
        float,
        typer.Option(
            "--every",
            metavar="DURATION",
            parser=in_seconds(least=0.1, most=3_600),
            help="Time between two looks, over which rates are measured.",
        ),
    ] = 2.0,
    rows: Annotated[int, typer.Option("--rows", metavar="COUNT", min=1, max=1_000, help="Rows of each table.")] = _ROWS,
    internal: Annotated[
        bool, typer.Option("--internal", help="Also Tidelog's own topics, whose names begin with __.")
    ] = False,
    call: TableCall,
) -> None:
    """Show the busiest topics, and the groups that are farthest behind, until Ctrl-C.

    Records a second come from two looks at offsets, so they are those of all gateways. Elsewhere than on a terminal, and with
    --json, the result is written once.

    \b
    Examples:
      tidelog top
      tidelog top --rows 30
      tidelog top --json
    """
    with call.admin() as admin:
        screen = _Screen(admin, rows, with_internal=internal)
        screen()
        time.sleep(every)
        if watching.is_redrawn(as_json=call.as_json):
            watching.watch(screen, every, as_json=False)
        else:
            watching.show(screen(), as_json=call.as_json)


class _Screen:
    """Looks at all topics and groups. Each look after the first has the rates since the one before."""

    def __init__(self, admin: Admin, row_count: int, *, with_internal: bool) -> None:
        self._admin = admin
        self._with_internal = with_internal
        self._row_count = row_count
        self._topics: dict[str | None, Topic] = {}
        self._groups: dict[str, Look] = {}
        self._at_s = time.monotonic()

    def __call__(self) -> Shown:
        cluster = self._admin.cluster(maintenance=True)
        gateways, failing, maintenance = cluster.gateways, cluster.failing_writes, cluster.maintenance
        now_s = time.monotonic()
        listed = [one for one in self._admin.list_topics() if self._with_internal or not one.name.startswith(RESERVED)]
        looks = look_at_all(self._admin, now_s)
        topics = topic_rates(listed, self._topics, now_s - self._at_s, looks.values())
        groups = backlogs(looks, self._groups)
        self._topics, self._groups, self._at_s = {one.topic_id: one for one in listed}, looks, now_s
        tables = [_totals(len(gateways), topics, groups), _of_topics(topics[: self._row_count])]
        said = [] if failing is None else [f"Writes {failing_text(failing)}."]
        if maintenance is not None and maintenance.state in ("never", "overdue"):
            said.append(f"Maintenance {maintenance_text(maintenance)}")
        if said:
            notes = table("note")
            for one in said:
                notes.add_row(one)
            tables.insert(0, notes)
        value = {
            "gateway_count": len(gateways),
            "topics": topics[: self._row_count],
            "groups": groups[: self._row_count],
            "failing_writes": failing,
            "maintenance": maintenance,
        }
        return Shown((*tables, backlog_table(groups[: self._row_count])), value)


def topic_rates(
    topics: Iterable[Topic], before: Mapping[str | None, Topic], seconds: float, looks: Iterable[Look]
) -> list[TopicRate]:
    """Return the topics, those with most records a second first. ``before``: what they were so many seconds ago, by id."""
    lags: dict[str, list[int]] = {}
    for look in looks:
        for of_topic in look.lag.topics:
            lags.setdefault(of_topic.topic, []).append(sum(each.records_behind for each in of_topic.partitions))
    found = [
        TopicRate(
            topic=topic.name,
            partition_count=topic.partition_count,
            record_count=sum(each.high_watermark - each.log_start_offset for each in topic.partitions),
            produced_per_second=_appended(topic, before.get(topic.topic_id)) / seconds if seconds > 0 else 0.0,
            group_count=len(lags.get(topic.name, ())),
            lag=sum(lags.get(topic.name, ())),
        )
        for topic in topics
    ]
    return sorted(found, key=lambda each: (-each.produced_per_second, -each.lag, each.topic))


def _appended(topic: Topic, before: Topic | None) -> int:
    """Return the number of offsets assigned since; 0 for a topic that was not there, and is another one of its name."""
    if before is None:
        return 0
    then = {each.partition: each.high_watermark for each in before.partitions}
    return sum(max(0, each.high_watermark - then.get(each.partition, 0)) for each in topic.partitions)


def _totals(gateway_count: int, topics: Iterable[TopicRate], groups: Iterable[GroupBacklog]) -> Table:
    every_topic, every_group = list(topics), list(groups)
    made = table("total", numbers=["gateways", "topics", "in/s", "groups", "out/s", "lag"])
    made.add_row(
        "",
        f"{gateway_count:,}",
        f"{len(every_topic):,}",
        f"{sum(each.produced_per_second for each in every_topic):,.0f}",
        f"{len(every_group):,}",
        f"{sum(each.consumed_per_second or 0 for each in every_group):,.0f}",
        f"{sum(each.lag for each in every_group):,}",
    )
    return made


def _of_topics(topics: Iterable[TopicRate]) -> Table:
    made = table("topic", numbers=["partitions", "records", "in/s", "groups", "lag"])
    for each in topics:
        numbers = (each.partition_count, each.record_count, round(each.produced_per_second), each.group_count, each.lag)
        made.add_row(each.topic, *(f"{number:,}" for number in numbers))
    return made
