"""What calls of ``AdminClient`` take and return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum


class NewTopic:
    """A topic to create. The store copies it; a replication factor changes nothing."""

    def __init__(
        self,
        topic: str,
        num_partitions: int = -1,
        replication_factor: int = -1,
        replica_assignment: Sequence[Sequence[int]] | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        if replica_assignment:
            raise ValueError("replica_assignment: there are no replicas to assign")
        self.topic = topic
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.config = dict(config or {})


class NewPartitions:
    """How many partitions a topic shall have."""

    def __init__(self, topic: str, new_total_count: int, replica_assignment: object = None) -> None:
        if replica_assignment:
            raise ValueError("replica_assignment: there are no replicas to assign")
        self.topic = topic
        self.new_total_count = new_total_count


class ResourceType(Enum):
    """What has settings."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    BROKER = 4


class AlterConfigOpType(Enum):
    """What becomes of a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(slots=True)
class ConfigEntry:
    """A setting."""

    name: str
    value: str | None
    is_read_only: bool = False
    is_default: bool = False
    is_sensitive: bool = False
    incremental_operation: AlterConfigOpType | None = None


class ConfigResource:
    """Settings of something, here of a topic."""

    Type = ResourceType

    def __init__(
        self,
        restype: ResourceType | str | int,
        name: str,
        set_config: Mapping[str, str | None] | None = None,
        *,
        incremental_configs: Sequence[ConfigEntry] | None = None,
    ) -> None:
        if isinstance(restype, str):
            restype = ResourceType[restype.upper()]
        self.restype = ResourceType(restype)
        self.name = name
        self.set_config_dict = dict(set_config or {})
        self.incremental_configs = list(incremental_configs or ())

    def set_config(self, name: str, value: str | None, overwrite: bool = True) -> None:
        """Add a setting."""
        if overwrite or name not in self.set_config_dict:
            self.set_config_dict[name] = value

    def add_incremental_config(self, config_entry: ConfigEntry) -> None:
        """Add a change."""
        self.incremental_configs.append(config_entry)

    def __eq__(self, other: object) -> bool:
        """By what it is of."""
        return isinstance(other, ConfigResource) and (self.restype, self.name) == (other.restype, other.name)

    def __hash__(self) -> int:
        """By what it is of."""
        return hash((self.restype, self.name))
