"""The programs that ``tidelog`` becomes are ours, wherever it is started, and begin and end quietly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tidelog.demo.processes import ChildProcess
from tidelog.programs import become

FOREIGN = ("gateway", "compaction", "regex", "httptools", "uvicorn", "log_format")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Of a user whose files have the names of our modules, and of those that we import."""
    for name in FOREIGN:
        (tmp_path / f"{name}.py").write_text(f"print('foreign {name}')\nraise SystemExit(0)\n")
    return tmp_path


def tidelog(*arguments: str, cwd: Path) -> subprocess.Popen[bytes]:
    """As the console script runs it: with its own directory first on the path, not the working one."""
    program = ["-P", "-c", "from tidelog.__main__ import main; main()"]
    return subprocess.Popen(
        [sys.executable, *program, *arguments],
        cwd=cwd,
        env={name: value for name, value in os.environ.items() if not name.startswith("TIDELOG_")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_serve_is_our_gateway_beside_foreign_files(directory: Path) -> None:
    """A ``gateway.py``, or a module that the gateway imports, in the working directory is not run."""
    process = tidelog("serve", "--store", "./log", "--port", "0", cwd=directory)
    try:
        assert process.stdout is not None
        assert b" listens on http://127.0.0.1:" in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()


def test_maintain_is_ours_beside_foreign_files(directory: Path) -> None:
    """The same of ``compaction.py``: a round is reported."""
    (directory / "log").mkdir()
    process = tidelog("maintain", "--store", "./log", "--workers", "local", "--once", "--json", cwd=directory)
    out, error = process.communicate(timeout=60)
    assert process.returncode == 0, error.decode()
    assert b'"event":"round"' in out.replace(b" ", b"")


def test_children_of_the_demo_are_ours(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And so are their children: the environment keeps the working directory off the path."""
    monkeypatch.chdir(directory)
    log = directory / "child.log"
    with ChildProcess("a gateway", "gateway", ["--version"], log, grace_seconds=5) as child:
        child.wait(60)
    assert b"foreign" not in log.read_bytes()


def test_ctrl_c_works_where_a_program_can_not_be_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for the program that is to take over, and for no other."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no python"))
    with pytest.raises(FileNotFoundError):
        become("gateway", [])
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


@pytest.mark.parametrize(
    ("program", "imported"),
    [
        (["-c", "from tidelog.__main__ import main; main()", "version"], "typer"),
        (["-m", "gateway", "--store", "memory://x", "--port", "0"], "argparse"),
        (["-m", "gateway", "--store", "memory://x", "--port", "0"], "httptools"),
        (["-m", "compaction", "--store", "log", "--workers", "local"], "argparse"),
        (["-m", "compaction", "--store", "log", "--workers", "local"], "rich"),
    ],
)
def test_an_interrupt_while_it_starts_is_quiet(tmp_path: Path, program: list[str], imported: str) -> None:
    """Ctrl-C that comes while modules are imported ends the program without a traceback."""
    interrupted = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(1)\nraise SystemExit(7)\n"
    (tmp_path / f"{imported}.py").write_text(interrupted)
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONSAFEPATH": "1"}
    ended = subprocess.run(
        [sys.executable, *program], cwd=tmp_path, env=environment, capture_output=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (-signal.SIGINT, b"")


def test_an_interrupt_before_the_command_begins_is_quiet(tmp_path: Path) -> None:
    """Ctrl-C that comes while typer puts the commands together has the status of an interrupted command, and no traceback."""
    interrupted = (
        "import os, signal, time, typer.main\n"
        "def get_command(app):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(1)\n"
        "typer.main.get_command = get_command\n"
        "from tidelog.__main__ import main\n"
        "main()\n"
    )
    ended = subprocess.run(
        [sys.executable, "-P", "-c", interrupted, "version"], cwd=tmp_path, capture_output=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (130, b"")
