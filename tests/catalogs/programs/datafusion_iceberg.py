"""DataFusion reads a topic by the Iceberg catalog: PyIceberg plans the scan and reads the files, DataFusion runs the statement.

PyIceberg's own provider for DataFusion needs a metadata file in the store, and the catalog writes none.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from datafusion import SessionContext
from pyiceberg.catalog import load_catalog
from rows import answer


def main() -> None:
    """Answer each version that the command line names."""
    catalog = load_catalog("tidelog", type="rest", uri=f"{os.environ['URL']}/iceberg", token=os.environ["TOKEN"])

    def read(version: int) -> Iterable[Any]:
        context = SessionContext()
        scan = catalog.load_table(("topics", os.environ["TOPIC"])).scan(snapshot_id=version)
        context.from_arrow(scan.to_arrow_batch_reader(), name="orders")
        rows = context.sql('SELECT partition, "offset", "timestamp", key, value FROM orders').to_arrow_table()
        return zip(*(column.to_pylist() for column in rows.columns), strict=True)

    answer(read)


main()
