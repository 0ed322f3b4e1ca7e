"""Another schema registry, read by Confluent's API: versions with their ids, and configurations."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec
import urllib3

from log_format.errors import DECODE_ERRORS
from tidelog.types.schema import RegisteredSchema, SchemaReference, SchemaType

_TRIES: Final = urllib3.Retry(
    total=6, backoff_factor=0.2, status_forcelist=(429, 500, 502, 503, 504), raise_on_status=False
)
"""Six tries more, about ten seconds in all."""
_CONNECTIONS: Final = 16
_SHOWN_BYTES_MAX: Final = 300


class _Found(msgspec.Struct, frozen=True, rename="camel"):
    id: int
    schema: str
    schema_type: SchemaType = "AVRO"
    references: tuple[SchemaReference, ...] | None = None
    metadata: dict[str, Any] | None = None
    rule_set: dict[str, Any] | None = None


_NAMES: Final = msgspec.json.Decoder(list[str])
_NUMBERS: Final = msgspec.json.Decoder(list[int])
_MEMBERS: Final = msgspec.json.Decoder(dict[str, Any])
_VERSION: Final = msgspec.json.Decoder(_Found)


class SourceFailed(OSError):
    """The other registry does not answer, or not as a registry does."""


@dataclass(frozen=True, slots=True)
class SourceVersion:
    """A version as the other registry has it. ``more``: members that are kept beside the schema."""

    registered: RegisteredSchema
    is_deleted: bool
    more: Mapping[str, Any] = field(default_factory=dict)


class OtherRegistry:
    """The registry at a URL. ``credentials``: NAME:PASSWORD, sent as Basic. ``timeout_s``: for each answer. Thread-safe."""

    def __init__(self, url: str, credentials: str | None, timeout_s: float) -> None:
        headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if credentials is not None:
            headers["Authorization"] = "Basic " + b64encode(credentials.encode()).decode()
        self._url = url.rstrip("/")
        self._pool = urllib3.PoolManager(
            maxsize=_CONNECTIONS, block=True, headers=headers, timeout=timeout_s, retries=_TRIES
        )

    def subjects(self, *, deleted: bool) -> list[str]:
        """Return the subjects of all contexts. Raises ``SourceFailed``, as every call."""
        return self._found(_NAMES, "subjects", deleted=deleted) or []

    def contexts(self) -> list[str]:
        """Return the contexts, the default one (``.``) among them; none of a registry that knows no contexts."""
        return self._found(_NAMES, "contexts") or []

    def versions(self, subject: str, *, deleted: bool) -> list[int]:
        """Return the numbers of the subject's versions."""
        return self._found(_NUMBERS, "subjects", subject, "versions", deleted=deleted) or []

    def version(self, subject: str, number: int, *, is_deleted: bool) -> SourceVersion | None:
        """Return a version; None if it is gone meanwhile."""
        found: _Found | None = self._found(_VERSION, "subjects", subject, "versions", str(number), deleted=True)
        if found is None:
            return None
        registered = RegisteredSchema(
            subject=subject,
            version=number,
            id=found.id,
            schema=found.schema,
            schema_type=found.schema_type,
            references=found.references or (),
        )
        more = {"metadata": found.metadata, "ruleSet": found.rule_set}
        return SourceVersion(registered, is_deleted, {name: value for name, value in more.items() if value})

    def config(self, subject: str | None) -> dict[str, Any]:
        """Return the own configuration of a subject or a context, or that of all (None); empty: there is none."""
        return self._found(_MEMBERS, "config", *(() if subject is None else (subject,))) or {}

    def _found(self, decoder: msgspec.json.Decoder[Any], *names: str, deleted: bool = False) -> Any:
        """Return the answer; None for 404."""
        query = "?" + urlencode({"deleted": "true"}) if deleted else ""
        path = "/".join(quote(name, safe="") for name in names)
        where = f"{self._url}/{path}{query}"
        try:
            answer = self._pool.request("GET", where)
        except urllib3.exceptions.HTTPError as error:
            raise SourceFailed(f"{self._url} does not answer: {error}") from error
        if answer.status == 404:
            return None
        said = answer.data[:_SHOWN_BYTES_MAX].decode(errors="replace")
        if answer.status != 200:
            raise SourceFailed(f"{self._url} answers {answer.status} for /{path}: {said}")
        try:
            return decoder.decode(answer.data)
        except DECODE_ERRORS:
            raise SourceFailed(f"{self._url} is no schema registry: for /{path} it answers {said}") from None
