"""``catalog sync`` of 1,000 topics in a directory: to an empty catalog, with a tenth of them altered, and without news.

Each catalog is served in this process by its own protocol, as in the tests; Unity Catalog also with a delay for each call, as a
server elsewhere has it. The floors are what each run can't do without: the same creations by the adapter, in as many threads, and
a look at the topics with a listing of the catalog.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from typing import Final
from unittest import mock

from benchmarks.harness.options import Options
from benchmarks.harness.report import Table, held
from benchmarks.harness.stores import store
from compaction.catalogs.topics import Topics
from log_format.catalogs.table import TopicTable, topic_table, topics_root
from tests.support.catalog_bench import ORDERS, CatalogBench
from tests.support.served_catalogs import AWS, STORE_URI, ServedCatalog, served_glue, served_hive, served_unity

TOPICS: Final = 1_000
ALTERED: Final = 100
FIRST_S_MAX: Final = 60
NO_NEWS_S_MAX: Final = 5
PAGE: Final = 50
DELAY_S: Final = 0.05
_SERVED: Final[dict[str, Callable[[], AbstractContextManager[ServedCatalog]]]] = {
    "Unity Catalog": partial(served_unity, page_max=PAGE),
    f"Unity Catalog, {DELAY_S * 1000:.0f} ms a call": partial(served_unity, page_max=PAGE, delay_s=DELAY_S),
    "Glue (moto)": served_glue,
    "Hive Metastore": served_hive,
}


def measure(options: Options) -> Iterator[Table]:
    """Yield a table: seconds of each run and of its floor."""
    del options
    table = Table(f"Catalog sync of {TOPICS:,} topics", ["catalog", "run", "s", "floor s", "bound s", ""])
    with store("directory") as place, mock.patch.dict(os.environ, AWS):
        bench = CatalogBench(store=place.opened(), uri=STORE_URI)
        for number in range(TOPICS):
            bench.create(f"topic-{number}", ORDERS)
        for turn, (name, served) in enumerate(_SERVED.items()):
            with served() as floor:
                wanted = _wanted(bench)
                floor_s = _timed(partial(_create, floor, wanted))
                listing_s = _timed(lambda: (_wanted(bench), floor.tables()))
            with served() as catalog:
                sync = partial(bench.sync_to, catalog.catalog)
                _add(table, name, "first", _timed(lambda: sync().run()), floor_s, FIRST_S_MAX)  # noqa: B023
                for number in range(ALTERED):
                    bench.alter(f"topic-{number}", ORDERS, flush_ms=10 + turn)
                _add(table, name, f"{ALTERED} altered", _timed(lambda: sync().run()), listing_s, FIRST_S_MAX)  # noqa: B023
                _add(table, name, "no news, new process", _timed(lambda: sync().run()), listing_s, NO_NEWS_S_MAX)  # noqa: B023
                kept = sync()
                kept.run()
                _add(table, name, "no news, maintenance", _timed(kept.run), listing_s, NO_NEWS_S_MAX)
    yield table


def _add(table: Table, name: str, run: str, taken_s: float, floor_s: float, bound_s: float) -> None:
    table.add(name, run, f"{taken_s:.1f}", f"{floor_s:.1f}", bound_s, held(taken_s <= bound_s))


def _wanted(bench: CatalogBench) -> list[TopicTable]:
    root = topics_root(STORE_URI)
    return [topic_table(topic, root) for topic in Topics(bench.store, bench.clock).read().existing]


def _create(served: ServedCatalog, tables: list[TopicTable]) -> None:
    with ThreadPoolExecutor(served.catalog.parallelism) as pool:
        list(pool.map(served.catalog.create, tables))


def _timed(work: Callable[[], object]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started
