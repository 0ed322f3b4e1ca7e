"""What the programs find that have no use for pandas."""

from __future__ import annotations

import subprocess
import sys

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


def printed(program: str) -> list[str]:
    command = [sys.executable, "-c", PROGRAM.format(program=program)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.splitlines()


def test_a_gateway_finds_no_pandas() -> None:
    """Not even where it is installed, as here: pyarrow would import it. Nothing does before it is hidden."""
    assert printed("gateway")[-2:] == ["False", "pandas"]


def test_maintenance_finds_pandas() -> None:
    """pyspark refuses ``mapInArrow``, by which Spark compacts keys, in a program without it."""
    assert printed("compaction")[-1] in {"True", "False"}


def test_others_find_it() -> None:
    """A program that imports a gateway, as these tests do, keeps what is installed."""
    code = "import gateway.__main__, compaction.__main__, pandas"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
