"""No sentence of pydantic's reaches a caller or an operator."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, get_args

import pytest
from pydantic import Field
from pydantic_core.core_schema import ErrorType

from gateway.http.fields import Body, Parameters
from gateway.http.json_request import parse_model
from gateway.http.parameters import parse_parameters
from gateway.settings.settings import Settings, SettingsError
from gateway.wrong_values import what_is_wrong
from log_format.errors import RequestRefused

THEIRS = re.compile(r"[Ii]nput|[Vv]alue error|should|valid |permitted|unexpected", re.ASCII)


class Sorting(Parameters):
    """A query as routes have them."""

    sort: Literal["name", "size"] = "name"
    include: Literal["maintenance"] | None = None


class Numbers(Body):
    """A body without messages of its own."""

    count: Annotated[int, Field(ge=1, le=5)] = 1
    share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    names: Annotated[list[str], Field(max_length=1, default_factory=list)]
    choice: Literal["a", "b"] = "a"
    flag: bool = False


@pytest.mark.parametrize("kind", get_args(ErrorType))
def test_every_kind_of_error_has_words_of_its_own(kind: str) -> None:
    """Also those that no type raises today, and those whose context is missing."""
    said = what_is_wrong({"type": kind, "loc": (), "msg": "Input should be better", "input": None})
    assert not THEIRS.search(said), said


def test_an_error_of_the_gateways_own_types_keeps_its_message() -> None:
    """It was written for the field."""
    assert what_is_wrong({"type": "said", "loc": (), "msg": "must be nice", "input": None}) == "must be nice"


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ([("sort", "x")], "Query parameter 'sort' must be one of name, size."),
        ([("include", "x")], "Query parameter 'include' must be maintenance."),
        ([("x", "1")], "Query parameter 'x' is not a parameter of this route, which takes sort, include."),
    ],
)
def test_a_refused_parameter_says_what_is_allowed(query: list[tuple[str, str]], detail: str) -> None:
    """By its name, and with the words or parameters that there are."""
    with pytest.raises(RequestRefused) as refused:
        parse_parameters(Sorting, query, "Query parameter")
    assert refused.value.detail == detail


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b'{"count": 9}', "count must be at most 5."),
        (b'{"count": "x"}', "count must be an integer."),
        (b'{"share": 1}', "share must be below 1.0."),
        (b'{"names": "x"}', "names must be a list."),
        (b'{"names": ["a", "b"]}', "names must have at most 1 entries."),
        (b'{"choice": "c"}', "choice must be one of a, b."),
        (b'{"flag": 1}', "flag must be true or false."),
        (b'{"colour": 1}', "colour is not a known member: the body takes count, share, names, choice, flag."),
    ],
)
def test_a_refused_member_says_what_is_allowed(body: bytes, detail: str) -> None:
    """By its place in the body."""
    with pytest.raises(RequestRefused) as refused:
        parse_model(Numbers, body)
    assert refused.value.detail == detail


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"auth": "x"}, "TIDELOG_AUTH: must be one of off, on"),
        ({"port": "x"}, "TIDELOG_PORT: must be an integer"),
        ({"port": "99999"}, "TIDELOG_PORT: must be at most 65535"),
        ({"heartbeat_ms": "-1"}, "TIDELOG_HEARTBEAT_MS: must be at least"),
        ({"colour": "1"}, "TIDELOG_COLOUR: is no setting"),
    ],
)
def test_a_refused_setting_says_what_is_allowed(setting: dict[str, Any], said: str) -> None:
    """By the name of its variable."""
    with pytest.raises(SettingsError) as refused:
        Settings.read({}, {"store": "memory", **setting})
    assert said in str(refused.value)
    assert not THEIRS.search(str(refused.value))
