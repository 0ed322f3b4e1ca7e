"""What a catalog needs to know of a topic, replayed from its log: a fraction of a topic's state, so that many fit into memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Self

from log_format import layout
from log_format.checkpoints.state import read_checkpoint
from log_format.delta.actions import Commit, MetaData
from log_format.delta.table import NO_LOG
from log_format.errors import CorruptData
from log_format.records.typed_columns import NO_TYPED_COLUMNS, TypedColumns
from log_format.topic.config import TopicConfig
from log_format.topic.state import DELETED_PROPERTY, PARTITION_COUNT_PROPERTY
from log_format.topic.table_columns import parse_typed_columns


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTopic:
    """A topic at one version of its log. ``topic_id``: None if it does not exist. ``settings``: properties of its table."""

    topic: str
    version: int = NO_LOG
    topic_id: str | None = None
    columns: TypedColumns = NO_TYPED_COLUMNS
    settings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def apply(self, commit: Commit, version: int) -> Self:
        """Return the topic after the commit. Raises ``CorruptData``. Metadata by other programs does not count."""
        if commit.foreign is not None or commit.metadata is None:
            return replace(self, version=version)
        return replace(self, version=version, **_described(self.topic, commit.metadata))


@dataclass(frozen=True, slots=True)
class DescribedTable:
    """The description of a topic's table (``log_format.delta.table.TableDescription``) whose state is a ``DescribedTopic``."""

    topic: str

    @property
    def root(self) -> str:
        """Key prefix of all objects of the table, ending with a slash."""
        return layout.topic_root(self.topic)

    @property
    def label(self) -> str:
        """Name of the table in errors."""
        return f"topic {self.topic!r}"

    @property
    def fields(self) -> Mapping[str, Any]:
        """Fields of every error about the table."""
        return {"topic": self.topic}

    def absent(self) -> DescribedTopic:
        """Return the state before the first commit."""
        return DescribedTopic(topic=self.topic)

    def read_checkpoint(self, data: bytes, version: int) -> DescribedTopic:
        """Return the state in a checkpoint's bytes at its version. Raises ``CorruptData``."""
        state = read_checkpoint(data, self.topic, version)
        return DescribedTopic(
            topic=self.topic,
            version=version,
            topic_id=state.topic_id,
            columns=state.columns,
            settings=_settings(state.config, str(state.partition_count)),
        )


def _described(topic: str, metadata: MetaData) -> dict[str, Any]:
    properties = metadata.configuration
    try:
        columns = parse_typed_columns(metadata.schema_string)
    except ValueError as problem:
        raise CorruptData(
            f"The log of topic {topic!r} has a schema that can't be read: {problem}.", topic=topic
        ) from problem
    is_deleted = properties.get(DELETED_PROPERTY) == "true"
    settings = _settings(TopicConfig.from_properties(properties), properties.get(PARTITION_COUNT_PROPERTY, ""))
    return {"topic_id": None if is_deleted else metadata.id, "columns": columns, "settings": settings}


def _settings(config: TopicConfig, partition_count: str) -> Mapping[str, str]:
    return MappingProxyType({PARTITION_COUNT_PROPERTY: partition_count, **config.properties()})
