"""What the programs find that have no use for pandas."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import runpy, sys
sys.argv[1:] = ["--help"]
try:
    runpy.run_module({program!r}, run_name="__main__", alter_sys=True)
except SystemExit:
    print("pandas" in sys.modules)
try:
    import pandas
except ModuleNotFoundError as error:
    print(error.name)
"""


@pytest.mark.parametrize("program", ["gateway", "compaction"])
def test_a_program_finds_no_pandas(program: str) -> None:
    """Not even where it is installed, as here: pyarrow would import it. None of theirs does before it is hidden."""
    command = [sys.executable, "-c", PROGRAM.format(program=program)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.splitlines()[-2:] == ["False", "pandas"]


def test_others_find_it() -> None:
    """Who imports a gateway, as these tests do, keeps what is installed."""
    code = "import gateway.__main__, compaction.__main__, pandas"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
