"""A topic's table as a catalog should have it, and a table as a catalog lists it.

A table says by its properties that ``tidelog catalog sync`` made it:

* ``tidelog.topic``, ``tidelog.topic.id``: the topic, and the id of its incarnation
* ``tidelog.table.digest``: a hash of all that the table should say. A table with another hash is altered. So catalogs may
  rewrite types and texts in their own way, and what people change in a catalog stays until the topic changes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

import msgspec

from log_format import layout
from log_format.catalogs.columns import Column, catalog_columns
from log_format.catalogs.topic import DescribedTopic
from log_format.topic.config import PROPERTY_PREFIX, SETTINGS
from log_format.topic.table_name import table_name

TOPIC: Final = PROPERTY_PREFIX + "topic"
TOPIC_ID: Final = PROPERTY_PREFIX + "topic.id"
DIGEST: Final = PROPERTY_PREFIX + "table.digest"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTable:
    """A topic's table as it should be. ``location``: its address, without a slash at the end. ``properties``: all that it has
    of Tidelog, ``DIGEST`` among them."""

    topic: str
    topic_id: str
    name: str
    location: str
    columns: tuple[Column, ...]
    comment: str
    properties: Mapping[str, str]

    @property
    def marks(self) -> tuple[str | None, str | None]:
        """The topic's id and the hash of all that the table should say: two tables with the same marks say the same."""
        return self.topic_id, self.properties[DIGEST]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTable:
    """A table as a catalog lists it. ``location`` is empty if it has none, as views."""

    name: str
    location: str
    properties: Mapping[str, str]

    @property
    def marks(self) -> tuple[str | None, str | None]:
        """Those of the table that it was made as (``TopicTable.marks``). While it is altered it may have no hash."""
        return self.properties.get(TOPIC_ID), self.properties.get(DIGEST)

    def is_of_store(self, root: str) -> bool:
        """Return whether ``catalog sync`` made this table for a topic of the store at ``root`` (``topics_root``).

        A copy of such a table has its properties, and may have its location, but has another name.
        """
        topic = self.properties.get(TOPIC)
        if topic is None or TOPIC_ID not in self.properties:
            return False
        return self.name.lower() == table_name(topic) and plain(self.location) == plain(f"{root}{topic}")


def topics_root(store_uri: str) -> str:
    """Return the address of the directory of all topics of a store, ending with a slash."""
    return f"{store_uri.rstrip('/')}/{layout.TOPICS}"


def hadoop_address(store_uri: str) -> str:
    """Return the store's address for Hive and Spark: ``s3a`` for buckets, and a directory's path not percent-encoded."""
    if store_uri.startswith("file:"):
        return unquote(store_uri)
    return f"s3a{store_uri.removeprefix('s3')}" if store_uri.startswith("s3://") else store_uri


def topic_table(topic: DescribedTopic, root: str) -> TopicTable:
    """Return the table of a topic that exists. ``root``: the address of all topics (``topics_root``)."""
    assert topic.topic_id is not None
    location, columns, comment = f"{root}{topic.topic}", catalog_columns(topic.columns), _comment(topic)
    said = {**topic.settings, TOPIC: topic.topic, TOPIC_ID: topic.topic_id}
    digest = hashlib.sha256(msgspec.json.encode([location, columns, comment, sorted(said.items())])).hexdigest()
    return TopicTable(
        topic=topic.topic,
        topic_id=topic.topic_id,
        name=table_name(topic.topic),
        location=location,
        columns=columns,
        comment=comment,
        properties={**said, DIGEST: digest[:32]},
    )


def altered_properties(before: Mapping[str, str], table: TopicTable) -> dict[str, str]:
    """Return the properties after an alteration: those of others stay, settings that the topic no longer has go."""
    own = {TOPIC, TOPIC_ID, DIGEST, *(PROPERTY_PREFIX + name for name in SETTINGS)}
    return {**{name: value for name, value in before.items() if name not in own}, **table.properties}


def plain(location: str) -> str:
    """Return an address in the form in which two are compared: Hadoop's ``s3a`` is ``s3``, ``file:/x`` is ``file:///x``."""
    scheme, colon, rest = location.rstrip("/").partition(":")
    if not colon:
        return location.rstrip("/")
    scheme = "s3" if scheme in {"s3a", "s3n"} else scheme
    return f"{scheme}:/{rest.lstrip('/')}" if scheme == "file" else f"{scheme}:{rest}"


def _comment(topic: DescribedTopic) -> str:
    said = f"Topic {topic.topic} of Tidelog: a row for each record, in order by partition and offset."
    subjects = [
        f"{what} by the schema of {subject}"
        for what, setting in (("data: the value", "value.schema"), ("key_data: the key", "key.schema"))
        if (subject := topic.settings.get(PROPERTY_PREFIX + setting))
    ]
    return " ".join([said, *(f"{each}." for each in subjects)])
