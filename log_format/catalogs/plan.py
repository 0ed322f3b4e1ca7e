"""The plan of a sync: which tables of a catalog to create, alter, replace and drop.

1. Only tables that ``catalog sync`` made for this store are altered, replaced or dropped. A table of another origin that has the
   name of a topic's table is a conflict: it is reported, and nothing is done.
2. No table is ever renamed. A table of ours that somebody renamed is a table of another origin from then on.
3. A topic that could not be read keeps its table as it is.
4. A topic that was deleted and created again is another topic: its table is dropped and made anew, so that rights that people
   had on the former table don't reach the new topic's records.
5. Each action says what the catalog had listed, since it may no longer be so when the action is carried out.
6. The plan of a catalog in which a plan was carried out is empty; where only a part was, the plan is the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

from log_format.catalogs.table import TOPIC, TOPIC_ID, ListedTable, TopicTable
from log_format.topic.table_name import table_name


class Act(StrEnum):
    """What is done to a table."""

    CREATE = "create"
    ALTER = "alter"
    REPLACE = "replace"
    DROP = "drop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """An act on the table ``name`` of a topic. ``table``: what it becomes; None for a drop. ``listed``: what it is; None if it is
    created."""

    act: Act
    name: str
    topic: str
    table: TopicTable | None
    listed: ListedTable | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A topic that has no table, since its name is taken."""

    name: str
    topic: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All that is to be done. ``unchanged``: tables that are as they should be, or whose topics could not be read."""

    actions: tuple[Action, ...]
    conflicts: tuple[Conflict, ...]
    unchanged: tuple[str, ...]


def plan_sync(
    topics: Iterable[TopicTable], listed: Iterable[ListedTable], *, root: str, unread: Collection[str] = ()
) -> Plan:
    """Return what makes a catalog show the topics.

    Args:
        topics: the tables of all topics that exist and could be read.
        listed: the tables of the catalog's schema.
        root: address of all topics of the store (``topics_root``).
        unread: names of topics of which it is not known what they are, or whether they exist.
    """
    tables: dict[str, ListedTable] = {}
    for each in listed:
        # Where a catalog tells names apart by case, only the one in lower case is the topic's.
        if each.name.lower() not in tables or each.name.islower():
            tables[each.name.lower()] = each
    actions: list[Action] = []
    conflicts: list[Conflict] = []
    kept = {table_name(topic) for topic in unread} & tables.keys()
    wanted: dict[str, TopicTable] = {}
    for topic in sorted(topics, key=lambda each: each.topic):
        first = wanted.setdefault(topic.name, topic)
        there = tables.get(topic.name)
        if first is not topic:
            conflicts.append(_conflict(topic, f"topic {first.topic} has a table of this name"))
        elif there is None:
            actions.append(_action(Act.CREATE, topic, None))
        elif not there.is_of_store(root):
            conflicts.append(_conflict(topic, f"somebody else's table has this name{_at(there)}"))
        elif there.properties[TOPIC_ID] != topic.topic_id:
            actions.append(_action(Act.REPLACE, topic, there))
        elif there.marks != topic.marks:
            actions.append(_action(Act.ALTER, topic, there))
        else:
            kept.add(topic.name)
    gone = [each for name, each in tables.items() if name not in wanted and name not in kept and each.is_of_store(root)]
    # Drops come first: what was deleted should not be found any more.
    drops = [
        Action(act=Act.DROP, name=each.name, topic=each.properties[TOPIC], table=None, listed=each) for each in gone
    ]
    return Plan(actions=(*drops, *actions), conflicts=tuple(conflicts), unchanged=tuple(sorted(kept)))


def _action(act: Act, topic: TopicTable, listed: ListedTable | None) -> Action:
    return Action(act=act, name=topic.name, topic=topic.topic, table=topic, listed=listed)


def _conflict(topic: TopicTable, reason: str) -> Conflict:
    return Conflict(name=topic.name, topic=topic.topic, reason=reason)


def _at(table: ListedTable) -> str:
    return f" ({table.location})" if table.location else ""
