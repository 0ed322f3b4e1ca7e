"""What compatibility is judged by, and what a judgement says.

Kinds and their names are Confluent's, since programs look for them in a registry's answers. The sentences are ours; each says
which of the two schemas is meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from log_format.schemas.parsed import shortened

INCOMPATIBILITIES_MAX: Final = 100
"""Most reasons that are told of one pair of schemas."""


class Level(StrEnum):
    """What a new version of a schema must be compatible with."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def backward(self) -> bool:
        """Whether readers with the new schema must understand what was written with the old one."""
        return self.startswith(("BACKWARD", "FULL"))

    @property
    def forward(self) -> bool:
        """Whether readers with the old schema must understand what is written with the new one."""
        return self.startswith(("FORWARD", "FULL"))

    @property
    def transitive(self) -> bool:
        """Whether all earlier versions count, and not the latest only."""
        return self.endswith("_TRANSITIVE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Incompatibility:
    """One reason why a reader does not understand a writer.

    ``kind`` is Confluent's name, ``path`` the place in the schema, ``description`` a sentence about the "new" and the "old"
    schema. ``info`` is what Avro's checks add: a field's name, missing symbols.
    """

    kind: str
    path: str
    description: str
    info: str | None = None

    @property
    def message(self) -> str:
        """The reason as Confluent's registry writes it into ``messages``."""
        if self.info is None:
            return f'{{errorType:"{self.kind}", description:"{self.description}"}}'
        return f"{{errorType:'{self.kind}', description:'{self.description}', additionalInfo:'{self.info}'}}"


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that a pair breaks, before it is known which schema is the new one. ``path`` is relative to the pair."""

    kind: str
    path: tuple[str, ...] = ()
    info: str | None = None


def described(finding: Finding, path: str, sentences: Mapping[str, str], reader: str, writer: str) -> Incompatibility:
    """Return the finding as a reason. Sentences have the places ``{path}``, ``{info}``, ``{reader}`` and ``{writer}``."""
    sentence = sentences[finding.kind]
    path = shortened(path)
    info = None if finding.info is None else shortened(finding.info)
    description = sentence.format(path=path, info=info, reader=reader, writer=writer)
    return Incompatibility(kind=finding.kind, path=path, description=description, info=info)
