"""What lies in ``infra/`` speaks of settings, metrics, packages and versions that exist. Schemas are ``make lint-infra``'s."""

from __future__ import annotations

import importlib.metadata
import json
import os
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
from gateway.settings.settings import Settings, SettingsError
from log_format import limits
from log_format.clock import SystemClock
from log_format.version import __version__
from tests.support.access import bootstrap_file
from tests.support.certificate_authority import Authority
from tests.support.compose import services
from tests.support.gateway_process import running_gateway

ROOT = Path(__file__).resolve().parents[3]
INFRA = ROOT / "infra"
OTHER_VARIABLES = {"TIDELOG_URL", "TIDELOG_CACHE", "TIDELOG_CA_FILE", "TIDELOG_TOKEN"}
"""Of the command line and of set-up; all others in ``infra/`` are the gateway's."""


def _texts(*suffixes: str) -> Iterator[tuple[Path, str]]:
    return ((path, path.read_text()) for path in sorted(INFRA.rglob("*")) if path.suffix in suffixes)


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> set[str]:
    """The names of all series that a gateway can have, by what it says in /metrics; and those of maintenance."""
    directory = tmp_path_factory.mktemp("gateway")
    path, token = bootstrap_file(directory)
    cert, key = authority.issue()
    settings = ("--auth", "on", "--bootstrap-token-file", str(path), "--tls-cert", cert, "--tls-key", key)
    with running_gateway("memory://metrics", directory / "log", *settings, trust=authority.trust()) as gateway:
        text = gateway.http.get("/metrics", headers={"authorization": f"Bearer {token}"}).text
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


def test_containers_have_time() -> None:
    """A container is not killed before its drain has had its time."""
    pod = _documents("gateway.yaml")["Deployment", "tidelog-gateway"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    values = {each["name"]: each.get("value") for each in container["env"]}
    drain_ms = int(values["TIDELOG_DRAIN_NOTICE_MS"]) + int(values["TIDELOG_DRAIN_TIMEOUT_MS"])
    assert drain_ms < pod["terminationGracePeriodSeconds"] * 1000
    probe = container["readinessProbe"]
    assert int(values["TIDELOG_DRAIN_NOTICE_MS"]) >= probe["periodSeconds"] * probe["failureThreshold"] * 1000
    for name in ("gateway-1", "gateway-2"):
        service = services()[name]
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


def _images() -> dict[str, set[str]]:
    """The images that each file of ``infra`` names: bases of Dockerfiles, those of services and containers."""
    named = re.compile(r"^ *(?:ARG BASE=(?!\")|FROM |-? *image: *\"?)([^\s\"]+)", re.MULTILINE)
    paths = [path for path in INFRA.rglob("*") if path.suffix in (".Dockerfile", ".yaml", ".yml")]
    found = {path.relative_to(INFRA).as_posix(): set(named.findall(path.read_text())) for path in paths}
    return {name: images - {"${BASE}", "scratch", "{{"} for name, images in found.items()}


OWN_IMAGES = {"tidelog-gateway", "tidelog-spark"}
BUILT_FOR_THE_CLUSTER = {
    f"docker.io/library/{name}:line"
    for name in ("coredns", "metrics-server", "minio-stand-in", "policies", "tidelog-gateway")
}
"""By ``infra/cluster/build.py``, from versions that its module pins."""
PINNED = re.compile(r"[a-z0-9./-]+:[A-Za-z.]*v?[0-9]+[.-][0-9][\w.-]*@sha256:[0-9a-f]{64}")


def test_what_is_fetched_has_a_version() -> None:
    """Every public image has a version and a digest, the same wherever it is named; no program is the newest of the day."""
    images = {name: found - BUILT_FOR_THE_CLUSTER for name, found in _images().items()}
    assert {name for name, found in images.items() if found - OWN_IMAGES} == {
        "docker/gateway.Dockerfile", "docker/spark.Dockerfile", "local/compose.yaml",
    }  # fmt: skip
    fetched = set().union(*images.values()) - OWN_IMAGES
    assert [image for image in sorted(fetched) if not PINNED.fullmatch(image)] == []
    assert len({image.partition(":")[0] for image in fetched}) == len(fetched), "two versions of one image"
    terraform = "".join(path.read_text() for path in (INFRA / "terraform").rglob("*.tf"))
    defaults = re.findall(r'variable "\w*image" \{[^}]*?default += +"([^"]+)"', terraform)
    assert defaults == [], "Terraform is told its images"
    assert re.findall(r'"[a-z0-9.-]+(?:/[a-z0-9._-]+)+:[\w.-]+"', terraform) == [], "nor does it name one by a tag"
    scripts = [*(ROOT / "scripts").glob("*.sh"), *INFRA.rglob("*.sh")]
    assert [path.name for path in scripts if "@latest" in path.read_text()] == []


def test_an_image_whose_digest_nobody_knows_has_no_default() -> None:
    """In place of a base by its tag stands a sentence, which no builder takes for an image: what to give and how to find it."""
    (sentence,) = re.findall(r'^ARG BASE="(.*)"$', (INFRA / "docker/emr.Dockerfile").read_text(), re.MULTILINE)
    (image,) = re.findall(
        r"^Give --build-arg BASE=(\S+)@sha256:DIGEST as \S+ buildx imagetools inspect \1:latest shows it$", sentence
    )
    told = (ROOT / "docs/deploy.md").read_text()
    assert f"docker buildx imagetools inspect {image}:latest " in told
    assert f"--build-arg BASE={image}@sha256:DIGEST " in told


def test_gateways_start_where_they_are_put(tmp_path: Path) -> None:
    """Beyond loopback a gateway needs authentication, or to be told that none is meant: each installation says one of them."""
    secret = tmp_path / "secret"
    secret.write_text("x" * 64)
    pod = _documents("gateway.yaml")["Deployment", "tidelog-gateway"]["spec"]["template"]["spec"]
    of_pod = {each["name"]: each.get("value") for each in pod["containers"][0]["env"] if "value" in each}
    mounts = {Path(each["mountPath"]) for each in pod["containers"][0]["volumeMounts"]}
    for name in ("BOOTSTRAP_TOKEN_FILE", "CLUSTER_KEY_FILE", "TLS_CERT", "TLS_KEY", "TLS_CA"):
        assert Path(of_pod[f"TIDELOG_{name}"]).parent in mounts
        assert Path(of_pod[f"TIDELOG_{name}"]).name in (INFRA / "kubernetes/kustomization.yaml").read_text()
    assert {volume["secret"]["defaultMode"] for volume in pod["volumes"]} == {0o440}
    assert pod["securityContext"]["fsGroup"] == 10001
    made = dict.fromkeys(("BOOTSTRAP_TOKEN", "CLUSTER_KEY", "MINIO_ROOT_PASSWORD"), "x" * 8)
    of_compose = services()["gateway-1"]["environment"]
    of_overlay = services("auth", **made)["gateway-1"]["environment"]
    for environment, auth, insecure in (
        (of_pod, "on", False),
        (of_compose, "off", True),
        (of_overlay, "on", False),
    ):
        given = {name: str(value) for name, value in environment.items()} | {"TIDELOG_HOST": "0.0.0.0"}
        settings = Settings.read({"TIDELOG_STORE": "x", **given}, {"advertised_url": None})
        assert (settings.auth, settings.insecure) == (auth, insecure)
        with pytest.raises(SettingsError, match="auth is off"):
            Settings.read({"TIDELOG_STORE": "x", **given}, {"auth": "off", "insecure": False})


def test_the_entry_point_hands_secrets_over_in_files(tmp_path: Path) -> None:
    """What comes in variables goes into files of mode 0600, and no variable is left for the programs behind it."""
    programs = tmp_path / "bin"
    programs.mkdir()
    looks = """env; stat -c '%a %n' "$TIDELOG_BOOTSTRAP_TOKEN_FILE" "$TIDELOG_CLUSTER_KEY_FILE" """
    (programs / "python").write_text(f"#!/bin/sh\n{looks}\n")
    (programs / "python").chmod(0o755)
    environment = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "TMPDIR": str(tmp_path),
        "TIDELOG_ADVERTISED_URL": "http://127.0.0.1:1",
        "GATEWAY_BOOTSTRAP_TOKEN": "tl_bootstrap_secret",
        "GATEWAY_CLUSTER_KEY": "cluster-secret",
    }
    command = ["sh", str(INFRA / "docker/gateway-entrypoint.sh")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert "secret" not in done.stdout
    assert re.findall(r"^600 .*/tidelog-([a-z-]+)$", done.stdout, re.MULTILINE) == ["bootstrap-token", "cluster-key"]
    assert (tmp_path / "tidelog-bootstrap-token").read_text() == "tl_bootstrap_secret\n"


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
        ("spark", ["tidelog[cli,spark,s3]"]),
        ("emr", ["tidelog[arrow,cli,s3]"]),
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
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE) == ["${BASE}"] * 2


def test_emr_runs_what_its_image_has() -> None:
    """The image's base is the release that Terraform asks for, and what a round starts lies where the image puts it."""
    image = (INFRA / "docker/emr.Dockerfile").read_text()
    module = INFRA / "terraform/modules/maintenance"
    (release,) = re.findall(r'default +  *= "(emr-[^"]+)"', (module / "variables.tf").read_text())
    assert f"/spark/{release}@sha256:" in image
    (entry_point,) = re.findall(r'"local://([^"]+)"', (module / "emr.tf").read_text())
    assert f"COPY infra/docker/emr-maintenance.py {entry_point}\n" in image
    assert "pyspark" not in _blocks(INFRA / "docker/emr.lock"), "EMR brings its own"


def test_costs_are_computed() -> None:
    """docs/cost.md is what its program makes of the measured requests and of the prices: no figure was put in by hand."""
    program = runpy.run_path(str(INFRA / "cost.py"))
    assert program["OUTPUT"].read_text() == program["document"]()
    few, many = program["LOADS"][::2], program["LOADS"][1::2]
    puts, gets = program["measured_flush"]()
    assert 2 <= puts < 3
    assert 0 <= gets < puts
    assert program["flushes_per_second"](few[0]) == few[0].topics * 1000 / program["FLUSH_MS"]
    for loads in (few, many):
        for side in ("tidelog", "kafka"):
            bills = [sum(program[side](load).values()) for load in loads]
            assert bills == sorted(bills)
        for load in loads:
            own, shared = program["tidelog"](load), program["tidelog"](load, shared=True)
            assert shared["PUT, LIST"] < own["PUT, LIST"]
            assert {"PUT, LIST", "GET, HEAD"} <= own.keys(), "kinds with prices of their own"
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
