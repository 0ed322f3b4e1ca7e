"""Spark's Python processes take pyspark from where pip put it, not from the archive that Spark puts before it.

Spark has ``$SPARK_HOME/python/lib/pyspark.zip`` first on their path. Python keeps no compiled code of what is in an archive, so
each process compiles the pyspark that it needs anew, which takes it longer than all else before its first answer; and each start
of a stream is a new process. Where pip installed pyspark, the archive lies within it and the same files are beside it, compiled.

1. Nothing changes where the archive is not within a pyspark on the path, as in Spark's own distribution.
2. The ``sitecustomize`` that would have run without this one runs.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

_ARCHIVES = f"{os.sep}pyspark{os.sep}python{os.sep}lib{os.sep}"


def _archives_last(path: list[str]) -> list[str]:
    """The path with the archives within its own pyspark at its end: py4j may be nowhere else."""
    within = {entry for entry in path if _ARCHIVES in entry and entry.partition(_ARCHIVES)[0] in path}
    return sorted(path, key=within.__contains__)


def _run_next() -> None:
    directory = __file__.rpartition(os.sep)[0]
    spec = PathFinder.find_spec("sitecustomize", [entry for entry in sys.path if entry != directory])
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


sys.path[:] = _archives_last(sys.path)
_run_next()
