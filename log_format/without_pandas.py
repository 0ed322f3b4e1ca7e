"""Hiding pandas from gateways, which have no use for it. Maintenance needs pandas: pyspark asks for it if Spark compacts keys.

If pandas is installed, as with ``tidelog[all]``, pyarrow imports it with its first array. That takes a third of a gateway's
start, half of the start of an SQL statement's process, and 40 MB of memory, for nothing.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from typing import Any


class PandasHider(MetaPathFinder):
    """An import finder that refuses pandas, and leaves every other module to the other finders."""

    def find_spec(self, name: str, *_: Any) -> None:
        """Raise ``ModuleNotFoundError`` for pandas; return None for any other module."""
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


def hide_pandas() -> None:
    """Hide pandas from this process, as if it weren't installed. A program calls this before its other imports."""
    sys.meta_path.insert(0, PandasHider())
