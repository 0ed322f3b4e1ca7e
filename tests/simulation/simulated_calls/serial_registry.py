"""A plain model of the schema registry, and the search for a serial order of concurrent calls that explains their answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

BACKWARD, FULL_TRANSITIVE, NONE = "BACKWARD", "FULL_TRANSITIVE", "NONE"
Kind = Literal["register", "delete version", "delete subject", "forget subject", "level", "mode"]


class Schema(NamedTuple):
    """A record with a field ``x`` of this type, or without; schemas are compatible unless their ``x`` have two types."""

    x: str | None
    number: int

    def fits(self, other: Schema) -> bool:
        """Whether each reads what the other wrote."""
        return None in (self.x, other.x) or self.x == other.x


class Version(NamedTuple):
    """A version of a subject."""

    number: int
    schema: Schema
    is_live: bool


class Asked(NamedTuple):
    """A call: what it does to which subject, with what."""

    kind: Kind
    subject: str
    what: Any = None


class Answer(NamedTuple):
    """A status, and the member of the body that says what was done, or the code of the error."""

    status: int
    what: Any


class Done(NamedTuple):
    """A call with its answer, and when it was sent and answered. ``is_void``: it was refused for want of a right."""

    asked: Asked
    answer: Answer
    sent_ms: int
    answered_ms: int
    is_void: bool = False


@dataclass(frozen=True, slots=True)
class SerialRegistry:
    """What one registry that serves one call after another knows."""

    subjects: tuple[tuple[str, tuple[Version, ...]], ...] = ()
    levels: tuple[tuple[str, str], ...] = ()
    modes: tuple[tuple[str, str], ...] = ()
    ids: tuple[Schema | None, ...] = ()
    """The schema of id 1, of id 2, and so on; None: its last version was deleted for ever."""

    def after(self, asked: Asked) -> tuple[SerialRegistry, Answer]:
        """The registry after a call, and its answer."""
        match asked.kind:
            case "level":
                if self._mode(asked.subject) == "READONLY":
                    return self, Answer(422, 42205)
                return replace(self, levels=_put(self.levels, asked.subject, asked.what)), Answer(200, asked.what)
            case "mode":
                return replace(self, modes=_put(self.modes, asked.subject, asked.what)), Answer(200, asked.what)
            case "register":
                return self._registered(asked.subject, asked.what)
            case "delete version":
                return self._deleted(asked.subject, asked.what)
            case "forget subject":
                return self._forgotten(asked.subject)
        return self._all_deleted(asked.subject)

    def versions(self, subject: str) -> tuple[Version, ...]:
        """All versions of a subject."""
        return dict(self.subjects).get(subject, ())

    def view(self, subject: str) -> tuple[Any, ...]:
        """What can be seen of a subject: its versions with their ids, its level and its mode; None: as for all."""
        found = [(one.number, self.ids.index(one.schema) + 1, one.is_live) for one in self.versions(subject)]
        return found, dict(self.levels).get(subject), dict(self.modes).get(subject)

    def _registered(self, subject: str, schema: Schema) -> tuple[SerialRegistry, Answer]:
        versions = self.versions(subject)
        live = [one for one in versions if one.is_live]
        if any(one.schema == schema for one in live):
            return self, Answer(200, self.ids.index(schema) + 1)
        level = dict(self.levels).get(subject, BACKWARD)
        compared = {NONE: [], BACKWARD: live[-1:], FULL_TRANSITIVE: live}[level]
        if not all(schema.fits(one.schema) for one in compared):
            return self, Answer(409, 409)
        if self._mode(subject) == "READONLY":
            return self, Answer(422, 42205)
        ids = self.ids if schema in self.ids else (*self.ids, schema)
        more = (*versions, Version(versions[-1].number + 1 if versions else 1, schema, is_live=True))
        return self._with(subject, more, ids), Answer(200, ids.index(schema) + 1)

    def _deleted(self, subject: str, number: int) -> tuple[SerialRegistry, Answer]:
        versions = self.versions(subject)
        found = next((one for one in versions if one.number == number), None)
        if not versions or found is None:
            return self, Answer(404, 40402 if versions else 40401)
        if not found.is_live:
            return self, Answer(404, 40406)
        if self._mode(subject) == "READONLY":
            return self, Answer(422, 42205)
        return self._without(subject, {number}), Answer(200, number)

    def _all_deleted(self, subject: str) -> tuple[SerialRegistry, Answer]:
        live = [one.number for one in self.versions(subject) if one.is_live]
        if not live:
            return self, Answer(404, 40404 if self.versions(subject) else 40401)
        if self._mode(subject) == "READONLY":
            return self, Answer(422, 42205)
        return self._without(subject, set(live)), Answer(200, live)

    def _forgotten(self, subject: str) -> tuple[SerialRegistry, Answer]:
        versions = self.versions(subject)
        if not versions or any(one.is_live for one in versions):
            return self, Answer(404, 40405 if versions else 40401)
        if self._mode(subject) == "READONLY":
            return self, Answer(422, 42205)
        left = {one.schema for other, found in self.subjects if other != subject for one in found}
        ids = tuple(one if one in left else None for one in self.ids)
        found = replace(self._with_own_settings_gone(subject), ids=ids)
        found = replace(found, subjects=tuple(one for one in self.subjects if one[0] != subject))
        return found, Answer(200, [one.number for one in versions])

    def _without(self, subject: str, numbers: set[int]) -> SerialRegistry:
        left = tuple(one._replace(is_live=one.is_live and one.number not in numbers) for one in self.versions(subject))
        found = self._with(subject, left, self.ids)
        return found if any(one.is_live for one in left) else found._with_own_settings_gone(subject)

    def _with_own_settings_gone(self, subject: str) -> SerialRegistry:
        levels, modes = (tuple(one for one in pairs if one[0] != subject) for pairs in (self.levels, self.modes))
        return replace(self, levels=levels, modes=modes)

    def _with(self, subject: str, versions: tuple[Version, ...], ids: tuple[Schema | None, ...]) -> SerialRegistry:
        return replace(self, subjects=_put(self.subjects, subject, versions), ids=ids)

    def _mode(self, subject: str) -> str:
        return dict(self.modes).get(subject, "READWRITE")


def _put(pairs: tuple[tuple[str, Any], ...], name: str, value: Any) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted({**dict(pairs), name: value}.items()))


def is_serial(calls: Sequence[Done], subjects: Sequence[str], seen: Sequence[Any]) -> bool:
    """Whether one call after another gives these answers and ends with what is ``seen`` of the subjects, in an order in which no
    call comes before one that was answered before it was sent."""
    made = [one for one in calls if not one.is_void]
    tried: set[tuple[frozenset[int], SerialRegistry]] = set()
    waiting = [(frozenset(range(len(made))), SerialRegistry())]
    while waiting:
        left, state = waiting.pop()
        if (left, state) in tried:
            continue
        tried.add((left, state))
        if not left and [state.view(subject) for subject in subjects] == list(seen):
            return True
        first_end_ms = min((made[one].answered_ms for one in left), default=0)
        for one in left:
            if made[one].sent_ms <= first_end_ms:
                after, answer = state.after(made[one].asked)
                if answer == made[one].answer:
                    waiting.append((left - {one}, after))
    return False
