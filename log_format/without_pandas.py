"""Programs that find no pandas: gateways have no use for it. Maintenance has: pyspark asks for it where Spark compacts keys.

pyarrow imports it beside its first array where it is installed, as with ``tidelog[all]``: a third of a gateway's start, half of
that of a statement in SQL, and 40 MB of memory, for nothing.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from typing import Any


class WithoutPandas(MetaPathFinder):
    """Finds nothing, and lets no other look for pandas."""

    def find_spec(self, name: str, *_: Any) -> None:
        """Raises ``ModuleNotFoundError`` for pandas."""
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


def find_no_pandas() -> None:
    """From now on this process has none, as if it weren't installed. Of a program: it comes before the imports."""
    sys.meta_path.insert(0, WithoutPandas())
