"""docs/typed-topics.md and docs/registry.md, typed in as they are: what needs no Spark."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.registry import Registry
from tests.support.tracked_files import ROOT


@pytest.mark.parametrize(("document", "said"), [("typed-topics.md", "3.5\n"), ("registry.md", "")])
def test_the_examples_run(registry: Registry, tmp_path: Path, document: str, said: str) -> None:
    """Each block of Python in a program, one after the other; nothing on stderr."""
    url = str(registry.http.base_url).removesuffix("/registry/")
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / document).read_text(), re.DOTALL | re.MULTILINE)
    program = tmp_path / "examples.py"
    program.write_text(
        "\n".join(block for block in blocks if "spark" not in block).replace("http://127.0.0.1:8080", url)
    )
    environment = {**os.environ, "TIDELOG_URL": url, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run([sys.executable, program], env=environment, capture_output=True, check=False, timeout=300)
    assert (ended.returncode, ended.stderr.decode(), ended.stdout.decode()) == (0, "", said)


def test_the_commands_run(registry: Registry, tmp_path: Path) -> None:
    """The first two blocks of the shell, with a gateway that is there already."""
    url = str(registry.http.base_url).removesuffix("/registry/")
    text = (ROOT / "docs" / "typed-topics.md").read_text()
    first, second = re.findall(r"^```bash\n(.*?)^```", text, re.DOTALL | re.MULTILINE)[:2]
    lines = (first + second).replace("tidelog serve --store ./data &\n", "").replace("localhost:8080", url)
    shell = "set -e\n" + lines.replace("curl ", "curl -sS ")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "TIDELOG_URL": url, "PATH": path}
    ended = subprocess.run(
        ["bash", "-c", shell], cwd=tmp_path, env=environment, capture_output=True, check=False, timeout=300
    )
    assert ended.returncode == 0, ended.stderr.decode()
    assert re.search(r"^ *1 +3\.5 *$", ended.stdout.decode(), re.MULTILINE)
