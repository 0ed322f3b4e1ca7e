"""docs/first-hour.md is what comes out: its session is typed again, and shows the same but for numbers that differ by run."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.loaded import loaded

ROOT = Path(__file__).parents[2]


def test_the_session_shows_what_stands_there() -> None:
    """Each command and each line of its output; the program is the one that was run."""
    script = loaded(ROOT / "scripts" / "record_first_hour.py")
    document = (ROOT / "docs" / "first-hour.md").read_text()
    stands = re.search(rf"{re.escape(script.BEGIN)}\n```console\n(.*?)\n```\n", document, re.DOTALL)
    assert stands is not None
    assert script.normalised(script.recorded()).splitlines() == script.normalised(stands[1]).splitlines()
    assert f"```python\n{script.PROGRAM}```" in document
