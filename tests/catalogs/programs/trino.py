"""Trino reads a topic by the Iceberg catalog, with the credentials that come with the table. It is asked by its own protocol."""

from __future__ import annotations

import base64
import json
import os
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

from rows import answer


def _run(statement: str) -> Iterator[list[Any]]:
    """Yield the rows of a statement. Raise ``RuntimeError`` if it fails."""
    request = urllib.request.Request(
        f"{os.environ['TRINO']}/v1/statement", statement.encode(), {"X-Trino-User": "tidelog"}, method="POST"
    )
    while True:
        with urllib.request.urlopen(request) as response:
            page = json.load(response)
        if "error" in page:
            raise RuntimeError(page["error"]["message"])
        yield from page.get("data", ())
        if "nextUri" not in page:
            return
        time.sleep(0.05)
        request = urllib.request.Request(page["nextUri"])


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def main() -> None:
    """Answer each version that the command line names."""

    def read(version: int) -> Iterator[Any]:
        columns = '"partition", "offset", CAST(to_unixtime("timestamp") * 1000 AS bigint), key, value'
        name = f'tidelog.topics."{os.environ["TOPIC"]}"'
        for partition, offset, at_ms, key, value in _run(
            f"SELECT {columns} FROM {name} FOR VERSION AS OF BIGINT '{version}'"
        ):
            yield partition, offset, at_ms, _decoded(key), _decoded(value)

    answer(read)


main()
