"""Jars that Spark needs in addition to its own: ``python -m spark_pipeline.jars``.

Spark's ``spark.jars.packages`` resolves on every start and would fetch 600 MB for S3. It asks the machine's Maven cache first,
and fails if that has a pom without its jar. So ``jars.lock`` pins the list, each jar with its SHA-256. The Ivy that pyspark
ships fetches it once, from its default repository, with an Ivy cache of its own.

1. A directory ``<cache>/jars/<hash of the list>`` is complete and verified, or does not exist: it is filled under another name
   and then renamed. Processes that fetch concurrently fill one each; the first rename wins.
2. A fetch that finds the directory does nothing; it does not even start Java.
3. Poms are never requested: the list is the whole closure already.

``<cache>`` is ``$TIDELOG_CACHE``, or ``~/.cache/tidelog``.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import Final, TextIO
from xml.sax.saxutils import quoteattr

from spark_pipeline.java import JavaMissing, java_executable

FETCH_SECONDS_MAX: Final = 900
"""Time limit of a fetch of about 26 MB."""

FETCH_ATTEMPTS_MAX: Final = 3
"""Number of attempts: a repository may answer 40 requests and fail the next. Later attempts keep what earlier ones fetched."""

ERROR_LINES_MAX: Final = 12
"""Lines of Ivy's output quoted in an error: its summary of failures is at the end."""

LINE_CHARACTERS_MAX: Final = 300
"""Characters quoted of one line."""


class JarsUnavailable(RuntimeError):
    """The jars could not be fetched, or differ from the list: check the network, or ``jars.lock``."""


class JarSet(StrEnum):
    """Set of jars: for stores in a directory, or for S3 too."""

    DELTA = "delta"
    S3 = "s3"


@dataclass(frozen=True, slots=True)
class Jar:
    """A pinned jar."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        """Name in the cache; it includes the group since artifact names alone are not unique."""
        return f"{self.group}_{self.artifact}-{self.version}.jar"


def parse_lock(text: str) -> dict[str, tuple[Jar, ...]]:
    """Return the sections of a lock file: ``[name]``, then lines ``group:artifact:version sha256``; ``#`` starts a comment.

    Raises ``ValueError`` that names the line.
    """
    sections: dict[str, list[Jar]] = {}
    section: list[Jar] | None = None
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.partition("#")[0].strip()
        if not line:
            continue
        if line.startswith("[") and line.endswith("]"):
            section = sections.setdefault(line[1:-1], [])
            continue
        coordinates, _, sha256 = line.partition(" ")
        parts = coordinates.split(":")
        if section is None or len(parts) != 3 or not all(parts) or len(sha256) != 64:
            raise ValueError(f"jars.lock, line {number}: expected 'group:artifact:version sha256' below a [section]")
        section.append(Jar(parts[0], parts[1], parts[2], sha256))
    return {name: tuple(jars) for name, jars in sections.items()}


def locked_jars(jar_set: JarSet) -> tuple[Jar, ...]:
    """Return the pinned jars of a set; ``s3`` includes ``delta``."""
    sections = parse_lock(files("spark_pipeline").joinpath("jars.lock").read_text(encoding="utf-8"))
    delta = sections["delta"]
    return delta if jar_set is JarSet.DELTA else delta + sections["s3"]


def cache_root() -> Path:
    """Return the cache directory: ``$TIDELOG_CACHE`` or ``~/.cache/tidelog``."""
    configured = os.environ.get("TIDELOG_CACHE")
    return Path(configured).expanduser() if configured else Path.home() / ".cache" / "tidelog"


def jars_directory(jars: Iterable[Jar], root: Path) -> Path:
    """Return the directory for exactly these jars: another list has another directory."""
    text = "".join(sorted(f"{jar.group}:{jar.artifact}:{jar.version} {jar.sha256}\n" for jar in jars))
    return root / "jars" / hashlib.sha256(text.encode()).hexdigest()[:16]


def ensure_jars(jar_set: JarSet, *, root: Path | None = None, progress: TextIO | None = None) -> tuple[Path, ...]:
    """Return the paths of the set's jars, and fetch them if they are not in the cache.

    ``root``: the cache (default: ``cache_root()``); ``progress``: where progress is written (default: standard error). Raises
    ``JavaMissing``, ``JarsUnavailable``.
    """
    jars = locked_jars(jar_set)
    cache = root if root is not None else cache_root()
    directory = jars_directory(jars, cache)
    if not directory.is_dir():
        larger = jars_directory(locked_jars(JarSet.S3), cache)
        if larger.is_dir():
            directory = larger
        else:
            _fetch(jars, directory, progress if progress is not None else sys.stderr)
    return tuple(directory / jar.file_name for jar in jars)


def _fetch(jars: tuple[Jar, ...], directory: Path, progress: TextIO) -> None:
    java = java_executable()
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=directory.parent) as work_name:
        work = Path(work_name)
        for attempt in range(1, FETCH_ATTEMPTS_MAX + 1):
            try:
                _run_ivy(java, jars, work, progress)
                break
            except JarsUnavailable:
                if attempt == FETCH_ATTEMPTS_MAX:
                    raise
        filled = work / "jars"
        _verify(jars, filled)
        try:
            filled.rename(directory)
        except OSError:
            if not directory.is_dir():
                raise
    progress.write(f"Spark's jars are in {directory}\n")


def _verify(jars: tuple[Jar, ...], directory: Path) -> None:
    """Raise ``JarsUnavailable`` unless every jar exists with the pinned checksum."""
    for jar in jars:
        path = directory / jar.file_name
        if not path.is_file():
            raise JarsUnavailable(f"{jar.file_name} was not fetched")
        with path.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
        if found != jar.sha256:
            raise JarsUnavailable(f"{jar.file_name} has SHA-256 {found}, but jars.lock says {jar.sha256}")


def _run_ivy(java: Path, jars: tuple[Jar, ...], work: Path, progress: TextIO) -> None:
    """Fetch the jars into ``work/jars``. Raises ``JarsUnavailable``."""
    settings, module = work / "ivysettings.xml", work / "ivy.xml"
    settings.write_text(
        "<ivysettings>"
        '<settings defaultResolver="central"/>'
        f"<caches defaultCacheDir={quoteattr(str(work / 'ivy'))}/>"
        '<resolvers><ibiblio name="central" m2compatible="true" usepoms="false"/></resolvers>'
        "</ivysettings>",
        encoding="utf-8",
    )
    module.write_text(_ivy_module(jars), encoding="utf-8")
    command = [str(java), "-Djava.awt.headless=true", f"-Divy.home={work / 'ivy-home'}"]
    command += ["-cp", str(_ivy_jar()), "org.apache.ivy.Main", "-settings", str(settings), "-ivy", str(module)]
    command += ["-retrieve", str(work / "jars" / "[organisation]_[artifact]-[revision].[ext]")]
    process = subprocess.Popen(  # noqa: S603 - no input from outside
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    deadline = threading.Timer(FETCH_SECONDS_MAX, process.kill)
    deadline.start()
    try:
        lines = _follow(process, len(jars), progress)
        code = process.wait()
    finally:
        deadline.cancel()
        process.kill()
        process.wait()
    if code != 0:
        shown = "\n".join(lines[-ERROR_LINES_MAX:])
        raise JarsUnavailable(
            "Spark's jars could not be fetched from the Maven repository. Is there a network, or a proxy that Java must "
            f"know (JAVA_TOOL_OPTIONS=-Dhttps.proxyHost=...)? Ivy said:\n{shown}"
        )


def _follow(process: subprocess.Popen[str], jar_count: int, progress: TextIO) -> list[str]:
    """Return Ivy's output without its progress lines. Meanwhile writes a count of the jars to ``progress``."""
    assert process.stdout is not None
    with process.stdout as output:
        redraw = progress.isatty()
        fetched = 0
        lines = []
        for line in output:
            text = line.strip()[:LINE_CHARACTERS_MAX]
            if "[SUCCESSFUL ]" in text:
                fetched += 1
                if redraw or fetched == jar_count or fetched % 10 == 1:
                    start, end = ("\r", "") if redraw else ("", "\n")
                    progress.write(f"{start}Fetching Spark's jars: {fetched} of {jar_count}{end}")
                    progress.flush()
            elif not text.startswith((".", "downloading ", "[")):
                lines.append(text)
        if redraw and fetched:
            progress.write("\n")
    return [line for line in lines if line]


def _ivy_module(jars: tuple[Jar, ...]) -> str:
    """Return an Ivy module that depends on the jars and on none of their dependencies."""
    dependencies = "".join(
        f"<dependency org={quoteattr(jar.group)} name={quoteattr(jar.artifact)} rev={quoteattr(jar.version)}"
        ' transitive="false" conf="default->default"/>'
        for jar in jars
    )
    return (
        '<ivy-module version="2.0"><info organisation="tidelog" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )


def _ivy_jar() -> Path:
    """Return the Ivy that pyspark ships for ``spark.jars.packages``."""
    found = sorted(Path(str(files("pyspark"))).joinpath("jars").glob("ivy-*.jar"))
    if not found:
        raise JarsUnavailable("pyspark ships no Ivy: is it installed whole?")
    return found[-1]


def main(arguments: list[str] | None = None) -> int:
    """Fetch the jars, and return the exit status: 0 when they are in the cache."""
    parser = argparse.ArgumentParser(prog="python -m spark_pipeline.jars", description="Fetch Spark's jars, once.")
    parser.add_argument("--set", choices=list(JarSet), default=JarSet.S3, help="delta: directories only; s3: S3 too")
    parser.add_argument(
        "--paths", action="store_true", help="print the paths, comma-separated, for spark-submit --jars"
    )
    chosen = parser.parse_args(arguments)
    try:
        paths = ensure_jars(JarSet(chosen.set))
    except (JavaMissing, JarsUnavailable) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if chosen.paths:
        sys.stdout.write(",".join(str(path) for path in paths) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
