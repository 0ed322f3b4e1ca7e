"""Builds of images from their Dockerfiles without Docker and without a registry, shared by ``line.py`` and ``infra/cluster``.

The base is a Debian of the same release, by debootstrap, with Debian's own (older) Python and this machine's certificates.
Everything else follows the Dockerfiles.
"""
# ruff: noqa: INP001, S603, T201 - part of programs that run programs of the system

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
RELEASE: Final = "bookworm"
BASE_PACKAGES: Final = "ca-certificates,python3,python3-venv,python-is-python3"
BUILD_SECONDS_MAX: Final = 3600


def debian(directory: Path) -> Path:
    """Return the root of the base below the directory; make it if it is missing."""
    found = directory / "debian"
    if not found.exists():
        print(f"Debian {RELEASE}, in place of the base images: fetching", file=sys.stderr, flush=True)
        partial = directory / "debian.partial"
        shutil.rmtree(partial, ignore_errors=True)
        call(["debootstrap", "--variant=minbase", f"--include={BASE_PACKAGES}", RELEASE, str(partial)])
        certificates = "usr/local/share/ca-certificates"
        shutil.copytree(f"/{certificates}", partial / certificates, dirs_exist_ok=True)
        call(["chroot", str(partial), "update-ca-certificates"])
        partial.rename(found)
    return found


class Storage:
    """buildah's images and containers below one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._program = [
            "buildah", "--storage-driver", "vfs",
            "--root", str(directory / "storage"), "--runroot", str(directory / "run"),
        ]  # fmt: skip

    def call(self, *arguments: str, cwd: Path | None = None) -> str:
        """Run a command of buildah, which must succeed, and return its output."""
        return call([*self._program, *arguments], cwd=cwd)

    def stand_in(self, name: str) -> None:
        """Create a base image of that name: Debian with its Python."""
        container = self.call("from", "scratch")
        self.call("add", "--quiet", container, str(debian(self._directory)), "/")
        self.call("commit", "--quiet", "--rm", "--format", "docker", container, name)

    def build(self, image: str) -> None:
        """Build the image by its Dockerfile, from this checkout; no base is fetched."""
        print(f"{image}: building", flush=True)
        self.call(
            "build", "--isolation", "chroot", "--format", "docker", "--pull-never", "--layers=false",
            "--build-arg", f"BASE={base_of(image)}",
            "--file", str(ROOT / f"infra/docker/{image}.Dockerfile"), "--tag", f"tidelog-{image}", str(ROOT),
        )  # fmt: skip


def call(command: list[str], *, cwd: Path | None = None) -> str:
    """Run a program, which must succeed, and return its output."""
    done = subprocess.run(
        command,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS_MAX,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout.strip()


def base_of(image: str) -> str:
    """Return the name of a Dockerfile's base image, with its registry and without its digest, which no stand-in can have.

    It is the default of BASE, or, if there is none, what the error message asks for.
    """
    text = (ROOT / f"infra/docker/{image}.Dockerfile").read_text()
    (name,) = re.findall(r"^ARG BASE=(?:\".*?BASE=)?([^\s\"@]+)@sha256:", text, re.MULTILINE)
    return name if "/" in name else f"docker.io/library/{name}"
