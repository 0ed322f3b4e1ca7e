"""How many connections the Kafka listener takes, in all and of one address."""

from __future__ import annotations

from typing import Any

from gateway.kafka.listening.admission import Admission
from gateway.network.client_addresses import ClientAddresses


class Made:
    """A connection from an address."""

    def __init__(self, host: str | None) -> None:
        self.host = host
        self.is_aborted = False

    def get_extra_info(self, _name: str) -> Any:
        return None if self.host is None else (self.host, 1)

    def abort(self) -> None:
        self.is_aborted = True


def test_connections_are_counted_in_all_and_by_address() -> None:
    """What is refused is cut, counts nowhere, and says why; a place that is given back twice counts once."""
    reasons: list[str] = []
    admission = Admission(3, ClientAddresses(2), reasons.append)
    first, second, third = Made("10.0.0.1"), Made("10.0.0.1"), Made("10.0.0.1")
    leave = admission.enter(first)  # type: ignore[arg-type]
    assert leave is not None
    assert admission.enter(second) is not None  # type: ignore[arg-type]
    assert admission.enter(third) is None  # type: ignore[arg-type]
    assert (third.is_aborted, reasons, admission.count) == (True, ["too_many_of_address"], 2)
    assert admission.enter(Made("10.0.0.2")) is not None  # type: ignore[arg-type]
    assert admission.enter(Made("10.0.0.3")) is None  # type: ignore[arg-type]
    assert reasons[-1] == "too_many"
    leave()
    leave()
    assert admission.count == 2
    assert admission.enter(Made("10.0.0.1")) is not None  # type: ignore[arg-type]
    assert admission.enter(Made(None)) is None  # type: ignore[arg-type]
    assert not first.is_aborted
