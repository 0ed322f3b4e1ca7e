"""README.md, as it is typed in: its commands and programs, one after the other, on one gateway and one directory."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateway_process import running_gateway

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
ENDLESS = ("curl -N", "tidelog tail")


def block(section: str, language: str) -> str:
    """The first block of a section, as the reader copies it."""
    text = README.split(f"## {section}\n", 1)[1]
    found = re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """The directory in which all is typed, and the address of the gateway that ``make gateway`` would have started."""
    directory = tmp_path_factory.mktemp("readme")
    (directory / ".venv").symlink_to(Path(sys.prefix))
    (directory / "access.log").write_text("GET / 200\n")
    with running_gateway(directory / "data", directory / "gateway.log", "--log-level", "error") as gateway:
        yield directory, gateway.url


def typed(reader: tuple[Path, str], command: str, *, until: str = "") -> str:
    """What a shell shows; what goes on for ever is ended once it has shown a line with ``until``."""
    directory, url = reader
    text = command.replace("localhost:8080", url.removeprefix("http://")).replace("http://127.0.0.1:8080", url)
    text = text.replace("/var/log/nginx/access.log*", f"{directory}/access.log")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TIDELOG_")}
    environment["PATH"] = f"{directory}/.venv/bin{os.pathsep}{os.environ['PATH']}"
    environment |= {"TIDELOG_URL": url, "TIDELOG_CONFIG": os.devnull, "XDG_STATE_HOME": str(directory)}
    process = subprocess.Popen(
        ["bash", "-o", "pipefail", "-c", text if "|" in text else f"exec {text}"],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        assert process.stdout is not None
        first = b""
        if any(word in command for word in ENDLESS):
            for line in process.stdout:
                first += line
                if until.encode() in line:
                    break
            process.send_signal(signal.SIGINT)
        shown = (first + process.communicate(timeout=60)[0]).decode()
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0 or first, (command, shown)
    return shown


def commands(section: str, language: str = "bash") -> list[str]:
    text = re.sub(r"\\\n\s*", "", block(section, language))
    found = [re.split(r"\s+#", line)[0].strip() for line in text.splitlines()]
    return [line for line in found if line and not line.startswith("make ")]


def test_the_api_is_tried_with_curl(reader: tuple[Path, str]) -> None:
    """What was produced is seen, whatever partitions the keys chose."""
    make, produce, read, follow = commands("Try it")
    typed(reader, make)
    stored = typed(reader, produce)
    shown = typed(reader, read)
    assert '"user-7"' in shown
    assert '"user-8"' in shown
    partition = re.findall(r'"partition":(\d+)', stored)[0]
    assert '"user-' in typed(reader, follow.replace("PARTITION", partition), until='"user-')


def test_the_program_and_the_commands_work(reader: tuple[Path, str]) -> None:
    """Each command shows what the program before it, or a command, has stored; a group that is read is known then."""
    program = reader[0] / "clicks.py"
    program.write_text(block("Python", "python"))
    program.write_text(program.read_text().replace("http://127.0.0.1:8080", reader[1]))
    assert "b'user-7' b'hello'" in typed(reader, f"{sys.executable} clicks.py")
    shown = {command: typed(reader, command) for command in commands("Command line")}
    for word, seen in (
        ("topic list", "clicks"),
        ("seq 1000", "1,000 records stored"),
        ("--from beginning", "hello"),
        ("--group billing", "1,001 records"),
        ("lag billing", "total"),
        ("verify", "clicks is intact"),
    ):
        (output,) = [output for command, output in shown.items() if word in command]
        assert seen in output, (word, output)


def test_log_files_are_collected(reader: tuple[Path, str]) -> None:
    """The topic is made by the line before."""
    make, collect = commands("Log files")
    typed(reader, make)
    typed(reader, f"{collect} --once")
    assert "GET / 200" in typed(reader, "tidelog consume access")


@pytest.mark.spark
def test_the_lines_for_spark_work_in_a_file(reader: tuple[Path, str], tmp_path: Path) -> None:
    """A batch shows the records, and the stream shows them, too, and goes on."""
    typed(reader, "tidelog topic create orders --if-not-exists")
    typed(reader, "printf 'spark-sees-this\\n' | tidelog produce orders")
    program = reader[0] / "orders.py"
    program.write_text(block("Spark", "python"))
    process = subprocess.Popen(
        [sys.executable, program],
        cwd=reader[0],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        seen: list[str] = []
        for line in process.stdout:
            seen.append(line.decode())
            if sum("spark-sees-this" in each for each in seen) == 2:
                break
        assert sum("spark-sees-this" in each for each in seen) == 2, "".join(seen)[-3000:]
        assert process.poll() is None
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
