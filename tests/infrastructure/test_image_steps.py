"""The steps of each image's first stage do what they should in a clean directory, as far as that goes without Docker and without
a network: the environment is made, the wheel is built from what ``.dockerignore`` lets through, installed, checked, and runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

DOCKER = Path(__file__).resolve().parents[2] / "infra" / "docker"


@pytest.mark.parametrize("image", sorted(path.stem for path in DOCKER.glob("*.Dockerfile")))
def test_the_steps_of_an_image(image: str, tmp_path: Path) -> None:
    """Every COPY and RUN succeeds in its order, and what they installed says its version."""
    command = [sys.executable, str(DOCKER / "rehearse.py"), image, str(tmp_path), "offline"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("tidelog ")
