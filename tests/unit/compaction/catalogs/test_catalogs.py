"""Each catalog shows the topics as they are, by its own protocol: Unity Catalog by HTTP, Glue by boto3, a Metastore by Thrift."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from urllib.parse import unquote

import pytest

from compaction.catalogs.catalog import CatalogError, CatalogUnavailable
from log_format.catalogs.table import TOPIC_ID, ListedTable, plain
from log_format.topic.table_name import table_name
from tests.support.catalog_bench import MORE_ORDERS, ORDERS, CatalogBench
from tests.support.served_catalogs import AWS, ServedCatalog, served_glue, served_hive, served_unity

SERVED: dict[str, Callable[[], AbstractContextManager[ServedCatalog]]] = {
    "unity": served_unity,
    "older unity": partial(served_unity, can_alter=False),
    "glue": served_glue,
    "hive": served_hive,
}


@pytest.fixture(params=SERVED)
def served(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServedCatalog]:
    """Each of the catalogs, empty. boto3's own variable for the region is not set."""
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    for name, value in AWS.items():
        monkeypatch.setenv(name, value)
    with SERVED[request.param]() as catalog:
        yield catalog


@pytest.fixture
def bench(served: ServedCatalog) -> CatalogBench:
    """A store to which the catalog's tables may point."""
    return CatalogBench(uri=served.store_uri)


def done(bench: CatalogBench, served: ServedCatalog) -> dict[str, int]:
    """What a run did, without what it did not."""
    counts = bench.sync_to(served.catalog).run().as_dict()
    return {name: count for name, count in counts.items() if count}


def test_a_topic_has_a_table_that_follows_it(bench: CatalogBench, served: ServedCatalog) -> None:
    """Columns and settings come, change and go with the topic's; properties that others gave stay; a further run does nothing."""
    bench.create("orders", ORDERS, value_schema="orders-value", retention_ms=1_000)
    assert [done(bench, served), done(bench, served)] == [{"create": 1}, {"unchanged": 1}]
    made = served.tables()["orders"]
    assert plain(made.location) == plain(unquote(f"{served.store_uri}/topics/orders"))
    assert made.properties["tidelog.retention.ms"] == "1000"
    assert served.types("orders")["data"] == "struct<sku:string,price:decimal(12,2)>"
    bench.alter("orders", MORE_ORDERS, retention_ms=None)
    assert [done(bench, served), done(bench, served)] == [{"alter": 1}, {"unchanged": 1}]
    assert served.types("orders")["data"] == "struct<sku:string,price:decimal(12,2),lines:array<bigint>>"
    assert "tidelog.retention.ms" not in served.tables()["orders"].properties
    bench.delete("orders")
    assert [done(bench, served), done(bench, served)] == [{"drop": 1}, {}]
    assert served.tables() == {}


def test_what_others_said_of_a_table_stays_when_it_is_altered(bench: CatalogBench, served: ServedCatalog) -> None:
    """A property that somebody gave the table is there after the topic got another setting."""
    bench.create("clicks")
    done(bench, served)
    there = served.tables()["clicks"]
    served.put(ListedTable(name="clicks", location=there.location, properties={**there.properties, "team": "web"}))
    bench.alter("clicks", flush_ms=10)
    assert done(bench, served) == {"alter": 1}
    assert served.tables()["clicks"].properties["team"] == "web"


def test_a_topic_created_again_has_a_table_of_its_own(bench: CatalogBench, served: ServedCatalog) -> None:
    """The former topic's table is dropped, with what was said of it, and the new one has the new topic's id."""
    bench.create("orders", ORDERS)
    done(bench, served)
    there = served.tables()["orders"]
    served.put(ListedTable(name="orders", location=there.location, properties={**there.properties, "team": "web"}))
    bench.delete("orders")
    bench.create("orders", MORE_ORDERS)
    assert [done(bench, served), done(bench, served)] == [{"replace": 1}, {"unchanged": 1}]
    now = served.tables()["orders"]
    assert now.properties[TOPIC_ID] != there.properties[TOPIC_ID]
    assert "team" not in now.properties


def test_names_that_no_catalog_takes_are_mapped(bench: CatalogBench, served: ServedCatalog) -> None:
    """Names that differ in case or in a dot only have tables of different names, over several pages of a listing."""
    topics = ["orders.v2", "orders_v2", "Orders_v2", "orders-v2", "X" * 249]
    for topic in topics:
        bench.create(topic)
    assert [done(bench, served), done(bench, served)] == [{"create": 5}, {"unchanged": 5}]
    assert served.tables().keys() == {table_name(topic) for topic in topics}


def test_the_table_of_somebody_else_is_neither_changed_nor_dropped(bench: CatalogBench, served: ServedCatalog) -> None:
    """Neither while a topic of its name exists, nor after that was deleted."""
    served.put(ListedTable(name="orders", location=f"{served.store_uri}-of-others/orders", properties={"team": "they"}))
    theirs = served.tables()["orders"]
    assert theirs.properties["team"] == "they"
    bench.create("orders")
    bench.create("clicks")
    assert done(bench, served) == {"create": 1, "problems": 1}
    bench.delete("orders")
    assert done(bench, served) == {"unchanged": 1}
    assert served.tables()["orders"] == theirs


def test_a_table_without_a_right_holds_back_no_other(bench: CatalogBench, served: ServedCatalog) -> None:
    """What may not be made is reported with what the catalog said, and the others are made."""
    served.deny("b")
    for topic in ("a", "b", "c"):
        bench.create(topic)
    assert done(bench, served) == {"create": 2, "problems": 1}
    (failed,) = [fields for event, fields in bench.report.events if event == "failed"]
    assert (failed["topic"], failed["table"]) == ("b", "b")
    assert "denied" in str(failed["problem"]).lower() or "permission" in str(failed["problem"])


def test_a_catalog_that_is_away_ends_the_run(bench: CatalogBench, served: ServedCatalog) -> None:
    """The run says so and changed nothing; the next one, by the same process, does it all."""
    bench.create("orders")
    sync = bench.sync_to(served.catalog)
    assert sync.run().done["create"] == 1
    bench.create("clicks")
    served.set_away(True)
    with pytest.raises(CatalogUnavailable):
        sync.run()
    served.set_away(False)
    assert sync.run().as_dict() == {"create": 1, "alter": 0, "replace": 0, "drop": 0, "unchanged": 1, "problems": 0}


def test_a_connection_that_failed_is_not_used_again() -> None:
    """A Metastore's answer that comes too late would be taken for the answer to the next call."""
    with served_hive() as served:
        assert served.tables() == {}
        served.set_away(True)
        with pytest.raises(CatalogUnavailable):
            served.catalog.get_table("orders")
        served.set_away(False)
        assert served.catalog.get_table("orders") is None


def test_runs_at_once_agree(bench: CatalogBench, served: ServedCatalog) -> None:
    """Several create, alter, replace and drop at the same time. They report only each other, and leave what one leaves."""
    for topic in ("a", "b", "c", "d"):
        bench.create(topic)
    done(bench, served)
    for topic in ("a", "b"):
        bench.delete(topic)
    bench.create("b")
    bench.alter("c", flush_ms=10)
    bench.create("e")
    with ThreadPoolExecutor(3) as pool:
        runs = [pool.submit(bench.sync_to(served.catalog).run) for _ in range(3)]
        for run in runs:
            run.result()
    problems = [str(fields["problem"]) for event, fields in bench.report.events if event == "failed"]
    assert all(problem.startswith("another run changed") for problem in problems)
    assert done(bench, served) == {"unchanged": 4}


def test_a_schema_that_does_not_exist_is_named(bench: CatalogBench, served: ServedCatalog) -> None:
    """Nothing creates databases or schemas: that needs rights that a sync should not have."""
    catalog = served.catalog
    for name in ("_database", "_schema"):
        if hasattr(catalog, name):
            setattr(catalog, name, "missing")
    with pytest.raises(CatalogError, match=r"missing.* does not exist"):
        bench.sync_to(catalog).run()
