"""Identity of files through every kind of rotation.

1. A file is identified by device and inode, whatever its name, as long as it still has the bytes that were read of it.
2. An open file is read to its end, even when it is renamed or deleted. A name that leads to another inode is another file.
3. A file that is smaller than its read position, or has other bytes before it, was truncated: it is read from its beginning.
4. A new file may be a copy of a known file (``tidelog.collect.copies``). While the known file exists the copy is not read,
   which is reported if it lasts. Afterwards reading continues in the copy. So compressed and copied logs are not read twice,
   and the old file's last lines are read from the copy.

Not thread-safe.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from tidelog.collect import limits
from tidelog.collect.content import Content
from tidelog.collect.copies import is_copy, is_truncated, may_be_copy
from tidelog.collect.discovery import SeenFile, find_files, find_siblings
from tidelog.collect.followed_file import FollowedFile, Truncated
from tidelog.collect.journal import Journal, Level
from tidelog.collect.position import Position, Tail
from tidelog.collect.state import FileState
from tidelog.collect.unreadable_files import UnreadableFiles
from tidelog.unpacking import Damaged


@dataclass(slots=True, kw_only=True)
class _SuspectedCopy:
    """A file that is not read because it has the bytes of a file that exists. Sizes are those on disk."""

    path: str
    of: FollowedFile
    since_s: float
    judged_bytes: int
    seen_bytes: int
    told: bool = False


class FileFollower:
    """The files that match ``patterns``, or did before.

    ``from_end``: begin at the end of files that exist at the start. ``follow_links``: also read what symbolic links lead to.
    ``lose``: called with the bytes of files that are given up.
    """

    def __init__(
        self,
        patterns: Sequence[str],
        known: Iterable[FileState],
        next_file_id: int,
        journal: Journal,
        *,
        from_end: bool = False,
        follow_links: bool = False,
        open_files_max: int = limits.OPEN_FILES_MAX,
        lose: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.unread = UnreadableFiles(journal, lose)
        self.files = {state.id: FollowedFile(state, follow_links=follow_links) for state in known}
        self.next_file_id = next_file_id
        self._patterns = tuple(patterns)
        self._journal = journal
        self._from_end = from_end
        self._follow_links = follow_links
        self._open_files_max = open_files_max
        self._first = True
        self._now_ms = 0
        self._left_out: set[str] = set()
        self._held: dict[tuple[int, int], _SuspectedCopy] = {}

    def scan(self, now_s: float, now_ms: int) -> None:
        """Match the patterns, and handle new files, new names and missing files.

        ``now_s`` is of any monotonic clock.
        """
        self._now_ms = now_ms
        found, links = find_files(self._patterns, follow_links=self._follow_links)
        self._skip_links(links)
        for followed in [each for each in self.files.values() if not each.detached]:
            seen = found.pop((followed.state.device, followed.state.inode), None)
            followed.present = seen is not None
            if seen is not None:
                if self._is_another(followed, seen, now_s, now_ms):
                    found[seen.device, seen.inode] = seen
            else:
                self._note_missing(followed, now_ms)
        if self._first:
            self._find_moved(found, now_s, now_ms)
        self._held = {identity: held for identity, held in self._held.items() if identity in found}
        # Rotation makes names longer: an original comes before its copies.
        for seen in sorted(found.values(), key=lambda each: len(each.path)):
            self._classify(seen, now_s)
        self._first = False
        self._report_copies(now_s - limits.COPY_TOLD_AFTER_S)
        self._report_cut_off(now_s - limits.COPY_TOLD_AFTER_S)
        self._close_gone(now_s, now_ms)

    def look(self, now_s: float) -> None:
        """Update the sizes of the open files."""
        for followed in self.files.values():
            followed.look(now_s)

    def rotation(self) -> Iterator[FollowedFile]:
        """Yield files with something to read. Of files with the same name the newer one comes only when the older has been
        read."""
        held: set[str] = set()
        for followed in sorted(self.files.values(), key=lambda each: each.state.id):
            if followed.detached and followed.content is None:
                continue
            if followed.state.path in held:
                continue
            if followed.has_unread:
                held.add(followed.state.path)
                yield followed
            elif followed.unfinished:
                yield followed

    def note_truncation(self, followed: FollowedFile, now_ms: int) -> None:
        """Restart a truncated or replaced file, and remember what it was."""
        self._journal.report(
            Level.INFO, "File was truncated, it is read from its start", file=followed.state.last_path,
            read_bytes=followed.read.offset,
        )  # fmt: skip
        followed.close()
        followed.present = False
        followed.unfinished = False
        followed.stored_bytes = 0
        followed.exhausted_bytes = 0
        gone = followed.state.gone_since_ms or now_ms
        followed.state = dataclasses.replace(followed.state, device=0, inode=0, gone_since_ms=gone)

    def note_unreadable(self, followed: FollowedFile, error: Exception) -> None:
        """Exclude a file that can't be read further; the others continue."""
        if isinstance(error, Damaged):
            lost = 0 if followed.content is None else followed.content.undecompressed_bytes()
            self.unread.damaged(
                followed.state.last_path, from_offset=followed.read.offset, lost_bytes=lost, reason=str(error)
            )
            followed.failed = True
            followed.unfinished = False
            followed.close()
        else:
            self.unread.report(followed.state.last_path, str(error))
            followed.exhausted_bytes = followed.stored_bytes
            followed.postponed = True

    def unread_files(self, *, ended: bool) -> int:
        """Return the number of files that can't be read to their end. ``ended``: treat truncated streams as final."""
        if ended:
            self._report_cut_off(float("inf"))
        return len(self.unread)

    def count_skipped(self, *, report: bool) -> int:
        """Return the number of reported files that are left out as copies. ``report``: report all of them now."""
        if report:
            self._report_copies(float("inf"))
        return sum(held.told for held in self._held.values())

    def close(self) -> None:
        """Close every file."""
        for followed in self.files.values():
            followed.close()

    def _is_another(self, followed: FollowedFile, seen: SeenFile, now_s: float, now_ms: int) -> bool:
        """Process a known inode, and return whether it was reused for another file."""
        state = followed.state
        stayed = seen.path == state.last_path and state.gone_since_ms is None
        if not stayed:
            followed.state = dataclasses.replace(state, last_path=seen.path, gone_since_ms=None)
        if followed.postponed:
            followed.postponed = False
            followed.exhausted_bytes = None
        if followed.content is not None or (stayed and followed.failed):
            return False
        if stayed and not self._first and seen.stored_bytes == followed.stored_bytes:
            return False
        try:
            followed.open()
        except (Truncated, OSError, Damaged) as error:
            # A file without the compressed name that does not decompress is not the compressed file.
            misnamed = isinstance(error, Damaged) and seen.compression != state.compression
            if misnamed or isinstance(error, Truncated):
                self.note_truncation(followed, now_ms)
                return True
            self.unread.report(seen.path, str(error))
        else:
            followed.failed = False
            followed.grown_at_s = now_s
        return False

    def _note_missing(self, followed: FollowedFile, now_ms: int) -> None:
        """Process a known file that is missing."""
        if followed.state.gone_since_ms is None:
            followed.state = dataclasses.replace(followed.state, gone_since_ms=now_ms)
        if followed.content is None and not self._first and followed.unread_bytes() > 0:
            self._journal.report(
                Level.ERROR, "File was removed before it was read to its end", file=followed.state.last_path,
                from_offset=followed.read.offset, to_offset=followed.stored_bytes,
            )  # fmt: skip
            followed.exhausted_bytes = followed.stored_bytes = 0

    def _find_moved(self, found: dict[tuple[int, int], SeenFile], now_s: float, now_ms: int) -> None:
        """Find files that were rotated out of the patterns while no agent ran, to finish reading them."""
        missing = [followed for followed in self.files.values() if not followed.present]
        last_paths = [followed.state.last_path for followed in missing]
        beside = find_siblings(last_paths, follow_links=self._follow_links)
        for followed in missing:
            seen = beside.pop((followed.state.device, followed.state.inode), None)
            if seen is not None and self._is_another(followed, seen, now_s, now_ms):
                self._classify(seen, now_s, only_copies=True)
        lost = [followed for followed in missing if followed.content is None]
        known = {(followed.state.device, followed.state.inode) for followed in self.files.values()}
        for identity, seen in beside.items():
            if identity in known or identity in found:
                continue
            if any(may_be_copy(seen.path, followed) for followed in lost):
                self._classify(seen, now_s, only_copies=True)

    def _classify(self, seen: SeenFile, now_s: float, *, only_copies: bool = False) -> None:
        """Process a file with an unknown inode: new, or a copy of a known one."""
        if self._stays_held(seen):
            return
        try:
            content = Content(seen.path, seen.compression, follow_links=self._follow_links)
        except OSError as error:
            self.unread.report(seen.path, str(error))
            return
        kept = False
        try:
            # An empty file may become a copy, and has nothing to read yet.
            head = content.read(0, limits.HEAD_BYTES)
            if head and (content.device, content.inode) == (seen.device, seen.inode):
                kept = self._place(seen, content, head, now_s, only_copies)
        except Damaged as error:
            self.unread.damaged(seen.path, from_offset=0, lost_bytes=seen.stored_bytes, reason=str(error))
        except OSError as error:
            self.unread.report(seen.path, str(error))
        finally:
            if not kept:
                content.close()

    def _place(self, seen: SeenFile, content: Content, head: bytes, now_s: float, only_copies: bool) -> bool:
        """Follow the file, and return whether ``content`` is used from now on."""
        originals = [each for each in self.files.values() if is_copy(each, seen, content, head)]
        for each in originals:
            if each.content is not None and each.present and is_truncated(each):
                self.note_truncation(each, self._now_ms)
        alive = next((each for each in originals if _is_alive(each)), None)
        if alive is not None:
            if not only_copies:
                self._hold_back(seen, alive, now_s)
            return False
        self._held.pop((seen.device, seen.inode), None)
        if originals:
            self._assume_identity(max(originals, key=lambda each: each.read.offset), seen, content, now_s)
            return True
        if only_copies:
            return False
        if len(self.files) >= limits.FILES_MAX:
            self.unread.report("", f"more than {limits.FILES_MAX} files match: {seen.path} and others are not followed")
            return False
        position, tail = _end(content) if self._first and self._from_end else (Position(), Tail())
        state = FileState(
            id=self.next_file_id,
            device=seen.device,
            inode=seen.inode,
            path=seen.path,
            last_path=seen.path,
            compression=seen.compression,
            position=position,
            head=head,
            tail=tail,
        )
        self.next_file_id += 1
        followed = FollowedFile(state, follow_links=self._follow_links)
        self._adopt(followed, content, now_s)
        self._journal.report(Level.INFO, "File is followed", file=seen.path, from_offset=position.offset)
        return True

    def _stays_held(self, seen: SeenFile) -> bool:
        """Return whether a file is still held as a copy without comparing bytes: it is compared again once it stops growing."""
        held = self._held.get((seen.device, seen.inode))
        if held is None or held.path != seen.path or not _is_alive(held.of) or is_truncated(held.of):
            return False
        growing = seen.stored_bytes != held.seen_bytes
        held.seen_bytes = seen.stored_bytes
        return growing or seen.stored_bytes == held.judged_bytes

    def _hold_back(self, seen: SeenFile, original: FollowedFile, now_s: float) -> None:
        held = self._held.get((seen.device, seen.inode))
        size = seen.stored_bytes
        if held is None or held.path != seen.path:
            held = _SuspectedCopy(path=seen.path, of=original, since_s=now_s, judged_bytes=size, seen_bytes=size)
            self._held[seen.device, seen.inode] = held
        held.of, held.judged_bytes = original, size

    def _report_copies(self, until_s: float) -> None:
        for held in self._held.values():
            if not held.told and held.since_s <= until_s:
                held.told = True
                self._journal.report(
                    Level.WARNING, "File is skipped: it has the content of another one, and a name that rotation gives to copies",
                    file=held.path, of=held.of.state.last_path, stored_bytes=held.seen_bytes,
                )  # fmt: skip

    def _report_cut_off(self, until_s: float) -> None:
        for followed in self.files.values():
            if followed.cut_off and not followed.has_unread and followed.grown_at_s <= until_s:
                self.unread.cut_off(followed.state.last_path, offset=followed.read.offset)

    def _assume_identity(self, original: FollowedFile, seen: SeenFile, content: Content, now_s: float) -> None:
        """Continue the original in its copy."""
        original.close()
        position, tail = original.state.position, original.state.tail
        if seen.compression is None and content.stored_bytes() < position.offset:
            position = dataclasses.replace(position, offset=content.stored_bytes())
            tail = Tail.of(content.read(max(0, position.offset - limits.TAIL_BYTES), limits.TAIL_BYTES))
        original.state = dataclasses.replace(
            original.state,
            device=seen.device,
            inode=seen.inode,
            last_path=seen.path,
            compression=seen.compression,
            position=position,
            tail=tail,
            gone_since_ms=None,
        )
        original.failed = False
        original.go_back()
        self._adopt(original, content, now_s)
        self._journal.report(
            Level.INFO, "File is a copy of one that was followed", file=seen.path, of=original.state.path,
            from_offset=position.offset,
        )  # fmt: skip

    def _adopt(self, followed: FollowedFile, content: Content, now_s: float) -> None:
        followed.content = content
        followed.stored_bytes = content.stored_bytes()
        followed.exhausted_bytes = None
        followed.present = True
        followed.grown_at_s = now_s
        followed.learn_head()
        self.files[followed.state.id] = followed

    def _close_gone(self, now_s: float, now_ms: int) -> None:
        """Close finished files and files above the bound, and forget files that are long gone."""
        for followed in list(self.files.values()):
            quiet = not followed.has_unread and not followed.unfinished
            if followed.present:
                continue
            if followed.content is not None and quiet and now_s - followed.grown_at_s > limits.GONE_CLOSED_AFTER_S:
                followed.close()
            gone_since_ms = followed.state.gone_since_ms
            long_gone = gone_since_ms is not None and now_ms - gone_since_ms > limits.GONE_FORGOTTEN_AFTER_MS
            if long_gone and followed.content is None and followed.delivered:
                del self.files[followed.state.id]
        opened = [followed for followed in self.files.values() if followed.content is not None]
        excess = len(opened) - self._open_files_max
        if excess > 0:
            # A present file can be reopened by its name; a fully read one is not needed soon.
            closable = sorted((each for each in opened if each.present), key=lambda e: (e.has_unread, e.grown_at_s))
            for followed in closable[:excess]:
                followed.close()

    def _skip_links(self, links: Iterable[str]) -> None:
        """Report each ignored link, once."""
        for path in links:
            if path in self._left_out:
                continue
            if len(self._left_out) >= limits.FILES_MAX:
                self._left_out.clear()
            self._left_out.add(path)
            self._journal.report(
                Level.WARNING, "Symbolic link is skipped", file=path,
                reason="--follow-links follows links; it is safe in directories where no other user can create one",
            )  # fmt: skip


def _is_alive(followed: FollowedFile) -> bool:
    """Return whether the original itself is still to be read."""
    return followed.present or not followed.delivered or (followed.content is not None and followed.has_unread)


def _end(content: Content) -> tuple[Position, Tail]:
    """Return the position after the last finished line. Earlier lines are counted, so that later ones get their numbers."""
    offset = line_end = breaks = 0
    while block := content.read(offset, limits.BLOCK_BYTES):
        if found := block.count(b"\n"):
            breaks += found
            line_end = offset + block.rindex(b"\n") + 1
        offset += len(block)
    before = min(line_end, limits.TAIL_BYTES)
    return Position(offset=line_end, line=breaks + 1), Tail.of(content.read(line_end - before, before))
