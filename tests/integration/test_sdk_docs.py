"""docs/sdk.md, as somebody types it in, against a real gateway process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.gateway_process import SERVE, running_gateway

pytestmark = pytest.mark.processes

DOCUMENT = Path(__file__).parents[2] / "docs" / "sdk.md"


def test_every_example_of_the_document_runs(tmp_path: Path) -> None:
    """All blocks, one after the other in one program, with warnings as errors; nothing on stderr."""
    blocks = re.findall(r"^```python\n(.*?)^```", DOCUMENT.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) == DOCUMENT.read_text().count("```python")
    program = tmp_path / "examples.py"
    program.write_text("\n".join(blocks))
    with running_gateway(tmp_path / "store", tmp_path / "gateway.log", command=SERVE) as gateway:
        environment = {**os.environ, "TIDELOG_URL": gateway.url, "PYTHONPATH": str(DOCUMENT.parents[1])}
        ended = subprocess.run(
            [sys.executable, "-W", "error", program], env=environment, capture_output=True, check=False, timeout=90
        )
    assert (ended.returncode, ended.stderr.decode()) == (0, "")
    assert b"from asyncio" in ended.stdout
