"""The memory of maintenance over 10 GiB in the default heap of a local session. It takes 30 GiB of disk for some minutes."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.harness.options import Options
from benchmarks.harness.report import Table
from benchmarks.maintenance.memory import table_of


def measure(_options: Options) -> Iterator[Table]:
    """One table, as ``memory`` has it."""
    yield table_of(10, "1g")
