"""Check of the Java that Spark runs on.

Spark starts ``$JAVA_HOME/bin/java`` when that variable is set, else the ``java`` on the path. If there is none, or it is too
old, Spark fails with a long stack trace; this check says in one sentence what to install.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

JAVA_MAJOR_MIN: Final = 17
"""Oldest Java: Spark 4.2 is compiled for it and uses its ``jdk.incubator.vector``."""

VERSION_SECONDS_MAX: Final = 60
"""Time limit of ``java -version``: it takes a second on an idle machine."""

_HOW_TO_INSTALL: Final = (
    "Install it: `apt-get install openjdk-17-jre-headless` on Debian and Ubuntu, `dnf install java-17-openjdk-headless` "
    "on Fedora, `brew install openjdk@17` on macOS; or set JAVA_HOME to one that is there."
)


class JavaMissing(RuntimeError):
    """Spark finds no usable Java: install one, or point JAVA_HOME at it."""


def java_executable() -> Path:
    """Return the ``java`` that Spark will start.

    Raises ``JavaMissing`` when there is none, or when it is older than 17; the message says how to get one.
    """
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if found is None or not os.access(found, os.X_OK):
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "there is no java on the path"
        raise JavaMissing(f"Spark needs Java {JAVA_MAJOR_MIN} or newer: {where}. {_HOW_TO_INSTALL}")
    major = _major_version(found)
    if major < JAVA_MAJOR_MIN:
        raise JavaMissing(f"Spark needs Java {JAVA_MAJOR_MIN} or newer: {found} is version {major}. {_HOW_TO_INSTALL}")
    return Path(found)


def _major_version(executable: str) -> int:
    """Return the major version: 17 for ``openjdk version "17.0.15"``, 8 for ``java version "1.8.0_402"``."""
    try:
        answer = subprocess.run(  # noqa: S603 - the very program that Spark would start
            [executable, "-version"], capture_output=True, text=True, timeout=VERSION_SECONDS_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaMissing(f"{executable} can't be run: {error}. {_HOW_TO_INSTALL}") from error
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if match is None:
        raise JavaMissing(f"{executable} -version tells no version. {_HOW_TO_INSTALL}")
    return int(match.group(1))
