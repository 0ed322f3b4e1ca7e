"""Startup code of Spark's Python processes: they import pyspark from pip's installation, not from Spark's archive.

Spark puts ``$SPARK_HOME/python/lib/pyspark.zip`` first on their path. Python caches no compiled code for an archive, so each
process compiles its pyspark anew. That takes longer than everything else before its first answer, and each start of a stream is
a new process. If pip installed pyspark, the archive is inside it, next to the same files, compiled.

1. Nothing changes if the archive is not within a pyspark on the path, as in Spark's own distribution. Spark resolves symbolic
   links in its own path, but an environment's path is unresolved: they are compared with links resolved.
2. If that pyspark and py4j are installed, the archives are removed from the path. Code that searches the whole path, as Spark
   does for data sources, fails at archives in Python 3.13 (CPython issue 121342).
3. The ``sitecustomize`` that this one shadows runs, too.
4. A worker whose connection Java closed, because its task or the session is over, ends without a stack trace.
"""

from __future__ import annotations

import os
import sys
import traceback
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Any

_ARCHIVES = f"{os.sep}pyspark{os.sep}python{os.sep}lib{os.sep}"


def _without_archives(path: list[str]) -> list[str]:
    """Return the path without the archives within its own pyspark; they are moved to its end if py4j is nowhere else."""
    places = {os.path.realpath(entry) for entry in path}
    within = {
        entry for entry in path if _ARCHIVES in entry and os.path.realpath(entry.partition(_ARCHIVES)[0]) in places
    }
    others = [entry for entry in path if entry not in within]
    is_installed = all(PathFinder.find_spec(name, others) is not None for name in ("pyspark", "py4j"))
    return others if is_installed else sorted(path, key=within.__contains__)


def _end_quietly() -> None:
    """Suppress the error that Spark's daemon prints when a worker's last flush fails, since no reader waits for that data."""
    if "pyspark.daemon" not in sys.orig_argv:
        return
    printed = traceback.print_exc

    def print_exc(*arguments: Any, **named: Any) -> None:
        if not isinstance(sys.exc_info()[1], BrokenPipeError):
            printed(*arguments, **named)

    traceback.print_exc = print_exc


def _run_next() -> None:
    directory = __file__.rpartition(os.sep)[0]
    spec = PathFinder.find_spec("sitecustomize", [entry for entry in sys.path if entry != directory])
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


sys.path[:] = _without_archives(sys.path)
_end_quietly()
_run_next()
