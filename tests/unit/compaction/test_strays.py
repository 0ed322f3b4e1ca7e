"""Files that other programs wrote into a topic's table, whose commits were refused or put back: they go as orphans do."""

from __future__ import annotations

import msgspec

from log_format import layout, limits
from tests.support.maintenance_bench import MaintenanceBench

DAY = limits.ORPHAN_GRACE_MS
STRAY = "topics/t/part-00000-1b2c-c000.snappy.parquet"
NAMED = "topics/t/part-00001-1b2c-c000.snappy.parquet"
OTHERS = ("topics/t/part-of-something/x.parquet", "topics/t/part-00000.txt", "topics/t/mine.parquet")
"""No file that Spark or delta-rs writes there: somebody's own."""


def strays(bench: MaintenanceBench) -> set[str]:
    return {info.key for info in bench.store.list("topics/t/")} & {STRAY, NAMED, *OTHERS}


def test_what_other_programs_left_goes_after_a_day(bench: MaintenanceBench) -> None:
    """A refused INSERT leaves files that no commit names; one that got in all the same is put back, and its file leaves the
    directory. Nothing else there is touched, and the topic is whole."""
    bench.create()
    bench.append((0, b"k", b"v"))
    bench.store.put(NAMED, b"x")
    add = {
        "path": NAMED.rpartition("/")[2],
        "size": 1,
        "modificationTime": 1,
        "dataChange": True,
        "partitionValues": {},
    }
    lines = [{"commitInfo": {"engineInfo": "Else/1", "operation": "WRITE", "timestamp": 5}}, {"add": add}]
    key = layout.commit_key("t", bench.log.state.version + 1)
    bench.store.put_if_absent(key, b"\n".join(map(msgspec.json.encode, lines)))
    for other in (STRAY, *OTHERS):
        bench.store.put(other, b"x")
    assert bench.job().run_round(collect=True).failed_topics == 0
    bench.clock.pass_ms(DAY)
    bench.job().run_round(collect=True)
    assert strays(bench) == {STRAY, NAMED, *OTHERS}
    bench.clock.pass_ms(1)
    bench.job().run_round(collect=False)
    assert strays(bench) == {STRAY, NAMED, *OTHERS}
    bench.job().run_round(collect=True)
    assert STRAY not in strays(bench)
    bench.clock.pass_ms(2 * DAY)
    assert bench.job().run_round(collect=True).failed_topics == 0
    assert strays(bench) == set(OTHERS)
    bench.assert_whole()
    assert bench.read() == [(0, b"v")]
