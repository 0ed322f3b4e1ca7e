"""A store in a directory: what is on the disk, which writers may write at once, and what a listing reads."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from log_format.errors import ObjectExists, ObjectMissing, StoreUnavailable
from log_format.limits import TEMPORARY_FILE_AGE_MAX_MS
from log_format.stores import local_list
from log_format.stores.local import LocalStore

PROCESSES = 6
ROUNDS = 40

RIVAL = """
import pathlib, sys, time
from log_format.errors import ObjectExists
from log_format.stores.local import LocalStore
root, name = pathlib.Path(sys.argv[1]), sys.argv[2]
store = LocalStore(root / "store")
(root / f"ready-{name}").touch()
while not (root / "go").exists():
    time.sleep(0.001)
for turn in range(int(sys.argv[3])):
    try:
        store.put_if_absent(f"log {turn % 3}/{turn:020d}.json", name.encode() * 1000)
        print(turn)
    except ObjectExists:
        pass
"""


def _keys(store: LocalStore) -> list[str]:
    return [found.key for found in store.list("")]


def _start(program: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )


def test_keys_are_paths(local_store: LocalStore) -> None:
    """An object's file has the key for its path, character for character, so that Spark and Delta can read it there."""
    for key in ("topics/t/_delta_log/0.json", "a b/ü%2F=+é", "_x", ".hidden/.y"):
        local_store.put(key, key.encode())
        assert (local_store.directory / key).read_bytes() == key.encode()
    assert not list((local_store.directory / ".tmp").iterdir())


def test_files_that_others_wrote_are_objects(local_store: LocalStore) -> None:
    """What Spark writes into the directory is listed and read like any object."""
    (local_store.directory / "compacted").mkdir(parents=True)
    (local_store.directory / "compacted/part-0.parquet").write_bytes(b"x")
    assert _keys(local_store) == ["compacted/part-0.parquet"]
    assert local_store.get("compacted/part-0.parquet") == b"x"


def test_what_is_no_object_is_not_shown(local_store: LocalStore) -> None:
    """Links, pipes, names that are no keys, empty directories and objects in the making are in no listing."""
    root = local_store.directory
    local_store.put("a/b", b"x")
    (root / "link").symlink_to(root / "a/b")
    (root / "loop").symlink_to(root)
    os.mkfifo(root / "pipe")
    (root / "line\nbreak").touch()
    os.close(os.open(os.fsencode(root) + b"/not-\xff-utf8", os.O_CREAT | os.O_WRONLY))
    (root / "empty/deep/er").mkdir(parents=True)
    (root / ".tmp/1-abc").touch()
    assert _keys(local_store) == ["a/b"]
    assert list(local_store.list_directories("")) == ["a"]


def test_one_process_of_many_wins(tmp_path: Path) -> None:
    """Of processes that put_if_absent the same keys exactly one wins each, and its bytes are the object's."""
    names = "ABCDEFGH"[:PROCESSES]
    rivals = [_start(RIVAL, str(tmp_path), name, str(ROUNDS)) for name in names]
    while len(list(tmp_path.glob("ready-*"))) < PROCESSES:
        time.sleep(0.005)
    (tmp_path / "go").touch()
    won: dict[int, str] = {}
    for name, rival in zip(names, rivals, strict=True):
        output, _ = rival.communicate(timeout=60)
        assert rival.returncode == 0
        for turn in map(int, output.split()):
            assert won.setdefault(turn, name) == name
    store = LocalStore(tmp_path / "store")
    assert sorted(won) == list(range(ROUNDS))
    for turn, name in won.items():
        assert store.get(f"log {turn % 3}/{turn:020d}.json") == name.encode() * 1000


def test_a_put_survives_the_removal_of_its_directory(local_store: LocalStore) -> None:
    """Deleting the last object removes its directory; a put that lands in between makes it anew and never fails."""
    stop = threading.Event()

    def put_and_delete(worker: int) -> int:
        turns = 0
        while not stop.is_set():
            local_store.put(f"a/b/{worker}", b"x")
            local_store.put_if_absent(f"a/b/c/{worker}", b"x")
            assert local_store.get(f"a/b/{worker}") == b"x"
            local_store.delete(f"a/b/{worker}")
            local_store.delete(f"a/b/c/{worker}")
            turns += 1
        return turns

    with ThreadPoolExecutor(4) as pool:
        workers = [pool.submit(put_and_delete, worker) for worker in range(4)]
        time.sleep(1)
        stop.set()
        assert min(worker.result() for worker in workers) > 0
    assert _keys(local_store) == []
    assert not (local_store.directory / "a").exists()


def test_an_object_and_a_directory_of_one_name(local_store: LocalStore) -> None:
    """What a directory can't hold (a beside a/b) is refused, changes nothing, and is never taken for an existing object."""
    local_store.put("a/b", b"x")
    local_store.put("c", b"x")
    for write in (local_store.put, local_store.put_if_absent):
        for key, message in (("a", "a directory has this name"), ("c/d", "a file stands where a directory must be")):
            with pytest.raises(StoreUnavailable, match=message) as raised:
                write(key, b"y")
            assert raised.value.may_have_happened is False
    assert _keys(local_store) == ["a/b", "c"]
    with pytest.raises(ObjectMissing):
        local_store.get("a")


def test_stale_temporary_files_are_removed(tmp_path: Path) -> None:
    """What a killed process left is removed when it is old; what may still be in the making is not."""
    LocalStore(tmp_path).put("a", b"x")
    old, young = tmp_path / ".tmp/1-old", tmp_path / ".tmp/1-young"
    for path in (old, young):
        path.write_bytes(b"half an obj")
    long_ago = time.time() - TEMPORARY_FILE_AGE_MAX_MS / 1000 - 60
    os.utime(old, (long_ago, long_ago))
    store = LocalStore(tmp_path)
    assert (old.exists(), young.exists()) == (False, True)
    assert _keys(store) == ["a"]


def test_a_listing_opens_only_the_directories_it_needs(
    local_store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Directories outside of the prefix or before the start are not read, and the others when the listing gets there."""
    for topic in "abcd":
        for name in ("_delta_log/0", "segments/x"):
            local_store.put(f"topics/{topic}/{name}", b"x")
    opened: list[str] = []
    real = os.scandir

    def scandir(path: Path) -> object:
        opened.append(str(path.relative_to(local_store.directory)))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    listing = local_store.list("topics/", start_after="topics/b/segments/x")
    assert next(listing).key == "topics/c/_delta_log/0"
    assert opened == ["topics", "topics/b", "topics/b/segments", "topics/c", "topics/c/_delta_log"]
    opened.clear()
    assert len(list(local_store.list("topics/d/_delta_log/0"))) == 1
    assert opened == ["topics/d/_delta_log"]


def test_without_fsync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With fsync off nothing is synced, and everything else stays as promised."""
    monkeypatch.setattr(os, "fsync", lambda _: pytest.fail("synced"))
    store = LocalStore(tmp_path / "store", fsync=False)
    store.put_if_absent("a/b", b"x")
    with pytest.raises(ObjectExists):
        store.put_if_absent("a/b", b"y")
    assert store.get("a/b") == b"x"
    store.delete("a/b")
    assert _keys(store) == []


def test_a_long_log_is_not_read_for_the_names_of_topics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which topics there are, which each readiness probe asks, costs the same however many objects a topic has."""
    for number in range(500):
        (tmp_path / "topics" / "t" / "_delta_log").mkdir(parents=True, exist_ok=True)
        (tmp_path / "topics" / "t" / "_delta_log" / f"{number:020d}.json").touch()
    looked_at: list[object] = []
    key = local_list._key

    def noted(*entry: Any) -> Any:
        looked_at.append(entry)
        return key(*entry)

    monkeypatch.setattr(local_list, "_key", noted)
    assert list(LocalStore(tmp_path).list_directories("topics/")) == ["t"]
    assert len(looked_at) < 10


def test_a_uri_is_no_directory() -> None:
    """A URI in place of a path is refused: it would make a directory ``file:`` where the program was started."""
    with pytest.raises(ValueError, match="is a URI"):
        LocalStore("file:///somewhere")
    with pytest.raises(ValueError, match="is a URI"):
        LocalStore(Path("file:/somewhere"))
