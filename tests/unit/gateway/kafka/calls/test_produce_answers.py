"""Answers whose numbers alone are exchanged have the bytes that kio writes."""

from __future__ import annotations

from uuid import UUID

import pytest

from gateway.kafka.calls.produce_answers import PRODUCE, answer_fields, encode_single_answer
from gateway.kafka.calls.produce_stages import PartitionAnswer, RequestedPartition
from gateway.kafka.wire.entities import make_entity
from gateway.kafka.wire.messages import Head, LastHeader, encode_body, frame_answer, read_request, response_type
from tests.support.kafka_frames import framed as request_frame

TOPIC_ID = UUID("12345678-1234-5678-1234-567812345678")
HOSTILE = "\x18\x17\x16\x15\x14\x13\x12\x11\x1f.=L[jy"
"""A topic's name with the bytes that stand for a log start."""


@pytest.mark.parametrize("version", range(3, 14))
def test_the_bytes_are_kios(version: int) -> None:
    """In every version, whatever the numbers and the name, the first time and again."""
    for name in ("t", HOSTILE, "é" * 100):
        for base_offset, log_start in ((0, 0), (2**62, 7), (-(2**62), -1), (0x1F2E3D4C5B6A7988, 0x1817161514131211)):
            part = PartitionAnswer(RequestedPartition(name, TOPIC_ID, 3), base_offset=base_offset, log_start=log_start)
            responses = [{"name": name, "topic_id": TOPIC_ID, "partition_responses": [answer_fields(part)]}]
            expected = encode_body(
                make_entity(response_type(PRODUCE, version), {"responses": responses, "throttle_time": 0})
            )
            found = encode_single_answer(version, part)
            assert b"".join(found.parts) == expected


@pytest.mark.parametrize("version", [3, 9, 13])
def test_a_frame_has_its_own_correlation_id(version: int) -> None:
    """Length, header, body, as kio writes them."""
    for correlation_id in (1, -1, 2**31 - 1):
        frame = b"".join(frame_answer(Head(PRODUCE, version, correlation_id), b"body"))
        header = encode_body(response_type(PRODUCE, version).__header_schema__(correlation_id=correlation_id))
        assert frame == (len(header) + 4).to_bytes(4, "big") + header + b"body"


def test_a_header_is_known_again_only_where_it_is_the_same() -> None:
    """Another client id, another version, a longer header with the same beginning: each request is read as it is."""
    last = LastHeader()
    asked = [("a", 12), ("a", 12), ("ab", 12), ("a", 11), ("", 11), (None, 11), ("a" * 300, 11), ("a", 11), ("a", 11)]
    for correlation_id, (client_id, version) in enumerate(asked):
        frame = memoryview(
            request_frame(
                "metadata",
                version,
                correlation_id,
                client_id=client_id,
                topics=[{"name": "t", "topic_id": None}],
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=False,
            )
        )[4:]
        request = read_request(Head(3, version, correlation_id), frame, last)
        assert (request.client_id, request.body.topics[0].name) == (client_id, "t")
        assert type(request.body).__version__ == version
