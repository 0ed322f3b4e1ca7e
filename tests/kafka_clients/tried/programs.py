"""How programs are started, and what is asked of them."""

from __future__ import annotations

import functools
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

ROOT: Final = Path(__file__).parents[3]
HERE: Final = Path(__file__).parents[1]
SECONDS: Final = 120
_LOG = "-Dlog4j2.configurationFile=" + str(HERE / "log4j2.xml")
_HEAP = "-Xmx256m"


class Failed(Exception):
    """The client did not do it. The text is the reason for the table."""


class Missing(Exception):
    """The program is not on this machine."""


@functools.cache
def kept() -> Path:
    """Where ``scripts/kafka_clients.sh`` keeps the programs."""
    told = subprocess.run(
        ["sh", ROOT / "scripts" / "kafka_clients.sh", "path"], check=True, capture_output=True, text=True
    )
    return Path(told.stdout.strip())


def java(main_class: str, *arguments: object, options: Sequence[str] = (), jars: str = "") -> list[str]:
    """The command of a Java program among the jars: Kafka's, unless others are named."""
    if not (kept() / "jars.complete").exists():
        raise Missing("no jars: make kafka-clients gets them by Maven")
    jars = jars or f"{kept()}/libs/*:{kept()}/classes"
    return ["java", _HEAP, "-XX:TieredStopAtLevel=1", _LOG, *options, "-cp", jars, main_class, *map(str, arguments)]


def tool(name: str, *arguments: object, **more: object) -> str:
    """What a console tool of ``org.apache.kafka.tools`` prints."""
    return run(java(f"org.apache.kafka.tools.{name}", *arguments), **more)  # type: ignore[arg-type]


def run(command: Sequence[str], *, given: str | None = None, seconds: float = SECONDS, may_fail: bool = False) -> str:
    """What the program prints; with ``may_fail`` also what it complains of. Raises ``Failed`` for an exit code, or without an
    end."""
    try:
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, timeout=seconds, check=False, cwd="/tmp"
        )
    except subprocess.TimeoutExpired as late:
        said = late.stdout if isinstance(late.stdout, str) else (late.stdout or b"").decode()
        raise Failed(f"no end after {seconds:.0f} s; {last_words(said)}") from None
    except FileNotFoundError:
        raise Missing(f"no {command[0]} on this machine") from None
    if done.returncode and not may_fail:
        raise Failed(f"exit code {done.returncode}: {last_words(done.stderr + done.stdout)}")
    return done.stdout + (done.stderr if may_fail else "")


def consumed(servers: str, topic: str, *more: object) -> list[str]:
    """What kafka-console-consumer prints, from the beginning until eight seconds bring nothing new."""
    consumer = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    of = ("--bootstrap-server", servers, "--topic", topic, "--from-beginning", "--timeout-ms", 8000)
    command = java(consumer, *of, *more)
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    return done.stdout.splitlines()


def properties(path: Path, values: Mapping[str, object]) -> Path:
    """A file of settings, as Java's programs read them."""
    path.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    return path


class Running:
    """A program that goes on until it is stopped; its output is in a file."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self.log = log
        with log.open("a") as out:
            self._process = subprocess.Popen(
                command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=log.parent
            )

    def stop(self, *, kill: bool = False) -> None:
        """End it, by SIGTERM or SIGKILL."""
        if self._process.poll() is None:
            self._process.kill() if kill else self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def is_over(self) -> bool:
        """Whether it ended. Raises ``Failed`` where it did so with another exit code than 0."""
        code = self._process.poll()
        if code:
            self.check()
        return code == 0

    def check(self) -> None:
        """Raise ``Failed`` where it ended by itself."""
        if self._process.poll() is not None:
            raise Failed(f"ended by itself: {last_words(self.log.read_text())}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def until(done: Callable[[], bool], what: str, *programs: Running, seconds: float = SECONDS) -> None:
    """Return once it is so. Raises ``Failed``, also when one of the programs ends."""
    ends = time.monotonic() + seconds
    while not done():
        for program in programs:
            program.check()
        if time.monotonic() > ends:
            words = last_words(programs[0].log.read_text()) if programs else ""
            raise Failed(f"not after {seconds:.0f} s: {what}; {words}")
        time.sleep(0.3)


def expect(found: object, wanted: object, what: str) -> None:
    """Raise ``Failed`` where the two differ."""
    if found != wanted:
        raise Failed(f"{what}: {str(found)[:300]!r} instead of {str(wanted)[:300]!r}")


def expect_in(words: str, text: str) -> None:
    """Raise ``Failed`` where the text has not the words."""
    if words not in text:
        raise Failed(f"no {words!r} in {text.strip()[-400:]!r}")


def last_words(text: str) -> str:
    """The first error that is told, or the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "Exception" in line or "ERROR" in line or "Error" in line]
    return (errors or lines or ["nothing said"])[0 if errors else -1][:300]


def environment(**more: str) -> dict[str, str]:
    """This process's, and more."""
    return {**os.environ, **more}
