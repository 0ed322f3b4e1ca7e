"""What ``kubectl kustomize`` and ``helm template`` would make of ``infra/``, as far as its files use them.

``make kubernetes`` compares what the two programs themselves make; this is for tests that have neither.
"""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema_rs
import yaml

from tests.support.go_templates import Templates


def kustomized(directory: Path, *components: str) -> list[dict[str, Any]]:
    """The objects of a kustomization: resources, its namespace, images, maps that it makes, patches of components."""
    main = yaml.safe_load((directory / "kustomization.yaml").read_text())
    objects = [each for name in main["resources"] for each in yaml.safe_load_all((directory / name).read_text())]
    for component in components:
        added = yaml.safe_load((directory / component / "kustomization.yaml").read_text())
        objects += [
            each
            for name in added["resources"]
            for each in yaml.safe_load_all((directory / component / name).read_text())
        ]
        for patch in added["patches"]:
            for found in objects:
                if (found["kind"], found["metadata"]["name"]) == (patch["target"]["kind"], patch["target"]["name"]):
                    for operation in yaml.safe_load(patch["patch"]):
                        _patch(found, operation)
    for generator in main["configMapGenerator"]:
        data = dict(literal.split("=", 1) for literal in generator["literals"])
        objects.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": generator["name"]}, "data": data})
    images = {each["name"]: f"{each['newName']}:{each['newTag']}" for each in main["images"]}
    for each in objects:
        if each["kind"] == "Deployment":
            for container in each["spec"]["template"]["spec"]["containers"]:
                container["image"] = images[container["image"]]
    return objects


def _patch(target: Any, operation: dict[str, Any]) -> None:
    *path, last = operation["path"].removeprefix("/").split("/")
    for word in path:
        target = target[int(word) if isinstance(target, list) else word]
    if last == "-":
        target.append(deepcopy(operation["value"]))
    else:
        target[last] = operation["value"]


def templated(chart: dict[str, str], values: dict[str, Any], namespace: str) -> list[dict[str, Any]]:
    """The objects of a chart, by its files' texts. Raises ``Refused`` for values that the chart refuses, and
    ``jsonschema_rs.ValidationError`` for those that its schema does.

    ``values`` as a file has them: Helm takes each number there for a float.
    """
    jsonschema_rs.Draft7Validator(json.loads(chart["values.schema.json"])).validate(values)
    top = {"Values": _with_floats(values), "Release": {"Namespace": namespace}}
    templates = Templates({name: text for name, text in sorted(chart.items()) if name.startswith("templates/")})
    return [
        each for text in templates.render(top).values() for each in yaml.load_all(text, _Strict) if each is not None
    ]


class _Strict(yaml.CSafeLoader):  # type: ignore[misc]
    """YAML in which no map has a name twice: programs read such a map in different ways."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        names = [self.construct_object(name) for name, _ in node.value]
        assert len(set(names)) == len(names), f"a name occurs twice: {names}"
        return super().construct_mapping(node, deep)


def _with_floats(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_floats(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_floats(each) for each in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
