"""Each media type that records come and go in stands wherever it has to: in the code that chooses, in OpenAPI, in the docs."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from gateway.codec.body_records import decode_body
from gateway.codec.media_type import (
    ARROW_STREAM,
    EVENT_STREAM,
    FETCH_TYPES,
    JSON,
    NDJSON,
    OCTET_STREAM,
    PRODUCE_TYPES,
    TEXT_PLAIN,
)
from gateway.engine.fetch_answer import FetchAnswer, Fetched
from gateway.engine.read_records import Records
from gateway.memory_budget import MemoryBudget
from gateway.openapi.document import document
from gateway.routes import fetch, produce
from gateway.routes.fetched_records import partition_response
from tests.support.awaited import Sent, run
from tests.support.documents import pages

PAGE = pages("http-api")
NO_PARAMETERS: dict[str, Any] = {"key": None, "key_base64": None, "partition": None, "timestamp": None}


def _arrow() -> bytes:
    sink = pa.BufferOutputStream()
    table = pa.table({"value": [b"a"]})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


BODIES = {
    JSON: b'{"records": [{"value": "a"}]}',
    NDJSON: b'{"value": "a"}\n',
    ARROW_STREAM: _arrow(),
    OCTET_STREAM: b"a",
    TEXT_PLAIN: b"a",
}
"""One record with the value ``a`` as each type has it."""


def _types_of_section(number: str) -> set[str]:
    """The media types in the first column of a section's tables."""
    section = PAGE.split(f"## {number} ")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]*) \|", section, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([a-z]+/[a-z.-]+)`", row)}


@pytest.mark.parametrize("kind", PRODUCE_TYPES)
def test_every_type_that_is_taken_is_decoded(kind: str) -> None:
    """As itself: what ``decode_body`` does not know would be stored as one raw value."""
    incoming = decode_body(kind, BODIES[kind], 1 << 20, NO_PARAMETERS)
    assert incoming.records.column("value").to_pylist() == [b"a"]


@pytest.mark.parametrize("kind", [kind for kind in FETCH_TYPES if kind != EVENT_STREAM])
def test_every_type_that_is_offered_is_encoded(kind: str) -> None:
    """A stream of events is another kind of answer, and has tests of its own."""
    sent = Sent()
    with ThreadPoolExecutor(1) as pool, MemoryBudget(1 << 20, "test").reserve(1 << 16) as reservation:
        records = Records(next_offset=0)
        part = Fetched(topic="t", topic_id="i", partition=0, records=records, high_watermark=0, log_start_offset=0)
        gateway: Any = SimpleNamespace(codec_pool=pool)
        answer: Any = partition_response(gateway, kind, FetchAnswer([part], reservation))
        run(answer({}, None, sent.add))
    assert (b"content-type", kind.encode()) in sent[0]["headers"]


def test_openapi_names_the_types_that_are_taken() -> None:
    """All of them, and no other."""
    for described in document(produce.router.routes)["paths"].values():
        assert tuple(described["post"]["requestBody"]["content"]) == PRODUCE_TYPES


def test_openapi_names_the_types_that_are_offered() -> None:
    """All of them, and no other."""
    described = document(fetch.router.routes)["paths"]["/v1/topics/{topic}/partitions/{partition}/records"]["get"]
    assert tuple(described["responses"]["200"]["content"]) == FETCH_TYPES


@pytest.mark.parametrize(("section", "kinds"), [("4.1", PRODUCE_TYPES), ("6.3", FETCH_TYPES)])
def test_the_document_names_the_types(section: str, kinds: tuple[str, ...]) -> None:
    """docs/http-api.md: all of them, and no other."""
    assert _types_of_section(section) == set(kinds)
