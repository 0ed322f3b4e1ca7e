"""Bytes that no client sends: the gateway stays up, within its memory, and goes on serving others.

``TIDELOG_HOSTILE_EXAMPLES`` raises the number of examples.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
import zlib
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.kafka.calls.table import CALLS
from tests.support.kafka_frames import Closed, Wire, framed
from tests.support.kafka_gateway import KafkaGateway, kafka_gateway

EXAMPLES = int(os.environ.get("TIDELOG_HOSTILE_EXAMPLES", "120"))
GROWTH_BYTES_MAX = 200 * 1024 * 1024
"""Of the process, over all examples of a test."""
SERVED = sorted(CALLS)

_bounded = settings(
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaGateway]:
    """One that no other test uses, with short time limits."""
    log = tmp_path_factory.mktemp("hostile") / "log"
    with kafka_gateway("memory://hostile", log, "--body-idle-ms", "1000", "--write-stall-ms", "2000") as running:
        running.topic("hostile")
        yield running
        assert "unforeseen error" not in running.log(), running.log()[-3000:]


@pytest.fixture(scope="module", autouse=True)
def _within_memory(gateway: KafkaGateway) -> Iterator[None]:
    before = gateway.reset_peak()
    yield
    assert gateway.peak_bytes() - before <= GROWTH_BYTES_MAX
    _assert_serves(gateway)


def _assert_serves(gateway: KafkaGateway, seconds: float = 5) -> None:
    """A client that behaves is answered soon, by both doors."""
    with Wire(gateway.kafka, seconds=seconds) as wire:
        assert wire.call("api_versions", 3, client_software_name="good", client_software_version="1").error_code == 0
        asked = [{"name": "hostile", "topic_id": None}]
        answer = wire.call(
            "metadata", 12, topics=asked, allow_auto_topic_creation=False, include_topic_authorized_operations=False
        )
        assert answer.topics[0].error_code == 0
    assert gateway.http.get("/readyz").status_code == 200


def _sent(gateway: KafkaGateway, *pieces: bytes) -> bytes:
    """What the gateway answers to these bytes, whose sender then says that it is done. The gateway ends the connection soon."""
    with Wire(gateway.kafka, seconds=15) as wire:
        found = b""
        with contextlib.suppress(ConnectionError):
            for piece in pieces:
                wire.send(piece)
            wire.socket.shutdown(socket.SHUT_WR)
            while more := wire.socket.recv(1 << 16):
                found += more
        return found


def _framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@_bounded
@given(data=st.binary(max_size=600))
def test_any_bytes_end_the_connection_and_nothing_else(gateway: KafkaGateway, data: bytes) -> None:
    """Also those that claim to be a frame of gigabytes, or of a negative length."""
    _sent(gateway, data)


@_bounded
@given(
    key=st.one_of(st.sampled_from(SERVED), st.integers(-(2**15), 2**15 - 1)),
    version=st.one_of(st.integers(0, 13), st.integers(-(2**15), 2**15 - 1)),
    client=st.one_of(st.just(b"\xff\xff"), st.binary(max_size=8)),
    rest=st.lists(
        st.one_of(
            st.binary(max_size=40),
            st.sampled_from(
                [b"\xff\xff\xff\x7f", b"\x7f\xff\xff\xff", b"\xff" * 5 + b"\x0f", b"\x00" * 8, b"\x80" * 9]
            ),
        ),
        max_size=12,
    ),
)
def test_any_request_of_any_version_is_read_or_ends_the_connection(
    gateway: KafkaGateway, key: int, version: int, client: bytes, rest: list[bytes]
) -> None:
    """Counts and lengths that lie take no memory."""
    body = struct.pack(">hhi", key, version, 7) + client + b"".join(rest)
    _sent(gateway, _framed(body))


def _batch(*, codec: int = 0, count: int = 3, transactional: bool = False) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=codec, is_transactional=transactional, producer_id=-1, producer_epoch=-1,
        base_sequence=-1, batch_size=1 << 20,
    )  # fmt: skip
    for number in range(count):
        builder.append(number, 1_700_000_000_000 + number, b"k%d" % number, b"value" * 20, [("h", b"x")])
    return bytes(builder.build())


def _produced(batch: bytes, version: int = 9) -> bytes:
    partition = {"index": 0, "records": batch}
    topics = [{"name": "hostile", "partition_data": [partition]}]
    return framed("produce", version, 1, transactional_id=None, acks=-1, timeout=5000, topic_data=topics)


def _requests() -> list[bytes]:
    """Good ones, for what comes next to change."""
    reset: dict[str, Any] = {
        "topics": [{"name": "hostile", "partitions": [{"partition_index": 0, "offset": 0}]}],
        "timeout": 0,
    }
    topic = {"name": "made", "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
    setting = {"name": "retention.ms", "config_operation": 0, "value": "1000"}
    altered = [{"resource_type": 2, "resource_name": "hostile", "configs": [setting]}]
    asked = [{"name": "hostile", "topic_id": None}]
    return [
        _produced(_batch()),
        _produced(_batch(codec=1)),
        framed("metadata", 12, 1, topics=asked, include_topic_authorized_operations=False),
        framed("create_topics", 7, 1, topics=[topic], validate_only=True),
        framed("delete_records", 2, 1, **reset),
        framed("incremental_alter_configs", 1, 1, resources=altered, validate_only=True),
        framed("api_versions", 3, 1, client_software_name="a", client_software_version="b"),
        framed("sasl_handshake", 1, 1, mechanism="PLAIN"),
        framed("find_coordinator", 4, 1, key_type=0, coordinator_keys=("g",)),
        *_share_requests(),
        *_group_requests(),
    ]


def _group_requests() -> list[bytes]:
    """Of groups and transactions."""
    place = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": "m"}
    producer: dict[str, Any] = {"transactional_id": "t", "producer_id": 5, "producer_epoch": 0}
    begun = {f"v3_and_below_{name}": value for name, value in producer.items()}
    begun["v3_and_below_topics"] = [{"name": "hostile", "partitions": (0, 1)}]
    offsets: dict[str, Any] = {"group_id": "g", "topics": [{"name": "hostile", "partitions": [place]}]}
    asked = {"group_id": "g", "topics": [{"name": "hostile", "partition_indexes": (0,)}]}
    beat: dict[str, Any] = {
        "group_id": "g",
        "member_id": "m",
        "member_epoch": 0,
        "subscribed_topic_names": ("hostile",),
    }
    return [
        framed("init_producer_id", 5, 1, **producer, transaction_timeout=1000),
        framed("add_partitions_to_txn", 3, 1, **begun),
        framed("txn_offset_commit", 4, 1, **producer, **offsets, generation_id=1, member_id="m"),
        framed("end_txn", 4, 1, **producer, committed=True),
        framed("offset_commit", 9, 1, **offsets, generation_id_or_member_epoch=-1, member_id=""),
        framed("offset_fetch", 9, 1, groups=[asked], require_stable=True),
        framed("consumer_group_heartbeat", 1, 1, **beat, topic_partitions=[]),
        framed("describe_share_group_offsets", 0, 1, groups=[{"group_id": "g", "topics": None}]),
        framed(
            "describe_topic_partitions", 0, 1, topics=[{"name": "hostile"}], response_partition_limit=5, cursor=None
        ),
    ]


def _share_requests() -> list[bytes]:
    member: dict[str, Any] = {"group_id": "g", "member_id": "m"}
    batch = {"first_offset": 0, "last_offset": 2, "acknowledge_types": (1, 2, 3)}
    topics = [{"topic_id": UUID(int=7), "partitions": [{"partition_index": 0, "acknowledgement_batches": [batch]}]}]
    forgotten = [{"topic_id": UUID(int=7), "partitions": (1, 2)}]
    fetch: dict[str, Any] = member | {"max_wait": 10, "min_bytes": 1, "max_records": 5, "batch_size": 5}
    fetch |= {"topics": topics, "forgotten_topics_data": forgotten}
    return [
        framed("share_group_heartbeat", 1, 1, **member, member_epoch=0, subscribed_topic_names=("hostile",)),
        framed("share_group_describe", 1, 1, group_ids=("g",), include_authorized_operations=True),
        framed("share_fetch", 1, 1, **fetch, share_session_epoch=0),
        framed("share_fetch", 2, 1, **fetch, share_session_epoch=-1, is_renew_ack=True),
        framed("share_acknowledge", 2, 1, **member, share_session_epoch=1, topics=topics),
    ]


_change = st.tuples(
    st.integers(0, 2000), st.sampled_from(["set", "cut", "put", "grow"]), st.binary(min_size=1, max_size=9)
)


@_bounded
@given(request=st.sampled_from(_requests()), changes=st.lists(_change, min_size=1, max_size=4), lies=st.booleans())
def test_a_changed_request_is_answered_or_ends_the_connection(
    gateway: KafkaGateway, request: bytes, changes: list[tuple[int, str, bytes]], lies: bool
) -> None:
    """Bytes set, cut out, put in; with the frame's length as it was, or as it then is."""
    body = bytearray(request[4:])
    for place, how, data in changes:
        at = place % (len(body) + 1)
        if how == "set":
            body[at : at + len(data)] = data
        elif how == "cut":
            del body[at : at + len(data)]
        else:
            body[at:at] = data * (1 if how == "put" else 40)
    _sent(gateway, request[:4] + bytes(body) if lies else _framed(bytes(body)))


_FIELDS = {
    "base offset": (0, ">q"),
    "length": (8, ">i"),
    "leader epoch": (12, ">i"),
    "magic": (16, ">b"),
    "crc": (17, ">I"),
    "attributes": (21, ">h"),
    "last offset delta": (23, ">i"),
    "first timestamp": (27, ">q"),
    "max timestamp": (35, ">q"),
    "producer id": (43, ">q"),
    "producer epoch": (51, ">h"),
    "sequence": (53, ">i"),
    "count": (57, ">i"),
}


@_bounded
@given(
    field=st.sampled_from(sorted(_FIELDS)),
    value=st.one_of(st.integers(-3, 12), st.sampled_from([2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 2**20])),
    codec=st.sampled_from([0, 1]),
    count=st.sampled_from([3, 20]),
    is_summed=st.booleans(),
    extra=st.binary(max_size=20),
)
def test_a_batch_that_lies_is_refused_or_stored_as_it_says(
    gateway: KafkaGateway, field: str, value: int, codec: int, count: int, is_summed: bool, extra: bytes
) -> None:
    """Lengths, counts, checksums, codecs, times: with a right checksum over the lie, or the old one."""
    batch = bytearray(_batch(codec=codec, count=count) + extra)
    at, kind = _FIELDS[field]
    size = struct.calcsize(kind)
    batch[at : at + size] = (value % 2 ** (8 * size)).to_bytes(size, "big")
    if is_summed:
        batch[17:21] = struct.pack(">I", _crc32c(bytes(batch[21:])))
    _sent(gateway, _produced(bytes(batch)))


def _crc32c(data: bytes) -> int:
    from aiokafka.record.util import calc_crc32c

    return int(calc_crc32c(data))


@pytest.mark.parametrize("kind", ["zeros", "many records"])
def test_a_bomb_is_refused_within_bounds(gateway: KafkaGateway, kind: str) -> None:
    """A small batch that inflates to a gigabyte takes neither memory nor time."""
    before = gateway.reset_peak()
    inflated = zlib.compressobj(9, zlib.DEFLATED, 31)
    if kind == "zeros":
        chunks = [b"\0" * (1 << 20)] * 1024
        count = 3
    else:
        record = b"\x0c\x00\x00\x00\x01\x01\x00"  # a length of 6, and nothing in it
        chunks = [record * 150_000] * 100
        count = 15_000_000
    squeezed = b"".join(map(inflated.compress, chunks)) + inflated.flush()
    head = bytearray(_batch(codec=1)[:61])
    head[57:61] = struct.pack(">i", count)
    head[23:27] = struct.pack(">i", count - 1)
    head[8:12] = struct.pack(">i", 49 + len(squeezed))
    batch = head + squeezed
    batch[17:21] = struct.pack(">I", _crc32c(bytes(batch[21:])))
    started = time.monotonic()
    with Wire(gateway.kafka, seconds=60) as wire, contextlib.suppress(Closed):
        wire.correlate()
        wire.send(_produced(bytes(batch)))
        _assert_serves(gateway)
        answer = wire.answer("produce", 9)
        assert answer.responses[0].partition_responses[0].error_code != 0
    assert time.monotonic() - started < 20
    assert gateway.peak_bytes() - before <= GROWTH_BYTES_MAX


@pytest.mark.parametrize("begun_bytes", [10, 100_000])
def test_half_frames_hold_no_one_up(gateway: KafkaGateway, begun_bytes: int) -> None:
    """Fifty clients begin a frame of megabytes and then send a few bytes a second: others are served meanwhile."""
    begun = [Wire(gateway.kafka) for _ in range(50)]
    try:
        for wire in begun:
            wire.send(struct.pack(">i", 16_000_000) + struct.pack(">hhi", 0, 9, 1) + b"x" * begun_bytes)
        ends = time.monotonic() + 8
        while time.monotonic() < ends:
            for wire in begun:
                with contextlib.suppress(OSError):
                    wire.send(b"x" * 300)
            _assert_serves(gateway, seconds=6)
            assert gateway.produce("hostile", "v").status_code in (200, 503)
            time.sleep(0.5)
        assert gateway.http.get("/readyz").status_code == 200
    finally:
        for wire in begun:
            wire.socket.close()


def test_a_client_that_does_not_read_is_cut_off(gateway: KafkaGateway) -> None:
    """Its answers wait within bounds, and its connection ends."""
    with Wire(gateway.kafka) as wire:
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        asked = framed("describe_configs", 4, 1, resources=[_ALL] * 200, include_documentation=False)
        cut = False
        ends = time.monotonic() + 40
        wire.socket.settimeout(1)
        while time.monotonic() < ends and not cut:
            try:
                wire.send(asked)
            except TimeoutError:
                continue
            except OSError:
                cut = True
        assert cut
    _assert_serves(gateway)


_ALL: dict[str, Any] = {"resource_type": 2, "resource_name": "hostile", "configuration_keys": None}


def test_more_requests_than_are_taken_at_once_wait(gateway: KafkaGateway) -> None:
    """A thousand pipelined requests are answered in order."""
    with Wire(gateway.kafka) as wire:
        wire.send(b"".join(framed("api_versions", 0, number + 1) for number in range(1000)))
        for _ in range(1000):
            wire.correlate()
            assert wire.answer("api_versions", 0).error_code == 0


def test_idle_connections_cost_little(gateway: KafkaGateway) -> None:
    """Three hundred of them, and beside them a client that works."""
    before = gateway.reset_peak()
    idle = [Wire(gateway.kafka) for _ in range(300)]
    _assert_serves(gateway)
    assert gateway.peak_bytes() - before < 60 * 1024 * 1024
    for wire in idle:
        wire.socket.close()
