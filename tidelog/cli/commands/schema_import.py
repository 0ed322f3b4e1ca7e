"""``tidelog schema import``: takes another schema registry over, with its ids.

1. A version is registered after those that it refers to, with its number and its id, so what was written with it stays readable.
2. Subjects are in mode IMPORT meanwhile, and get their own mode back, also when the command is interrupted.
3. What is there already is left as it is: a second run goes on where the first ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer
from rich.progress import Progress

from tidelog.calls.schemas import Schemas
from tidelog.cli.sources.registry import OtherRegistry, SourceVersion
from tidelog.cli.terminal.admin_call import AdminCall
from tidelog.cli.terminal.console import note, print_json, progress
from tidelog.cli.terminal.exit_code import ExitCode
from tidelog.errors import SchemaRefused, UnknownSchema

_THREADS: Final = 16
_IMPORT: Final = "IMPORT"
_CONFIG: Final = ("compatibilityLevel", "normalize", "compatibilityGroup")
_SHOWN_MAX: Final = 20
"""Failures that are told to a user; ``--json`` has all."""
_DEFAULT_CONTEXT: Final = "."

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")
Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Failure:
    """A version that was not imported."""

    subject: str
    version: int
    id: int
    reason: str


def import_(
    registry: Annotated[str, typer.Argument(metavar="URL", help="The other registry, as its clients name it.")],
    *,
    prefix: Annotated[str, typer.Option(help="Only subjects whose name begins so.")] = "",
    credentials_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File with NAME:PASSWORD for the other registry, sent as Basic."),
    ] = None,
    call: AdminCall,
) -> None:
    """Import the schemas of another registry, with their versions, ids, deletions and compatibility.

    Versions that exist stay, so a second run goes on where the first ended. A schema is refused if it is not valid, or if its
    id belongs to another schema here; the rest is imported. Modes, aliases and exporters are not imported. Exit code 1 if
    anything is missing.

    \b
    Examples:
      tidelog schema import http://registry:8081
      tidelog schema import https://registry:8081 --credentials-file secret.txt --prefix orders --json
    """
    with call.admin() as admin:
        named = None if credentials_file is None else credentials_file.read_text().strip()
        source = OtherRegistry(registry, named, call.timeout)
        with (
            ThreadPoolExecutor(_THREADS) as pool,
            progress(f"importing {registry}", shown=not call.as_json) as bar,
        ):
            done = _Import(source, admin.schemas(), pool, bar).run(prefix)
        if call.as_json:
            print_json(done)
        else:
            _tell(done, registry)
    if done["failed"]:
        raise typer.Exit(ExitCode.FAILED)


def _tell(done: dict[str, Any], url: str) -> None:
    failed: Sequence[Failure] = done["failed"]
    note(
        f"{url} has {done['versions']:,} versions of {done['subjects']:,} subjects: {done['imported']:,} were imported, "
        f"{done['known']:,} were here, {len(failed):,} are missing."
    )
    for one in failed[:_SHOWN_MAX]:
        note(f"  {one.subject}, version {one.version}, id {one.id}: {one.reason}")
    if len(failed) > _SHOWN_MAX:
        note(f"  and {len(failed) - _SHOWN_MAX:,} more: --json has all")


class _Import:
    def __init__(self, source: OtherRegistry, target: Schemas, pool: ThreadPoolExecutor, bar: Progress) -> None:
        self._source = source
        self._target = target
        self._pool = pool
        self._bar = bar
        self._failed: dict[Key, Failure] = {}
        self._deleted_here: set[Key] = set()

    def run(self, prefix: str) -> dict[str, Any]:
        """Import, and return the report. Raises ``SourceFailed``, and as ``Schemas``."""
        live = set(self._source.subjects(deleted=False))
        subjects = [one for one in self._source.subjects(deleted=True) if one.startswith(prefix)]
        read = self._each("reading", subjects, lambda subject: list(self._read(subject, is_live=subject in live)))
        versions = {(one.registered.subject, one.registered.version): one for of in read for one in of}
        missing = self._missing(subjects, versions)
        self._register(list(_waves(missing)))
        deleted = {key: one for key, one in versions.items() if one.is_deleted and key not in self._deleted_here}
        for wave in reversed(list(_waves(deleted))):
            self._each("deleting", wave, self._delete)
        self._configure(subjects, everything=not prefix)
        return {
            "subjects": len(subjects),
            "versions": len(versions),
            "imported": len(missing) - len(self._failed.keys() & missing.keys()),
            "known": len(versions) - len(missing.keys() | self._failed.keys()),
            "failed": list(self._failed.values()),
        }

    def _read(self, subject: str, *, is_live: bool) -> Iterator[SourceVersion]:
        live = set(self._source.versions(subject, deleted=False)) if is_live else set()
        for number in self._source.versions(subject, deleted=True):
            found = self._source.version(subject, number, is_deleted=number not in live)
            if found is not None:
                yield found

    def _missing(self, subjects: Sequence[str], versions: dict[Key, SourceVersion]) -> dict[Key, SourceVersion]:
        """Return the versions that are not here. One that is here with another id is a failure."""
        known = {key for of in self._each("comparing", subjects, self._known) for key in of}

        def compare(key: Key) -> None:
            here, there = self._target.version(*key, deleted=True), versions[key]
            if here.deleted:
                self._deleted_here.add(key)
            if here.id != there.registered.id:
                self._fail(there, f"the version is here with id {here.id}")
            elif not here.deleted:
                try:
                    self._target.import_version(there.registered, there.more)  # which changes nothing if it is the same
                except SchemaRefused:
                    self._fail(there, "the version is another schema here")

        self._each("comparing", sorted(known & versions.keys()), compare)
        return {key: one for key, one in versions.items() if key not in known}

    def _known(self, subject: str) -> list[Key]:
        try:
            return [(subject, number) for number in self._target.versions(subject, deleted=True)]
        except UnknownSchema:
            return []

    def _register(self, waves: Sequence[Sequence[SourceVersion]]) -> None:
        subjects = sorted({one.registered.subject for wave in waves for one in wave})
        modes: dict[str, str | None] = {}

        def open_(subject: str) -> None:
            # It is in mode IMPORT if an earlier run was killed.
            own = self._target.mode(subject)
            modes[subject] = None if own == _IMPORT else own
            self._target.set_mode(subject, _IMPORT)

        try:
            self._each("opening", subjects, open_)
            for wave in waves:
                self._each("registering", wave, self._register_one)
        finally:
            self._each("closing", list(modes), lambda subject: self._target.set_mode(subject, modes[subject]))

    def _register_one(self, one: SourceVersion) -> None:
        try:
            self._target.import_version(one.registered, one.more)
        except (SchemaRefused, UnknownSchema) as refused:
            self._fail(one, refused.detail)

    def _delete(self, one: SourceVersion) -> None:
        key = one.registered.subject, one.registered.version
        if key in self._failed:
            return
        try:
            self._target.delete(*key)
        except UnknownSchema:  # an earlier run did it
            return
        except SchemaRefused as refused:
            self._fail(one, f"it is deleted there, and can't be here: {refused.detail}")

    def _configure(self, subjects: Iterable[str], *, everything: bool) -> None:
        named: list[str | None] = [*subjects]
        if everything:
            contexts = [one for one in self._source.contexts() if one != _DEFAULT_CONTEXT]
            named += [None, *(f":{context}:" for context in contexts)]
        self._each("configuring", named, self._configure_one)

    def _configure_one(self, subject: str | None) -> None:
        found = self._source.config(subject)
        members = {name: found[name] for name in _CONFIG if found.get(name) is not None}
        if members:
            level = members.pop("compatibilityLevel", None)
            self._target.set_config(subject, members if level is None else {**members, "compatibility": level})

    def _fail(self, one: SourceVersion, reason: str) -> None:
        known = one.registered
        self._failed[known.subject, known.version] = Failure(known.subject, known.version, known.id, reason)

    def _each(self, what: str, items: Sequence[ItemT], call: Callable[[ItemT], ResultT]) -> list[ResultT]:
        """Return what the call returns for each, in order; several at once. The first error ends it."""
        task = self._bar.add_task(what, total=len(items))
        waiting = [self._pool.submit(call, one) for one in items]
        try:
            results = []
            for one in waiting:
                results.append(one.result())
                self._bar.advance(task)
            return results
        finally:
            for one in waiting:
                one.cancel()
            self._bar.remove_task(task)


def _waves(versions: dict[Key, SourceVersion]) -> Iterator[list[SourceVersion]]:
    """Yield the versions in groups: each after those that it refers to, and after its subject's earlier ones."""
    left = dict(sorted(versions.items()))
    while left:
        first: dict[str, int] = {}
        for subject, number in left:
            first.setdefault(subject, number)
        ready = [
            key for key, one in left.items() if first[key[0]] == key[1] and not any(of in left for of in _referred(one))
        ] or list(left)
        yield [left.pop(key) for key in ready]


def _referred(one: SourceVersion) -> Iterator[Key]:
    """Yield what a version refers to; an unqualified subject is of its own context."""
    subject = one.registered.subject
    context = subject[: subject.index(":", 1) + 1] if subject.startswith(":.") and ":" in subject[1:] else ""
    for reference in one.registered.references:
        yield (
            (reference.subject if reference.subject.startswith(":.") else context + reference.subject),
            reference.version,
        )
