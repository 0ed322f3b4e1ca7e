"""What an attacker does that can write a part of the store, and do nothing else."""

from __future__ import annotations

import json
import time
from pathlib import Path

LARGE_BYTES = 1 << 30
FORGED = 300
HOSTILE_PATHS = {
    "above": "../victim/segments/{name}",
    "encoded": "%2e%2e/victim/segments/{name}",
    "absolute": "/etc/passwd",
    "elsewhere": "s3://other/{name}",
    "nul": "segments/a%00.parquet",
    "huge": "segments/" + "a" * 100_000,
}


def forge_heartbeats(directory: Path, beat: int, url: str = "http://127.0.0.1:1") -> None:
    """A heartbeat of 1 GiB and 300 small ones, unsigned, in ``system/gateways``."""
    with (directory / "large.json").open("wb") as file:
        file.truncate(LARGE_BYTES)
    for name in (f"{letter}{number:03d}" for letter in "0z" for number in range(FORGED // 2)):
        heartbeat = {
            "id": name, "instance": "x", "beat": beat, "url": url, "started_at": time.time_ns() // 1_000_000,
            "version": "1", "owned_topics": 0, "issued_at": time.time_ns() // 1_000_000, "hops": True,
        }  # fmt: skip
        (directory / f"{name}.json").write_text(json.dumps(heartbeat))


def segments(store: Path, topic: str) -> set[Path]:
    """The segments' files of a topic."""
    return set((store / "topics" / topic / "segments").iterdir())


def name_as_segment(store: Path, topic: str, path: str, victim: str) -> None:
    """Let the newest commit of a topic with one segment name ``path``; ``{name}`` is the segment of ``victim``."""
    (own,), (secret,) = segments(store, topic), segments(store, victim)
    newest = max((store / "topics" / topic / "_delta_log").glob("*.json"))
    newest.write_text(newest.read_text().replace(f"segments/{own.name}", path.format(name=secret.name)))
