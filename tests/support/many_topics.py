"""Ten thousand topics in a directory, faster than a gateway makes them: each the first commit of a topic that it did make."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4


def names(count: int) -> Iterator[str]:
    """As they sort."""
    return (f"sensor-{number:05}" for number in range(count))


def put_topics(store: Path, like: str, count: int) -> None:
    """Make ``count`` topics that are as the empty topic ``like``."""
    log = store / "topics" / like / "_delta_log"
    commit = (log / "00000000000000000000.json").read_text()
    actions = [json.loads(line) for line in commit.splitlines()]
    meta = next(action["metaData"] for action in actions if "metaData" in action)
    for name in names(count):
        text = commit.replace(meta["id"], str(uuid4())).replace(f'"name":"{like}"', f'"name":"{name}"')
        directory = store / "topics" / name / "_delta_log"
        directory.mkdir(parents=True)
        (directory / "00000000000000000000.json").write_text(text)
