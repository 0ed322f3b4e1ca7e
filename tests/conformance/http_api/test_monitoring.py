"""The history of metrics by HTTP: its form, its ranges, and what is refused."""

from __future__ import annotations

import pytest

from tests.support.http_api import Api

PATH = "/v1/monitoring/history"
DAY_MS = 86_400_000


def test_each_series_has_a_value_for_each_step(api: Api) -> None:
    """Also where no gateway has written anything yet; the day until now is the default."""
    until = 1_763_683_230_000
    given: dict[str, str | int] = {
        "series": "produced_records,store_puts,lag_records",
        "since": until - DAY_MS,
        "until": until,
    }
    found = api.http.get(PATH, params=given).json()
    assert found["since"] <= until - DAY_MS
    assert found["since"] + found["step"] * found["steps"] >= until
    assert found["complete"] is True
    assert all(len(one["values"]) == found["steps"] for one in found["series"])
    day = api.http.get(PATH).json()
    assert day["step"] * day["steps"] >= DAY_MS
    for step, resolution in ((60_000, 60_000), (1_800_000, 900_000), (DAY_MS, 3_600_000)):
        given = {"since": until - step, "until": until, "step": step}
        assert api.http.get(PATH, params=given).json()["resolution_ms"] == resolution


def test_alarms_are_those_of_the_gateway_that_answers(api: Api) -> None:
    """A list of what fires and one of what is pending, each with a sentence; and one of groups that stand still."""
    found = api.http.get("/v1/monitoring/alarms").json()
    assert found["gateway"]
    assert isinstance(found["notices"], list)
    members = {"alarm", "severity", "about", "since", "value", "said"}
    assert all(alarm.keys() == members for alarm in [*found["alarms"], *found["pending"]])
    api.refused(api.http.get("/v1/monitoring/alarms?x=1"), 400, "INVALID_REQUEST")


@pytest.mark.parametrize(
    "query",
    [
        "series=produced",
        "series=",
        "since=5&until=5",
        "since=0&until=86400000&step=90000",
        "since=0&until=864000000&step=60000",
        "step=1",
        "by=topic",
        "x=1",
    ],
)
def test_what_makes_no_sense_is_refused(api: Api, query: str) -> None:
    """By the name of the parameter."""
    api.refused(api.http.get(f"{PATH}?{query}"), 400, "INVALID_REQUEST")
