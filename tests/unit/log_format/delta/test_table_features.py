"""What a later release may give a topic's table: this one stops before it and says what it is."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from log_format import layout
from log_format.errors import CorruptData, ErrorCode, TidelogError, UnsupportedTable
from log_format.inspection.verify import verify_topic
from tests.support.topic_bench import TopicBench, TopicUser

VECTOR = {"storageType": "u", "pathOrInlineDv": "x", "offset": 1, "sizeInBytes": 36, "cardinality": 2}
LATER: dict[str, tuple[str, dict[str, Any]]] = {
    "a protocol": (
        "the Delta protocol 3/7 (deletionVectors)",
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"]}},
    ),
    "a writer's feature": ("the Delta protocol 1/4", {"protocol": {"minReaderVersion": 1, "minWriterVersion": 4}}),
    "a deletion vector": ("deletion vectors", {"add": {"dataChange": True, "deletionVector": VECTOR}}),
    "one that is removed": ("deletion vectors", {"remove": {"dataChange": True, "deletionVector": VECTOR}}),
    "column mapping": (
        "column mapping",
        {"metaData": {"configuration": {"delta.columnMapping.mode": "name"}}},
    ),
    "partition columns": ("partition columns (offset)", {"metaData": {"partitionColumns": ["offset"]}}),
}


def later_commit(bench: TopicBench, gateway: TopicUser, action: dict[str, Any]) -> str:
    """Commit an action at the head, the rest of it as the table has it; the commit's key."""
    state = gateway.log.state
    path = state.manifest.segments()[0].path
    whole: dict[str, dict[str, Any]] = {
        "protocol": {},
        "metaData": {"id": state.topic_id, "schemaString": "{}", "partitionColumns": [], "configuration": {}},
        "add": {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 1},
        "remove": {"path": path},
    }
    ((kind, members),) = action.items()
    key = layout.commit_key(bench.name, state.version + 1)
    lines = {"commitInfo": {"engineInfo": "tidelog-gateway/99"}}, {kind: {**whole[kind], **members}}
    bench.store.put_if_absent(key, b"\n".join(map(msgspec.json.encode, lines)))
    return key


@pytest.mark.parametrize("what", LATER)
def test_nobody_reads_or_writes_behind_an_unknown_feature(bench: TopicBench, what: str) -> None:
    """An old reader, a new reader and a writer of the table are told the same; once the feature is gone all go on."""
    said, action = LATER[what]
    gateway = bench.create(1)
    bench.append(gateway, {0: [b"a"]})
    key = later_commit(bench, gateway, action)
    for act in (gateway.log.refresh, bench.gateway().log.refresh, lambda: bench.append(gateway, {0: [b"b"]})):
        with pytest.raises(UnsupportedTable) as refused:
            act()
        assert refused.value.code is ErrorCode.UNSUPPORTED_TABLE
        assert said in refused.value.detail
        assert key in refused.value.detail
    (problem,) = verify_topic(bench.store, bench.name, clock=bench.clock).problems
    assert said in problem
    bench.store.delete(key)
    bench.append(gateway, {0: [b"b"]})
    assert bench.gateway().log.refresh().high_watermark(0) == 2


def test_a_protocol_below_ours_and_names_that_look_alike_are_no_feature(bench: TopicBench) -> None:
    """Lower protocols are those of earlier releases."""
    gateway = bench.create(1)
    bench.append(gateway, {0: [b"a"]})
    key = later_commit(bench, gateway, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 1}})
    assert gateway.log.refresh().version == layout.commit_version(key)
    properties = {"tidelog.partition.count": "1", "note": "deletionVector", "delta.columnMapping.mode": "none"}
    later_commit(bench, gateway, {"metaData": {"configuration": properties}})
    gateway.log.refresh()
    bench.append(gateway, {0: [b"b"]})


def test_to_stop_is_what_damage_means_to_who_knows_no_better() -> None:
    """Nothing is retried, nothing happened; what hides a damaged topic from a list hides this one."""
    refused = UnsupportedTable("?")
    assert isinstance(refused, CorruptData)
    assert isinstance(refused, TidelogError)
    assert (refused.retryable, refused.may_have_happened) == (False, False)
