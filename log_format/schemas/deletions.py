"""Decisions that delete: first a version is only marked, so that what was written with its schema can still be read; a second,
permanent deletion removes it, and its schema with the last version that has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from log_format.schemas.decision import Decided, Outcome, read_only
from log_format.schemas.refusals import RegistryCode, RegistryRefused, subject_not_found, version_not_found
from log_format.schemas.registered import Version
from log_format.schemas.row import ConfigRow, SchemasChanges, VersionRow
from log_format.schemas.state import READ_ONLY, SchemasState
from log_format.schemas.subjects import split


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteVersion:
    """A decision that deletes a version of a subject; ``version`` None: the latest. ``permanent``: one that was deleted before
    is gone."""

    subject: str
    version: int | None
    permanent: bool

    def decide(self, state: SchemasState, _now_ms: int) -> Outcome:
        """Return the deletion."""
        versions = state.numbers(self.subject, deleted=True)
        if not versions:
            return subject_not_found(self.subject)
        candidates = (
            [one for one in versions if self.permanent or not one.is_deleted] if self.version is None else versions
        )
        asked = None if self.version is None else self.version
        found = next((one for one in reversed(candidates) if asked in (None, one.version)), None)
        if found is None:
            return version_not_found("latest" if asked is None else asked)
        if found.is_deleted != self.permanent:
            return _version_deleted(self.subject, found)
        refusal = _kept(state, self.subject, [found])
        if refusal is not None:
            return refusal
        is_last = not self.permanent and len(state.numbers(self.subject)) == 1
        return Decided(
            changes=_deleted(state, self.subject, [found], permanent=self.permanent, is_whole=is_last),
            version=found.version,
            versions=(found.version,),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSubject:
    """A decision that deletes all versions of a subject, and its own configuration and mode. ``permanent``: a subject that was
    deleted before is gone."""

    subject: str
    permanent: bool

    def decide(self, state: SchemasState, _now_ms: int) -> Outcome:
        """Return the deletions."""
        versions = state.numbers(self.subject, deleted=True)
        live = state.numbers(self.subject)
        if not versions:
            return subject_not_found(self.subject)
        if self.permanent and live:
            text = f"Subject '{self.subject}' was not deleted first before being permanently deleted"
            return RegistryRefused(RegistryCode.SUBJECT_NOT_SOFT_DELETED, text)
        if not self.permanent and not live:
            text = f"Subject '{self.subject}' was soft deleted.Set permanent=true to delete permanently"
            return RegistryRefused(RegistryCode.SUBJECT_SOFT_DELETED, text)
        chosen = versions if self.permanent else live
        refusal = _kept(state, self.subject, chosen)
        if refusal is not None:
            return refusal
        return Decided(
            changes=_deleted(state, self.subject, chosen, permanent=self.permanent, is_whole=True),
            versions=tuple(one.version for one in chosen),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteContext:
    """A decision that deletes the settings of a context without schemas. ``subject``: ``:.name:``, or empty: the default one,
    which stays."""

    subject: str

    def decide(self, state: SchemasState, _now_ms: int) -> Outcome:
        """Return the removals."""
        if not self.subject or split(self.subject)[0] in state.contexts:
            text = f"The specified context '{self.subject}' is not empty."
            return RegistryRefused(RegistryCode.CONTEXT_NOT_EMPTY, text)
        return Decided(
            changes=SchemasChanges(
                removed_configs=(self.subject,) if self.subject in state.configs else (),
                removed_modes=(self.subject,) if self.subject in state.modes else (),
            )
        )


def _version_deleted(subject: str, found: Version) -> RegistryRefused:
    named = f"Subject '{subject}' Version {found.version}"
    if found.is_deleted:
        text = f"{named} was soft deleted.Set permanent=true to delete permanently"
        return RegistryRefused(RegistryCode.VERSION_SOFT_DELETED, text)
    text = f"{named} was not deleted first before being permanently deleted"
    return RegistryRefused(RegistryCode.VERSION_NOT_SOFT_DELETED, text)


def _kept(state: SchemasState, subject: str, versions: Sequence[Version]) -> RegistryRefused | None:
    """Return why these versions can't be deleted; None if they can."""
    if state.mode(subject) in READ_ONLY:
        return read_only(subject)
    for one in versions:
        if state.referring(subject, one.version):
            key = f"{{magic=1,keytype=SCHEMA,subject={subject},version={one.version}}}"
            text = f"One or more references exist to the schema {key}."
            return RegistryRefused(RegistryCode.REFERENCE_EXISTS, text)
    return None


def _deleted(
    state: SchemasState, subject: str, versions: Sequence[Version], *, permanent: bool, is_whole: bool
) -> SchemasChanges:
    """Return the changes. ``is_whole``: nothing of the subject stays, so its own configuration and mode go, too, but not the note
    that a topic has columns of it."""
    config = state.configs.get(subject)
    has_columns = config is not None and config.has_columns
    return SchemasChanges(
        versions=()
        if permanent
        else tuple(VersionRow(subject=subject, version=one.version, id=one.id, is_deleted=True) for one in versions),
        removed=tuple((subject, one.version) for one in versions) if permanent else (),
        configs=(ConfigRow(subject=subject, has_columns=True, claims=config.claims),)
        if is_whole and config is not None and has_columns
        else (),
        removed_configs=(subject,) if is_whole and config is not None and not has_columns else (),
        removed_modes=(subject,) if is_whole and subject in state.modes else (),
    )
