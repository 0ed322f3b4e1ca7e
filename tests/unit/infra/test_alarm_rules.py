"""Gateways and Prometheus judge by the same rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from gateway.monitoring.alarm_rules import PROMETHEUS_ONLY, RULES

ALERTS = Path(__file__).resolve().parents[3] / "infra/observability/alerts.yaml"


def alerts() -> dict[str, dict[str, Any]]:
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def test_each_rule_is_the_same_in_both() -> None:
    """Expression, duration and severity; and what only Prometheus judges is named."""
    found = alerts()
    assert {rule.name for rule in RULES} | PROMETHEUS_ONLY == found.keys()
    for rule in RULES:
        alert = found[rule.name]
        assert "".join(rule.promql.split()) == "".join(alert["expr"].split()), rule.name
        assert alert.get("for", "0m") == f"{rule.for_minutes}m", rule.name
        assert alert["labels"]["severity"] == rule.severity, rule.name
