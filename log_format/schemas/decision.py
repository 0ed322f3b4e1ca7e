"""What a decision about the registry is, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from log_format.errors import TidelogError
from log_format.schemas.refusals import RegistryRefused, not_permitted
from log_format.schemas.row import NO_CHANGES, ConfigRow, ModeRow, SchemasChanges
from log_format.schemas.state import SchemasState


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What a decision writes, if anything is needed.

    ``schema_id``: id of the registered schema; ``version``: the registered or deleted version; ``versions``: all versions that
    were deleted; ``setting``: the configuration or mode that is set, or was removed. 0, empty or None where it does not apply.
    """

    changes: SchemasChanges = NO_CHANGES
    schema_id: int = 0
    version: int = 0
    versions: tuple[int, ...] = ()
    setting: ConfigRow | ModeRow | None = None


Outcome = Decided | TidelogError


class SchemasDecision(Protocol):
    """A change to the registry. ``subject``: the subject, the context, or ``ALL_SUBJECTS``."""

    @property
    def subject(self) -> str:
        """Name of what is changed."""

    def decide(self, state: SchemasState, now_ms: int, /) -> Outcome:
        """Return what to write (perhaps nothing), or the refusal. Pure."""


def read_only(subject: str) -> RegistryRefused:
    """Return the error for a change of what is in read-only mode."""
    return not_permitted(
        f"Subject '{subject}' is in read-only mode" if subject else "The registry is in read-only mode"
    )
