"""The chart is ``infra/kubernetes`` with values: made from it, with its defaults the same objects, and strict about values."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from gateway.network.hosts import AllowedHosts
from gateway.settings.settings import Settings
from tests.support.chart_values import ACCEPTED, NO_AUTH, NO_TLS, PLACED, REFUSED, SETTINGS, STORE, UNFIT, over
from tests.support.go_templates import Refused
from tests.support.manifests import kustomized, templated

INFRA = Path(__file__).resolve().parents[3] / "infra"
CHART = INFRA / "helm/tidelog"
MADE: dict[str, str] = runpy.run_path(str(INFRA / "helm/chart.py"))["files"]()
COMMITTED = {str(path.relative_to(CHART)): path.read_text() for path in CHART.rglob("*") if path.is_file()}
DEFAULTS: dict[str, Any] = over(yaml.safe_load(COMMITTED["values.yaml"]), STORE)
GATEWAY = ("Deployment", "tidelog-gateway")
MAINTENANCE = ("Deployment", "tidelog-maintenance")


def _objects(found: list[dict[str, Any]]) -> dict[tuple[str, str], Any]:
    """By kind and name, with variables in order; without digests in maps' names, and the namespace, which Helm makes itself."""
    text = re.sub(r"(tidelog-store)-[0-9a-f]{10}\b", r"\1", yaml.dump_all(found, Dumper=yaml.CSafeDumper))
    objects = {(each["kind"], each["metadata"]["name"]): each for each in yaml.load_all(text, yaml.CSafeLoader)}
    objects.pop(("Namespace", "tidelog"), None)
    _container(objects[GATEWAY])["env"].sort(key=lambda each: each["name"])
    return objects


def _made(values: dict[str, Any] | None = None, namespace: str = "tidelog") -> dict[tuple[str, str], Any]:
    return _objects(templated(MADE, over(DEFAULTS, values or {}), namespace))


def _pod(deployment: dict[str, Any]) -> dict[str, Any]:
    pod: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return pod


def _container(deployment: dict[str, Any]) -> dict[str, Any]:
    (container,) = _pod(deployment)["containers"]
    return dict(container)


def _variables(values: dict[str, Any]) -> dict[str, str]:
    """The gateway's, but for those that the cluster fills in."""
    listed = _container(_made(values)[GATEWAY])["env"]
    return {each["name"]: each["value"] for each in listed if "value" in each}


def test_the_chart_is_what_infra_kubernetes_makes() -> None:
    """After a change there: python infra/helm/chart.py."""
    assert COMMITTED == MADE


@pytest.mark.parametrize("kafka", [False, True])
def test_its_defaults_are_the_kustomizations(kafka: bool) -> None:
    """Object by object, with and without the component for Kafka's clients."""
    expected = _objects(kustomized(INFRA / "kubernetes", *(["kafka"] if kafka else [])))
    store = expected["ConfigMap", "tidelog-store"]["data"]["TIDELOG_STORE"]
    assert len(expected) > 8
    assert _made({"kafka": {"enabled": kafka}, "store": {"TIDELOG_STORE": store}}) == expected


def test_values_reach_their_places() -> None:
    """Each value of the chart changes something, and another namespace has another name in its certificate."""
    pod = {**PLACED, "volumes": [{"name": "a"}], "volumeMounts": [{"name": "a", "mountPath": "/a"}]}
    changed: dict[str, dict[str, Any]] = {
        "images": {"gateway": "r/g:1", "spark": "r/s:1", "pullSecrets": [{"name": "registry"}]},
        "store": {"TIDELOG_STORE": "s3://other/log", "AWS_REGION": "us-east-1"},
        "tls": {"enabled": False},
        "auth": {"enabled": False, "bootstrapToken": False},
        "gateway": {
            **pod, "replicasMin": 3, "replicasMax": 9, "cpu": "250m", "memory": "2Gi", "settings": SETTINGS,
            "serviceAnnotations": {"a": "b"},
        },
        "maintenance": {**pod, "cpu": "1", "memory": "3Gi"},
        "kafka": {"enabled": True},
        "network": {"egress": [{"ports": [{"port": 9000}]}]},
    }  # fmt: skip
    assert {group: set(values) for group, values in DEFAULTS.items()} == {
        group: set(values) for group, values in changed.items()
    }
    plain = templated(MADE, DEFAULTS, "tidelog")
    for group, values in changed.items():
        for name, value in values.items():
            below = NO_AUTH if group == "tls" else {}
            other = templated(MADE, over(over(DEFAULTS, below), {group: {name: value}}), "tidelog")
            assert other != (templated(MADE, over(DEFAULTS, below), "tidelog") if below else plain), (group, name)
    elsewhere = _container(_made(namespace="other")[GATEWAY])["env"]
    assert {"name": "TIDELOG_TLS_PEER_NAME", "value": "tidelog.other.svc"} in elsewhere


@pytest.mark.parametrize("name", sorted(ACCEPTED))
def test_each_name_occurs_once(name: str) -> None:
    """Lists that an upgrade merges by name have no name twice, whatever values override; nor has a map (refused when read)."""
    for (_, called), each in _made(ACCEPTED[name]).items():
        if each["kind"] == "Deployment":
            container = _container(each)
            for field in ("env", "ports", "volumeMounts"):
                names = [entry["name"] for entry in container.get(field, [])]
                assert sorted(set(names)) == sorted(names), (called, field)
            assert all(isinstance(entry.get("value", ""), str) for entry in container.get("env", []))
        assert all(isinstance(text, str) for text in each.get("data", {}).values())


def test_settings_are_said_as_they_were_typed() -> None:
    """Numbers with all digits, on and off as words, quotes and angles as themselves; the chart's own value gives way."""
    values = {"gateway": {"settings": SETTINGS}, "store": {"AWS_MAX_ATTEMPTS": 1_000_000}}
    found = _variables(values)
    assert {name: found[name] for name in SETTINGS} == {
        **{name: str(value) for name, value in SETTINGS.items()},
        "SOME_FRACTION": "0.00001",
    }
    assert _made(values)["ConfigMap", "tidelog-store"]["data"]["AWS_MAX_ATTEMPTS"] == "1000000"
    assert _pod(_made(values)[GATEWAY])["terminationGracePeriodSeconds"] == 120, "a longer drain has longer, too"


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_contradictions_are_refused(name: str) -> None:
    """With a reason, before there are any objects."""
    values, words = REFUSED[name]
    with pytest.raises(Refused) as refused:
        _made(values)
    assert words in str(refused.value)


@pytest.mark.parametrize("name", sorted(UNFIT))
def test_values_of_another_form_are_refused(name: str) -> None:
    """Unknown names, other types, null: by the schema, which says where."""
    values, words = UNFIT[name]
    with pytest.raises(jsonschema_rs.ValidationError) as refused:
        _made(values)
    place = "".join(f"/{each}" for each in refused.value.instance_path)
    assert words == place or not words.startswith("/")


def test_memory_has_one_rule() -> None:
    """gateway.memory is the limit wherever it is given; otherwise the chart's, which is higher with a listener for Kafka."""

    def limit(memory: str, kafka: bool) -> str:
        made = _made({"gateway": {"memory": memory}, "kafka": {"enabled": kafka}})
        return str(_container(made[GATEWAY])["resources"]["limits"]["memory"])

    assert limit("2Gi", False) == limit("2Gi", True) == "2Gi"
    assert int(limit("", False).removesuffix("Mi")) < int(limit("", True).removesuffix("Mi"))


@pytest.mark.parametrize(
    ("values", "secrets"),
    [
        ({}, {"tidelog-access", "tidelog-tls"}),
        ({"auth": {"bootstrapToken": False}}, {"tidelog-access", "tidelog-tls"}),
        (NO_AUTH, {"tidelog-tls"}),
        (NO_TLS, set()),
        (ACCEPTED["no TLS, a volume"], set()),
    ],
)
def test_what_is_off_is_off_everywhere(values: dict[str, Any], secrets: set[str]) -> None:
    """Variables, secrets, mounts and the Service's protocol agree, and a gateway starts with them."""
    made = _made(values)
    pod, container = _pod(made[GATEWAY]), _container(made[GATEWAY])
    assert {each["secret"]["secretName"] for each in pod.get("volumes", []) if "secret" in each} == secrets
    assert [each["name"] for each in container.get("volumeMounts", [])] == [
        each["name"] for each in pod.get("volumes", [])
    ]
    found = _variables(values)
    settings = Settings.read({"TIDELOG_STORE": "x", "TIDELOG_HOST": "0.0.0.0", **found}, {})
    assert settings.auth == ("on" if "tidelog-access" in secrets else "off")
    hosts = AllowedHosts(host="0.0.0.0", names=settings.allowed_hosts, advertised_url=None)
    assert hosts.allow(b"tidelog.tidelog.svc:8080")
    assert hosts.allow(b"attacker.example.com:8080") == (settings.auth == "on")
    (port,) = made["Service", "tidelog"]["spec"]["ports"]
    assert port["appProtocol"] == settings.scheme
    assert ("TIDELOG_BOOTSTRAP_TOKEN_FILE" in found) == (values == {})
    paths = {str(Path(text).parent) for text in found.values() if text.startswith("/run/secrets/")}
    mounts = {each["mountPath"] for each in container.get("volumeMounts", [])}
    assert paths == {path for path in mounts if path.startswith("/run/")}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"].get("scheme", "HTTP") == "HTTP", "port 8081 is plain"


def test_a_narrow_network_is_narrow() -> None:
    """One's own list of rules is the whole list: 443 to everywhere is gone from both policies."""
    own = {"to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}], "ports": [{"port": 9000}]}
    made = _made({"network": {"egress": [own]}})
    for name in ("tidelog-gateway", "tidelog-maintenance"):
        rules = made["NetworkPolicy", name]["spec"]["egress"]
        assert own in rules
        assert {port["port"] for rule in rules for port in rule["ports"]} <= {"http", 53, 9000}


def test_pods_are_placed_as_told() -> None:
    """Fields of both pods are as given, and annotations of one's own win over the chart's."""
    values = ACCEPTED["placed"]
    made = _made(values)
    for name, group in ((GATEWAY, "gateway"), (MAINTENANCE, "maintenance")):
        pod, template = _pod(made[name]), made[name]["spec"]["template"]
        for field in ("nodeSelector", "tolerations", "affinity", "priorityClassName"):
            assert pod[field] == values[group][field]
        assert pod["imagePullSecrets"] == [{"name": "registry"}]
        assert template["metadata"]["labels"] == {"app.kubernetes.io/name": name[1], "team": "data"}
        assert template["metadata"]["annotations"]["prometheus.io/scrape"] == "false"
        assert template["metadata"]["annotations"]["prometheus.io/path"] == "/metrics"
        assert values[group]["volumes"][0] in pod["volumes"]
        assert values[group]["volumeMounts"][0] in _container(made[name])["volumeMounts"]


def test_a_place_that_is_gone_ends_the_making() -> None:
    """A value without its place would be no value."""
    program = runpy.run_path(str(INFRA / "helm/chart.py"))
    replaced = program["_replaced"]
    assert replaced("a: 1\n", ("a: 1", "a: {{ .Values.a }}")) == "a: {{ .Values.a }}\n"
    for text in ("b: 1\n", "a: 1\na: 1\n"):
        with pytest.raises(SystemExit, match="not once"):
            replaced(text, ("a: 1", "a: {{ .Values.a }}"))
        with pytest.raises(SystemExit, match="not once"):
            program["_part"](text, "a: 1\n", "c: 1\n")
