"""Create the chart ``tidelog/`` from ``infra/kubernetes``: ``python infra/helm/chart.py [DIRECTORY]``.

``infra/kubernetes`` is the only source of objects: templates are its files, in which the places named below become values, with
the files' texts as defaults. This program fails if a place is no longer found, and a test compares its output with the committed
chart. What a chart alone has is beside this file: ``values.yaml.template``, ``definitions.tpl`` and ``schema.py``.
"""
# ruff: noqa: INP001 - a program of its own

from __future__ import annotations

import json
import re
import sys
import textwrap
from itertools import groupby
from pathlib import Path
from string import Template
from typing import Any, Final

import yaml

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[1]
SOURCE: Final = ROOT / "infra/kubernetes"
sys.path.append(str(HERE))
from schema import schema  # noqa: E402

HEAD: Final = "Made by infra/helm/chart.py from infra/kubernetes: change it there.\n"
SPACE: Final = "{{ .Release.Namespace }}"
STORE: Final = "tidelog-store-{{ .Values.store | toJson | sha256sum | trunc 10 }}"
"""Name of the map with a digest, as kustomize adds it: other settings give another map, and so other pods."""
ONLY_WITH: Final = (
    ("TIDELOG_AUTH", ".Values.auth.enabled"),
    ("TIDELOG_TLS_", ".Values.tls.enabled"),
    ("TIDELOG_BOOTSTRAP_TOKEN_FILE", "and .Values.auth.enabled .Values.auth.bootstrapToken"),
    ("TIDELOG_CLUSTER_KEY_FILE", ".Values.auth.enabled"),
)
"""Prefixes of the gateway's variables that are there under a condition only."""
HOSTS: Final = ",".join(f"tidelog{rest}" for rest in ("", f".{SPACE}", f".{SPACE}.svc", f".{SPACE}.svc.cluster.local"))
"""Names of the Service: without tokens, a web page whose name resolves to a gateway must not be served (DNS rebinding)."""
DRAIN: Final = ("TIDELOG_DRAIN_NOTICE_MS", "TIDELOG_DRAIN_TIMEOUT_MS")
CONTAINER: Final = "/spec/template/spec/containers/0"
EGRESS: Final = "  egress:\n"


def _replaced(text: str, *changes: tuple[str, str]) -> str:
    """Return the text with each place, which must occur once, replaced by a template."""
    for old, new in changes:
        if text.count(old) != 1:
            raise SystemExit(f"{text.count(old)} times in infra/kubernetes, not once: {old!r}")
        text = text.replace(old, new)
    return text


def _part(text: str, start: str, end: str) -> str:
    """Return the one part of the text after ``start``, up to ``end``."""
    found = re.findall(f"^{re.escape(start)}(.*?)^{re.escape(end)}", text, re.MULTILINE | re.DOTALL)
    if len(found) != 1:
        raise SystemExit(f"{len(found)} times in infra/kubernetes, not once: {start!r} to {end!r}")
    return str(found[0])


def _if(condition: str, text: str, indent: int = 0) -> str:
    """Return a template that has the lines under a condition only."""
    space = " " * indent
    return f"{space}{{{{- if {condition} }}}}\n{text}{space}{{{{- end }}}}\n"


def _with(value: str, text: str, indent: int) -> str:
    """Return a template that has the text, with the value as ``.``, unless the value is empty."""
    space = " " * indent
    return f"{space}{{{{- with {value} }}}}\n{space}{text}\n{space}{{{{- end }}}}\n"


def _merged(value: str, own: dict[str, str], over: str) -> str:
    """Return the template of texts by name: the chart's own, and over them the values'."""
    words = " ".join(f'"{word}"' for pair in own.items() for word in pair)
    return f'include "tidelog.merged" (list "{value}" (dict{" " * bool(own)}{words}) {over})'


def _annotated(head: str, value: str) -> tuple[str, str]:
    """Return the replacement for an object's beginning that may get annotations, by which clouds give a role or an address."""
    return head, head + _with(f".Values.{value}", f"annotations: {{{{- {_merged(value, {}, '.')} | nindent 4 }}}}", 2)


def _listed(entry: Any, indent: int) -> str:
    """Return an entry of a list, as block YAML."""
    return textwrap.indent(yaml.safe_dump([entry], sort_keys=False), " " * indent)


def _parts(name: str) -> dict[str, Any]:
    """Return a file's objects by kind, where there is one of the kind."""
    return {each["kind"]: each for each in yaml.safe_load_all((SOURCE / name).read_text())}


def _component() -> dict[str, Any]:
    """Return what the component for Kafka's clients adds, by path."""
    component = yaml.safe_load((SOURCE / "kafka/kustomization.yaml").read_text())
    return {each["path"]: each["value"] for patch in component["patches"] for each in yaml.safe_load(patch["patch"])}


def _container(name: str) -> dict[str, Any]:
    (container,) = _parts(name)["Deployment"]["spec"]["template"]["spec"]["containers"]
    return dict(container)


def _pod(name: str) -> list[tuple[str, str]]:
    """Return the replacements that both Deployments have: labels, annotations, image, the store's map, where pods run."""
    template = _parts(f"{name}.yaml")["Deployment"]["spec"]["template"]
    changes = []
    text = ""
    for field in ("labels", "annotations"):
        own = template["metadata"][field]
        text += f"      {field}:\n" + textwrap.indent(yaml.safe_dump(own, sort_keys=False, default_style=None), " " * 8)
        value = f"{name}.pod{field.capitalize()}"
        changes.append(f"      {field}: {{{{- {_merged(value, own, f'.Values.{value}')} | nindent 8 }}}}\n")
    text = text.replace("'", '"')
    image = template["spec"]["containers"][0]["image"]
    placement = f'include "tidelog.placement" (list .Values.images .Values.{name})'
    cpu = _container(f"{name}.yaml")["resources"]["requests"]["cpu"]
    number = f'"{cpu}"' if cpu.isdigit() else cpu
    return [
        _annotated(f"kind: ServiceAccount\nmetadata:\n  name: tidelog-{name}\n", f"{name}.roleAnnotations"),
        (text, "".join(changes)),
        (f"image: {image}\n", f"image: {{{{ .Values.images.{image.removeprefix('tidelog-')} | quote }}}}\n"),
        ("configMapRef:\n                name: tidelog-store\n", f"configMapRef:\n                name: {STORE}\n"),
        (
            "      enableServiceLinks: false\n",
            "      enableServiceLinks: false\n" + _with(placement, "{{- . | nindent 6 }}", 6),
        ),
        (f"cpu: {number}\n", f"cpu: {{{{ .Values.{name}.cpu | quote }}}}\n"),
    ]


def _more(name: str, field: str, indent: int) -> str:
    """Return the template of a pod's further volumes or mounts."""
    return _with(f".Values.{name}.{field}", f"{{{{- toYaml . | nindent {indent} }}}}", indent)


def _environment(text: str, kafka: dict[str, Any]) -> tuple[str, str]:
    """Return the gateway's variables with texts as a definition, and the template of all variables, each once."""
    entries = re.findall(r"((?: +#.*\n)*) +- name: (\w+)\n((?: {14}.*\n)+)", text)
    defined: list[tuple[str, str]] = []
    listed = ""
    for comments, name, rest in entries:
        value = yaml.safe_load(rest).get("value")
        if value is None:
            entry = f"{comments}            - name: {name}\n{rest}"
            listed += _if(f'not (hasKey .Values.gateway.settings "{name}")', entry, 12)
            continue
        line = f"{name}: {json.dumps(value)}\n".replace("tidelog.tidelog.svc", f"tidelog.{SPACE}.svc")
        if name == "TIDELOG_AUTH":
            line += f'{{{{- else }}}}\nTIDELOG_AUTH: "off"\nTIDELOG_INSECURE: "true"\nTIDELOG_ALLOWED_HOSTS: {HOSTS}\n'
        condition = next((condition for prefix, condition in ONLY_WITH if name.startswith(prefix)), "")
        defined.append((condition, textwrap.dedent(comments) + line))
    variable = kafka[f"{CONTAINER}/env/-"]
    defined.append((".Values.kafka.enabled", f"{variable['name']}: {json.dumps(variable['value'])}\n"))
    text = ""
    for condition, lines in groupby(defined, key=lambda each: each[0]):
        together = "".join(line for _, line in lines)
        text += _if(condition, together) if condition else together
    listed += (
        "            {{- range $name, $value := $environment }}\n            - name: {{ $name }}\n"
        "              value: {{ $value | quote }}\n            {{- end }}\n"
    )
    return f'{{{{- define "tidelog.gateway.environment" }}}}\n{text}{{{{- end }}}}\n', listed


def _secrets(text: str, field: str, indent: int) -> str:
    """Return the gateway's volumes or mounts with their secrets' conditions, and further ones."""
    space = " " * indent
    entries = re.split(f"(?=^{space}- name: tls\n)", text, flags=re.MULTILINE)
    kept = _if(".Values.auth.enabled", entries[0], indent) + _if(".Values.tls.enabled", entries[1], indent)
    head = f"{space[2:]}{field}:\n"
    condition = f"or .Values.auth.enabled .Values.tls.enabled .Values.gateway.{field}"
    return _if(condition, head + kept + _more("gateway", field, indent), indent - 2)


def _gateway(kafka: dict[str, Any]) -> str:
    text = (SOURCE / "gateway.yaml").read_text()
    scaler = _parts("gateway.yaml")["HorizontalPodAutoscaler"]["spec"]
    pod = _parts("gateway.yaml")["Deployment"]["spec"]["template"]["spec"]
    limit, limit_kafka = _limits(kafka)
    environment = _part(text, "          env:\n", "          volumeMounts:\n")
    volumes = _part(text, "      volumes:\n", "      containers:\n")
    mounts = _part(text, "          volumeMounts:\n", "          ports:\n")
    port = _listed(kafka[f"{CONTAINER}/ports/-"], 12)
    values = {each["name"]: each.get("value") for each in _container("gateway.yaml")["env"]}
    grace = pod["terminationGracePeriodSeconds"]
    rest = grace - sum(int(values[name]) for name in DRAIN) // 1000
    drain = " ".join(f"(int64 $environment.{name})" for name in DRAIN)
    defined, listed = _environment(environment, kafka)
    merged = 'include "tidelog.gateway.environment" . | fromYaml'
    merged = f'include "tidelog.merged" (list "gateway.settings" ({merged}) .Values.gateway.settings) | fromYaml'
    return defined + f"{{{{- $environment := {merged} }}}}\n" + _replaced(
        text,
        (f"          env:\n{environment}", f"          env:\n{listed}"),
        (f"      volumes:\n{volumes}", _secrets(volumes, "volumes", 8)),
        (f"          volumeMounts:\n{mounts}", _secrets(mounts, "volumeMounts", 12)),
        *_pod("gateway"),
        _annotated("kind: Service\nmetadata:\n  name: tidelog\n", "gateway.serviceAnnotations"),
        ("appProtocol: https\n", 'appProtocol: {{ ternary "https" "http" .Values.tls.enabled }}\n'),
        (f"Seconds: {grace}\n", f"Seconds: {{{{ add {rest} (div (add {drain}) 1000) }}}}\n"),
        (
            "              containerPort: 8081\n",
            "              containerPort: 8081\n" + _if(".Values.kafka.enabled", port, 12),
        ),
        (
            f"memory: {limit}\n",
            f'memory: {{{{ .Values.gateway.memory | default (ternary "{limit_kafka}" "{limit}" .Values.kafka.enabled) }}}}\n',
        ),
        (f"minReplicas: {scaler['minReplicas']}\n", "minReplicas: {{ .Values.gateway.replicasMin }}\n"),
        (f"maxReplicas: {scaler['maxReplicas']}\n", "maxReplicas: {{ .Values.gateway.replicasMax }}\n"),
    )  # fmt: skip


def _limits(kafka: dict[str, Any]) -> tuple[str, str]:
    """Return a gateway's limit of memory without and with a listener for Kafka's clients."""
    return _container("gateway.yaml")["resources"]["limits"]["memory"], kafka[f"{CONTAINER}/resources/limits/memory"]


def _maintenance() -> str:
    text = (SOURCE / "maintenance.yaml").read_text()
    mounts = _part(text, "          volumeMounts:\n", "          securityContext:\n")
    limit = _container("maintenance.yaml")["resources"]["limits"]["memory"]
    return _replaced(
        text,
        *_pod("maintenance"),
        (f"memory: {limit}\n", "memory: {{ .Values.maintenance.memory }}\n"),
        (mounts, mounts + _more("maintenance", "volumeMounts", 12)),
    ) + _more("maintenance", "volumes", 8)  # the file ends with the pod's volumes


def _network(kafka: dict[str, Any]) -> str:
    """Return both policies. The store's rule is the last of each, and becomes a value."""
    text = (SOURCE / "network.yaml").read_text()
    first = "      ports:\n        - port: http\n    - from:\n"
    port = _if(".Values.kafka.enabled", _listed(kafka["/spec/ingress/0/ports/-"], 8), 8)
    text = _replaced(text, (first, f"      ports:\n        - port: http\n{port}    - from:\n"))
    kept, *policies = re.split(r"^(?=    - to: # edit)", text, flags=re.MULTILINE)
    rule = _with(".Values.network.egress", "{{- toYaml . | nindent 4 }}", 4)
    rests = [each.partition("---\n") for each in policies]
    if len({each[0] for each in rests}) != 1:
        raise SystemExit("the policies of infra/kubernetes let gateways and maintenance reach different stores")
    return kept + "".join(rule + line + rest for _, line, rest in rests)


def _values(kafka: dict[str, Any]) -> str:
    """Return the default values, which are the source's texts."""
    main = yaml.safe_load((SOURCE / "kustomization.yaml").read_text())
    images = {each["name"]: f"{each['newName']}:{each['newTag']}" for each in main["images"]}
    store = dict(literal.split("=", 1) for literal in main["configMapGenerator"][0]["literals"])
    store.pop("TIDELOG_STORE")
    gateway, maintenance = (_container(f"{name}.yaml")["resources"] for name in ("gateway", "maintenance"))
    scaler = _parts("gateway.yaml")["HorizontalPodAutoscaler"]["spec"]
    egress = [each["spec"]["egress"][-1] for each in yaml.safe_load_all((SOURCE / "network.yaml").read_text())]
    pod = "  podAnnotations: {}\n  podLabels: {}\n  nodeSelector: {}\n  tolerations: []\n  affinity: {}\n"
    limit, limit_kafka = _limits(kafka)
    return Template((HERE / "values.yaml.template").read_text()).substitute(
        head=HEAD,
        gateway_image=images["tidelog-gateway"],
        spark_image=images["tidelog-spark"],
        store="".join(f"  {name}: {value}\n" for name, value in store.items()),
        replicas_min=scaler["minReplicas"],
        replicas_max=scaler["maxReplicas"],
        gateway_cpu=gateway["requests"]["cpu"],
        gateway_request=gateway["requests"]["memory"],
        gateway_memory=limit,
        kafka_memory=limit_kafka,
        gateway_pod=pod + '  priorityClassName: ""\n',
        maintenance_cpu=maintenance["requests"]["cpu"],
        maintenance_request=maintenance["requests"]["memory"],
        maintenance_memory=maintenance["limits"]["memory"],
        maintenance_pod=pod + '  priorityClassName: ""\n',
        egress=_listed(egress[0], 4).rstrip("\n"),
    )


def files() -> dict[str, str]:
    """Return the chart's files and their texts."""
    kafka = _component()
    (version,) = re.findall(r'^__version__ = "(.+)"$', (ROOT / "log_format/version.py").read_text(), re.MULTILINE)
    data = f"data: {{{{- {_merged('store', {}, '.Values.store')} | nindent 2 }}}}\n"
    config = (
        f'{{{{- include "tidelog.check" . }}}}\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {STORE}\n{data}'
    )
    templates = {
        "_definitions.tpl": f"{{{{- /* {HEAD.rstrip()} */ -}}}}\n" + (HERE / "definitions.tpl").read_text(),
        "config.yaml": f"# {HEAD}" + config,
        "gateway.yaml": f"# {HEAD}" + _gateway(kafka),
        "maintenance.yaml": f"# {HEAD}" + _maintenance(),
        "network.yaml": f"# {HEAD}" + _network(kafka),
        "kafka.yaml": f"# {HEAD}" + _if(".Values.kafka.enabled", (SOURCE / "kafka/service.yaml").read_text()),
    }
    about = {"apiVersion": "v2", "name": "tidelog", "description": "A message log on object storage, with maintenance"}
    about |= {"type": "application", "version": version, "appVersion": version}
    return {
        "Chart.yaml": f"# {HEAD}" + yaml.safe_dump(about, sort_keys=False),
        "values.yaml": _values(kafka),
        "values.schema.json": json.dumps(schema(), indent=2) + "\n",
        **{f"templates/{name}": text for name, text in templates.items()},
    }


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "infra/helm/tidelog"
    for name, text in files().items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
