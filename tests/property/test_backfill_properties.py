"""Backfills of any records: nothing of them changes, and their columns are those of the same records produced typed."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from compaction.policy import Policy
from log_format.schemas.schema import SchemaType
from log_format.topic.config import Subjects
from tests.support.backfill_bench import VALUE, BackfillBench
from tests.support.registry import record

DOCUMENT = json.dumps({"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]})
VERSIONS = {
    SchemaType.AVRO: [record("Order", id="long"), record("Order", id="long", note=(["null", "string"], None))],
    SchemaType.JSON: [DOCUMENT],
}

rows = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1).map(lambda number: {"id": number}),
    st.sampled_from([{"id": 2**63}, {"id": "x"}, {"id": None}, {}, [], {"id": 1, "note": "n"}, {"id": 1, "note": 3}]),
    st.integers(0, 3).map(lambda schema: b"\0" + schema.to_bytes(4, "big") + b"\x0e"),
    st.integers(0, 3).map(lambda schema: b"\0" + schema.to_bytes(4, "big") + b"\x0e\x02\x02n"),
    st.binary(max_size=12),
)
keys = st.sampled_from([None, b'"a"', b"a", b"7", b"\0\0\0\0\1\x02a"])
flushes = st.lists(
    st.tuples(st.integers(0, 1), st.lists(st.tuples(keys, rows), min_size=1, max_size=6), st.booleans()),
    min_size=1,
    max_size=6,
)
policies = st.sampled_from(
    [Policy(flushed_min=2_000, target_bytes=2_000), Policy(flushed_min=2, sources_max=4, fan_in=2), Policy()]
)


@settings(max_examples=30)
@given(flushes, st.sampled_from([*VERSIONS]), policies, st.booleans(), st.integers(0, 6))
def test_a_backfill_gives_what_the_door_would_have_given(
    some: list[tuple[int, list[tuple[bytes | None, Any]], bool]],
    kind: SchemaType,
    policy: Policy,
    with_keys: bool,
    typed_from: int,
) -> None:
    """Records of before and after the schema came, merged meanwhile or not; wrong ones are marked in both."""
    subjects = Subjects(VALUE, "orders-key" if with_keys else "")
    found = []
    for typed_at in (typed_from, 0):
        bench = BackfillBench()
        bench.register('"string"', "orders-key")
        for version in VERSIONS[kind]:
            bench.register(version, VALUE, kind)
        bench.create(2)
        for number, (partition, records, is_maintained) in enumerate(some):
            if number == typed_at:
                bench.alter(subjects, backfill=False)
            bench.produce(*(row for _, row in records), partition=partition, keys=[key for key, _ in records])
            if is_maintained:
                bench.job(policy).run_round(collect=False)
        before = bench.records()
        bench.alter(subjects)
        bench.job(policy).run_round(collect=False)
        assert bench.records().equals(before)
        assert bench.left() == 0
        bench.assert_whole()
        found.append(bench.columns())
    assert found[0] == found[1]
