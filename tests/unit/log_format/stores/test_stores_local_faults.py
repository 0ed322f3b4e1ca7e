"""A store in a directory when the disk, the machine or the process fails: whole objects or none, and true errors."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from log_format.errors import ObjectExists, ObjectMissing, StoreReason, StoreUnavailable
from log_format.limits import DIRECTORIES_REMEMBERED_MAX
from log_format.stores import durable_directory
from log_format.stores.local import LocalStore

Write = Callable[[LocalStore, str, bytes], None]
WRITES = [
    pytest.param(lambda store, key, data: store.put(key, data), id="put"),
    pytest.param(lambda store, key, data: store.put_if_absent(key, data), id="put_if_absent"),
]

DYING = """
import os, signal, sys
from log_format.limits import DIRECTORIES_REMEMBERED_MAX
from log_format.stores.local import LocalStore
def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
store = LocalStore(sys.argv[1])
store.put("before", b"x")
setattr(os, sys.argv[2], die)
getattr(store, sys.argv[3])("log/a", b"x" * 100_000)
"""


def _keys(store: LocalStore) -> list[str]:
    return [found.key for found in store.list("")]


def _open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, StoreReason.NO_SPACE),
        (errno.EROFS, StoreReason.READ_ONLY),
        (errno.EACCES, StoreReason.ACCESS_DENIED),
        (errno.EIO, StoreReason.FAILED),
    ],
)
def test_an_error_says_why_and_names_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, reason: StoreReason
) -> None:
    """Whichever call of the system fails: callers of a gateway are told a class of reasons, and not where the store is."""
    store = LocalStore(tmp_path)
    store.put("topics/a", b"x")
    store.put("copies/there", b"x")

    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number), str(tmp_path / "secret"))

    for name, write in (
        ("fsync", lambda: store.put("topics/b", b"x")),
        ("link", lambda: store.put_if_absent("topics/c", b"x")),
        ("rename", lambda: store.put("topics/d", b"x")),
        ("fsync", lambda: store.copy_all_if_absent([("topics/a", "copies/a"), ("topics/a", "copies/b")])),
        ("scandir", lambda: list(store.list("topics/"))),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(os, name, fail)
            with pytest.raises(StoreUnavailable) as caught:
                write()
        assert (caught.value.reason, str(tmp_path) in caught.value.detail) == (reason, False), name


@pytest.fixture
def full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory on a file system of 1 MiB; where mounting is not allowed, one whose files can't grow past 512 KiB."""
    path = tmp_path / "small"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(path)]
    if os.geteuid() == 0 and subprocess.run(mount, capture_output=True, check=False).returncode == 0:
        try:
            yield path
        finally:
            subprocess.run(["umount", "--lazy", str(path)], check=True)
        return
    real = os.write

    def write(descriptor: int, data: bytes | memoryview) -> int:
        room = 512 * 1024 - os.fstat(descriptor).st_size
        if room <= 0:
            raise _error(errno.ENOSPC)
        return real(descriptor, memoryview(data)[:room])

    monkeypatch.setattr(os, "write", write)
    yield path


@pytest.mark.parametrize("write", WRITES)
def test_a_full_disk(full_disk: Path, write: Write) -> None:
    """What does not fit is refused, for certain; nothing of it stays, and what fits is written as before."""
    store = LocalStore(full_disk)
    write(store, "a/small", b"x" * 1000)
    for _ in range(3):
        with pytest.raises(StoreUnavailable, match="full") as raised:
            write(store, "a/large", b"x" * 2_000_000)
        assert raised.value.may_have_happened is False
        assert _keys(store) == ["a/small"]
        assert list((full_disk / ".tmp").iterdir()) == []
    write(store, "a/another", b"x" * 1000)
    assert store.get("a/another") == b"x" * 1000


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[LocalStore]:
    """A store with the object a/b whose file system has become read-only (or answers as if, where mounting is not allowed)."""
    path = tmp_path / "read-only"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(path)]
    if os.geteuid() == 0 and subprocess.run(mount, capture_output=True, check=False).returncode == 0:
        try:
            store = LocalStore(path)
            store.put("a/b", b"x")
            subprocess.run(["mount", "-o", "remount,ro", str(path)], check=True)
            yield store
        finally:
            subprocess.run(["umount", "--lazy", str(path)], check=True)
        return
    store = LocalStore(path)
    store.put("a/b", b"x")
    path.joinpath("a").chmod(0o500)
    path.joinpath(".tmp").chmod(0o500)
    yield store
    path.joinpath("a").chmod(0o700)


@pytest.mark.parametrize(
    "change",
    [*WRITES, pytest.param(lambda store, _key, _data: store.delete("a/b"), id="delete")],
)
def test_a_read_only_directory(read_only: LocalStore, change: Write) -> None:
    """Changes are refused, for certain, with the reason; reads go on, also in a store opened now."""
    with pytest.raises(StoreUnavailable, match=r"read-only|permission denied") as raised:
        change(read_only, "a/c", b"x")
    assert raised.value.may_have_happened is False
    for store in (read_only, LocalStore(read_only.directory)):
        assert _keys(store) == ["a/b"]
        assert store.get("a/b") == b"x"


@pytest.mark.parametrize(("method", "call"), [("put", "rename"), ("put_if_absent", "link"), ("put_if_absent", "fsync")])
def test_a_process_killed_before_the_object_has_its_name(tmp_path: Path, method: str, call: str) -> None:
    """A process that dies with its object written, but not yet named, leaves nothing that a reader sees or a writer meets."""
    program = [sys.executable, "-c", DYING, str(tmp_path), call, method]
    died = subprocess.run(program, env={**os.environ, "PYTHONPATH": str(Path.cwd())}, check=False)
    assert died.returncode == -9
    [left] = (tmp_path / ".tmp").iterdir()
    assert left.stat().st_size == 100_000
    store = LocalStore(tmp_path)
    assert _keys(store) == ["before"]
    assert list(store.list_directories("")) == []
    with pytest.raises(ObjectMissing):
        store.get("log/a")
    store.put_if_absent("log/a", b"y")
    assert store.get("log/a") == b"y"


@pytest.mark.parametrize("write", WRITES)
def test_a_file_that_can_not_be_synced(local_store: LocalStore, monkeypatch: pytest.MonkeyPatch, write: Write) -> None:
    """An object whose bytes did not reach the disk never gets its name."""

    def fail(_: int) -> None:
        raise _error(errno.EIO)

    local_store.put("a/b", b"x")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(StoreUnavailable) as raised:
            write(local_store, "a/c", b"x")
    assert raised.value.may_have_happened is False
    assert _keys(local_store) == ["a/b"]
    assert list((local_store.directory / ".tmp").iterdir()) == []


@pytest.mark.parametrize("write", WRITES)
def test_a_directory_that_can_not_be_synced(
    local_store: LocalStore, monkeypatch: pytest.MonkeyPatch, write: Write
) -> None:
    """When only the name did not reach the disk it may have happened; no reader sees the object before a sync succeeds."""

    def fail(*_: object) -> None:
        raise _error(errno.EIO)

    local_store.put("a/b", b"x")
    with monkeypatch.context() as patch:
        patch.setattr(durable_directory, "sync_directory", fail)
        with pytest.raises(StoreUnavailable) as raised:
            write(local_store, "a/c", b"mine")
        assert raised.value.may_have_happened is True
        operations: list[Callable[[], object]] = [
            lambda: local_store.get("a/c"),
            lambda: local_store.get_range("a/c", 0, 1),
            lambda: local_store.head("a/c"),
            lambda: _keys(local_store),
            lambda: local_store.put_if_absent("a/c", b"other"),
        ]
        for operation in operations:
            with pytest.raises(StoreUnavailable):
                operation()
    assert local_store.get("a/c") == b"mine"
    with pytest.raises(ObjectExists):
        local_store.put_if_absent("a/c", b"other")
    assert _keys(local_store) == ["a/b", "a/c"]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize(
    ("number", "may_have_happened"), [(errno.EACCES, False), (errno.ENOSPC, False), (errno.EIO, True)]
)
def test_an_object_that_can_not_be_placed(
    local_store: LocalStore, monkeypatch: pytest.MonkeyPatch, write: Write, number: int, may_have_happened: bool
) -> None:
    """An error of link or rename means that nothing happened, except those that leave the outcome unknown."""

    def fail(*_: object, **__: object) -> None:
        raise _error(number)

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", fail)
        patch.setattr(os, "rename", fail)
        patch.setattr(Path, "rename", fail)
        with pytest.raises(StoreUnavailable) as raised:
            write(local_store, "a/c", b"x")
    assert raised.value.may_have_happened is may_have_happened
    assert _keys(local_store) == []


def test_every_new_directory_is_synced_into_its_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A put makes its whole path durable, once; also the directories that another process has made, or made anew."""
    synced: list[str] = []
    real = durable_directory.sync_directory

    def sync(path: str, descriptor: int | None = None) -> None:
        real(path, descriptor)
        synced.append(str(Path(path).relative_to(tmp_path)))

    monkeypatch.setattr(durable_directory, "sync_directory", sync)
    store = LocalStore(tmp_path / "x/store")
    store.put("a/b/1", b"x")
    assert synced == [".", "x", "x/store", "x/store", "x/store/a", "x/store/a/b"]  # the first "x/store" is for .tmp
    synced.clear()
    store.put("a/b/2", b"x")
    assert synced == ["x/store/a/b"]
    other = LocalStore(tmp_path / "x/store")
    synced.clear()
    other.put("a/b/3", b"x")
    assert synced == ["x/store", "x/store", "x/store/a", "x/store/a/b"]
    for name in "123":
        other.delete(f"a/b/{name}")
    (tmp_path / "x/store/a/b").mkdir(parents=True)
    synced.clear()
    store.put("a/b/4", b"x")
    assert synced == ["x/store", "x/store/a", "x/store/a/b"]


def test_remembered_directories_are_bounded(tmp_path: Path) -> None:
    """However many directories are written to, few are kept open, and those forgotten work as before."""
    before = _open_files()
    store = LocalStore(tmp_path)
    for _ in range(2):
        for index in range(DIRECTORIES_REMEMBERED_MAX + 20):
            store.put(f"{index}/a", b"x")
    assert _open_files() <= before + DIRECTORIES_REMEMBERED_MAX
    del store
    assert _open_files() <= before


def test_a_delete_that_can_not_be_synced(local_store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A delete that may come undone in a crash is not reported as done; repeated when the disk is back, it is."""

    def fail(*_: object) -> None:
        raise _error(errno.EIO)

    local_store.put("a/b", b"x")
    local_store.put("a/c", b"x")
    with monkeypatch.context() as patch:
        patch.setattr(durable_directory, "sync_directory", fail)
        with pytest.raises(StoreUnavailable) as raised:
            local_store.delete("a/b")
    assert raised.value.may_have_happened is True
    local_store.delete("a/b")
    assert _keys(local_store) == ["a/c"]


@pytest.mark.parametrize("write", WRITES)
def test_what_another_process_has_just_put_is_durable_before_it_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Write
) -> None:
    """Its writer may have died between the name and the sync, and its whole path may be new: a reader syncs it, once. What this
    process has put, and what is older than file systems wait, costs nothing."""
    synced: list[str] = []
    real = durable_directory.sync_directory

    def sync(path: str, descriptor: int | None = None) -> None:
        real(path, descriptor)
        synced.append(str(Path(path).relative_to(tmp_path)))

    def die(*_: object) -> None:
        raise _error(errno.EIO)

    reader = LocalStore(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(durable_directory, "sync_directory", lambda *_: None)
        writer = LocalStore(tmp_path)
        writer.put("a/b/0", b"x")
        patch.setattr(durable_directory, "sync_directory", die)
        with pytest.raises(StoreUnavailable):
            write(writer, "a/b/1", b"x")
    monkeypatch.setattr(durable_directory, "sync_directory", sync)
    assert reader.get("a/b/1") == b"x"
    assert synced == ["a/b", "a", "."]
    time.sleep(0.1)
    assert reader.head("a/b/1").size_bytes == 1  # within the grain of files' times a sync more does no harm
    synced.clear()
    assert reader.get_range("a/b/1", 0, 1) == b"x"
    assert synced == []
    write(reader, "a/b/2", b"x")
    time.sleep(0.1)
    write(reader, "a/b/3", b"x")
    synced.clear()
    assert reader.get("a/b/2") == b"x"
    assert synced == []
    old, later_s = LocalStore(tmp_path), time.time() + 61
    monkeypatch.setattr(time, "time", lambda: later_s)
    assert old.get("a/b/3") == b"x"
    assert synced == []


def test_many_links_are_synced_once_before_they_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that many copies got in a directory are made durable by one sync after the last of them; if that fails the copies
    may have happened, and no reader sees one before a sync succeeds."""
    store = LocalStore(tmp_path)
    copies = [(f"from/{index}", f"to/{index}") for index in range(20)]
    for source, _ in copies:
        store.put(source, b"x")
    seen: list[int] = []
    real = durable_directory.sync_directory

    def sync(path: str, descriptor: int | None = None) -> None:
        if Path(path).name == "to":
            seen.append(len(list(Path(path).iterdir())))
        real(path, descriptor)

    monkeypatch.setattr(durable_directory, "sync_directory", sync)
    store.copy_all_if_absent(copies)
    assert seen == [20]

    def fail(path: str, descriptor: int | None = None) -> None:
        del descriptor
        raise OSError(errno.EIO, "broken", path)

    with monkeypatch.context() as patch:
        patch.setattr(durable_directory, "sync_directory", fail)
        with pytest.raises(StoreUnavailable) as raised:
            store.copy_all_if_absent([("from/0", "to/late")])
        assert raised.value.may_have_happened
        with pytest.raises(StoreUnavailable):
            store.get("to/late")
    assert store.get("to/late") == b"x"
