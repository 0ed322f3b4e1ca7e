"""``Schemas``: the schema registry, which every gateway has under ``/registry``; ``Admin.schemas`` gives it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from tidelog.calls.requests import json_request, read_request
from tidelog.deadline import Deadline
from tidelog.errors import UnknownSchema
from tidelog.http.transport import Reply, Transport
from tidelog.types.schema import (
    CompatibilityLevel,
    RegisteredSchema,
    SchemaById,
    SchemaCheck,
    SchemaReference,
    SchemaType,
)


class _Registered(msgspec.Struct, frozen=True):
    id: int
    version: int


class _Level(msgspec.Struct, frozen=True, rename="camel"):
    compatibility_level: CompatibilityLevel | None = None


class _Mode(msgspec.Struct, frozen=True):
    mode: str


class Schemas:
    """The schema registry: subjects, their versions, and how these may change.

    ::

        with Admin() as admin:
            registered = admin.schemas().register("orders-value", '{"type": "string"}')
            print(registered.id, registered.version)

    Every call raises the registry's errors as ``SchemaRefused``, ``UnknownSchema`` and ``IncompatibleSchema`` of
    ``tidelog.errors``, and else as ``Admin``. Thread-safe.
    """

    def __init__(self, transport: Transport, timeout_ms: float) -> None:
        self._transport = transport
        self._timeout_ms = timeout_ms

    def register(
        self,
        subject: str,
        schema: str,
        schema_type: SchemaType = "AVRO",
        *,
        references: Iterable[SchemaReference] = (),
        normalize: bool = False,
    ) -> RegisteredSchema:
        """Register a schema as the subject's next version, unless it is one of its versions, and return that version.

        Args:
            schema: the schema's text.
            references: versions of subjects that the text refers to by name.
            normalize: compare and keep the schema's normal form.

        Retried automatically. Raises ``IncompatibleSchema``, and ``SchemaRefused`` for an invalid schema or subject.
        """
        named = tuple(references)
        where = _target("subjects", subject, "versions", normalize=normalize)
        made = self._change("POST", where, _body(schema, schema_type, named)).decode(_Registered)
        return RegisteredSchema(
            subject=subject,
            version=made.version,
            id=made.id,
            schema=schema,
            schema_type=schema_type,
            references=named,
        )

    def look_up(
        self,
        subject: str,
        schema: str,
        schema_type: SchemaType = "AVRO",
        *,
        references: Iterable[SchemaReference] = (),
        normalize: bool = False,
    ) -> RegisteredSchema:
        """Return the subject's version that has this schema. Raises ``UnknownSchema``."""
        where = _target("subjects", subject, normalize=normalize)
        return self._ask(where, _body(schema, schema_type, references)).decode(RegisteredSchema)

    def check(
        self,
        subject: str,
        schema: str,
        schema_type: SchemaType = "AVRO",
        *,
        references: Iterable[SchemaReference] = (),
        version: int | None = None,
    ) -> SchemaCheck:
        """Say whether a schema may be registered, and why not; ``version``: compare it with this one only.

        A subject without versions takes every valid schema. Raises ``UnknownSchema`` for an unknown version.
        """
        names = ("compatibility", "subjects", subject, "versions", *(() if version is None else (version,)))
        return self._ask(_target(*names, verbose=True), _body(schema, schema_type, references)).decode(SchemaCheck)

    def subjects(self, prefix: str | None = None, *, deleted: bool = False) -> list[str]:
        """Return the subjects, sorted; ``deleted``: those without a version left, too."""
        found: list[str] = self._ask(_target("subjects", subjectPrefix=prefix, deleted=deleted)).decode(list[str])
        return found

    def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        """Return the numbers of the subject's versions. Raises ``UnknownSchema``."""
        return self._ask(_target("subjects", subject, "versions", deleted=deleted)).decode(list[int])

    def latest(self, subject: str) -> RegisteredSchema:
        """Return the subject's newest version. Raises ``UnknownSchema``."""
        return self._ask(_target("subjects", subject, "versions", "latest")).decode(RegisteredSchema)

    def version(self, subject: str, version: int, *, deleted: bool = False) -> RegisteredSchema:
        """Return one version of the subject; ``deleted``: also a deleted one. Raises ``UnknownSchema``."""
        return self._ask(_target("subjects", subject, "versions", version, deleted=deleted)).decode(RegisteredSchema)

    def by_id(self, schema_id: int) -> SchemaById:
        """Return the schema of an id. Raises ``UnknownSchema``."""
        return self._ask(_target("schemas", "ids", schema_id)).decode(SchemaById)

    def delete(self, subject: str, version: int | None = None, *, permanent: bool = False) -> list[int]:
        """Delete the subject, or one version, and return the deleted versions. What was written with them stays readable.

        ``permanent``: remove the versions with their schemas, which nothing can read then; it includes the other deletion.
        The call is never retried: a retry could delete what was registered meanwhile. Raises ``UnknownSchema``,
        ``SchemaRefused`` for a version that other schemas refer to, and ``OutcomeUnknown``.
        """
        try:
            deleted = self._delete(subject, version, permanent=False)
        except UnknownSchema:
            if not permanent:
                raise
            deleted = []  # it may be deleted already, and not permanently
        return self._delete(subject, version, permanent=True) if permanent else deleted

    def compatibility(self, subject: str | None = None) -> CompatibilityLevel | None:
        """Return the subject's own compatibility level, None if it has none; without a subject that of all others."""
        try:
            return self._ask(_target("config", *_named(subject))).decode(_Level).compatibility_level
        except UnknownSchema:
            return None

    def set_compatibility(self, subject: str | None, level: CompatibilityLevel | None) -> None:
        """Set the compatibility level of a subject, or of all without their own (None). A level of None removes it.

        Retried automatically. Raises ``SchemaRefused`` for an unknown level.
        """
        where = _target("config", *_named(subject))
        if level is not None:
            self._change("PUT", where, {"compatibility": level})
            return
        try:
            self._change("DELETE", where)
        except UnknownSchema:  # it has none, perhaps since an attempt whose answer was lost
            return

    def set_config(self, subject: str | None, members: Mapping[str, Any]) -> None:
        """Set these members of the configuration of a subject, or of all without their own (None). Retried automatically.

        Raises ``SchemaRefused``.
        """
        self._change("PUT", _target("config", *_named(subject)), members)

    def mode(self, subject: str) -> str | None:
        """Return the subject's own mode; None if it has none."""
        try:
            return self._ask(_target("mode", subject)).decode(_Mode).mode
        except UnknownSchema:
            return None

    def set_mode(self, subject: str, mode: str | None) -> None:
        """Set the subject's mode, IMPORT also where it has versions; None removes it. Retried automatically.

        Raises ``SchemaRefused`` for an unknown mode.
        """
        if mode is not None:
            self._change("PUT", _target("mode", subject, force=True), {"mode": mode})
            return
        try:
            self._change("DELETE", _target("mode", subject))
        except UnknownSchema:  # it has none, perhaps since an attempt whose answer was lost
            return

    def import_version(self, version: RegisteredSchema, more: Mapping[str, Any] | None = None) -> None:
        """Register a version of another registry with its number and its id; the subject's mode has to be IMPORT.

        ``more``: members of the API beside, such as ``metadata``. Retried automatically. Raises ``SchemaRefused`` if the id or
        the number is another schema's, or the schema is not valid.
        """
        body = _body(version.schema, version.schema_type, version.references)
        body |= {"id": version.id, "version": version.version, **(more or {})}
        self._change("POST", _target("subjects", version.subject, "versions"), body)

    def _delete(self, subject: str, version: int | None, *, permanent: bool) -> list[int]:
        where = _target("subjects", subject, *(() if version is None else ("versions", version)), permanent=permanent)
        reply = self._change("DELETE", where, repeatable=False)
        return reply.decode(list[int]) if version is None else [reply.decode(int)]

    def _ask(self, where: str, body: object = None) -> Reply:
        request = (
            read_request(where) if body is None else json_request("POST", where, body, repeatable=True, reads=True)
        )
        return self._transport.call(request, Deadline(self._timeout_ms))

    def _change(self, method: str, where: str, body: object = None, *, repeatable: bool = True) -> Reply:
        request = json_request(method, where, body, repeatable=repeatable)
        return self._transport.call(request, Deadline(self._timeout_ms))


def _body(schema: str, schema_type: SchemaType, references: Iterable[SchemaReference]) -> dict[str, Any]:
    return {"schema": schema, "schemaType": schema_type, "references": list(references)}


def _named(subject: str | None) -> tuple[str, ...]:
    return () if subject is None else (subject,)


def _target(*names: str | int, **query: str | bool | None) -> str:
    """Return the path below ``/registry``, with the members of ``query`` that are neither None nor false."""
    given = {name: "true" if value is True else value for name, value in query.items() if value}
    path = "/registry/" + "/".join(quote(str(name), safe="") for name in names)
    return path + (f"?{urlencode(given)}" if given else "")
