"""JSON bodies against generated input: the codec agrees with a slow, obvious reference, and never fails otherwise."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.codec import json_alike, json_batch
from gateway.codec.arrow_body import decode_arrow
from gateway.codec.incoming import POINTERS
from gateway.codec.json_body import decode_json
from gateway.codec.json_text import structural_quotes
from gateway.codec.ndjson_body import decode_ndjson
from gateway.codec.record_columns import incoming
from log_format.errors import ErrorCode, RequestRefused
from log_format.records.schema import TIMESTAMP_MS_MAX
from tests.support.codec_bodies import BOUNDED, BYTES_MAX, CHARACTERS, as_rows, outcome


class Pairs(list[tuple[str, Any]]):
    """An object's members as they stand, repeated ones included."""


class Number(str):
    """A number's text."""


TEXTS = st.one_of(st.text(CHARACTERS, max_size=8), st.text(st.sampled_from('"\\'), max_size=4))
NUMBERS = st.sampled_from(["0", "-0", "-0.0", "1.50", "1E5", "3e-2", "7", "-12", "123456789012345678901234567890"])
DOCUMENTS: st.SearchStrategy[Any] = st.recursive(
    st.one_of(TEXTS, st.booleans(), st.none(), NUMBERS.map(Number)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(st.tuples(st.sampled_from(["a", "b", "é", "key", '"', "\\"]), inner), max_size=3).map(Pairs),
    ),
    max_leaves=8,
)
BASE64 = st.one_of(
    st.binary(max_size=5).map(lambda data: base64.b64encode(data).decode()),
    st.sampled_from(["YQ", "YR==", "-_8=", "a b=", "YQ==="]),
)
HEADER = st.lists(
    st.one_of(
        st.tuples(st.just("key"), st.one_of(TEXTS, st.none())),
        st.tuples(st.just("value"), st.one_of(TEXTS, st.none(), NUMBERS.map(Number))),
        st.tuples(st.just("value_base64"), BASE64),
    ),
    max_size=3,
).map(Pairs)
GOOD_HEADER = st.tuples(TEXTS, st.one_of(TEXTS, st.none())).map(
    lambda pair: Pairs([("key", pair[0]), ("value", pair[1])])
)
MEMBERS = st.one_of(
    st.tuples(st.just("value"), DOCUMENTS),
    st.tuples(st.just("key"), st.one_of(TEXTS, st.none(), DOCUMENTS)),
    st.tuples(st.just("value_base64"), st.one_of(BASE64, st.none())),
    st.tuples(st.just("key_base64"), BASE64),
    st.tuples(
        st.just("headers"),
        st.one_of(
            st.none(),
            st.lists(HEADER, max_size=2),
            st.lists(GOOD_HEADER, max_size=2),
            st.dictionaries(TEXTS, TEXTS, max_size=2).map(lambda d: Pairs(d.items())),
            DOCUMENTS,
        ),
    ),
    st.tuples(
        st.sampled_from(["timestamp", "expires_at"]),
        st.sampled_from(
            [
                None,
                Number("0"),
                Number(str(TIMESTAMP_MS_MAX)),
                Number(str(TIMESTAMP_MS_MAX + 1)),
                Number("-1"),
                Number("3.0"),
                True,
                "5",
            ]
        ),
    ),
    st.tuples(
        st.just("partition"),
        st.sampled_from(
            [None, Number("0"), Number("2147483647"), Number("2147483648"), Number("-1"), Number("1e2"), False]
        ),
    ),
    st.tuples(st.just("offset"), st.sampled_from([None, Number("41"), Number("1.5"), "x"])),
    st.tuples(st.sampled_from(["bogus", "Value", ""]), DOCUMENTS),
)
GOOD_RECORD = st.builds(
    lambda value, key, headers, more: Pairs(
        [
            *([("key", key)] if more > 0 else []),
            ("value", value),
            *([("timestamp", Number("5"))] if more > 1 else []),
            *([("expires_at", Number("7")), ("headers", headers)] if more > 2 else []),
        ]
    ),
    DOCUMENTS,
    st.one_of(TEXTS, st.none()),
    st.lists(GOOD_HEADER, max_size=2),
    st.integers(0, 3),
)
RECORDS = st.one_of(GOOD_RECORD, GOOD_RECORD, st.lists(MEMBERS, max_size=4).map(Pairs), DOCUMENTS)
SEEDS = st.integers(0, 2**32)


def rendered(tree: Any, rng: random.Random, *, breaks: bool = True) -> str:
    """The tree as JSON with whatever freedom JSON gives."""
    spaces = " \t\r\n" if breaks else " \t"

    def space() -> str:
        return rng.choice(spaces) if rng.random() < 0.1 else ""

    def string(text: str) -> str:
        plain = json.dumps(text, ensure_ascii=rng.random() < 0.3)
        if rng.random() < 0.2 and text:
            units = text.encode("utf-16-be")
            plain = '"' + "".join(f"\\u{units[i]:02X}{units[i + 1]:02x}" for i in range(0, len(units), 2)) + '"'
        return plain.replace("/", "\\/") if rng.random() < 0.2 else plain

    def render(node: Any) -> str:
        if isinstance(node, Number):
            return str(node)
        if isinstance(node, Pairs):
            parts = [f"{space()}{string(name)}{space()}:{space()}{render(value)}{space()}" for name, value in node]
            return "{" + ",".join(parts) + space() + "}"
        if isinstance(node, list):
            return "[" + ",".join(f"{space()}{render(value)}{space()}" for value in node) + space() + "]"
        return string(node) if isinstance(node, str) else json.dumps(node)

    return render(tree)


class Refused(Exception):
    """The reference says no."""


def members_of(pairs: Pairs) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise Refused
    return dict(pairs)


def compact_reference(node: Any) -> str:
    if isinstance(node, Number):
        return str(node)
    if isinstance(node, Pairs):
        return (
            "{"
            + ",".join(
                f"{json.dumps(n, ensure_ascii=False)}:{compact_reference(v)}" for n, v in members_of(node).items()
            )
            + "}"
        )
    if isinstance(node, list):
        return "[" + ",".join(map(compact_reference, node)) + "]"
    return json.dumps(node, ensure_ascii=False)


def bytes_reference(members: dict[str, Any], name: str, *, documents: bool = False) -> bytes | None:
    if name in members and f"{name}_base64" in members:
        raise Refused
    if f"{name}_base64" in members:
        text = members[f"{name}_base64"]
        if not isinstance(text, str) or isinstance(text, Number):
            raise Refused
        try:
            data = base64.b64decode(text.encode(), validate=True)
        except ValueError:
            raise Refused from None
        if base64.b64encode(data).decode() != text:
            raise Refused
        return data
    node = members.get(name)
    if node is None:
        return None
    if isinstance(node, str) and not isinstance(node, Number):
        return node.encode()
    if not documents:
        raise Refused
    return compact_reference(node).encode()


def integer_reference(node: Any, maximum: int) -> int | None:
    if node is None:
        return None
    if not isinstance(node, Number) or not node.lstrip("-").isdigit() or not 0 <= int(node) <= maximum:
        raise Refused
    return int(node)


def headers_reference(node: Any) -> list[dict[str, Any]]:
    if node is None:
        return []
    if isinstance(node, Pairs):
        if not all(isinstance(value, str) and not isinstance(value, Number) for value in members_of(node).values()):
            raise Refused
        return [{"key": name, "value": value.encode()} for name, value in node]
    if not isinstance(node, list):
        raise Refused
    headers = []
    for element in node:
        if not isinstance(element, Pairs):
            raise Refused
        members = members_of(element)
        key = members.pop("key", None)
        if (
            set(members) - {"value", "value_base64"}
            or not members
            or not isinstance(key, str)
            or isinstance(key, Number)
        ):
            raise Refused
        headers.append({"key": key, "value": bytes_reference(members, "value")})
    return headers


def record_reference(node: Any) -> dict[str, Any]:
    """What one record means, read slowly. Raises ``Refused``."""
    if not isinstance(node, Pairs):
        raise Refused
    members = members_of(node)
    for value in members.values():
        compact_reference(value)  # a repeated member anywhere
    known = {"partition", "offset", "timestamp", "key", "key_base64", "value", "value_base64", "headers", "expires_at"}
    if set(members) - known:
        raise Refused
    if "value" not in members and "value_base64" not in members:
        raise Refused
    expires_at = integer_reference(members.get("expires_at"), TIMESTAMP_MS_MAX)
    expiry = [] if expires_at is None else [{"key": "expires_at", "value": b"%d" % expires_at}]
    return {
        "partition": integer_reference(members.get("partition"), 2**31 - 1),
        "timestamp": integer_reference(members.get("timestamp"), TIMESTAMP_MS_MAX),
        "key": bytes_reference(members, "key"),
        "value": bytes_reference(members, "value", documents=True),
        "headers": headers_reference(members.get("headers")) + expiry,
    }


def parsed(text: str) -> Any:
    return json.loads(text, object_pairs_hook=Pairs, parse_int=Number, parse_float=Number)


@BOUNDED
@given(st.lists(RECORDS, max_size=4), SEEDS)
def test_json_bodies_mean_what_the_reference_says(trees: list[Any], seed: int) -> None:
    """A JSON body is read as a slow reader that sees every member reads it, and refused when that reader refuses it."""
    text = rendered(Pairs([("records", trees)]), random.Random(seed))
    try:
        expected = [record_reference(node) for node in parsed(text)[0][1]]
    except Refused:
        expected = None
    assert outcome(lambda: decode_json(text.encode())) == expected


@BOUNDED
@given(
    st.lists(st.one_of(RECORDS, st.sampled_from(["", " \t"])), max_size=5),
    SEEDS,
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
def test_ndjson_bodies_mean_what_the_reference_says(trees: list[Any], seed: int, end: str, ended: bool) -> None:
    """An NDJSON body is its lines, read one by one; blank lines are nothing; a bad line is named by its number."""
    rng = random.Random(seed)
    lines = [tree if tree in ("", " \t") else rendered(tree, rng, breaks=False) for tree in trees]
    body = end.join(lines) + (end if ended else "")
    expected: list[dict[str, Any]] = []
    bad: list[str] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            expected.append(record_reference(parsed(line)))
        except Refused:
            bad.append(f"line {number}")
    if not bad:
        assert as_rows(decode_ndjson(body.encode())) == expected
        return
    with pytest.raises(RequestRefused) as refusal:
        decode_ndjson(body.encode())
    assert refusal.value.code is ErrorCode.INVALID_RECORD
    assert list(dict.fromkeys(error["where"] for error in refusal.value.fields["errors"])) == bad


@BOUNDED
@given(st.lists(GOOD_RECORD, min_size=1, max_size=4), SEEDS)
def test_the_fast_path_takes_what_is_common(trees: list[Any], seed: int) -> None:
    """Well-formed text records never need the slow path; no other test would notice a fast one that is never taken."""
    texts = [Pairs([("key", "k"), ("value", json.dumps(index, default=str))]) for index, _ in enumerate(trees)]
    assert json_batch.decode_envelope(rendered(Pairs([("records", texts)]), random.Random(seed)).encode()) is not None


@BOUNDED
@given(DOCUMENTS, SEEDS)
def test_structural_quotes_are_those_around_strings(tree: Any, seed: int) -> None:
    """Two for each string and each member's name, however it is escaped."""

    def strings(node: Any) -> int:
        if isinstance(node, Pairs):
            return sum(1 + strings(value) for _, value in node)
        if isinstance(node, list):
            return sum(map(strings, node))
        return int(isinstance(node, str) and not isinstance(node, Number))

    text = rendered(tree, random.Random(seed)).encode()
    assert structural_quotes(text) == 2 * strings(tree)
    times = 1 + 4096 // len(text)
    assert structural_quotes(b",".join([text] * times)) == 2 * strings(tree) * times


SCRAPS = rb'{"records":[ ]} {"value": "x" } , "key": [ ] null 1.5 -0 \ " "\ud800" "\udc00\ud800" "headers":{ "a": NaN'.split()
JSON_SCRAPS = st.lists(
    st.sampled_from([*SCRAPS, b"]}", b"\xff", b"\n", b"\r\n", b" ", b"\xef\xbb\xbf"]),
    max_size=14,
).map(b"".join)


@BOUNDED
@given(st.one_of(st.binary(max_size=60), JSON_SCRAPS))
def test_any_bytes_are_decoded_or_refused(body: bytes) -> None:
    """Whatever comes, a decoder answers with records or with a refusal."""
    outcome(lambda: decode_json(body))
    outcome(lambda: decode_ndjson(body))
    outcome(lambda: decode_arrow(body, bytes_max=BYTES_MAX))


@BOUNDED
@given(st.lists(GOOD_RECORD, max_size=3), SEEDS, st.data())
def test_damaged_json_is_decoded_or_refused(trees: list[Any], seed: int, data: st.DataObject) -> None:
    """One byte more, less or other in a good body gives what the reference's parser says, never another error."""
    body = bytearray(rendered(Pairs([("records", trees)]), random.Random(seed)).encode())
    place = data.draw(st.integers(0, len(body) - 1))
    body[place : place + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    rows = outcome(lambda: decode_json(bytes(body)))
    outcome(lambda: decode_ndjson(bytes(body)))
    if rows is not None:
        (name, nodes), *others = parsed(bytes(body).decode())
        assert (name, others) == ("records", [])
        assert rows == [record_reference(node) for node in nodes]


@BOUNDED
@given(
    st.lists(st.tuples(TEXTS, TEXTS), min_size=2, max_size=6),
    st.sampled_from([("key", "value"), ("value", "key")]),
    st.sampled_from([(",", ":"), (", ", ": ")]),
    st.integers(0, 400),
    st.one_of(
        st.none(), st.binary(min_size=1, max_size=1), st.sampled_from([bytes([one]) for one in b'{}[]:,"\\ key'])
    ),
)
def test_what_is_taken_by_places_means_what_the_reference_says(
    pairs: list[tuple[str, str]], names: tuple[str, str], separators: tuple[str, str], place: int, instead: bytes | None
) -> None:
    """Records that are written alike, with one byte of the body changed: they are left alone, or read as the reference reads."""
    records = [dict(zip(names, pair, strict=True)) for pair in pairs]
    body = json.dumps({"records": records}, ensure_ascii=False, separators=separators).encode()
    if instead is not None:
        place %= len(body)
        body = body[:place] + instead + body[place + 1 :]
    columns = json_alike.decode_envelope(body, bytes_min=0)
    if columns is not None:
        tree = parsed(body.decode())
        assert [name for name, _ in tree] == ["records"]
        assert as_rows(incoming([columns], POINTERS)) == [record_reference(node) for node in tree[0][1]]
