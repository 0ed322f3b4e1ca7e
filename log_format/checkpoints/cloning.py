"""Cloning a topic: the store itself copies its files, then one commit makes the topic (``log_format.topic.clone``).

In a directory a copy is a link, so a clone takes no room and no time; an object store copies within itself. The topics share
nothing afterwards: either may be deleted.

The clone is noted beside the source's log (``clone_notes``). A note beside the new topic's log says that copies are on their way
into it. While it is young, maintenance deletes no file there that no commit names; copies may have the age of what they are
copies of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count, islice
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa

from log_format import layout, limits
from log_format.checkpoints.checkpoint import with_log_at
from log_format.checkpoints.clone_files import copy_path
from log_format.checkpoints.clone_notes import CloneName, CloneNote, note_clone, read_note
from log_format.checkpoints.pinned_versions import (
    keep_version,
    open_version,
    refuse_future_time,
    refuse_future_version,
    version_adds,
    version_at,
)
from log_format.checkpoints.state import state_of
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import Clock
from log_format.delta.actions import Add, plain_path
from log_format.delta.checkpoint_hint import read_hinted_version
from log_format.delta.checkpoint_schema import add_of
from log_format.delta.committer import Committer
from log_format.errors import (
    BackOff,
    CorruptData,
    ErrorCode,
    ObjectMissing,
    OutcomeUnknown,
    RequestRefused,
    StoreError,
    UnknownTopic,
    log_outran_reader,
)
from log_format.ids import NewId
from log_format.store import ObjectStore, copy_all_if_absent
from log_format.topic.clone import CloneTopic, as_requested, cloned_add
from log_format.topic.config import ConfigValue, check_topic_name
from log_format.topic.erasure_changes import RequestErasure
from log_format.topic.erasures import Erasure
from log_format.topic.state import TopicState

COPIES_AT_ONCE: Final = 16
FILES_MAX: Final = 150_000
"""Most files of a topic that can be cloned: the commit names each in about 600 bytes."""
_TOGETHER_MAX: Final = 1_000
"""Most files that a thread copies at a time: in a directory they share the cost of one sync."""
REPEATED_MS_MAX: Final = 3_600_000
"""How long after a clone was made the same request is taken for a repetition. Later the caller means the topic as it is then."""
_ATTEMPTS_MAX: Final = 3
"""Number of versions of the source that are tried: maintenance may delete a file of an old one before it is copied."""

Progress = Callable[[int, int], None]
"""Callback with the numbers of copied and of all files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableVersion:
    """A version of a topic's table: by its number, by a pin's name, as of a time (ms since the epoch), or else the newest."""

    number: int | None = None
    pin: str | None = None
    at_ms: int | None = None


NEWEST: Final = TableVersion()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClonedTopic:
    """A new topic. ``source_version``: the version of the source's log that it is a clone of. ``is_new``: whether this call made
    it."""

    state: TopicState
    source_version: int
    file_count: int
    size_bytes: int
    is_new: bool


def clone_topic(
    store: ObjectStore,
    source: str,
    target: str,
    clock: Clock,
    new_id: NewId,
    *,
    config: Mapping[str, ConfigValue | None],
    at: TableVersion = NEWEST,
    progress: Progress = lambda _done, _of: None,
    copies_at_once: int = COPIES_AT_ONCE,
) -> ClonedTopic:
    """Make the topic ``target`` with the records that the table of ``source`` has, or had.

    Args:
        store: where both topics are.
        source: the topic to clone. Records that only its journal has are not in its table: drain it first.
        target: name of the new topic.
        clock: source of time.
        new_id: makes ids.
        config: settings that the new topic has differently; None: the default.
        at: the version to clone.
        progress: called after each file.
        copies_at_once: number of concurrent copies, at least 1; with 1 no thread is started.

    The same request as one that made the clone in the last ``REPEATED_MS_MAX`` gets that clone. Raises ``UnknownTopic``,
    ``RequestRefused`` (``INVALID_TOPIC_NAME``, ``TOPIC_ALREADY_EXISTS``, ``INVALID_CONFIG``, ``VERSION_GONE``, too many files),
    ``BackOff``, ``OutcomeUnknown``, ``StoreUnavailable``, ``CorruptData``.
    """
    log = TopicLog(store, check_topic_name(target), clock)  # it names objects of the store from here on
    asked = msgspec.json.encode([at, dict(sorted(config.items()))]).decode()
    for _ in range(_ATTEMPTS_MAX):
        found = _look(store, source, clock, at)
        if (made := _made_before(store, found.state, log, asked, clock.now_ms())) is not None:
            return made
        topic_id = new_id()
        copies = _Copies(store, CloneName(target, topic_id), found.adds, new_id, copies_at_once)
        change = CloneTopic(
            name=target,
            source=found.state,
            adds=copies.adds,
            topic_id=topic_id,
            begun_at_ms=clock.now_ms(),
            config=config,
            erasures=found.erasures,
        )
        change.propose(log.refresh(), clock.now_ms())  # refused before anything is copied
        with copies.noted():
            try:
                if copies.make(source, progress) and not (
                    found.is_head and _is_erased_since(store, found.state, clock)
                ):
                    note_clone(store, *_names(found.state, target, change.topic_id), _note(found, asked))
                    Committer(log, new_id=new_id).commit(change)
                    break
            except (OutcomeUnknown, CorruptData):
                raise  # the commit may stand, which names the copies
            except Exception:
                copies.discard()
                raise
            copies.discard()
            if not found.is_head:
                raise _gone(source, found.state.version, "files of it are deleted")
    else:
        raise BackOff(f"Maintenance rewrites topic {source!r} faster than it can be copied.", topic=source)
    _erase_alike(store, found, log, clock, new_id)
    return _told(log.state, _note(found, asked), is_new=True)


class _Found(NamedTuple):
    """A topic at one version of its log. ``is_head``: whether that was the newest version."""

    state: TopicState
    adds: list[Add]
    erasures: list[Erasure]
    """Requests to erase what the files still have."""
    is_head: bool


def _names(source: TopicState, target: str, target_id: str) -> tuple[CloneName, CloneName]:
    return CloneName(source.topic, source.existing_id), CloneName(target, target_id)


def _note(found: _Found, asked: str) -> CloneNote:
    return CloneNote(
        asked=asked,
        source_version=found.state.version,
        file_count=len(found.adds),
        size_bytes=sum(add.size for add in found.adds),
    )


def _made_before(store: ObjectStore, source: TopicState, log: TopicLog, asked: str, now_ms: int) -> ClonedTopic | None:
    """Return the clone that the same request has made before, perhaps at another gateway."""
    state = log.refresh()
    if state.topic_id is None or now_ms - state.created_at_ms > REPEATED_MS_MAX:
        return None
    note = read_note(store, *_names(source, log.topic, state.topic_id))
    return None if note is None or note.asked != asked else _told(state, note, is_new=False)


def _told(state: TopicState, note: CloneNote, *, is_new: bool) -> ClonedTopic:
    return ClonedTopic(
        state=state,
        source_version=note.source_version,
        file_count=note.file_count,
        size_bytes=note.size_bytes,
        is_new=is_new,
    )


def _look(store: ObjectStore, source: str, clock: Clock, at: TableVersion) -> _Found:
    log = TopicLog(store, source, clock)
    for _ in range(limits.LOAD_ATTEMPTS_MAX):
        head = log.refresh()
        if not head.exists:
            raise UnknownTopic(source)
        version = _number(store, head, at, clock.now_ms())
        state = head if version == head.version else _state_at(store, head, version, clock.now_ms())
        count = state.segment_count + state.archive.segment_count
        if count > FILES_MAX:
            raise RequestRefused(
                f"Topic {source!r} has {count} files: at most {FILES_MAX} can be cloned.", topic=source
            )
        adds = _adds_at(store, state, clock.now_ms(), is_head=state is head)
        if adds is not None:
            return _Found(state, adds, _still_there(state, head), state is head)
    raise log_outran_reader(source)


def _still_there(state: TopicState, head: TopicState) -> list[Erasure]:
    """Return the requests to erase what files of ``state`` still have, as far as they were made up to ``head``."""
    if state is head:
        return [erasure for erasure in head.erasures if not erasure.is_rewritten]
    later = {erasure.erasure_id: erasure for erasure in head.erasures}
    return [*(one for one in state.erasures if not one.is_rewritten and one.erasure_id not in later), *later.values()]


def _number(store: ObjectStore, head: TopicState, at: TableVersion, now_ms: int) -> int:
    """Return the number of the version to clone. Raises ``RequestRefused``."""
    if at.pin is not None:
        found = next((pin.version for pin in head.pins if pin.name == at.pin), None)
        if found is None:
            raise RequestRefused(
                f"Topic {head.topic!r} has no pin {at.pin!r}.", code=ErrorCode.UNKNOWN_PIN, topic=head.topic, pin=at.pin
            )
        return found
    if at.at_ms is not None:
        refuse_future_time(at.at_ms, now_ms)
        return version_at(store, head.topic, at.at_ms)
    if at.number is None:
        return head.version
    refuse_future_version(head, at.number)
    return at.number


def _state_at(store: ObjectStore, head: TopicState, version: int, now_ms: int) -> TopicState:
    """Return the topic at an older version. Raises ``RequestRefused`` (``VERSION_GONE``), ``StoreUnavailable``."""
    try:
        keep_version(store, head.topic, version, now_ms)
        state = state_of(open_version(store, head.topic, version), head.topic)
    except CorruptData as problem:
        raise _gone(head.topic, version, problem.detail) from problem
    if state.topic_id != head.topic_id:
        raise _gone(head.topic, version, "it is of an earlier topic, which was deleted")
    return state


def _adds_at(store: ObjectStore, state: TopicState, now_ms: int, *, is_head: bool) -> list[Add] | None:
    """Return what names the files of log and archive; None if the log went on so far that the state must be read again."""
    root = layout.topic_root(state.topic)
    if is_head:
        hint = read_hinted_version(store, root)

        return with_log_at(lambda found: _actions(found.adds()), store, root, state.version, now_ms, hint=hint)
    try:
        return _actions(version_adds(store, state.topic, state.version))
    except CorruptData as problem:
        raise _gone(state.topic, state.version, problem.detail) from problem


def _actions(pieces: Iterable[pa.StructArray]) -> list[Add]:
    return [add_of(row) for piece in pieces for row in piece.to_pylist()]


def _gone(topic: str, version: int, why: str) -> RequestRefused:
    return RequestRefused(
        f"Version {version} of topic {topic!r} can't be cloned any more: {why}.",
        code=ErrorCode.VERSION_GONE,
        topic=topic,
    )


def _is_erased_since(store: ObjectStore, state: TopicState, clock: Clock) -> bool:
    """Return whether records of the topic may have been erased after ``state``."""
    now = TopicLog(store, state.topic, clock).refresh()
    return now.topic_id == state.topic_id and now.erased_ends.tobytes() != state.erased_ends.tobytes()


def _erase_alike(store: ObjectStore, found: _Found, log: TopicLog, clock: Clock, new_id: NewId) -> None:
    """Request in the clone what was requested in the source while its files were copied."""
    now = TopicLog(store, found.state.topic, clock).refresh()
    known = {erasure.erasure_id for erasure in (*found.state.erasures, *found.erasures)}
    for erasure in now.erasures if now.topic_id == found.state.topic_id else ():
        if erasure.erasure_id not in known:
            asked = RequestErasure(topic_id=log.state.existing_id, erasure=as_requested(erasure))
            Committer(log, new_id=new_id).commit(asked)


class _Copies:
    """Copies of a topic's files in another topic's directory. ``adds``: what names them there."""

    def __init__(self, store: ObjectStore, clone: CloneName, adds: Sequence[Add], new_id: NewId, at_once: int) -> None:
        self._store = store
        self._at_once = at_once
        self._root = layout.topic_root(clone.name)
        self._note = f"{layout.cloning_prefix(clone.name)}{new_id()}"
        self._paths = {add.path: copy_path(plain_path(add.path), clone.topic_id) for add in adds}
        self.adds = [cloned_add(add, self._paths[add.path]) for add in adds]

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Keep the note that copies are on their way, during this context, and longer if a commit may still name them."""
        self._store.put(self._note, b"{}")
        try:
            yield
        except OutcomeUnknown:
            raise
        except BaseException:
            self._end()
            raise
        self._end()

    def _end(self) -> None:
        with suppress(StoreError):
            self._store.delete(self._note)

    def make(self, source: str, progress: Progress) -> bool:
        """Copy all files; return False if the source has lost one of them. Raises ``StoreUnavailable``."""
        root, done = layout.topic_root(source), count(1)

        def copy(paths: Sequence[str]) -> None:
            copies = [(f"{root}{plain_path(path)}", f"{self._root}{self._paths[path]}") for path in paths]
            copy_all_if_absent(self._store, copies)
            for _ in paths:
                progress(next(done), len(self._paths))

        try:
            self._with_all(copy)
        except ObjectMissing:
            return False
        return True

    def discard(self) -> None:
        """Delete the copies, best effort: maintenance deletes what remains."""
        with suppress(StoreError):
            self._with_all(self._delete)

    def _delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            self._store.delete(f"{self._root}{self._paths[path]}")

    def _with_all(self, work: Callable[[Sequence[str]], None]) -> None:
        """Call ``work`` with some paths at a time, in threads."""
        if self._at_once == 1:
            for path in self._paths:
                work([path])
            return
        with ThreadPoolExecutor(self._at_once, thread_name_prefix="clone") as threads:
            waiting = iter(self._paths)
            together = min(_TOGETHER_MAX, -(-len(self._paths) // self._at_once))
            parts = iter(lambda: list(islice(waiting, together)), [])
            while some := list(islice(parts, self._at_once)):
                for _ in threads.map(work, some):
                    pass
