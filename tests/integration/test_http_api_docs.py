"""docs/http-api.md, as it is typed in: its commands, one after the other, on one gateway and an empty directory."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from log_format.errors import ANSWERS, ErrorCode
from log_format.topic.config import SETTINGS
from tests.support.documents import pages

PAGE = pages("http-api")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Host and port of a gateway on an empty directory."""
    store = tmp_path_factory.mktemp("docs") / "data"
    command = [sys.executable, "-m", "gateway", "--store", str(store), "--port", "0", "--log-level", "error"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        with process.stdout:
            yield process.stdout.readline().decode().split(" listens on http://")[1].split()[0]
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


def test_the_examples_work(host: str) -> None:
    """Each command, in the order of the page, is answered with what it asked for and not with a problem."""
    blocks = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
    commands = [command for block in blocks for command in re.split(r"\n(?=curl )", block.strip())]
    assert len(commands) >= 15
    for command in commands:
        text = command.replace("localhost:8080", host).replace(
            "curl ", "curl --silent --show-error --fail-with-body ", 1
        )
        done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        assert "error" not in json.loads(done.stdout), (command, done.stdout)


def test_the_tables_are_complete() -> None:
    """Every error code stands in the row of its status, every topic setting with its default."""
    rows = re.findall(r"^\| ([0-9, ]+) \| (.*?) \|", PAGE, re.MULTILINE)
    for code in ErrorCode:
        if code in (ErrorCode.UNAUTHENTICATED, ErrorCode.UNAUTHORIZED):
            assert f"`{code}` ({ANSWERS[code].status})" in PAGE
        else:
            assert any(str(ANSWERS[code].status) in statuses and f"`{code}`" in codes for statuses, codes in rows), code
    for name, setting in SETTINGS.items():
        default = str(setting.default) or "none"
        assert re.search(rf"^\| `{re.escape(name)}` \| `?{re.escape(default)}`? \|", PAGE, re.MULTILINE), name
