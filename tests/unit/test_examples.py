"""Examples that need arguments say which."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NEEDY = sorted(
    str(path.relative_to(ROOT)) for path in (ROOT / "examples").rglob("*.py") if "sys.argv" in path.read_text()
)


def test_there_are_such_examples() -> None:
    """The search above finds them."""
    assert "examples/spark_sql.py" in NEEDY


@pytest.mark.parametrize("example", NEEDY)
def test_usage_instead_of_a_traceback(example: str, tmp_path: Path) -> None:
    """Without its arguments an example says how it is typed."""
    command = [sys.executable, str(ROOT / example)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    assert "Traceback" not in ended.stderr
    assert f"python {example} " in ended.stderr
    assert ended.returncode == 1
