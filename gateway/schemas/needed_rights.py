"""The rights that a topic's settings need beyond the right to set them, since they reach other resources.

* The subjects of its schemas: Write, since their further versions then have to fit the topic's columns, and Read, since the
  topic's columns and its refusals show their members. Read also on the subjects that their schemas refer to, whose members
  become columns, too.
* The topic of its dead letters: Write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gateway.schemas.schema_registry import SchemaRegistry
from log_format.access.acls import Operation, ResourceType
from log_format.schemas.state import SchemasState
from log_format.schemas.subjects import in_context, plain, split
from log_format.topic.config import dead_letter_topics_named, subjects_named

__all__ = ["rights_of_settings"]

NeededRight = tuple[Operation, ResourceType, str]


async def rights_of_settings(schemas: SchemaRegistry, topic: str, config: Mapping[str, object]) -> list[NeededRight]:
    """Return the rights that a caller needs to give a topic these settings, in the order in which they are judged.

    Raises ``BackOff`` if the settings name subjects and the registry can't be read.
    """
    found: list[NeededRight] = []
    for subject in dict.fromkeys(map(plain, subjects_named(config))):
        found += [("Read", "subject", subject), ("Write", "subject", subject)]
        found += [("Read", "subject", one) for one in _referred(await schemas.state(), subject)]
    return [*found, *(("Write", "topic", letters) for letters in dead_letter_topics_named(topic, config))]


def _referred(state: SchemasState, subject: str) -> Iterator[str]:
    """Yield the subjects that the versions of a subject refer to, directly or not, each once."""
    seen, waiting = {subject}, [subject]
    while waiting:
        context = split(named := waiting.pop())[0]
        for version in state.versions(named, deleted=True):
            for reference in version.schema.references:
                other = in_context(reference.subject, context)
                if other not in seen:
                    seen.add(other)
                    waiting.append(other)
                    yield other
