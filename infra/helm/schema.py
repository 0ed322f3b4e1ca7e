"""The schema of the chart's values: what Helm refuses before it makes any object."""
# ruff: noqa: INP001 - part of a program of its own

from __future__ import annotations

from typing import Any, Final

INTEGER_MAX: Final = 2**53 - 1
"""Largest integer that Helm reads from a file without loss: it takes every number for a float."""
TEXTS: Final[dict[str, Any]] = {
    "description": "Texts by name. Numbers are taken as they are; on, off, true and the like must be in quotes.",
    "type": "object",
    "additionalProperties": {
        "type": ["string", "number", "boolean"],
        "minimum": -INTEGER_MAX,
        "maximum": INTEGER_MAX,
    },
}
VARIABLES: Final = {**TEXTS, "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}}
SWITCH: Final = {"type": "boolean"}
COUNT: Final = {"type": "integer", "minimum": 1}
CPU: Final = {"type": ["string", "number"], "pattern": "^[0-9]+m?$|^[0-9]*[.][0-9]+$"}
MEMORY: Final = {"type": "string", "pattern": "^[0-9]+([.][0-9]+)?(Ki|Mi|Gi|Ti|k|M|G|T)$"}
OBJECTS: Final = {"type": "array", "items": {"type": "object"}}
NAMED: Final = {
    "type": "array",
    "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
}


def _group(properties: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a group that has exactly these values: null, by which Helm removes a default, is refused, too."""
    return {"type": "object", "additionalProperties": False, "required": [*properties], "properties": properties}


def schema() -> dict[str, Any]:
    """Return the schema of ``values.yaml``, as JSON Schema of draft 7."""
    pod = {
        "roleAnnotations": TEXTS,
        "podAnnotations": TEXTS,
        "podLabels": TEXTS,
        "nodeSelector": {"type": "object", "additionalProperties": {"type": "string"}},
        "tolerations": OBJECTS,
        "affinity": {"type": "object"},
        "priorityClassName": {"type": "string"},
        "volumes": NAMED,
        "volumeMounts": NAMED,
        "cpu": CPU,
    }
    image = {"type": "string", "minLength": 1}
    gateway = {
        "replicasMin": COUNT,
        "replicasMax": COUNT,
        "memory": {**MEMORY, "pattern": f"^$|{MEMORY['pattern']}"},
        "settings": VARIABLES,
        "serviceAnnotations": TEXTS,
    }
    groups = {
        "images": _group({"gateway": image, "spark": image, "pullSecrets": NAMED}),
        "store": VARIABLES,
        "tls": _group({"enabled": SWITCH}),
        "auth": _group({"enabled": SWITCH, "bootstrapToken": SWITCH}),
        "gateway": _group({**pod, **gateway}),
        "maintenance": _group({**pod, "memory": MEMORY}),
        "kafka": _group({"enabled": SWITCH}),
        "network": _group({"egress": OBJECTS}),
    }
    whole = _group(groups)
    # A chart that has this one as a part hands both over: https://helm.sh/docs/chart_template_guide/subcharts_and_globals
    whole["properties"] = {**groups, "global": {"type": "object"}, "enabled": SWITCH}
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Values of the chart tidelog", **whole}
