"""Catalogs of others, and engines that read by ours: ``python -m tests.catalogs [PART …]``, all parts unless some are named.

``metastore``   the tests of ``catalog sync`` against a real Hive Metastore, and Spark by its names
``engines``     programs that read one topic by name while it is written, compared at equal versions
``delta``       programs that read the Delta table itself: log, archive, a pinned version, a clone
``sharing``     Spark by Delta Sharing, where its client is at hand
``kit``         Iceberg's REST compatibility kit against a gateway

``scripts/catalogs.sh install`` fetches what the last three need.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.catalogs import delta_tables, engines, kit, metastore, sharing
from tests.catalogs.lake import lake

PARTS = ("metastore", "engines", "delta", "sharing", "kit")


def main() -> None:
    """Run the parts. Raise ``AssertionError`` where one fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.catalogs", description=__doc__.partition(":")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"one of {', '.join(PARTS)}; none: all")
    wanted = parser.parse_args().parts or list(PARTS)
    if unknown := [part for part in wanted if part not in PARTS]:
        parser.error(f"there is no part {unknown[0]!r}: choose from {', '.join(PARTS)}")
    with tempfile.TemporaryDirectory(prefix="catalogs-") as made:
        if "metastore" in wanted:
            metastore.run(Path(made))
        if "engines" in wanted:
            with lake(_below(made, "engines")) as found:
                engines.compare(found, Path(made, "engines"))
        if "delta" in wanted:
            delta_tables.compare(_below(made, "delta"))
        if "sharing" in wanted:
            with lake(_below(made, "sharing")) as found:
                sharing.run(found, Path(made, "sharing"))
        if "kit" in wanted:
            with lake(_below(made, "kit")) as found:
                kit.run(found, Path(made, "kit"))


def _below(directory: str, name: str) -> Path:
    found = Path(directory, name)
    found.mkdir()
    return found


if __name__ == "__main__":
    main()
