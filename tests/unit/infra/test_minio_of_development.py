"""``make minio``'s MinIO listens where any web page of the machine's browser can send requests."""

from __future__ import annotations

import runpy
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[3] / "scripts/minio_and_gateway.py"


def test_its_password_is_known_to_nobody_else() -> None:
    """MinIO takes requests of every origin, so only its password keeps a page out: a new one each time, or the user's own."""
    credentials = runpy.run_path(str(SCRIPT))["credentials"]
    made = {credentials({})[1] for _ in range(8)}
    assert len(made) == 8
    assert min(map(len, made)) >= 32
    assert credentials({"MINIO_ROOT_PASSWORD": "of my own"}) == ("minioadmin", "of my own")
