"""Refusals of the registry, each with the code that Confluent's clients know. The first three digits are the HTTP status.

Source: the API reference of Confluent's registry, section "Errors".
"""

from __future__ import annotations

from enum import IntEnum

from log_format.errors import ErrorCode, RequestRefused

_CODES = {404: ErrorCode.NOT_FOUND}


class RegistryCode(IntEnum):
    """Codes of ``error_code`` in Confluent's API."""

    NOT_FOUND = 404
    INCOMPATIBLE_SCHEMA = 409
    SUBJECT_NOT_FOUND = 40401
    VERSION_NOT_FOUND = 40402
    SCHEMA_NOT_FOUND = 40403
    SUBJECT_SOFT_DELETED = 40404
    SUBJECT_NOT_SOFT_DELETED = 40405
    VERSION_SOFT_DELETED = 40406
    VERSION_NOT_SOFT_DELETED = 40407
    NO_SUBJECT_CONFIG = 40408
    NO_SUBJECT_MODE = 40409
    INVALID_SCHEMA = 42201
    INVALID_VERSION = 42202
    INVALID_COMPATIBILITY = 42203
    INVALID_MODE = 42204
    NOT_PERMITTED = 42205
    REFERENCE_EXISTS = 42206
    INVALID_SUBJECT = 42208
    SCHEMA_TOO_LARGE = 42209
    CONTEXT_NOT_EMPTY = 42211
    STORE_ERROR = 50001
    TIMEOUT = 50002


class RegistryRefused(RequestRefused):
    """Error: the registry refuses the request. ``registry_code`` is Confluent's."""

    def __init__(self, registry_code: RegistryCode, detail: str) -> None:
        status = int(str(int(registry_code))[:3])
        super().__init__(detail, code=_CODES.get(status, ErrorCode.INVALID_REQUEST), status=status)
        self.registry_code = registry_code


def subject_not_found(subject: str) -> RegistryRefused:
    """Return the error for a subject without versions."""
    return RegistryRefused(RegistryCode.SUBJECT_NOT_FOUND, f"Subject '{subject}' not found.")


def version_not_found(version: object) -> RegistryRefused:
    """Return the error for a version that the subject does not have."""
    return RegistryRefused(RegistryCode.VERSION_NOT_FOUND, f"Version {version} not found.")


def schema_not_found(schema_id: int | None = None) -> RegistryRefused:
    """Return the error for an unknown id, or a schema that the subject does not have."""
    what = "Schema not found" if schema_id is None else f"Schema {schema_id} not found"
    return RegistryRefused(RegistryCode.SCHEMA_NOT_FOUND, what)


def invalid_schema(detail: str) -> RegistryRefused:
    """Return the error for a schema that can't be used."""
    return RegistryRefused(RegistryCode.INVALID_SCHEMA, detail)


def not_permitted(detail: str) -> RegistryRefused:
    """Return the error for what the subject's mode forbids."""
    return RegistryRefused(RegistryCode.NOT_PERMITTED, detail)
