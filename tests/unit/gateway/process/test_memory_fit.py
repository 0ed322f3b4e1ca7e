"""A gateway's bounds on memory come down to what its container may use, so that it refuses work and is not ended."""

from __future__ import annotations

import logging

import pytest

from gateway.process.memory_fit import bound_bytes, fit_to_memory, warn_of_workers
from gateway.settings.settings import MEBIBYTE, Settings

DEFAULTS = Settings(store="memory:")


def test_settings_that_fit_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    """Where memory holds their stated bound nothing is changed, and nothing is said."""
    with caplog.at_level(logging.WARNING):
        assert fit_to_memory(DEFAULTS, bound_bytes(DEFAULTS)) is DEFAULTS
    assert caplog.text == ""


@pytest.mark.parametrize("mebibytes", [520, 600, 700, 800])
def test_bounds_come_down_to_the_limit(mebibytes: int, caplog: pytest.LogCaptureFixture) -> None:
    """The stated bound is within the limit then, and the log says by which settings. Nothing that all gateways must share is
    changed, and the largest request still fits."""
    assert bound_bytes(DEFAULTS) > mebibytes * MEBIBYTE
    with caplog.at_level(logging.WARNING):
        found = fit_to_memory(DEFAULTS, mebibytes * MEBIBYTE)
    assert bound_bytes(found) <= mebibytes * MEBIBYTE
    assert found.in_flight_bytes_max >= found.request_bytes_max
    assert found.readers == 0
    changed = {name for name in Settings.model_fields if getattr(found, name) != getattr(DEFAULTS, name)}
    assert changed <= {
        "answer_bytes_max", "footer_cache_bytes_max", "in_flight_bytes_max", "readers", "tail_cache_bytes_max",
    }  # fmt: skip
    assert all(f"{name}={getattr(found, name)}" in caplog.text for name in changed)
    assert "still" not in caplog.text


def test_no_more_is_taken_away_than_is_needed() -> None:
    """Where it is enough that history is read by the gateway itself, requests keep their memory."""
    found = fit_to_memory(DEFAULTS, DEFAULTS.process_bytes())
    assert found == DEFAULTS.model_copy(update={"readers": 0})


def test_what_was_given_by_name_stays(caplog: pytest.LogCaptureFixture) -> None:
    """An operator's word is kept, and what it may cost is said."""
    given = Settings(store="memory:", readers=1, in_flight_bytes_max=36 * MEBIBYTE, answer_bytes_max=64 * MEBIBYTE)
    with caplog.at_level(logging.WARNING):
        found = fit_to_memory(given, 520 * MEBIBYTE)
    assert (found.readers, found.in_flight_bytes_max, found.answer_bytes_max) == (1, 36 * MEBIBYTE, 64 * MEBIBYTE)
    assert f"may still take {bound_bytes(found) // MEBIBYTE} MiB" in caplog.text


def test_more_workers_than_memory_holds_are_named(caplog: pytest.LogCaptureFixture) -> None:
    """An operator's number of workers is kept; one that fits is nothing to speak of."""
    with caplog.at_level(logging.WARNING):
        warn_of_workers(DEFAULTS, 2, 4096 * MEBIBYTE)
        assert caplog.text == ""
        warn_of_workers(DEFAULTS, 8, 1024 * MEBIBYTE)
    assert "8 workers may take" in caplog.text
