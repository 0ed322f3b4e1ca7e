"""The chart is ``infra/kubernetes`` with values: made from it, and with its defaults the same objects."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.manifests import kustomized, templated

INFRA = Path(__file__).resolve().parents[3] / "infra"
CHART = INFRA / "helm/tidelog"
MADE: dict[str, str] = runpy.run_path(str(INFRA / "helm/chart.py"))["files"]()
COMMITTED = {str(path.relative_to(CHART)): path.read_text() for path in CHART.rglob("*") if path.is_file()}
DEFAULTS: dict[str, Any] = yaml.safe_load(COMMITTED["values.yaml"])


def _objects(found: list[dict[str, Any]]) -> dict[tuple[str, str], Any]:
    """By kind and name; a map's name without the digest of what it says, and the namespace, which Helm makes itself, left out."""
    text = re.sub(r"(tidelog-store)-[0-9a-f]{10}\b", r"\1", yaml.safe_dump_all(found))
    objects = {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(text)}
    objects.pop(("Namespace", "tidelog"), None)
    return objects


def _with(**changed: Any) -> dict[str, Any]:
    return {name: value | changed.get(name, {}) for name, value in DEFAULTS.items()}


def test_the_chart_is_what_infra_kubernetes_makes() -> None:
    """After a change there: python infra/helm/chart.py."""
    assert COMMITTED == MADE


@pytest.mark.parametrize("kafka", [False, True])
def test_its_defaults_are_the_kustomizations(kafka: bool) -> None:
    """Object by object, with and without the component for Kafka's clients."""
    expected = _objects(kustomized(INFRA / "kubernetes", *(["kafka"] if kafka else [])))
    assert len(expected) > 8
    assert _objects(templated(MADE, _with(kafka={"enabled": kafka}), "tidelog")) == expected


def test_values_reach_their_places() -> None:
    """Each value of the chart changes something, and another namespace has another name in its certificate."""
    changed = {
        ("images", "gateway"): "r/g:1",
        ("images", "spark"): "r/s:1",
        ("store", "TIDELOG_STORE"): "s3://other/log",
        ("store", "AWS_REGION"): "us-east-1",
        ("gateway", "replicasMin"): 3,
        ("gateway", "replicasMax"): 9,
        ("gateway", "cpu"): "250m",
        ("gateway", "memory"): "2Gi",
        ("gateway", "settings"): {"TIDELOG_LOG_LEVEL": "info", "TIDELOG_BYTES": 1},
        ("gateway", "roleAnnotations"): {"role": "arn:gateway"},
        ("maintenance", "cpu"): "1",
        ("maintenance", "memory"): "3Gi",
        ("maintenance", "roleAnnotations"): {"role": "arn:maintenance"},
        ("kafka", "enabled"): True,
        ("network", "egress"): [{"ports": [{"port": 9000}]}],
    }
    assert {(group, name) for group, values in DEFAULTS.items() for name in values} - {("kafka", "memory")} == set(
        changed
    )
    plain = templated(MADE, DEFAULTS, "tidelog")
    for (group, name), value in changed.items():
        other = templated(MADE, _with(**{group: {name: value}}), "tidelog")
        assert other != plain, (group, name)
    elsewhere = _objects(templated(MADE, DEFAULTS, "other"))[("Deployment", "tidelog-gateway")]
    (container,) = elsewhere["spec"]["template"]["spec"]["containers"]
    assert {"name": "TIDELOG_TLS_PEER_NAME", "value": "tidelog.other.svc"} in container["env"]


def test_a_place_that_is_gone_ends_the_making() -> None:
    """A value without its place would be no value."""
    replaced = runpy.run_path(str(INFRA / "helm/chart.py"))["_replaced"]
    assert replaced("a: 1\n", ("a: 1", "a: {{ .Values.a }}")) == "a: {{ .Values.a }}\n"
    for text in ("b: 1\n", "a: 1\na: 1\n"):
        with pytest.raises(SystemExit, match="not once"):
            replaced(text, ("a: 1", "a: {{ .Values.a }}"))
