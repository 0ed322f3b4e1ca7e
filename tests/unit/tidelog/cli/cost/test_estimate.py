"""Dollars from counts: each kind by its own price, a topic by its share of commits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidelog.cli.cost.clones import clones_table, clones_told
from tidelog.cli.cost.estimate import Counts, counts_of, estimated, of_topic
from tidelog.types.topic import CloneOfTopic

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


def test_the_archive_and_clones_have_their_price() -> None:
    """The archive is a part of what is stored; a clone is paid as a whole, and is no part of its source's bill."""
    found = replace(estimated(Counts(), 1.0, 10**10), archive_bytes=9 * 10**9)
    assert (found.archive_dollars, found.dollars) == pytest.approx((9 * 0.023, 10 * 0.023))
    clone = CloneOfTopic(
        name="c",
        topic_id="i",
        size_bytes=10**12,
        also_in_source_bytes=10**11,
        only_in_clone_bytes=8 * 10**11,
        own_bytes=10**11,
    )
    (told,) = clones_told([clone])
    assert told["dollars"] == 23
    assert told["bytes"] == 10**12
    columns = [list(map(str, column.cells)) for column in clones_table([clone]).columns]
    assert columns == [["c"], ["1,000.00"], ["100.00"], ["800.00"], ["100.00"], ["23.00"]]
