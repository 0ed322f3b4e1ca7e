"""What ``kubectl kustomize`` and ``helm template`` would make of ``infra/``, as far as its files use them.

``make kubernetes`` compares what the two programs themselves make; this is for tests that have neither.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml


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
    """The objects of a chart, by its files' texts. ``KeyError``: a function that no template has had so far."""
    top = {"Values": values, "Release": {"Namespace": namespace}}
    texts = [_render(text, top) for name, text in sorted(chart.items()) if name.startswith("templates/")]
    return [each for text in texts for each in yaml.safe_load_all(text) if each is not None]


def _nested(pipe: str) -> Callable[[Any], Any]:
    name, _, argument = pipe.partition(" ")
    if name == "nindent":
        return lambda text: "".join(f"\n{' ' * int(argument)}{line}" for line in text.splitlines())
    if name == "trunc":
        return lambda text: text[: int(argument)]
    functions: dict[str, Callable[[Any], Any]] = {
        "quote": lambda value: json.dumps(str(value)),
        "toYaml": lambda value: yaml.safe_dump(value, sort_keys=False).rstrip("\n"),
        "toJson": lambda value: json.dumps(value, sort_keys=True, separators=(",", ":")),
        "sha256sum": lambda text: hashlib.sha256(text.encode()).hexdigest(),
    }
    return functions[name]


def _value(expression: str, dot: Any, top: Any, variables: dict[str, Any]) -> Any:
    first, *pipes = expression.split(" | ")
    if first.startswith("toYaml "):
        first, pipes = first.removeprefix("toYaml "), ["toYaml", *pipes]
    if first in variables:
        value = variables[first]
    elif first == ".":
        value = dot
    else:
        value = top
        for word in first.removeprefix(".").split("."):
            value = value[word]
    for pipe in pipes:
        value = _nested(pipe)(value)
    return value


def _render(text: str, top: Any) -> str:
    """The text with its actions carried out; ``{{-`` and ``-}}`` take the space beside them away."""
    words: list[tuple[str, str]] = []
    place = 0
    for found in re.finditer(r"\{\{(-?)\s*(.*?)\s*(-?)\}\}", text):
        plain = text[place : found.start()]
        words += [("text", plain.rstrip() if found[1] else plain), ("action", found[2])]
        place = found.end()
        if found[3]:
            place += len(text[place:]) - len(text[place:].lstrip())
    words.append(("text", text[place:]))
    return _carried_out(iter(words), top, top, {})[0]


def _carried_out(words: Any, dot: Any, top: Any, variables: dict[str, Any], *, wanted: bool = True) -> tuple[str, str]:
    """The text up to the ``else`` or ``end`` of this block, and which it was."""
    made = ""
    for kind, word in words:
        if kind == "text":
            made += word if wanted else ""
        elif word in {"else", "end"}:
            return made, word
        elif word.split()[0] in {"if", "with", "range"}:
            made += _block(words, word, dot, top, variables, wanted=wanted)
        elif wanted:
            made += str(_value(word, dot, top, variables))
    return made, "end"


def _block(words: Any, opening: str, dot: Any, top: Any, variables: dict[str, Any], *, wanted: bool) -> str:
    kind, _, expression = opening.partition(" ")
    names, _, expression = expression.rpartition(" := ")
    value = _value(expression, dot, top, variables) if wanted else None
    if kind == "range":
        body = list(_until_end(words))
        keys = names.split(", ")
        rounds = [dict(zip(keys, item, strict=True)) for item in sorted(value.items())] if value else []
        return "".join(_carried_out(iter(body), dot, top, {**variables, **each})[0] for each in rounds)
    inner = value if kind == "with" else dot
    made, ended = _carried_out(words, inner, top, variables, wanted=wanted and bool(value))
    if ended == "else":
        made += _carried_out(words, dot, top, variables, wanted=wanted and not value)[0]
    return made


def _until_end(words: Any) -> Any:
    depth = 1
    for kind, word in words:
        if kind == "action":
            depth += {"if": 1, "with": 1, "range": 1, "end": -1}.get(word.split()[0], 0)
        if depth == 0:
            return
        yield kind, word
