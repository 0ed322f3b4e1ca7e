"""Run the build stage of an image's Dockerfile in a clean directory, without Docker: ``rehearse.py gateway DIRECTORY``.

COPY and RUN are executed in order, with ``/build`` and ``/opt`` below the directory and this Python for the image's. COPY sees
only files that git tracks and ``.dockerignore`` lets through. At the end the installed program prints its version.

With ``offline`` as a third argument nothing is fetched: where packages would be installed by a lock, the environment borrows this
Python's own, pip as well, and Spark's jars are skipped. Not rehearsed: the base images, the last stage (user, health check,
command), and RUN lines that install system packages.
"""
# ruff: noqa: INP001, S602, S603, T201 - a program of its own that runs a Dockerfile's shell lines

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
SECONDS_MAX: Final = 900


def main(image: str, directory: Path, *, offline: bool = False) -> int:
    """Run every step, and return 0 if all succeeded."""
    text = (ROOT / f"infra/docker/{image}.Dockerfile").read_text().replace("\\\n", " ")
    stage = text.split("\nFROM ")[1]
    build = directory / "build"
    build.mkdir(parents=True)
    for line in stage.splitlines()[1:]:
        instruction, _, rest = line.partition(" ")
        if instruction == "COPY":
            *sources, target = rest.split()
            _copy(sources, build / target)
        elif instruction == "RUN" and "apt-get" not in rest:
            print(f"RUN {rest}", flush=True)
            for part in rest.split(" && "):
                if offline and "--require-hashes" in part:
                    _lend(directory / "opt" / re.findall(r"/opt/(\w+)", part)[-1])
                elif offline and re.search(r"-m venv /opt/\w+$", part):
                    _run(_relocated(f"{part} --without-pip", directory), build)
                    _lend_pip(directory / part.rpartition(" /")[2])
                elif not (offline and "spark_pipeline.jars" in part):
                    _run(_relocated(part, directory), build)
    _run(f"{directory}/opt/tidelog/bin/python -m tidelog --version", directory)
    return 0


def _lend(environment: Path) -> None:
    """Let ``environment`` import packages installed for this Python, but not this checkout."""
    (site,) = environment.glob("lib/python*/site-packages")
    for installed in Path(sysconfig.get_path("purelib")).iterdir():
        is_checkout = installed.suffix == ".pth" or installed.name.startswith(("tidelog", "_editable"))
        if not is_checkout and not (site / installed.name).exists():
            (site / installed.name).symlink_to(installed)


def _lend_pip(environment: Path) -> None:
    """Create the pip program that ``python -m venv`` would have installed, which takes longer than all other steps."""
    program = environment / "bin/pip"
    program.write_text(f"#!{environment}/bin/python\nimport runpy\nrunpy.run_module('pip', run_name='__main__')\n")
    program.chmod(0o755)


def _relocated(line: str, directory: Path) -> str:
    """Return the line with the image's directories below ``directory``, and this Python in place of the image's."""
    line = re.sub(r"(?<![\w/])/opt/", f"{directory}/opt/", line)
    return re.sub(r"(^|(?<=&& ))python(3\.11)? ", f"{sys.executable} ", line)


def _copy(sources: list[str], target: Path) -> None:
    """Copy as Docker does: a directory's content into ``target``, files below it or to its path."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--", *sources]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for name in filter(None, listed):
        if not any(name == each or name.startswith(f"{each}/") for each in allowed):
            raise SystemExit(f".dockerignore keeps {name} out")
        base = next(source for source in sources if name == source or name.startswith(f"{source}/"))
        inside = Path(name).relative_to(base) if (ROOT / base).is_dir() else Path(name).name
        place = target / inside
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, place)


def _run(line: str, directory: Path) -> None:
    """Run one shell line in ``directory``, without this project's environment."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    subprocess.run(line, shell=True, cwd=directory, env=environment, check=True, timeout=SECONDS_MAX)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]).resolve(), offline=sys.argv[3:] == ["offline"]))
