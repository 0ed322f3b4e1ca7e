"""Why a schema is not compatible, a line for each finding: from the reasons of a registry, which have Confluent's form.

Each finding says where in the schema it is, and what to do about it where there is something.
"""

from __future__ import annotations

import re
from typing import Final

_FINDING: Final = re.compile(
    r"""\{errorType:(?:'(?P<avro>\w+)',\ description:'(?P<avro_said>.*?)',\ additionalInfo:'.*?'
    |"(?P<kind>\w+)",\ description:"(?P<said>.*?)")\}""",
    re.DOTALL | re.VERBOSE,
)
"""A reason: with single quotes and more information from Avro's check, with double quotes from the others."""
_OLD: Final = re.compile(r"\{oldSchemaVersion: ([0-9]+)\}")
_SUBJECT: Final = re.compile(r'for subject "(.*)", details: ')
_ADVICE: Final = (
    (r"READER_FIELD_MISSING_DEFAULT_VALUE", "Give the field a default."),
    (r"NAME_MISMATCH", "Keep the name, or list the old one in the new one's aliases."),
    (r"MISSING_ENUM_SYMBOLS|ENUM_ARRAY_NARROWED", "Keep the old symbols."),
    (r"MISSING_UNION_BRANCH", "Keep the old types of the union."),
    (r".*PROPERTY_.*ADDED_TO_OPEN.*", 'Only a schema with "additionalProperties": false takes new properties.'),
    (r"REQUIRED_(PROPERTY|FIELD|ATTRIBUTE)_.*ADDED.*", "Make it optional."),
    (
        r".*TYPE_(MISMATCH|CHANGED|NARROWED)|FIELD_\w*(KIND|TYPE|LABEL)_CHANGED",
        "Keep the type; a field of a new name may have another.",
    ),
    (r"(PROPERTY|ITEM|MESSAGE|REQUIRED_FIELD|ONEOF_FIELD)_REMOVED.*", "Keep it."),
)
"""What to do, by the kind of a finding; the first that fits."""


def findings(reasons: str) -> list[str]:
    """Return the findings as lines: kind, sentence, advice."""
    lines = []
    for found in _FINDING.finditer(reasons):
        kind, said = found["avro"] or found["kind"], found["avro_said"] or found["said"]
        advice = next((advice for pattern, advice in _ADVICE if re.fullmatch(pattern, kind)), "")
        lines.append(f"{kind}: {said}. {advice}".rstrip())
    return lines


def old_version(reasons: str) -> int | None:
    """Return the version that the schema was compared with; None if the registry does not say."""
    found = _OLD.search(reasons)
    return None if found is None else int(found[1])


def refusal(detail: str) -> str | None:
    """Return what a refusal of an incompatible schema says as a sentence, with what else may be done; None for others."""
    named = _SUBJECT.search(detail)
    if named is None or not findings(detail):
        return None
    subject, version = named[1], old_version(detail)
    against = f"subject {subject}" if version is None else f"version {version} of subject {subject}"
    return (
        f"The schema is not compatible with {against}, and is not registered. Change it as said below, or register it for "
        f"another subject; 'tidelog schema compatibility {subject} NONE' allows any change."
    )
