"""What lies in ``infra/`` speaks of settings, metrics, packages and versions that exist. Schemas are ``make lint-infra``'s."""

from __future__ import annotations

import importlib.metadata
import json
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from prometheus_client import generate_latest

from compaction.metrics import Metrics
from gateway.settings import PROCESS_BYTES_MAX, Settings
from log_format import limits
from log_format.clock import SystemClock
from log_format.version import __version__
from tests.support.gateway_process import running_gateway

ROOT = Path(__file__).resolve().parents[3]
INFRA = ROOT / "infra"
OTHER_VARIABLES = {"TIDELOG_URL", "TIDELOG_CACHE"}
"""Of the command line and of set-up; all others in ``infra/`` are the gateway's."""
PROMETHEUS_METRICS = {"up"}


def _texts(*suffixes: str) -> Iterator[tuple[Path, str]]:
    return ((path, path.read_text()) for path in sorted(INFRA.rglob("*")) if path.suffix in suffixes)


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names of all series that a gateway can have, by what it says in /metrics; and those of maintenance."""
    with running_gateway("memory://metrics", tmp_path_factory.mktemp("gateway") / "log") as gateway:
        text = gateway.http.get("/metrics").text
    names = set()
    text += generate_latest(Metrics(SystemClock()).registry).decode()
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
        names |= {f"{name}_bucket", f"{name}_sum", f"{name}_count"} if kind == "histogram" else {name}
    return names


def _alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load((INFRA / "observability/alerts.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def _queries() -> list[str]:
    dashboard = json.loads((INFRA / "observability/grafana/dashboards/tidelog.json").read_text())
    panels = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    return [*panels, *(alert["expr"] for alert in _alerts())]


def test_every_metric_that_is_watched_exists(metrics: set[str]) -> None:
    """Each name in the dashboards and in the alarms is one that a program has: a renamed metric silences no alarm."""
    named = {name for query in _queries() for name in re.findall(r"\b(?:tidelog|process)_[a-z_]+\b", query)}
    collected = {name for _, text in _texts(".tf") for name in re.findall(r'"(tidelog_[a-z_]+)"', text)}
    assert "tidelog_group_lag_seconds_max" in collected
    named |= collected
    assert len(named) > 25
    assert named - metrics == set()


def test_the_dashboard_is_made_from_its_list() -> None:
    """The JSON is what its program writes: no change by hand gets lost when the program runs again."""
    program = runpy.run_path(str(INFRA / "observability/grafana/dashboards.py"))
    assert json.loads(program["OUTPUT"].read_text()) == program["dashboard"]()


def test_every_alarm_is_explained() -> None:
    """Each alarm's name is in docs/operations.md, and no name there lacks its alarm."""
    table = (ROOT / "docs/operations.md").read_text().split("## Alarms")[1].split("\n## ")[0]
    explained = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    assert explained == {alert["alert"] for alert in _alerts()}


def test_every_setting_exists() -> None:
    """Each ``TIDELOG_`` variable in a file of ``infra/`` is one that a program reads: a typing error sets nothing, silently."""
    known = {f"TIDELOG_{name.upper()}" for name in Settings.model_fields} | OTHER_VARIABLES
    unknown = {
        f"{path.relative_to(ROOT)}: {name}"
        for path, text in _texts(".yaml", ".Dockerfile", ".sh", ".tf", ".conf")
        for name in re.findall(r"\bTIDELOG_[A-Z_]+\b", text)
        if name not in known
    }
    assert unknown == set()


def _documents(name: str) -> dict[tuple[str, str], dict[str, Any]]:
    found = yaml.safe_load_all((INFRA / "kubernetes" / name).read_text())
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def test_containers_have_room_and_time() -> None:
    """A container is not killed below the bound of the gateway's memory, nor before its drain has had its time."""
    pod = _documents("gateway.yaml")["Deployment", "tidelog-gateway"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    limit = container["resources"]["limits"]["memory"]
    assert limit.endswith("Mi")
    assert int(limit[:-2]) * 1024 * 1024 > PROCESS_BYTES_MAX
    values = {each["name"]: each.get("value") for each in container["env"]}
    drain_ms = int(values["TIDELOG_DRAIN_NOTICE_MS"]) + int(values["TIDELOG_DRAIN_TIMEOUT_MS"])
    assert drain_ms < pod["terminationGracePeriodSeconds"] * 1000
    probe = container["readinessProbe"]
    assert int(values["TIDELOG_DRAIN_NOTICE_MS"]) >= probe["periodSeconds"] * probe["failureThreshold"] * 1000
    compose = yaml.safe_load((INFRA / "local/compose.yaml").read_text())
    for name in ("gateway-1", "gateway-2"):
        service = compose["services"][name]
        assert int(service["mem_limit"].removesuffix("m")) * 1024 * 1024 > PROCESS_BYTES_MAX
        settings = Settings(store="x", drain_notice_ms=service["environment"]["TIDELOG_DRAIN_NOTICE_MS"])
        grace_ms = int(service["stop_grace_period"].removesuffix("s")) * 1000
        assert settings.drain_notice_ms + settings.drain_timeout_ms < grace_ms


def test_the_autoscaler_alone_says_how_many_gateways() -> None:
    """A number in the Deployment would end gateways under load with each ``kubectl apply``."""
    documents = _documents("gateway.yaml")
    target = documents["HorizontalPodAutoscaler", "tidelog-gateway"]["spec"]["scaleTargetRef"]
    assert "replicas" not in documents[target["kind"], target["name"]]["spec"]


@pytest.mark.parametrize("manifest", ["gateway.yaml", "maintenance.yaml"])
def test_pods_may_do_little(manifest: str) -> None:
    """No root, no token of the cluster, nothing written to the image's file system, no capability."""
    deployments = [each for (kind, _), each in _documents(manifest).items() if kind == "Deployment"]
    assert deployments
    for deployment in deployments:
        pod = deployment["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }


def test_pods_speak_to_few() -> None:
    """Each Deployment's pods have a policy in both directions; outwards DNS, the store's port, and gateways for gateways."""
    policies = {
        name: each["spec"] for (kind, name), each in _documents("network.yaml").items() if kind == "NetworkPolicy"
    }
    assert set(policies) == {"tidelog-gateway", "tidelog-maintenance"}
    for name, policy in policies.items():
        assert policy["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": name}
        assert set(policy["policyTypes"]) == {"Ingress", "Egress"}
        assert all(rule.get("to") and rule.get("ports") for rule in policy["egress"])
        ports = {port["port"] for rule in policy["egress"] for port in rule["ports"]}
        assert ports == {53, 443} | ({"http"} if name == "tidelog-gateway" else set())


def test_what_is_fetched_has_a_version() -> None:
    """No image and no program is whatever is newest on the day."""
    compose = yaml.safe_load((INFRA / "local/compose.yaml").read_text())["services"]
    fetched = [each["image"] for each in compose.values() if "build" not in each and "/" in each["image"]]
    assert fetched
    assert [image for image in fetched if not re.search(r":[A-Za-z.]*v?[0-9]+[.-][0-9]", image)] == []
    scripts = [*(ROOT / "scripts").glob("*.sh"), *INFRA.rglob("*.sh")]
    assert [path.name for path in scripts if "@latest" in path.read_text()] == []


def test_nothing_of_compose_is_reachable_from_outside() -> None:
    """Without authentication every port is bound to this machine."""
    services = yaml.safe_load((INFRA / "local/compose.yaml").read_text())["services"]
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert len(ports) >= 4
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


def test_kubernetes_uses_this_version() -> None:
    """The images' tag is the version, which is written once."""
    images = yaml.safe_load((INFRA / "kubernetes/kustomization.yaml").read_text())["images"]
    assert {image["newTag"] for image in images} == {__version__}


def _blocks(lock: Path) -> dict[str, str]:
    """A lock file's entries by name: version, markers and hashes."""
    text = re.sub(r"^ +#.*\n", "", lock.read_text(), flags=re.MULTILINE)
    entries = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)
    return {re.split(r"[=\[ ]", entry)[0]: entry.strip() for entry in entries if entry.strip()}


def _pin(entry: str) -> tuple[str, set[str]]:
    """The version and the hashes, without the markers, which depend on what else needs the package."""
    return re.split(r"[ ;]", entry)[0], set(re.findall(r"--hash=(\S+)", entry))


@pytest.mark.parametrize(
    ("lock", "wanted"),
    [
        ("build", ["hatchling"]),
        ("gateway", ["tidelog[gateway,s3]"]),
        ("spark", ["tidelog[spark,s3]"]),
        ("emr", ["tidelog[arrow,s3]"]),
    ],
)
def test_images_have_the_locked_versions_of_all_that_they_need(lock: str, wanted: list[str]) -> None:
    """An image's lock has what its extras need, in the versions and with the hashes that the tests ran with."""
    whole, part = _blocks(ROOT / "requirements.lock"), _blocks(INFRA / f"docker/{lock}.lock")
    assert {name: _pin(entry) for name, entry in part.items()} == {name: _pin(whole[name]) for name in part}
    asked, needed = [Requirement(each) for each in wanted], set()
    while asked:
        requirement = asked.pop()
        needed.add(str(canonicalize_name(requirement.name)))
        below = [Requirement(line) for line in importlib.metadata.distribution(requirement.name).requires or []]
        asked += [
            each for each in below
            if str(canonicalize_name(each.name)) not in needed
            and (each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in {*requirement.extras, ""}))
        ]  # fmt: skip
    assert needed - {"tidelog"} <= set(part)


@pytest.mark.parametrize(
    ("image", "user"), [("gateway", "10001:10001"), ("spark", "10001:10001"), ("emr", "hadoop:hadoop")]
)
def test_images_are_built_from_every_package_and_run_without_root(image: str, user: str) -> None:
    """Each package of the wheel is copied, nothing else of the checkout is, and the last user is not root."""
    text = (INFRA / f"docker/{image}.Dockerfile").read_text()
    wheel = re.search(r"^packages = \[(.*)\]$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert wheel is not None
    packages = set(re.findall(r'"(\w+)"', wheel.group(1)))
    assert set(re.findall(r"^COPY (\w+) \1$", text, re.MULTILINE)) == packages
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert {f"!{name}" for name in packages} <= set(ignored)
    assert re.findall(r"^USER (\S+)$", text, re.MULTILINE)[-1] == user
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert bases == ["${BASE}"] * 2 or all(re.search(r":[0-9]+\.[0-9]", base) for base in bases)


def test_emr_runs_what_its_image_has() -> None:
    """The image's base is the release that Terraform asks for, and what a round starts lies where the image puts it."""
    image = (INFRA / "docker/emr.Dockerfile").read_text()
    module = INFRA / "terraform/modules/maintenance"
    (release,) = re.findall(r'default +  *= "(emr-[^"]+)"', (module / "variables.tf").read_text())
    assert f"/spark/{release}:" in image
    (entry_point,) = re.findall(r'"local://([^"]+)"', (module / "emr.tf").read_text())
    assert f"COPY infra/docker/emr-maintenance.py {entry_point}\n" in image
    assert "pyspark" not in _blocks(INFRA / "docker/emr.lock"), "EMR brings its own"


def test_costs_are_computed() -> None:
    """docs/cost.md is what its program makes of the measured requests and of the prices: no figure was put in by hand."""
    program = runpy.run_path(str(INFRA / "cost.py"))
    assert program["OUTPUT"].read_text() == program["document"]()
    one, ten, hundred = program["LOADS"]
    assert program["measured_requests_per_flush"]() >= 2
    assert program["flushes_per_second"](one) == 1000 / program["FLUSH_MS"]
    for side in ("tidelog", "kafka"):
        bills = [sum(program[side](load).values()) for load in (one, ten, hundred)]
        assert bills == sorted(bills)
    assert program["DRAIN_MS"] == limits.DRAIN_MS
    assert program["shared_puts"](1_000, 1) < program["own_puts"](1_000, 1) / 50


@pytest.mark.parametrize(("option", "status"), [("--help", 0), ("--what", 2)])
def test_asking_what_the_bill_is_made_by_writes_nothing(tmp_path: Path, option: str, status: int) -> None:
    """``--help`` explains, and an option that is none is refused: docs/cost.md stays as it is."""
    for name in ("infra/cost.py", "infra/cost.md.template", "benchmarks/README.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / "docs").mkdir()
    program: list[str | Path] = [sys.executable, tmp_path / "infra" / "cost.py", option]
    ended = subprocess.run(program, capture_output=True, check=False, timeout=60)
    assert (ended.returncode, b"usage:" in ended.stdout + ended.stderr) == (status, True)
    assert list((tmp_path / "docs").iterdir()) == []
