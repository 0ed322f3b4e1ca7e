"""``python -m gateway`` as its extra installs it: without pandas, which pyarrow imports beside its first array where it is there.

That is a third of the time in which a gateway starts.
"""

from __future__ import annotations

import runpy
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any


class WithoutPandas(MetaPathFinder):
    """Finds nothing, and lets no other look for pandas."""

    def find_spec(self, name: str, *_: Any) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


if __name__ == "__main__":
    sys.path[0] = str(Path.cwd())  # as ``-m`` has it: a gateway of another release runs where its files are
    sys.meta_path.insert(0, WithoutPandas())
    runpy.run_module("gateway", run_name="__main__", alter_sys=True)
