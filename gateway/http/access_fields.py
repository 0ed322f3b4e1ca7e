"""Fields about access: principals, roles, and the resources that ACLs name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Final, Self

from fastapi import Path
from pydantic import AfterValidator, WithJsonSchema, model_validator

from gateway.http.fields import IDENTIFIER_BYTES_MAX, IDENTIFIER_SCHEMA, Body, OneOf, is_identifier
from gateway.http.validation import faults_error
from gateway.problem import refused
from log_format import limits
from log_format.access.acls import CLUSTER, EVERY, OPERATIONS
from log_format.schemas.subjects import SUBJECT_CHARACTERS_MAX, is_name

USER: Final = "User:"
GROUP: Final = "Group:"
ROLE: Final = "Role:"
_TOPIC: Final = re.compile(rf"[A-Za-z0-9._-]{{1,{limits.TOPIC_NAME_CHARACTERS_MAX}}}")
_NAME_WHAT: Final = f"and 1 to {IDENTIFIER_BYTES_MAX} bytes without control characters"


def is_principal(text: str, *kinds: str) -> bool:
    """Return whether the text is a principal of one of the kinds, which end in a colon."""
    kind, colon, name = text.partition(":")
    return f"{kind}{colon}" in kinds and is_identifier(name)


def _principal(*kinds: str, every: bool = False) -> Callable[[str], str]:
    what = f"must be {' or '.join(kinds)} {_NAME_WHAT}" + (f", or {EVERY}" if every else "")

    def checked(text: str) -> str:
        if not ((every and text == EVERY) or is_principal(text, *kinds)):
            raise faults_error([((), what)])
        return text

    return checked


def _schema(*kinds: str, every: bool = False) -> dict[str, Any]:
    named = f"({'|'.join(kind.rstrip(':') for kind in kinds)}):[^\\u0000-\\u001f\\u007f-\\u009f]+"
    return {"type": "string", "pattern": f"^({named}{'|[*]' if every else ''})$"}


User = Annotated[str, AfterValidator(_principal(USER)), WithJsonSchema(_schema(USER))]
Group = Annotated[str, AfterValidator(_principal(GROUP)), WithJsonSchema(_schema(GROUP))]
RoleMember = Annotated[str, AfterValidator(_principal(USER, GROUP)), WithJsonSchema(_schema(USER, GROUP))]
Principal = Annotated[
    str,
    AfterValidator(_principal(USER, GROUP, ROLE, every=True)),
    WithJsonSchema(_schema(USER, GROUP, ROLE, every=True)),
]
OperationField = Annotated[str, OneOf(*OPERATIONS)]
ResourceTypeField = Annotated[str, OneOf("topic", "group", "transactional_id", "subject", "cluster")]
PatternField = Annotated[str, OneOf("literal", "prefix")]
PermissionField = Annotated[str, OneOf("allow", "deny")]


def resource_fault(resource_type: str, resource: str, pattern: str = "literal") -> str | None:
    """Return why no resource of the type can have this name or prefix; None if one can."""
    if resource_type == CLUSTER:
        is_cluster = resource in (CLUSTER, EVERY) and pattern == "literal"
        return None if is_cluster else f"must be {CLUSTER}, literally"
    if resource == EVERY and pattern == "literal":
        return None
    if resource_type == "topic":
        named = f"must be {EVERY}, or 1 to {limits.TOPIC_NAME_CHARACTERS_MAX} of letters, digits, dot, _ and -"
        return None if _TOPIC.fullmatch(resource) else named
    if resource_type == "subject":
        named = f"must be 1 to {SUBJECT_CHARACTERS_MAX} characters without control characters"
        return None if is_name(resource) else named
    return None if is_identifier(resource) else f"must be 1 to {IDENTIFIER_BYTES_MAX} bytes without control characters"


class NamedRight(Body):
    """An operation on a resource that is named as an ACL names it."""

    operation: OperationField
    resource_type: ResourceTypeField
    resource: str

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        what = resource_fault(self.resource_type, self.resource)
        if what is not None:
            raise faults_error([(("resource",), what)])
        return self


def _role(name: str) -> str:
    if not is_identifier(name):
        what = f"must have 1 to {IDENTIFIER_BYTES_MAX} bytes without control characters"
        raise refused(f"A role's name {what}.", [("role", what)])
    return name


RoleName = Annotated[str, WithJsonSchema(dict(IDENTIFIER_SCHEMA))]
RolePath = Annotated[
    str,
    AfterValidator(_role),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": IDENTIFIER_BYTES_MAX, "examples": ["writers"]}),
    Path(description="The role's name, without Role:, percent-encoded"),
]
TokenPath = Annotated[
    str,
    WithJsonSchema({"type": "string", "pattern": "^[A-Za-z0-9]+$", "examples": ["3kTq8sVb2LxWnC7d"]}),
    Path(description="The token's id"),
]
