"""The two halves of the history: what writes it, and what reads it."""

from __future__ import annotations

from typing import NamedTuple

from gateway.metrics_history.reading import HistoryReader
from gateway.metrics_history.recorder import MetricsRecorder


class MetricsHistory(NamedTuple):
    """The history of metrics. ``recorder``: None with ``metrics_history=off``; what other gateways write is read all the same."""

    recorder: MetricsRecorder | None
    reader: HistoryReader
