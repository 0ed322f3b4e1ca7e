"""What a suite is, and where it runs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

Outcomes = dict[str, str]
"""Of each test: ``pass``, ``fail``, ``skip``, or ``again``: it failed, and passed when it was run once more with few others."""
KAFKA_VERSION: Final = "4.2.0"
"""As which tests take what they run against."""


class NothingRan(Exception):
    """No test ran; the text is what was said instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a suite runs.

    ``servers``: ``host:port``. ``directory``: for what it writes. ``checkout``: of the client's repository. ``chosen``: which
    tests, in the words of the suite's own runner; without it the usual ones. ``registry``: the schema registry's URL, of a suite
    of registries.
    """

    servers: str
    directory: Path
    registry: str = ""
    checkout: Path | None = None
    chosen: str | None = None

    @property
    def port(self) -> str:
        """Of ``servers``."""
        return self.servers.rpartition(":")[2]

    @property
    def sources(self) -> Path:
        """The checkout. Raises ``ValueError`` where there is none."""
        if self.checkout is None:
            raise ValueError("no checkout")
        return self.checkout


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """The tests of one client.

    ``run`` raises ``NothingRan``. ``choosing``: a choice of tests in the words of its runner. ``needs_checkout``: they are not
    in a package that Go or pip brings. ``partitions``: of topics that tests make by naming them. ``broker_settings``: those of a
    broker beside that the suite takes for granted. ``is_of_registry``: it asks the schema registry; a broker has none.
    """

    name: str
    run: Callable[[Place], Outcomes]
    choosing: Callable[[Sequence[str]], str]
    needs_checkout: bool = False
    partitions: int = 4
    gateway_settings: Sequence[str] = ()
    broker_settings: Mapping[str, str] = field(default_factory=dict)
    is_of_registry: bool = False


def output_of(
    command: Sequence[str], directory: Path, environment: Mapping[str, str], log: Path, *, seconds: float
) -> str:
    """What the command prints, which is kept in ``log``; its end is not waited for any longer than ``seconds``."""
    with log.open("w+") as out:
        try:
            subprocess.run(
                command,
                cwd=directory,
                env=dict(environment),
                stdout=out,
                stderr=subprocess.STDOUT,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            out.write(f"\nno end after {seconds:.0f} s\n")
    return log.read_text(errors="replace")
