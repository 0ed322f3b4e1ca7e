"""Trino reads ``tidelog.topics.TOPIC``. It is asked by its own protocol.

Two variables may have JSON lists of statements: ``FIRST``, run before, and ``REFUSED``, which
have to fail because of a writer feature of Tidelog's.
"""

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


def _refused(statement: str) -> str:
    """Return why a statement is refused; nothing: it is not."""
    try:
        list(_run(statement))
    except RuntimeError as problem:
        return str(problem)
    return ""


def main() -> None:
    """Answer each version that the command line names."""
    for statement in json.loads(os.environ.get("FIRST", "[]")):
        list(_run(statement))

    def read(version: int) -> Iterator[Any]:
        columns = '"partition", "offset", CAST(to_unixtime("timestamp") * 1000 AS bigint), key, value'
        name = f'tidelog.topics."{os.environ["TOPIC"]}"'
        for partition, offset, at_ms, key, value in _run(
            f"SELECT {columns} FROM {name} FOR VERSION AS OF BIGINT '{version}'"
        ):
            yield partition, offset, at_ms, _decoded(key), _decoded(value)

    answer(read)
    for statement in json.loads(os.environ.get("REFUSED", "[]")):
        said = _refused(statement)
        assert "tidelog-" in said, f"{statement}: {said or 'not refused'}"


main()
