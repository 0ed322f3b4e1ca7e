"""The schema registry of a gateway: looking up, comparing and registering schemas.

1. A schema is registered by the text that parsing gives, so the same schema in another layout has the same id.
2. Comparing takes parsing, so it happens in a thread, and before the commit. The commit says with what the schema was compared;
   if the subject has changed since, it is compared again.
3. Nobody is refused by an old state: before a schema is incompatible, a reference missing, or something not found, the gateway
   has looked at the table once (``SchemasTable.newer``).

Used on the event loop only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

import msgspec

from gateway.engine.bounds import SCHEMA_THREADS
from gateway.engine.open_table import TableAccess
from gateway.engine.pool import MakeExecutor, Pool
from gateway.schemas.parsed_schemas import ParsedSchemas
from gateway.system_tables.schemas import SchemasTable
from log_format.errors import CorruptData
from log_format.records.typed_columns import TypeConflict
from log_format.schemas.changes import Compared, Recheck, Register, ReleaseColumns, compared
from log_format.schemas.columns.codec import SchemaReader, SubjectReader
from log_format.schemas.columns.shape import Untypable
from log_format.schemas.compatibility.check import Refusal, first_incompatible
from log_format.schemas.compatibility.incompatibility import Level
from log_format.schemas.copied import copied_at_ms
from log_format.schemas.decision import Decided, SchemasDecision
from log_format.schemas.parsed import ParsedSchema
from log_format.schemas.refusals import RegistryCode, RegistryRefused
from log_format.schemas.registered import RegisteredVersion
from log_format.schemas.schema import Schema, SchemaType
from log_format.schemas.state import SchemasState
from log_format.schemas.subjects import split
from log_format.topic.config import Subjects

RECHECKS_MAX: Final = 20
"""Most comparisons for one registration: each time another schema of the subject was registered meanwhile."""
WAITING_MAX: Final = 256
"""Most schemas that wait to be parsed."""

CLAIMED_MS_MIN: Final = 300_000
"""Age at which a note of columns is looked into: the topic may be about to be created before."""

T = TypeVar("T")
SubjectsOf = Callable[[str], Awaitable[Subjects]]
"""Function that returns the subjects of a topic; none if there is no such topic. Raises ``TidelogError``."""
_METADATA: Final = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A schema to register. ``schema_id`` and ``version``: given by imports only."""

    subject: str
    schema: Schema
    normalize: bool
    schema_id: int | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """A schema as it is registered."""

    schema: Schema
    id: int
    version: int


class SchemaRegistry:
    """The schema registry of a gateway."""

    def __init__(
        self, table: SchemasTable, access: TableAccess, make_executor: MakeExecutor, subjects_of: SubjectsOf
    ) -> None:
        self._subjects_of = subjects_of
        self._clock = access.clock
        self._table = table
        self._store = access.store
        self._look_pool = access.look_pool
        self._pool = Pool("schemas", SCHEMA_THREADS, make_executor, waiting_max=WAITING_MAX)
        self._parsed = ParsedSchemas()
        self._copied_at_ms: int | None = None
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Locks of the subjects with registrations under way."""

    async def state(self) -> SchemasState:
        """Return what is registered at a moment during this call. Raises ``BackOff``, ``CorruptData``."""
        return await self._table.current()

    async def found(self, find: Callable[[SchemasState], T | None]) -> tuple[SchemasState, T | None]:
        """Return what ``find`` returns of a state of the last second; if that is None, of the state after a look at the table.

        For what does not change once it is registered.
        """
        state = await self._table.seen()
        result = find(state)
        if result is None:
            state = await self._table.newer()
            result = find(state)
        return state, result

    async def decide(self, decision: SchemasDecision) -> Decided:
        """Commit a decision and return what it changed. Raises as ``SharedCommits.decide`` does."""
        return await self._table.decide(decision)

    async def parsed(self, state: SchemasState, schema: Schema, context: str) -> ParsedSchema:
        """Return a registered schema of a context, parsed. Raises ``RegistryRefused`` (42201), ``BackOff``."""
        return await self._pool.run(self._parsed.parsed, schema, state.resolved(schema, context))

    async def understood(
        self, wanted: Registration, *, is_new: bool = False
    ) -> tuple[SchemasState, Schema, ParsedSchema]:
        """Return the schema with the text by which it is registered, and the state at which its references were found.

        ``is_new``: as in ``ParsedSchemas.parsed``. Raises ``RegistryRefused`` (42201), ``BackOff``.
        """
        context = split(wanted.subject)[0]
        state = await self._table.seen()
        try:
            references = state.resolved(wanted.schema, context)
        except RegistryRefused:
            state = await self._table.newer()
            references = state.resolved(wanted.schema, context)
        parsed = await self._pool.run(partial(self._parsed.parsed, wanted.schema, references, is_new=is_new))
        # An imported text that is normalized stays so: who looks it up normalized finds it.
        was_normal = wanted.schema_id is not None and wanted.schema.text == parsed.normalized
        is_normal = wanted.normalize or was_normal or bool(state.config(wanted.subject).normalize)
        text = parsed.normalized if is_normal else parsed.canonical
        return state, replace(wanted.schema, text=text), parsed

    async def looked_up(self, wanted: Registration, *, deleted: bool) -> tuple[SchemasState, RegisteredVersion | None]:
        """Return the version of the subject that has the schema; None if there is none. Raises as ``understood`` does."""
        state, schema, parsed = await self.understood(wanted)
        found = _version_with(state, wanted.subject, schema, deleted=deleted)
        if found is None:
            state = await self._table.newer()
            found = _version_with(state, wanted.subject, schema, deleted=deleted)
        if found is None:
            found = await self._with_references(state, wanted.subject, schema, parsed, deleted=deleted)
        return state, found

    async def _with_references(
        self, state: SchemasState, subject: str, schema: Schema, parsed: ParsedSchema, *, deleted: bool = False
    ) -> RegisteredVersion | None:
        """Return the newest version of the subject that is this schema with its references put in; None if there is none.

        Serializers of Avro send a schema so: what they have knows of no references.
        """
        context = split(subject)[0]
        numbers = state.numbers(subject, deleted=deleted)
        if schema.type is not SchemaType.AVRO or schema.references or not numbers:
            return None
        known_id = state.id_of(schema, context)

        def is_it(one: RegisteredVersion) -> bool:
            alike = replace(one.schema, text=schema.text, references=()) == schema
            return (
                alike
                and known_id in (None, one.schema_id)
                and self._parsed.parsed(one.schema, state.resolved(one.schema, context)).whole == parsed.whole
            )

        def newest() -> RegisteredVersion | None:
            for number in reversed(numbers):
                one = state.registered(subject, number.version, deleted=deleted)
                if one is not None and one.schema.references and is_it(one):
                    return one
            return None

        return await self._pool.run(newest)

    async def register(self, wanted: Registration) -> Registered:
        """Register the schema, unless the subject has it. Return it with its id and version.

        Raises:
            RegistryRefused: 409 with the reasons, 42201, 42205.
            BackOff: Nothing happened.
            OutcomeUnknown: Whether it is registered is not known; asking again tells.
        """
        try:
            state, schema, parsed = await self.understood(wanted, is_new=wanted.schema_id is None)
        except RegistryRefused:
            known = await self._as_stored(wanted)
            if known is None:
                raise
            return known
        # One after another where they are compared: each would otherwise make the others compare again.
        lock = self._locks.setdefault(wanted.subject, asyncio.Lock())
        async with lock if compared(state, wanted.subject).compares else nullcontext():
            return await self._registered(wanted, state, schema, parsed)

    async def _as_stored(self, wanted: Registration) -> Registered | None:
        """Return a schema that the subject has, although it would be refused today; None if it has not."""
        with suppress(RegistryRefused):
            _, found = await self.looked_up(wanted, deleted=False)
            if found is not None and await self._is_there(wanted.subject, found):
                return Registered(schema=found.schema, id=found.schema_id, version=found.version)
        return None

    async def _is_there(self, subject: str, known: Decided | RegisteredVersion) -> bool:
        """Return whether the version is there at a moment during this call: another gateway may have deleted it a moment ago."""
        found = (await self._table.current()).registered(subject, known.version)
        return found is not None and found.schema_id == known.schema_id

    async def _registered(
        self, wanted: Registration, state: SchemasState, schema: Schema, parsed: ParsedSchema
    ) -> Registered:
        for number in range(RECHECKS_MAX):
            if number:
                state = await self._table.fresh()
            versions = compared(state, wanted.subject)
            register = Register(
                subject=wanted.subject,
                schema=schema,
                compared=versions,
                schema_id=wanted.schema_id,
                version=wanted.version,
                copied_at_ms=await self._copied(),
            )
            known = register.decide(state, 0)
            if isinstance(known, Decided) and not known.changes:
                if number or await self._is_there(wanted.subject, known):
                    return Registered(schema=schema, id=known.schema_id, version=known.version)
                continue
            if wanted.schema_id is None:
                found = await self._with_references(state, wanted.subject, schema, parsed)
                if found is not None:
                    if number or await self._is_there(wanted.subject, found):
                        return Registered(schema=found.schema, id=found.schema_id, version=found.version)
                    continue
            if state.mode(wanted.subject) != "IMPORT":
                refusal = await self._compared(state, wanted.subject, schema, parsed, versions)
                if refusal is not None:
                    if compared(await self._table.newer(), wanted.subject) == versions:
                        raise incompatible(wanted.subject, refusal)
                    continue
            if versions.config.has_columns and await self._is_refused_by_columns(state, wanted.subject, schema):
                continue
            try:
                decided = await self._table.decide(register)
            except Recheck:
                continue
            return Registered(schema=schema, id=decided.schema_id, version=decided.version)
        raise Recheck(wanted.subject)

    async def _is_refused_by_columns(self, state: SchemasState, subject: str, schema: Schema) -> bool:
        """Return False if columns can have the schema together with the subject's versions; True if they can't, and the note of
        them was dropped, since no topic has the subject any more. Raises ``RegistryRefused`` (409)."""
        try:
            await self._pool.run(check_columns, state, subject, schema)
        except RegistryRefused:
            if not await self._release_columns(subject):
                raise
            return True
        return False

    async def _release_columns(self, subject: str) -> bool:
        """Drop the note of columns if none of the topics that it names has the subject any more; return whether it was dropped.

        A topic that can't be read has it. Raises ``BackOff``, ``OutcomeUnknown``.
        """
        row = (await self._table.fresh()).configs.get(subject)
        claims = () if row is None else row.claims
        now_ms = self._clock.now_ms()
        if not claims or any(now_ms - at_ms < CLAIMED_MS_MIN for _, at_ms in claims):
            return False
        with suppress(CorruptData):
            for topic, _ in claims:
                if subject in await self._subjects_of(topic):
                    return False
            await self._table.decide(ReleaseColumns(subject=subject, claims=claims))
            return True
        return False

    async def compared_with(self, wanted: Registration, version: RegisteredVersion | None) -> list[str]:
        """Return why the schema can't be registered; empty: it can. ``version``: compare it with this one only.

        Raises ``RegistryRefused`` (42201), ``BackOff``.
        """
        state, schema, parsed = await self.understood(wanted, is_new=True)
        versions = compared(state, wanted.subject)
        refusal = await self._compared(state, wanted.subject, schema, parsed, versions, only=version)
        if refusal is not None:
            return messages(refusal)
        if version is None and versions.config.has_columns:
            try:
                await self._pool.run(check_columns, state, wanted.subject, schema)
            except RegistryRefused as conflict:
                return [conflict.detail]
        return []

    async def drain(self) -> None:
        """Wait until all changes have ended."""
        await self._table.drain()

    async def _copied(self) -> int:
        if self._copied_at_ms is None:
            self._copied_at_ms = await self._look_pool.run(copied_at_ms, self._store)
        return self._copied_at_ms

    async def _compared(
        self,
        state: SchemasState,
        subject: str,
        schema: Schema,
        parsed: ParsedSchema,
        versions: Compared,
        *,
        only: RegisteredVersion | None = None,
    ) -> Refusal | None:
        level = Level(versions.config.compatibility or Level.NONE)
        if level is Level.NONE or not (versions.versions or only):
            return None
        group = versions.config.compatibility_group
        chosen = partial(self._older, state, subject, schema, group, only)
        return await self._pool.run(lambda: first_incompatible(parsed, chosen(), level))

    def _older(
        self, state: SchemasState, subject: str, schema: Schema, group: str | None, only: RegisteredVersion | None
    ) -> Iterator[tuple[int, ParsedSchema]]:
        """Yield the versions to compare with, the latest first."""
        context = split(subject)[0]
        # One after another, since most comparisons end with the first.
        older = (
            [only]
            if only is not None
            else (state.registered(subject, one.version) for one in reversed(state.numbers(subject)))
        )
        for one in older:
            if one is not None and (only is not None or _group(one.schema, group) == _group(schema, group)):
                yield one.version, self._parsed.parsed(one.schema, state.resolved(one.schema, context))


def check_columns(state: SchemasState, subject: str, schema: Schema) -> None:
    """Check that columns can have the schema together with the subject's versions. Raises ``RegistryRefused`` (409)."""
    context = split(subject)[0]
    try:
        newest = SchemaReader(schema, state.resolved(schema, context))
        for version in reversed(state.versions(subject, deleted=True)):
            older = SchemaReader(version.schema, state.resolved(version.schema, context))
            SubjectReader(subject, [(0, older), (1, newest)])
    except (Untypable, TypeConflict) as problem:
        raise RegistryRefused(
            RegistryCode.INCOMPATIBLE_SCHEMA,
            f"A topic has columns of subject '{subject}', which the schema does not fit: {problem}. A column keeps its type: "
            "use a new field, or a new subject and topic.",
        ) from problem


def incompatible(subject: str, refusal: Refusal) -> RegistryRefused:
    """Return the refusal of a schema that is not compatible, with the reasons."""
    listed = ", ".join(messages(refusal))
    return RegistryRefused(
        RegistryCode.INCOMPATIBLE_SCHEMA,
        f'Schema being registered is incompatible with an earlier schema for subject "{subject}", details: [{listed}]',
    )


def messages(refusal: Refusal) -> list[str]:
    """Return the reasons as the API gives them."""
    return [*(one.message for one in refusal.incompatibilities), f"{{oldSchemaVersion: {refusal.version}}}"]


def _version_with(state: SchemasState, subject: str, schema: Schema, *, deleted: bool) -> RegisteredVersion | None:
    schema_id = state.id_of(schema, split(subject)[0])
    version = None if schema_id is None else state.version_of(subject, schema_id, deleted=deleted)
    return None if version is None else state.registered(subject, version, deleted=deleted)


def _group(schema: Schema, name: str | None) -> object:
    """Return the property of the schema's metadata by which versions are compared; None: all are."""
    if name is None or schema.metadata is None:
        return None
    properties = _METADATA.decode(schema.metadata).get("properties") or {}
    return properties.get(name)
