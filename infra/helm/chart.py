"""Create the chart ``tidelog/`` from ``infra/kubernetes``: ``python infra/helm/chart.py [DIRECTORY]``.

``infra/kubernetes`` is the only source: templates are its files, in which the places named below become values, with the files'
texts as defaults. This program fails if a place is no longer found, and a test compares its output with the committed chart.
"""
# ruff: noqa: INP001 - a program of its own

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCE: Final = ROOT / "infra/kubernetes"
HEAD: Final = "Made by infra/helm/chart.py from infra/kubernetes: change it there.\n"
STORE: Final = "tidelog-store-{{ .Values.store | toJson | sha256sum | trunc 10 }}"
"""Name of the map with a digest, as kustomize adds it: other settings give another map, and so other pods."""
EGRESS: Final = "\n{{- with .Values.network.egress }}\n{{ toYaml . | nindent 4 }}\n{{- end }}\n"


def _replaced(text: str, *changes: tuple[str, str]) -> str:
    """Return the text with each place, which must occur once, replaced by a template."""
    for old, new in changes:
        if text.count(old) != 1:
            raise SystemExit(f"{text.count(old)} times in infra/kubernetes, not once: {old!r}")
        text = text.replace(old, new)
    return text


def _account(name: str, value: str) -> tuple[str, str]:
    """Return the replacement for a service account that may get annotations, by which clouds give it a role."""
    head = f"kind: ServiceAccount\nmetadata:\n  name: tidelog-{name}\n"
    annotations = "  annotations: {{- toYaml . | nindent 4 }}\n"
    return head, head + "  {{- with .Values." + value + ".roleAnnotations }}\n" + annotations + "  {{- end }}\n"


def _if_kafka(text: str, otherwise: str = "") -> str:
    """Return a template that is included only with the listener for Kafka's clients."""
    other = f"{{{{- else }}}}\n{otherwise}" if otherwise else ""
    return f"{{{{- if .Values.kafka.enabled }}}}\n{text}{other}{{{{- end }}}}\n"


def _listed(entry: Any, indent: int) -> str:
    """Return an entry of a list, as block YAML."""
    lines = yaml.safe_dump([entry], sort_keys=False).splitlines(keepends=True)
    return "".join(" " * indent + line for line in lines)


def _parts(name: str) -> dict[str, Any]:
    """Return a file's objects by kind, where there is one of the kind."""
    return {each["kind"]: each for each in yaml.safe_load_all((SOURCE / name).read_text())}


def _component() -> dict[str, Any]:
    """Return what the component for Kafka's clients adds, by path."""
    component = yaml.safe_load((SOURCE / "kafka/kustomization.yaml").read_text())
    return {each["path"]: each["value"] for patch in component["patches"] for each in yaml.safe_load(patch["patch"])}


def _gateway(kafka: dict[str, Any]) -> str:
    container = "/spec/template/spec/containers/0"
    scaler = _parts("gateway.yaml")["HorizontalPodAutoscaler"]["spec"]
    resources = _container("gateway.yaml")["resources"]
    limit = " " * 14 + "memory: "
    variable, port = _listed(kafka[f"{container}/env/-"], 12), _listed(kafka[f"{container}/ports/-"], 12)
    return _replaced(
        (SOURCE / "gateway.yaml").read_text(),
        _account("gateway", "gateway"),
        ("          image: tidelog-gateway\n", "          image: {{ .Values.images.gateway | quote }}\n"),
        ("configMapRef:\n                name: tidelog-store\n", f"configMapRef:\n                name: {STORE}\n"),
        ("value: tidelog.tidelog.svc\n", "value: tidelog.{{ .Release.Namespace }}.svc\n"),
        (
            "          volumeMounts:\n",
            "            {{- range $name, $value := .Values.gateway.settings }}\n            - name: {{ $name }}\n"
            "              value: {{ $value | quote }}\n            {{- end }}\n"
            + _if_kafka(variable) + "          volumeMounts:\n",
        ),
        ("              containerPort: 8081\n", "              containerPort: 8081\n" + _if_kafka(port)),
        (f'cpu: "{resources["requests"]["cpu"]}"\n', "cpu: {{ .Values.gateway.cpu | quote }}\n"),
        (
            f"{limit}{resources['limits']['memory']}\n",
            _if_kafka(f"{limit}{{{{ .Values.kafka.memory }}}}\n", f"{limit}{{{{ .Values.gateway.memory }}}}\n"),
        ),
        (f"minReplicas: {scaler['minReplicas']}\n", "minReplicas: {{ .Values.gateway.replicasMin }}\n"),
        (f"maxReplicas: {scaler['maxReplicas']}\n", "maxReplicas: {{ .Values.gateway.replicasMax }}\n"),
    )  # fmt: skip


def _container(name: str) -> dict[str, Any]:
    (container,) = _parts(name)["Deployment"]["spec"]["template"]["spec"]["containers"]
    return dict(container)


def _maintenance() -> str:
    resources = _container("maintenance.yaml")["resources"]
    return _replaced(
        (SOURCE / "maintenance.yaml").read_text(),
        _account("maintenance", "maintenance"),
        ("          image: tidelog-spark\n", "          image: {{ .Values.images.spark | quote }}\n"),
        ("configMapRef:\n                name: tidelog-store\n", f"configMapRef:\n                name: {STORE}\n"),
        (f"cpu: {resources['requests']['cpu']}\n", "cpu: {{ .Values.maintenance.cpu | quote }}\n"),
        (f"memory: {resources['limits']['memory']}\n", "memory: {{ .Values.maintenance.memory }}\n"),
    )


def _network(kafka: dict[str, Any]) -> str:
    text = (SOURCE / "network.yaml").read_text()
    first = "      ports:\n        - port: http\n    - from:\n"
    port = _listed(kafka["/spec/ingress/0/ports/-"], 8)
    text = _replaced(text, (first, "      ports:\n        - port: http\n" + _if_kafka(port) + "    - from:\n"))
    # Each policy ends with its egress rules.
    return "---\n".join(policy.rstrip("\n") + EGRESS for policy in text.split("---\n"))


def _values(kafka: dict[str, Any]) -> str:
    """Return the default values, which are the source's texts."""
    main = yaml.safe_load((SOURCE / "kustomization.yaml").read_text())
    images = {each["name"]: f"{each['newName']}:{each['newTag']}" for each in main["images"]}
    store = dict(literal.split("=", 1) for literal in main["configMapGenerator"][0]["literals"])
    gateway, maintenance = (_container(f"{name}.yaml")["resources"] for name in ("gateway", "maintenance"))
    scaler = _parts("gateway.yaml")["HorizontalPodAutoscaler"]["spec"]
    limit = kafka["/spec/template/spec/containers/0/resources/limits/memory"]
    return f"""# {HEAD}#
# Before the first installation, in its namespace: the secrets tidelog-access and tidelog-tls, as
# infra/kubernetes/kustomization.yaml makes them (the certificate is for tidelog.NAMESPACE.svc); elsewhere than on AWS
# tidelog-store with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, too. Names of objects are fixed: one release a namespace.
images:
  gateway: {images["tidelog-gateway"]} # your registry
  spark: {images["tidelog-spark"]} # your registry
store: # variables of gateways and maintenance
{"".join(f"  {name}: {value}{chr(10)}" for name, value in store.items())}gateway:
  replicasMin: {scaler["minReplicas"]}
  replicasMax: {scaler["maxReplicas"]}
  cpu: "{gateway["requests"]["cpu"]}"
  memory: {gateway["limits"]["memory"]} # the limit; docs/operations.md, "Sizing"
  settings: {{}} # more variables: TIDELOG_LOG_LEVEL: info
  roleAnnotations: {{}} # of the service account: eks.amazonaws.com/role-arn: …
maintenance:
  cpu: {maintenance["requests"]["cpu"]}
  memory: {maintenance["limits"]["memory"]} # the limit
  roleAnnotations: {{}}
kafka: # a listener for Kafka's clients, at tidelog-kafka:9092
  enabled: false
  memory: {limit} # a gateway's limit then
network:
  egress: [] # more rules outwards, such as to a MinIO in the cluster
"""


def files() -> dict[str, str]:
    """Return the chart's files and their texts."""
    kafka = _component()
    (version,) = re.findall(r'^__version__ = "(.+)"$', (ROOT / "log_format/version.py").read_text(), re.MULTILINE)
    data = "data: {{- toYaml .Values.store | nindent 2 }}\n"
    config = f"# {HEAD}apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {STORE}\n{data}"
    templates = {
        "config": config,
        "gateway": f"# {HEAD}" + _gateway(kafka),
        "maintenance": f"# {HEAD}" + _maintenance(),
        "network": f"# {HEAD}" + _network(kafka),
        "kafka": f"# {HEAD}" + _if_kafka((SOURCE / "kafka/service.yaml").read_text()),
    }
    about = {"apiVersion": "v2", "name": "tidelog", "description": "A message log on object storage, with maintenance"}
    about |= {"type": "application", "version": version, "appVersion": version}
    return {
        "Chart.yaml": f"# {HEAD}" + yaml.safe_dump(about, sort_keys=False),
        "values.yaml": _values(kafka),
        **{f"templates/{name}.yaml": text for name, text in templates.items()},
    }


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "infra/helm/tidelog"
    for name, text in files().items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
