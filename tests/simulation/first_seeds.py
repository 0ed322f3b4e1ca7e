"""Finds where planted faults begin to show: ``python -m tests.simulation.first_seeds [--write] [--last N] [PART OF A NAME …]``.

A change of the code moves the histories, and with them the first seed at which a planted fault shows. This goes through the seeds
from 0 on, prints what each fault's entry says and what is found, and with ``--write`` puts that into the test.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import logging
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from tests.simulation.simulated.seeds import seed_that_shows
from tests.simulation.simulated.world import ignore

HERE = Path(__file__).parent


def main() -> None:
    """Search for each fault whose name has one of the parts; without parts for all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help="of a fault's name or of its file's")
    parser.add_argument("--last", type=int, default=500, help="how many seeds are tried")
    parser.add_argument("--write", action="store_true", help="put what is found into the tests")
    asked = parser.parse_args()
    logging.disable(logging.CRITICAL)
    for path in sorted(HERE.glob("test_*planted_faults.py")):
        module = importlib.import_module(f"{__package__}.{path.stem}")
        for name, planted in module.PLANTED.items():
            if asked.parts and not any(part in f"{path.stem} {name}" for part in asked.parts):
                continue
            began = time.monotonic()
            found = _first_seed(module, name, asked.last)
            print(f"{path.stem}: {name}: {planted.first_seed} -> {found}, {time.monotonic() - began:.0f} s", flush=True)
            if asked.write and found not in (None, planted.first_seed):
                path.write_text(_with_seed(path.read_text(), name, found))


def _first_seed(module: ModuleType, name: str, last: int) -> int | None:
    """As the test searches, from 0 on."""
    found: list[int | None] = []

    def shows(simulate: Callable[..., object], _first: int, _most: int, **how: Any) -> bool:
        found.append(seed_that_shows(range(last), lambda seed: simulate(seed, **how), tell=ignore))
        return True

    with mock.patch.object(module, "shows", shows):
        module.test_a_planted_fault_is_found(name)
    return found[0]


def _with_seed(source: str, name: str, seed: int | None) -> str:
    """The text of a test with another first seed of a fault."""
    lines = source.splitlines(keepends=True)
    (entry,) = [
        value
        for table in ast.walk(ast.parse(source))
        if isinstance(table, ast.Dict)
        for key, value in zip(table.keys, table.values, strict=True)
        if isinstance(key, ast.Constant) and key.value == name and isinstance(value, ast.Call)
    ]
    said = {one.arg: one.value for one in entry.keywords}
    last = said.get("first_seed") or max((*entry.args, *said.values()), key=_end)
    line, column = lines[(last.end_lineno or 0) - 1], last.end_col_offset or 0
    if "first_seed" in said:
        new = f"{line[: last.col_offset]}{seed}{line[column:]}"
    else:
        new = f"{line[:column]}, first_seed={seed}{line[column:]}"
    lines[(last.end_lineno or 0) - 1] = new
    return "".join(lines)


def _end(value: ast.expr) -> tuple[int, int]:
    return value.end_lineno or 0, value.end_col_offset or 0


if __name__ == "__main__":
    main()
