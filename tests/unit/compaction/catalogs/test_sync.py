"""A sync makes a catalog show the topics, and touches nothing that it did not make. The catalog is one in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from compaction.catalogs.catalog import CatalogUnavailable
from log_format.catalogs.table import TOPIC_ID, ListedTable
from tests.support.catalog_bench import MORE_ORDERS, ORDERS, CatalogBench, MemoryCatalog

THEIRS = ListedTable(name="orders", location="s3://elsewhere/orders", properties={})


def changed(bench: CatalogBench, catalog: MemoryCatalog) -> list[str]:
    catalog.changes.clear()
    bench.sync_to(catalog).run()
    return list(catalog.changes)


def test_topics_come_change_and_go_with_their_tables() -> None:
    """A new topic, a new member and a deletion are one change each; a further run does nothing."""
    bench, catalog = CatalogBench(), MemoryCatalog()
    bench.create("orders", ORDERS)
    assert (changed(bench, catalog), changed(bench, catalog)) == (["create orders"], [])
    bench.alter("orders", MORE_ORDERS)
    assert (changed(bench, catalog), changed(bench, catalog)) == (["alter orders"], [])
    bench.delete("orders")
    assert (changed(bench, catalog), changed(bench, catalog)) == (["drop orders"], [])


def test_a_topic_created_again_is_noticed_by_its_id() -> None:
    """The table of the former topic goes with what people set there, and the new topic has one of its own."""
    bench, catalog = CatalogBench(), MemoryCatalog()
    bench.create("orders")
    bench.sync_to(catalog).run()
    before = catalog.tables["orders"].properties[TOPIC_ID]
    bench.delete("orders")
    bench.create("orders")
    assert changed(bench, catalog) == ["drop orders", "create orders"]
    assert catalog.tables["orders"].properties[TOPIC_ID] != before


def test_the_table_of_somebody_else_stays() -> None:
    """It is reported while the topic exists and also after its deletion it is there, unchanged."""
    bench, catalog = CatalogBench(), MemoryCatalog()
    catalog.tables["orders"] = THEIRS
    bench.create("orders")
    assert bench.sync_to(catalog).run().problems == 1
    bench.delete("orders")
    assert changed(bench, catalog) == []
    assert catalog.tables == {"orders": THEIRS}


class Meanwhile(MemoryCatalog):
    """A catalog in which something happens between a listing and what follows it, once."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], object] = lambda: None

    def list_tables(self) -> Iterator[ListedTable]:
        yield from super().list_tables()
        happens, self.meanwhile = self.meanwhile, lambda: None
        happens()


def test_a_table_that_came_after_the_listing_is_left_alone() -> None:
    """Whether it was to be altered, replaced or dropped: somebody's table in its place stays, and is reported."""
    for change in ("alter", "replace", "drop"):
        bench, catalog = CatalogBench(), Meanwhile()
        bench.create("orders")
        bench.sync_to(catalog).run()
        if change == "alter":
            bench.alter("orders", flush_ms=10)
        else:
            bench.delete("orders")
        if change == "replace":
            bench.create("orders")
        catalog.meanwhile = partial(catalog.tables.update, orders=THEIRS)
        assert bench.sync_to(catalog).run().problems == 1
        assert catalog.tables == {"orders": THEIRS}


def test_a_run_that_planned_long_ago_undoes_nothing() -> None:
    """Its topic was deleted, or was changed, and since then another run made the table of what the topic is now."""
    for known in ("deleted", "other settings", "former topic"):
        bench, catalog = CatalogBench(), Meanwhile()
        bench.create("orders")
        bench.sync_to(catalog).run()
        if known == "other settings":
            bench.alter("orders", flush_ms=10)
        else:
            bench.delete("orders")
        if known == "former topic":
            bench.create("orders")
        slow = bench.sync_to(catalog)

        def goes_on(bench: CatalogBench = bench, catalog: MemoryCatalog = catalog) -> None:
            if bench.sync_to(catalog).topics.read().existing:
                bench.delete("orders")
            bench.create("orders", ORDERS)
            bench.sync_to(catalog).run()

        catalog.meanwhile = goes_on
        slow.run()
        now = catalog.tables["orders"]
        assert changed(bench, catalog) == []
        assert catalog.tables == {"orders": now}


def test_two_runs_that_make_the_same_are_no_problem() -> None:
    """What another run made after the listing is what this one would have made."""
    for change, attempts in (("create", 2), ("alter", 1), ("replace", 2)):  # a creation is refused by the catalog
        bench, catalog = CatalogBench(), Meanwhile()
        if change != "create":
            bench.create("orders")
            bench.sync_to(catalog).run()
        if change == "alter":
            bench.alter("orders", flush_ms=10)
        if change == "replace":
            bench.delete("orders")
        if change != "alter":
            bench.create("orders")
        other = bench.sync_to(catalog)
        catalog.meanwhile = other.run
        catalog.changes.clear()
        assert bench.sync_to(catalog).run().problems == 0
        assert len(catalog.changes) == attempts


@pytest.mark.parametrize("calls", range(6))
def test_a_run_that_was_cut_off_is_finished_by_the_next(calls: int) -> None:
    """After any number of changes the catalog is gone; the next run leaves it as one whole run would."""
    bench, catalog, whole = CatalogBench(), MemoryCatalog(), MemoryCatalog()
    for topic in ("a", "b", "c"):
        bench.create(topic)
    bench.sync_to(catalog).run()
    bench.delete("a")
    bench.delete("b")
    bench.create("b")
    bench.alter("c", flush_ms=10)
    bench.create("d")
    catalog.calls_left = calls
    try:
        bench.sync_to(catalog).run()
    except CatalogUnavailable:
        catalog.calls_left = None
        bench.sync_to(catalog).run()
    bench.sync_to(whole).run()
    assert catalog.tables == whole.tables


def test_a_topic_that_cannot_be_read_keeps_its_table() -> None:
    """Its log is damaged: the table stays as it is, and the run says so."""
    bench, catalog = CatalogBench(), MemoryCatalog()
    bench.create("orders")
    bench.create("clicks")
    bench.sync_to(catalog).run()
    bench.alter("clicks", flush_ms=10)
    (commit,) = [one.key for one in bench.store.list("topics/orders/_delta_log/")]
    bench.store.delete(commit)
    bench.store.put(commit, b"damaged")
    outcome = bench.sync_to(catalog).run()
    assert (outcome.problems, outcome.unchanged, outcome.done["alter"]) == (1, 1, 1)
    assert catalog.tables.keys() == {"orders", "clicks"}


def test_a_table_whose_name_differs_in_case_is_another() -> None:
    """Catalogs that tell names apart by case may have both; the topic's is the one in lower case."""
    bench, catalog = CatalogBench(), MemoryCatalog()
    bench.create("orders")
    bench.sync_to(catalog).run()
    theirs = ListedTable(name="ORDERS", location="s3://elsewhere", properties={})
    for tables in ({"ORDERS": theirs, **catalog.tables}, {**catalog.tables, "ORDERS": theirs}):
        catalog.tables = tables
        outcome = bench.sync_to(catalog).run()
        assert (outcome.unchanged, outcome.problems) == (1, 0)
    bench.delete("orders")
    assert changed(bench, catalog) == ["drop orders"]
