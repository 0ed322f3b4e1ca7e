"""Decisions about schemas, subjects, configurations and modes. Many share one commit of ``system/schemas``.

1. A decision is judged at the state with the earlier decisions of its commit applied, and again at each newer head. So two
   gateways never give one id to two schemas, nor two ids to one schema.
2. Compatibility was checked before, which takes parsing. A registration says which versions it was compared with; if the
   subject has others by now, it is refused with ``Recheck``, and the caller checks and asks again.
3. Ids count up over all contexts, from ``next_id``. In a copy of a store they first skip what the other may have given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from log_format.delta.system_table import (
    DOCUMENTS_SCHEMA,
    CompactTable,
    SystemTable,
    TableContents,
    documents_contents,
)
from log_format.delta.system_table import Decide as SharedDecide
from log_format.errors import BackOff, TidelogError
from log_format.schemas.decision import Decided, Outcome, SchemasDecision, read_only
from log_format.schemas.refusals import (
    invalid_schema,
    not_permitted,
    subject_not_found,
)
from log_format.schemas.registered import Id, Version
from log_format.schemas.row import (
    TAG_SCHEMAS,
    ConfigRow,
    ModeRow,
    SchemasChanges,
    VersionRow,
    encode_tag,
    row_of,
    rows,
)
from log_format.schemas.schema import Schema
from log_format.schemas.state import ALL_SUBJECTS, NAME, READ_ONLY, SchemasState, snapshot
from log_format.schemas.subjects import in_context, split

ID_MAX: Final = 2**31 - 1
"""Largest id: Confluent's wire format has four bytes with a sign."""
IMPORTED_ID_MAX: Final = 2_000_000_000
"""Largest id that an import may give, so that ids are left for what is registered afterwards."""
IDS_SKIPPED: Final = 1_000_000
"""Ids that are skipped in a store that is a copy: the store that it was copied from may have given so many since."""
VERSIONS_MAX: Final = 10_000
"""Most versions of a subject, deleted ones included: transitive compatibility compares a schema with all."""


class Recheck(BackOff):
    """Error: the subject's versions or its configuration changed after the schema was compared with them. Nothing happened."""

    def __init__(self, subject: str) -> None:
        super().__init__(f"Subject '{subject}' keeps changing while the schema is compared with its versions.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What a schema was compared with: the subject's versions, and the configuration in force."""

    versions: tuple[Version, ...]
    config: ConfigRow

    @property
    def compares(self) -> bool:
        """Whether the configuration asks for a comparison."""
        return self.config.compatibility != "NONE" or self.config.has_columns


def compared(state: SchemasState, subject: str) -> Compared:
    """Return what a schema for this subject has to be compared with."""
    return Compared(versions=tuple(state.numbers(subject)), config=state.config(subject))


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    """A decision that registers a schema as a version of a subject. ``schema_id`` and ``version`` are given by imports only;
    None: the next one."""

    subject: str
    schema: Schema
    compared: Compared
    schema_id: int | None = None
    version: int | None = None
    copied_at_ms: int = 0
    """Time at which the store was copied from another; 0: it was not."""

    def decide(self, state: SchemasState, _now_ms: int) -> Outcome:
        """Return the schema, if it is new in its context, and its version, if it is new in its subject."""
        context = split(self.subject)[0]
        known_id = self._known_id(state, context)
        known = None if known_id is None else state.version_of(self.subject, known_id)
        if known is not None and known_id is not None and self._is_asked(known_id, known):
            return Decided(schema_id=known_id, version=known)
        refusal = self._forbidden(state, known_id)
        if refusal is not None:
            return refusal
        versions = state.numbers(self.subject, deleted=True)
        version = self.version or (versions[-1].version + 1 if versions else 1)
        schema_id = self.schema_id or known_id or self._next_id(state)
        row = VersionRow(subject=self.subject, version=version, id=schema_id)
        is_known = Id(context, schema_id) in state.schemas
        changes = SchemasChanges(
            next_id=schema_id + 1 if schema_id >= state.next_id else 0,
            copied_at_ms=self.copied_at_ms if self.copied_at_ms > state.copied_at_ms and not is_known else 0,
            schemas=() if is_known else (row_of(schema_id, context, self.schema),),
            versions=(row,),
        )
        return Decided(changes=changes, schema_id=schema_id, version=version)

    def _next_id(self, state: SchemasState) -> int:
        return state.next_id + (IDS_SKIPPED if self.copied_at_ms > state.copied_at_ms else 0)

    def _known_id(self, state: SchemasState, context: str) -> int | None:
        """Return the id that the schema has: the one asked for, if imports have given it several."""
        if self.schema_id is not None and state.schema(self.schema_id, context) == self.schema:
            return self.schema_id
        return state.id_of(self.schema, context)

    def _is_asked(self, schema_id: int, version: int) -> bool:
        return self.schema_id in (None, schema_id) and self.version in (None, version)

    def _forbidden(self, state: SchemasState, known_id: int | None) -> TidelogError | None:
        context = split(self.subject)[0]
        mode = state.mode(self.subject)
        if mode in READ_ONLY:
            return read_only(self.subject)
        versions = state.numbers(self.subject, deleted=True)
        if len(versions) >= VERSIONS_MAX:
            return not_permitted(f"Subject '{self.subject}' has {VERSIONS_MAX} versions, the most there can be.")
        for one in self.schema.references:
            if state.registered(in_context(one.subject, context), one.version, deleted=True) is None:
                return invalid_schema(
                    f'No schema reference found for subject "{one.subject}" and version {one.version}'
                )
        if mode == "IMPORT":
            return self._forbidden_import(state, versions)
        if self.schema_id not in (None, known_id):
            return not_permitted(f"Subject '{self.subject}' is not in import mode")
        if self.version not in (None, versions[-1].version + 1 if versions else 1):
            return invalid_schema(f"Version {self.version} is not the next one of subject '{self.subject}'.")
        if self.schema_id is None and known_id is None and self._next_id(state) > ID_MAX:
            return TidelogError("The registry has given all ids.")
        now = compared(state, self.subject)
        is_known = now.versions == self.compared.versions or not now.compares
        return None if is_known and now.config == self.compared.config else Recheck(self.subject)

    def _forbidden_import(self, state: SchemasState, versions: Sequence[Version]) -> TidelogError | None:
        context = split(self.subject)[0]
        if self.schema_id is None:
            return not_permitted(f"Subject '{self.subject}' is in import mode: the schema needs an id")
        if not 0 < self.schema_id <= IMPORTED_ID_MAX:
            return not_permitted(f"An imported id is a number from 1 to {IMPORTED_ID_MAX}")
        known = state.schema(self.schema_id, context)
        if known is not None and known != self.schema:
            return not_permitted(f"Overwrite new schema with id {self.schema_id} is not permitted.")
        if self.version is not None and any(one.version == self.version for one in versions):
            return not_permitted(f"Subject '{self.subject}' has another schema as version {self.version}.")
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PutConfig:
    """A decision that sets what ``row`` names of a configuration; None there: it stays."""

    row: ConfigRow

    @property
    def subject(self) -> str:
        """Name of what is configured."""
        return self.row.subject

    def decide(self, state: SchemasState, _now_ms: int) -> Outcome:
        """Return the row, unless it is there already."""
        if state.mode(self.subject) in READ_ONLY:
            return read_only(self.subject)
        before = state.configs.get(self.subject) or ConfigRow(subject=self.subject)
        given = {name: value for name, value in msgspec.structs.asdict(self.row).items() if value is not None}
        given |= {"has_columns": before.has_columns, "claims": before.claims}
        row = msgspec.structs.replace(before, **given)
        return Decided(changes=SchemasChanges(configs=() if row == before else (row,)), setting=row)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteConfig:
    """A decision that removes a configuration: the wider one holds again."""

    subject: str

    def decide(self, state: SchemasState, _now_ms: int) -> Outcome:
        """Return the removal, and the row that is gone."""
        if state.mode(self.subject) in READ_ONLY:
            return read_only(self.subject)
        before = state.configs.get(self.subject)
        if before is None:
            return subject_not_found(self.subject)
        if before.has_columns:
            row = ConfigRow(subject=self.subject, has_columns=True, claims=before.claims)
            return Decided(changes=SchemasChanges(configs=(row,)), setting=before)
        return Decided(changes=SchemasChanges(removed_configs=(self.subject,)), setting=before)


CLAIMS_MAX: Final = 100
"""Most topics that a subject's note of columns names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimColumns:
    """A decision that notes that a topic is about to have columns of the subject: its versions have to fit each other's columns
    from then on."""

    subject: str
    topic: str

    def decide(self, state: SchemasState, now_ms: int) -> Outcome:
        """Return the note with the present time, unless the note is of more topics than it names."""
        before = state.configs.get(self.subject) or ConfigRow(subject=self.subject)
        if before.has_columns and not before.claims:
            return Decided(setting=before)
        claims = {**dict(before.claims), self.topic: now_ms}
        row = msgspec.structs.replace(
            before, has_columns=True, claims=tuple(claims.items()) if len(claims) <= CLAIMS_MAX else ()
        )
        return Decided(changes=SchemasChanges(configs=(row,)), setting=row)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseColumns:
    """A decision that drops the note of columns, since none of the topics that it names has the subject. ``claims``: the topics
    that were looked at."""

    subject: str
    claims: tuple[tuple[str, int], ...]

    def decide(self, state: SchemasState, _now_ms: int) -> Outcome:
        """Return the configuration without the note, unless a topic has claimed columns since."""
        before = state.configs.get(self.subject)
        if before is None or not self.claims or before.claims != self.claims:
            return Decided(setting=before)
        row = msgspec.structs.replace(before, has_columns=False, claims=())
        if row == ConfigRow(subject=self.subject):
            return Decided(changes=SchemasChanges(removed_configs=(self.subject,)), setting=row)
        return Decided(changes=SchemasChanges(configs=(row,)), setting=row)


@dataclass(frozen=True, slots=True, kw_only=True)
class PutMode:
    """A decision that sets a mode. ``force``: imports are allowed also where there are schemas."""

    row: ModeRow
    force: bool = False

    @property
    def subject(self) -> str:
        """Name of what gets the mode."""
        return self.row.subject

    def decide(self, state: SchemasState, _now_ms: int) -> Outcome:
        """Return the row, unless it is there already."""
        if (
            self.row.mode == "IMPORT"
            and not self.force
            and state.mode(self.subject) != "IMPORT"
            and self._is_used(state)
        ):
            return not_permitted("Cannot import since found existing subjects")
        is_known = state.modes.get(self.subject) == self.row
        return Decided(changes=SchemasChanges(modes=() if is_known else (self.row,)), setting=self.row)

    def _is_used(self, state: SchemasState) -> bool:
        context, name = split(self.subject)
        if name:
            return bool(state.numbers(self.subject))
        named = (
            state.subjects
            if self.subject == ALL_SUBJECTS
            else (one for one in state.subjects if split(one)[0] == context)
        )
        return any(state.numbers(one) for one in named)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteMode:
    """A decision that removes a mode: the wider one holds again."""

    subject: str

    def decide(self, state: SchemasState, _now_ms: int) -> Outcome:
        """Return the removal, and the row that is gone."""
        before = state.modes.get(self.subject)
        if before is None:
            return subject_not_found(self.subject)
        return Decided(changes=SchemasChanges(removed_modes=(self.subject,)), setting=before)


class Decide(SharedDecide[SchemasState, SchemasDecision, Outcome]):
    """A change that commits several decisions about the registry."""

    table = SystemTable(name=NAME, schema=DOCUMENTS_SCHEMA, directory="rows")

    def judge(
        self, decisions: Sequence[SchemasDecision], state: SchemasState, now_ms: int
    ) -> tuple[list[Outcome], TableContents | None]:
        """Return what each decision changed."""
        outcomes: list[Outcome] = []
        changes: list[SchemasChanges] = []
        ahead = state
        for decision in decisions:
            outcome = decision.decide(ahead, now_ms)
            outcomes.append(outcome)
            if isinstance(outcome, Decided) and outcome.changes:
                ahead = ahead.after((outcome.changes,))
                changes.append(outcome.changes)
        return outcomes, _contents(changes, now_ms) if changes else None


class Compact(CompactTable[SchemasState]):
    """A change that compacts the table, as ``CompactTable`` describes."""

    def contents(self, state: SchemasState) -> TableContents:
        """Return all rows in their current state, as of the newest change."""
        return _contents([snapshot(state)], state.modification_time_ms)


def _contents(changes: Sequence[SchemasChanges], now_ms: int) -> TableContents:
    return documents_contents(rows(changes), now_ms, {TAG_SCHEMAS: encode_tag(changes)})
