"""How many connections the process has descriptors for."""

from __future__ import annotations

import resource

import pytest

from gateway.process.descriptors import accepted_max


@pytest.mark.parametrize(
    ("limits", "raised_to", "accepted"),
    [
        ((1024, 20_000), 3024, 2000),
        ((1024, resource.RLIM_INFINITY), 3024, 2000),
        ((20_000, 20_000), None, 2000),
        ((1024, 2048), 2048, 1536),
        ((256, 256), 256, 192),
    ],
)
def test_descriptors_are_asked_for_and_some_stay_for_others(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], raised_to: int | None, accepted: int
) -> None:
    """The limit is raised as far as the system lets it; clients never take the last descriptors, which probes need."""
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, both: asked.append(both))
    assert accepted_max(1000) == accepted
    assert asked == ([] if raised_to is None else [(raised_to, limits[1])])
