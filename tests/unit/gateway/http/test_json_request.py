"""Control bodies: what is too much is refused before it is parsed, and what is only long is not."""

from __future__ import annotations

import gc
import json
from functools import partial

import pytest

from gateway.http import fields
from gateway.http.json_request import NODES_MAX, parse_model, parse_object
from gateway.http.validation import FAULTS_MAX
from log_format.errors import RequestRefused
from tests.support.cpu_time import is_cheap

MEBIBYTE = 1024 * 1024


@pytest.mark.parametrize(
    "body",
    [
        b'{"x":[' + b"[]," * (4 * MEBIBYTE) + b"[]]}",
        b"{" + b'"a":0,' * (2 * MEBIBYTE) + b'"a":0}',
        b"[" * (8 * MEBIBYTE),
        b'{"x":"' + b'\\"' * MEBIBYTE + b'",' + b"[" * (2 * NODES_MAX),
    ],
)
def test_dense_bodies_are_not_parsed(body: bytes) -> None:
    """400 in a moment: parsing holds the interpreter's lock, and takes many times the body's size."""

    def refuse() -> None:
        with pytest.raises(RequestRefused, match="commas and brackets") as refused:
            parse_object(body)
        assert (refused.value.status, str(refused.value.code)) == (400, "INVALID_REQUEST")

    assert is_cheap(refuse, 0.5)


def test_long_bodies_are_parsed() -> None:
    """Ten thousand offsets with metadata, and texts of nothing but commas and brackets, are no such bodies."""
    offset = {"topic": "t", "partition": 1, "offset": 2, "metadata": 'a,"[{\\' * 20}
    body = {"offsets": [offset] * 10_000, "text": "[{,\\" * MEBIBYTE}
    assert parse_object(json.dumps(body).encode()) == body


class Entry(fields.Body):
    """Two members that must be there."""

    topic: fields.TopicName
    partition: fields.Partition


class Several(fields.Body):
    """A list of them."""

    entries: list[Entry]


def refused_of(body: bytes) -> RequestRefused:
    """What is said of a body that is wrong."""
    with pytest.raises(RequestRefused) as refused:
        parse_model(Several, body)
    return refused.value


def refusal(body: object) -> RequestRefused:
    """The same of what the body says."""
    return refused_of(json.dumps(body).encode())


def test_enough_faults_are_noted() -> None:
    """Of ten thousand faults twenty are named, in the order of the body."""
    wrong = refusal({"entries": [{"topic": "t"}] * FAULTS_MAX})
    assert wrong.fields["errors"] == [{"where": f"/entries/{n}/partition", "what": "is missing"} for n in range(20)]


@pytest.fixture
def _without_what_others_left() -> None:
    """The collector does not look at the objects of tests before, which would count as the test's own time. Nor does it later:
    to thaw them would thaw all that ``tests/conftest.py`` froze, half a million objects for every full pass of the worker."""
    gc.collect()
    gc.freeze()


@pytest.mark.usefixtures("_without_what_others_left")
def test_a_flood_of_faults_costs_little() -> None:
    """A hundred thousand unknown members, in one object or in many, are not named one by one."""
    for body in (
        {"entries": [], **{f"m{number}": 0 for number in range(100_000)}},
        {"entries": [{f"m{number}": 0 for number in range(50)} for _ in range(2_000)]},
    ):
        encoded = json.dumps(body).encode()
        assert refusal(body).fields["errors"] == [{"where": "", "what": f"has more than {FAULTS_MAX} faults"}]
        assert is_cheap(partial(refused_of, encoded), 0.5)


@pytest.mark.parametrize(
    ("entry", "where", "what"),
    [
        (5, "/entries/0", "must be an object"),
        ({"topic": 5, "partition": 0}, "/entries/0/topic", "must be a string"),
        ({"topic": "t", "partition": True}, "/entries/0/partition", "must be an integer from 0 to 2147483647"),
        ({"topic": "t", "partition": 1.0}, "/entries/0/partition", "must be an integer from 0 to 2147483647"),
        ({"topic": "t", "partition": 1 << 64}, "/entries/0/partition", "must be an integer from 0 to 2147483647"),
        ({"topic": "t", "partition": 0, "a/b~": 1}, "/entries/0/a~1b~0", "is not a known member"),
    ],
)
def test_every_fault_is_named_by_its_pointer(entry: object, where: str, what: str) -> None:
    """A JSON pointer, and what would be right."""
    assert refusal({"entries": [entry]}).fields["errors"] == [{"where": where, "what": what}]
