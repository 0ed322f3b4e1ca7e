"""The OpenAPI document says what the contract says, of every operation."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema_rs
import pytest

from gateway.app import ROUTERS
from gateway.openapi.document import document

Json = dict[str, Any]


@pytest.fixture(scope="module")
def served() -> Json:
    """The document of the gateway's own routes, as clients get it."""
    made: Json = json.loads(json.dumps(document([route for router in ROUTERS for route in router.routes])))
    return made


def test_openapi_never_says_422_and_every_error_is_a_problem(served: Json) -> None:
    """The document agrees with the contract, for every operation."""
    operations = [operation for methods in served["paths"].values() for operation in methods.values()]
    assert operations
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    for operation in operations:
        assert "422" not in operation["responses"]
        for status, answer in operation["responses"].items():
            if int(status) >= 400:
                schema = answer["content"]["application/problem+json"]["schema"]
                assert {"$ref": "#/components/schemas/Problem"} in schema["allOf"]
            if status in ("429", "503"):
                assert "Retry-After" in answer["headers"]


def test_ranges_are_exact(served: Json) -> None:
    """The largest offset of the document is the largest there is, not the next that a float can hold."""
    schemas = served["components"]["schemas"]
    assert schemas["ReadPosition"]["properties"]["offset"] == {
        "type": "integer",
        "format": "int64",
        "minimum": 0,
        "maximum": 2**63 - 1,
        "title": "Offset",
    }


def test_examples_agree_with_their_schemas(served: Json) -> None:
    """What the document shows is what the document says."""
    checked = 0
    for methods in served["paths"].values():
        for operation in methods.values():
            contents = [answer.get("content", {}) for answer in operation["responses"].values()]
            contents.append(operation.get("requestBody", {}).get("content", {}))
            for content in contents:
                for media in content.values():
                    if "example" in media:
                        schema = {**media["schema"], "components": served["components"]}
                        jsonschema_rs.validate(schema, media["example"])
                        checked += 1
    for schema in served["components"]["schemas"].values():
        for example in schema.get("examples", ()):
            jsonschema_rs.validate({**schema, "components": served["components"]}, example)
            checked += 1
    assert checked > 15


def test_every_reference_names_a_component(served: Json) -> None:
    """Each ``$ref`` leads into the document, and every component is needed."""
    found = set(re.findall(r'"\$ref": "#/components/schemas/(.*?)"', json.dumps(served)))
    assert found == served["components"]["schemas"].keys()
    assert "$defs" not in json.dumps(served)


def test_path_parameters_and_bodies_have_examples(served: Json) -> None:
    """The docs page fills its form with them: the first of the schema's, or that of the media type."""
    schemas = served["components"]["schemas"]
    for path, methods in served["paths"].items():
        for operation in methods.values():
            for parameter in operation.get("parameters", ()):
                assert parameter["in"] != "path" or parameter["schema"]["examples"], (path, parameter["name"])
            body = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if body is not None:
                named = schemas[body["schema"]["$ref"].rpartition("/")[2]] if "$ref" in body["schema"] else {}
                assert "example" in body or named["examples"] is not None, path
