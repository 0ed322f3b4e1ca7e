"""The setting ``table.cluster.by``: the columns by which maintenance orders the files of a topic's archive."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

CLUSTER_COLUMNS_MAX: Final = 4
"""Most columns: with each further one files have wider ranges of every column."""
_COLUMN: Final = re.compile(r"timestamp|key|partition|(data|key_data)(\.[^.,\s]+)+|data|key_data")


@dataclass(frozen=True, slots=True)
class ColumnsSetting:
    """A setting that names up to four columns of the topic's table, separated by commas; empty: none."""

    default: str = ""

    def parse(self, value: object) -> str:
        """Return the columns without white space. Raises ``ValueError`` with the columns that may be named."""
        if isinstance(value, str):
            names = [name.strip() for name in value.split(",")] if value.strip() else []
            if len(names) <= CLUSTER_COLUMNS_MAX and len({*names}) == len(names) and all(map(_COLUMN.fullmatch, names)):
                return ",".join(names)
        raise ValueError(
            f"must name at most {CLUSTER_COLUMNS_MAX} different columns, separated by commas: timestamp, key, partition, or "
            "typed ones such as data.user_id"
        )


def cluster_columns(setting: str) -> tuple[str, ...]:
    """Return the columns that a parsed setting names, the most important one first."""
    return tuple(setting.split(",")) if setting else ()
