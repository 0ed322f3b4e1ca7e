"""Which tests share a worker of pytest-xdist: those of a file, and all that share the one Spark session.

What a file's tests have in common, such as a gateway of module scope, is then started once. Its mark for groups is absent:
pytest 9.2 takes it without a word and xdist 3.8 no longer sees it (pytest-dev/pytest-xdist#1386).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from xdist.scheduler import LoadFileScheduling


@cache
def _has_the_session(file: str) -> bool:
    """Whether its tests ask for the fixture ``spark``, whose type every one of them names."""
    return "SparkSession" in Path(file).read_text()


class FilesAndSpark(LoadFileScheduling):  # type: ignore[misc]
    """Whole files in the order of collection; those of the Spark session are one unit of work."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "Spark" if _has_the_session(file) else file
