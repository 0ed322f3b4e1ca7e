"""JSON documents that are cut out of a body, beside the same records read one by one."""

from __future__ import annotations

import json
import random
import re
from typing import Any, NoReturn

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.codec import json_documents
from gateway.codec.json_body import object_members
from gateway.codec.json_record import ReadRecords

MEMBER_NAMES = st.sampled_from(
    ["id", "ie", "identification", "identificatiom", "key", "value", "", 'a"b', "{", "a\\b", "é"]
)
FORMS = st.recursive(
    st.sampled_from(["text", "number", "mixed"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.lists(st.tuples(MEMBER_NAMES, inner), max_size=4, unique_by=lambda one: one[0])
    ),
    max_leaves=6,
)


def document_of(form: Any, rng: random.Random) -> Any:
    """Return a document of a form: always the same names, and values as ``rng`` has them."""
    if isinstance(form, list) and form and isinstance(form[0], tuple):
        return {name: document_of(one, rng) for name, one in form}
    if isinstance(form, list):
        return [document_of(one, rng) for one in form]
    text = rng.choice(["", "Köln", ": x", "a, b", "\\", 'say "no"', "key", "x" * 30, *("}" * (rng.random() < 0.1))])
    number = rng.choice([0, -0.0, 1e300, 12345678901234567890, 1.50, True, None])
    return {"text": text, "number": number, "mixed": rng.choice([text, number, [], [number]])}[form]


def refuse(where: str, what: str) -> NoReturn:
    raise AssertionError(f"{where} {what}")


def read_one_by_one(body: bytes) -> ReadRecords:
    """Return the body's records as the exact reader reads them. Raises if it would refuse one."""
    read = ReadRecords()
    for text in msgspec.json.decode(object_members(body)["records"], type=list[msgspec.Raw]):
        read.read(bytes(text), refuse)
    assert read.partitions == [None] * len(read.values)
    assert read.timestamps == [None] * len(read.values)
    assert not read.header_names
    return read


def changed(body: bytes, new: bytes, rng: random.Random) -> bytes:
    """Return the body with new bytes at some place, instead of none or of others."""
    place, length = rng.randrange(len(body)), rng.choice([0, 1, len(new)])
    return body[:place] + new + body[place + length :]


def renamed(body: bytes, names: list[str], rng: random.Random) -> bytes:
    """Return the body with one member's name replaced by another's, at one place."""
    if len(names) < 2:
        return body
    old, new = (json.dumps(name, ensure_ascii=False).encode() for name in rng.sample(names, 2))
    found = rng.choice(list(re.finditer(re.escape(old), body)))
    return body[: found.start()] + new + body[found.end() :]


def test_a_short_body_is_cut_out() -> None:
    """What the property below draws can be cut out: two records are enough, and a body of any length."""
    body = json.dumps({"records": [{"key": "k", "value": {"id": 1, "ie": {"id": "x"}}}] * 2}).encode()
    assert json_documents.decode_envelope(body, bytes_min=0) is not None


@settings(deadline=None, max_examples=300)
@given(
    st.lists(st.tuples(MEMBER_NAMES, FORMS), max_size=6, unique_by=lambda one: one[0]),
    st.sampled_from([("key", "value"), ("value", "key"), ("value",)]),
    st.sampled_from([(",", ":"), (", ", ": "), (" , ", " : ")]),
    st.integers(0, 1 << 32),
    st.none()
    | st.tuples(st.binary(min_size=1, max_size=1))
    | st.tuples(
        st.sampled_from([b'"id":', b'"value":', b'"x":1,', b"},{", b'{},"headers":', b"{", b"}", b"[", b"]", b'"'])
    )
    | st.just(()),
)
def test_documents_that_are_cut_out_mean_what_the_reference_says(
    form: Any, names: tuple[str, ...], separators: tuple[str, str], seed: int, instead: tuple[bytes, ...] | None
) -> None:
    """Documents of one form, with something of the body changed: they are left alone, or read as the reference reads."""
    rng = random.Random(seed)
    keys = ["k", "", "}", "Köln", "b"]
    records = []
    for _ in range(rng.randrange(2, 5)):
        members = {
            "key": rng.choice(keys[:2] if rng.random() < 0.8 else keys),
            "value": document_of([*form] or [("id", "number")], rng),
        }
        records.append({name: members[name] for name in names})
    body = json.dumps({"records": records}, ensure_ascii=False, separators=separators).encode()
    if instead is not None:
        names_of = [name for name, _ in form]
        body = changed(body, instead[0], rng) if instead else renamed(body, names_of, rng)
    columns = json_documents.decode_envelope(body, bytes_min=0)
    if columns is not None:
        read = read_one_by_one(body)
        assert columns.values.to_pylist() == read.values
        assert ([None] * len(columns) if columns.keys is None else columns.keys.to_pylist()) == read.keys
