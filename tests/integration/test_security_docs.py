"""The ten lines of docs/security.md, as they stand there: from the first token to the first refusal."""

from __future__ import annotations

import os
import re
import socket
import stat
import subprocess
import sys
from pathlib import Path

DOCUMENT = Path(__file__).parents[2] / "docs" / "security.md"


def test_from_the_first_token_to_the_first_refusal(tmp_path: Path) -> None:
    """Ten lines of a shell: a record is stored by a token that may write, and reading with it is refused, by its name."""
    (block,) = re.findall(r"^```bash\n(.*?)^```", DOCUMENT.read_text(), re.DOTALL | re.MULTILINE)
    assert len(block.splitlines()) == 10
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "tidelog").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tidelog "$@"\n')
    (programs / "tidelog").chmod(0o755)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("TIDELOG_", "PYTHON"))}
    environment = {
        **inherited,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONSAFEPATH": "1",
        "TIDELOG_CONFIG": os.devnull,
        "TIDELOG_PORT": str(port),
        "TIDELOG_URL": f"http://127.0.0.1:{port}",
    }
    script = f"{block}echo 'exit code' $?\nkill %1\nwait\n"
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert "1 record stored in orders" in done.stderr, done.stderr
    assert "You may not Read topic 'orders'" in done.stderr
    assert "exit code 4" in done.stdout
    assert "hello" not in done.stdout
    for name in ("bootstrap.token", "billing.token"):
        token = tmp_path / name
        assert stat.S_IMODE(token.stat().st_mode) == 0o600
        assert token.read_text().strip() not in done.stdout + done.stderr
