"""Dollars from counts: each kind by its own price, a topic by its share of commits."""

from __future__ import annotations

import pytest

from tidelog.cli.cost.estimate import Counts, counts_of, estimated, of_topic

PAGE = """# HELP tidelog_store_requests_total Requests to the store.
tidelog_store_requests_total{kind="PUT",of="commit"} 100.0
tidelog_store_requests_total{kind="PUT",of="segment"} 100.0
tidelog_store_requests_total{kind="GET",of="commit"} 50.0
tidelog_store_requests_total{kind="LIST",of="heartbeat"} 10.0
tidelog_store_requests_total{kind="DELETE",of="other"} 1e3
tidelog_store_bytes_total{kind="PUT",of="segment"} 5.0
"""
SECONDS = 730 * 3600


def test_each_kind_has_its_price() -> None:
    """A listing costs as much as a PUT, a GET a twelfth, a deletion nothing."""
    found = estimated(counts_of(PAGE), 100.0, 10**9)
    dollars = {(row.kind, row.of): row.dollars for row in found.rows}
    assert dollars == pytest.approx(
        {
            ("PUT", "commit"): SECONDS * 0.005 / 1000,
            ("PUT", "segment"): SECONDS * 0.005 / 1000,
            ("GET", "commit"): SECONDS * 0.5 * 0.0004 / 1000,
            ("LIST", "heartbeat"): SECONDS * 0.1 * 0.005 / 1000,
            ("DELETE", "other"): 0.0,
        }
    )
    assert found.storage_dollars == pytest.approx(0.023)
    assert found.dollars == pytest.approx(sum(dollars.values()) + 0.023)


def test_a_topic_pays_for_its_commits_and_not_for_heartbeats() -> None:
    """A quarter of the commits: a quarter of the requests that go with commits."""
    found = of_topic(counts_of(PAGE), 25, 100.0, 0)
    assert {(row.kind, row.of): row.per_second for row in found.rows} == pytest.approx(
        {("PUT", "commit"): 0.25, ("PUT", "segment"): 0.25, ("GET", "commit"): 0.125}
    )
    assert of_topic(Counts(), 0, 100.0, 0).dollars == 0
