"""What a tombstone erased is gone from every gateway, also from the one that took the records and has them in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import urllib3

from tests.support.gateway_process import StartGateway


def test_every_gateway_gives_what_the_table_has(
    tmp_path: Path, start_gateway: StartGateway, maintain: Callable[[str], Any]
) -> None:
    """On a quiet topic, as soon as keys were compacted: both gateways answer the same, without the value and its tombstone."""
    store = (tmp_path / "log").as_uri()
    wrote, other = start_gateway(store).url, start_gateway(store).url
    config = {"cleanup.policy": "compact", "delete.retention.ms": 0, "flush.ms": 0}
    with urllib3.PoolManager(retries=False, timeout=30) as http:

        def call(method: str, url: str, body: Any = None) -> Any:
            answer = http.request(method, url, json=body)
            assert answer.status < 300, answer.data
            return answer.json()

        def records(url: str) -> list[tuple[int, str, str | None]]:
            fetched = call("GET", f"{url}/v1/topics/t/partitions/0/records?offset=earliest&max_records=1000")
            return [(record["offset"], record["key"], record["value"]) for record in fetched["records"]]

        call("POST", f"{wrote}/v1/topics", {"name": "t", "config": config})
        for number in range(24):
            erased = {"key": "erased", "value": "secret" if number == 0 else None}
            some = [{"key": f"k{key}", "value": f"{number}" * 50} for key in range(3)]
            call("POST", f"{wrote}/v1/topics/t/records", {"records": [erased, *some] if number < 2 else some})
        assert "secret" in json.dumps(records(wrote))
        assert "secret" in json.dumps(records(other))
        for _ in range(3):
            maintain(store)
        from_wrote, from_other = records(wrote), records(other)
        assert from_wrote == from_other
        assert len(from_wrote) < 40, "keys were not compacted"
        assert not [record for record in from_wrote if record[1] == "erased"]
