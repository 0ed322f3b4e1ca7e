"""docs/sdk.md and docs/queues.md, typed in as they are, against a real gateway process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.gateway_process import running_gateway

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("document", "said"), [("sdk.md", b"from asyncio"), ("queues.md", b"")])
def test_every_example_of_the_document_runs(tmp_path: Path, document: str, said: bytes) -> None:
    """All blocks, one after the other in one program, with warnings as errors; nothing on stderr."""
    text = (ROOT / "docs" / document).read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert len(blocks) == text.count("```python") > 0
    program = tmp_path / "examples.py"
    program.write_text("\n".join(blocks))
    with running_gateway(tmp_path / "store", tmp_path / "gateway.log") as gateway:
        environment = {**os.environ, "TIDELOG_URL": gateway.url, "PYTHONPATH": str(ROOT)}
        ended = subprocess.run(
            [sys.executable, "-W", "error", program], env=environment, capture_output=True, check=False, timeout=90
        )
    assert (ended.returncode, ended.stderr.decode()) == (0, "")
    assert said in ended.stdout
