"""``way``: the test runs once for each way of reading answers."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["arrow", "json"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With pyarrow, and as if it were not installed."""
    if request.param == "json":
        monkeypatch.setattr("tidelog.consumer.reader.arrow_available", lambda: False)
    return str(request.param)
