"""Reasons of a registry as lines for people."""

from __future__ import annotations

import re

import pytest

from log_format.schemas.compatibility import avro, json_sentences, protobuf
from log_format.schemas.compatibility.incompatibility import Incompatibility
from tidelog.cli.terminal import schema_findings
from tidelog.cli.terminal.schema_findings import findings, old_version, refusal


def test_each_reason_is_a_line() -> None:
    """Of Avro's form, whose sentences have the quotes that enclose them, and of the others' form; with what to do."""
    reasons = [
        Incompatibility(kind="TYPE_MISMATCH", path="/f", description="The type at '/f' is new", info="INT, not '}'"),
        Incompatibility(kind="OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", path="#/a", description="'#/a' is new"),
        Incompatibility(kind="PACKAGE_CHANGED", path="", description="It is new"),
    ]
    listed = ", ".join([*(each.message for each in reasons), "{oldSchemaVersion: 12}"])
    only = 'Only a schema with "additionalProperties": false takes new properties.'
    assert findings(listed) == [
        "TYPE_MISMATCH: The type at '/f' is new. Keep the type; a field of a new name may have another.",
        f"OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL: '#/a' is new. {only}",
        "PACKAGE_CHANGED: It is new.",
    ]
    said = refusal(
        f'Schema being registered is incompatible with an earlier schema for subject "s", details: [{listed}]'
    )
    assert said is not None
    assert said.startswith("The schema is not compatible with version 12 of subject s, and is not registered.")


@pytest.mark.parametrize(
    "detail", ["A topic has columns of subject 's'", 'for subject "s", details: [of another kind]']
)
def test_other_messages_stay(detail: str) -> None:
    """A registry of another kind, or a refusal for another reason, is shown as it is."""
    assert (refusal(detail), findings(detail), old_version(detail)) == (None, [], None)


def test_all_advice_is_about_a_kind_that_there_is() -> None:
    """A pattern that fits no kind is a mistake in it."""
    kinds = [*avro.SENTENCES, *protobuf.SENTENCES, *json_sentences.SENTENCES]
    for pattern, _ in schema_findings._ADVICE:
        assert any(re.fullmatch(pattern, kind) for kind in kinds), pattern
