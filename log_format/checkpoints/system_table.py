"""Loading a system table: its state follows from the live ``add`` actions of its checkpoint, in the order of their times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

import pyarrow.compute as pc

from log_format.checkpoints.checkpoint import decode_checkpoint
from log_format.delta.actions import Add
from log_format.delta.system_table import SystemTableState
from log_format.delta.table import Table

StateT = TypeVar("StateT", bound=SystemTableState)


def system_table(root: str, label: str, absent: Callable[[], StateT]) -> Table[StateT]:
    """Return the description of the table at ``root``. ``label``: its name in errors. ``absent``: its state before the first
    commit."""

    def read_checkpoint(data: bytes, version: int) -> StateT:
        column = decode_checkpoint(data, root, version).column("add").combine_chunks().drop_null()
        order = pc.sort_indices(pc.struct_field(column, "modificationTime"))
        adds = [
            Add(
                path=entry["path"],
                size=entry["size"],
                modification_time=entry["modificationTime"],
                data_change=entry["dataChange"],
                tags=dict(entry["tags"] or ()),
            )
            for entry in column.take(order).to_pylist()
        ]
        return replace(
            absent().with_adds(adds),
            version=version,
            files=MappingProxyType({add.path: add.size for add in adds}),
            modification_time_ms=adds[-1].modification_time if adds else 0,
        )

    return Table(root=root, label=label, fields={}, absent=absent, read_checkpoint=read_checkpoint)
