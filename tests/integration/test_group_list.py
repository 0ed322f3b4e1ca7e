"""``tidelog group list`` on a real gateway."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.command_runs import runner
from tests.support.gateway_process import running_gateway


def test_groups_are_listed_with_their_lag(tmp_path: Path) -> None:
    """Topics, lag and the time behind are there without a further command; without groups there are headings only."""
    with running_gateway(tmp_path / "data", tmp_path / "gateway.log", "--log-level", "error") as gateway:
        run = runner(gateway.url)
        assert run("topic", "create", "orders").exit_code == 0
        assert run("produce", "orders", given="x\n" * 1200).exit_code == 0
        empty = run("group", "list", "--format", "csv")
        assert empty.stdout == "group,state,topics,members,lag,behind\n"
        assert run("group", "reset", "billing", "--to", "earliest", "--topic", "orders").exit_code == 0
        shown = run("group", "list", "--format", "ndjson")
        changed = run("topic", "alter", "orders", "-c", "flush.ms=1s", "--format", "csv")
    row = json.loads(shown.stdout)
    assert (row["group"], row["topics"], row["members"], row["lag"]) == ("billing", "orders", 0, 1200)
    assert row["behind"]
    assert changed.stdout == "setting,before,now\nflush.ms,250,1000 (1s)\n"
