"""Flink reads a topic by the Iceberg catalog: ``FlinkIceberg.java`` prints the rows, and this program their digests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from rows import answer


def _decoded(text: str) -> bytes | None:
    return None if text == "-" else bytes.fromhex(text[1:])


def main() -> None:
    """Answer each version that the command line names."""
    opened = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in ("java.util", "java.lang", "java.time")]
    command = ["java", "-Xmx1g", *opened, "-cp", os.environ["CLASSPATH"], "FlinkIceberg", *sys.argv[1:]]
    printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    found = [line.split(" ")[1:] for line in printed.splitlines() if line.startswith("ROW ")]

    def read(version: int) -> Iterator[Any]:
        for number, partition, offset, at_ms, key, value in found:
            if int(number) == version:
                yield partition, offset, at_ms, _decoded(key), _decoded(value)

    answer(read)


main()
