"""What is said of a request that was passed on, got no answer, and was then tried here."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from gateway.cluster.forwarding import Forwarding, _Outcome
from gateway.memory_budget import MemoryBudget
from log_format.errors import BackOff, OutcomeUnknown, TidelogError, UnknownTopic


def _asked(monkeypatch: pytest.MonkeyPatch, outcome: _Outcome, refusal: TidelogError | None, method: str) -> None:
    """Handle a request whose peer gave ``outcome``, and which is refused here."""

    async def scenario() -> None:
        shell: Any = SimpleNamespace(
            settings=SimpleNamespace(gateway_id="a", connections_max=10), request_memory=MemoryBudget(1_000, "tests")
        )
        absent: Any = None
        forwarding = Forwarding(shell, absent, absent, mode="preferred", registry=CollectorRegistry())

        async def peer(*_: Any) -> Any:
            return SimpleNamespace(id="b", url="http://b")

        async def passed_on(*_: Any) -> _Outcome:
            return outcome

        async def app(*_: Any) -> None:
            if refusal is not None:
                raise refusal

        monkeypatch.setattr(forwarding, "_peer_for", peer)
        monkeypatch.setattr(forwarding, "_passed_on", passed_on)
        await forwarding(app, {"type": "http", "method": method}, absent, absent)

    asyncio.run(scenario())


@pytest.mark.parametrize("refusal", [BackOff("the store is away"), UnknownTopic("t")])
def test_what_was_lost_on_the_way_may_have_happened(monkeypatch: pytest.MonkeyPatch, refusal: TidelogError) -> None:
    """The peer may have done it, whatever it is refused for here: nobody is told that nothing happened (G8)."""
    with pytest.raises(OutcomeUnknown):
        _asked(monkeypatch, _Outcome.LOST, refusal, "POST")


def test_what_is_known_not_to_have_happened_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a request that did not reach the peer, and of one that changes nothing, the refusal here is the answer."""
    with pytest.raises(BackOff):
        _asked(monkeypatch, _Outcome.UNTOUCHED, BackOff("the store is away"), "POST")
    with pytest.raises(UnknownTopic):
        _asked(monkeypatch, _Outcome.LOST, UnknownTopic("t"), "GET")
    _asked(monkeypatch, _Outcome.LOST, None, "POST")
