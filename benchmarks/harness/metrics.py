"""Metrics that a server tells in Prometheus's text: a gateway's ``/metrics``, and MinIO's."""

from __future__ import annotations

import re
import urllib.request
from collections import Counter
from typing import Final

STORE_REQUESTS: Final = "tidelog_store_requests_total"
"""A gateway's requests to its store, by ``kind`` and by what the object is (``of``)."""
_SAMPLE: Final = re.compile(r"^(\w+)(?:\{([^}]*)\})? (\S+)$", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')


class Metrics:
    """The samples of one answer."""

    def __init__(self, text: str) -> None:
        self._samples = [
            (name, dict(_LABEL.findall(labels)), float(value)) for name, labels, value in _SAMPLE.findall(text)
        ]

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples that have these labels; 0 if there are none."""
        return sum(value for known, has, value in self._samples if known == name and labels.items() <= has.items())

    def counts(self, name: str, *labels: str) -> Counter[tuple[str, ...]]:
        """Return a counter's samples by the values of these labels."""
        found: Counter[tuple[str, ...]] = Counter()
        for known, has, value in self._samples:
            if known == name:
                found[tuple(has[label] for label in labels)] += int(value)
        return found


def metrics(port: int, path: str = "/metrics") -> Metrics:
    """Return what the server on this port of 127.0.0.1 tells now."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
        return Metrics(answer.read().decode())
