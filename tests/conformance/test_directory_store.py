"""What a store in a directory promises beside what every store does: whose its files are, and that no link leads out of it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from log_format.errors import StoreUnavailable
from log_format.stores.local import LocalStore


def _keys(store: LocalStore, prefix: str = "") -> list[str]:
    return [found.key for found in store.list(prefix)]


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory beside the store, with a file ``secret`` in it that an hour ago was old already."""
    path = tmp_path / "outside"
    path.mkdir()
    (path / "secret").write_bytes(b"secret")
    os.utime(path / "secret", (0, 0))
    return path


OPERATIONS: dict[str, Callable[[LocalStore, str], object]] = {
    "get": lambda store, key: store.get(key),
    "get_range": lambda store, key: store.get_range(key, 0, 6),
    "head": lambda store, key: store.head(key),
    "put_if_absent": lambda store, key: store.put_if_absent(key, b"x"),
}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("key", ["a/link", "a/linked/secret", "linked/deep/secret"])
def test_a_directory_follows_no_link(local_store: LocalStore, outside: Path, operation: str, key: str) -> None:
    """Nothing outside of the store is shown, changed or deleted by a symbolic link in it: the operation is refused and says why.
    A link of an object's name is no object; a put takes its name, and leaves alone what it led to."""
    local_store.put("a/b", b"x")
    root = local_store.directory
    (outside / "deep").mkdir()
    (outside / "deep/secret").write_bytes(b"secret")
    (root / "a/link").symlink_to(outside / "secret")
    (root / "a/linked").symlink_to(outside)
    (root / "linked").symlink_to(outside)
    with pytest.raises(StoreUnavailable, match="symbolic link") as refused:
        OPERATIONS[operation](local_store, key)
    assert refused.value.may_have_happened is False
    for change in (
        lambda: local_store.put(key, b"x"),
        lambda: local_store.delete(key),
        lambda: _keys(local_store, key),
    ):
        if key == "a/link":
            change()
        else:
            with pytest.raises(StoreUnavailable, match="symbolic link"):
                change()
    with pytest.raises(StoreUnavailable, match="symbolic link"):
        list(local_store.list_directories("linked/"))
    assert _keys(local_store) == ["a/b"]
    assert sorted(str(path.relative_to(outside)) for path in outside.rglob("*")) == ["deep", "deep/secret", "secret"]
    assert {path.read_bytes() for path in outside.rglob("secret")} == {b"secret"}


def test_a_directory_for_objects_in_the_making_is_no_link(tmp_path: Path, outside: Path) -> None:
    """What lies behind a link of that name is neither tidied up nor written to. The store's own directory may be a link."""
    (tmp_path / "real").mkdir()
    (tmp_path / "real/.tmp").symlink_to(outside)
    (tmp_path / "store").symlink_to(tmp_path / "real")
    store = LocalStore(tmp_path / "store")
    with pytest.raises(StoreUnavailable, match="symbolic link"):
        store.put("a", b"x")
    assert [path.name for path in outside.iterdir()] == ["secret"]
    (tmp_path / "real/.tmp").unlink()
    store.put("a", b"x")
    assert store.get("a") == b"x"


def _modes(root: Path) -> set[str]:
    return {stat.filemode(path.stat().st_mode) for path in (root, *root.rglob("*"))}


@pytest.mark.parametrize("fsync", [True, False])
@pytest.mark.parametrize(
    ("mode", "modes"),
    [
        (None, {"drwx------", "-rw-------"}),
        (0o755, {"drwxr-xr-x", "drwx------", "-rw-------"}),
        (0o2770, {"drwxrws---", "-rw-rw----"}),
        (0o775, {"drwxrwxr-x", "drwxrwx---", "-rw-rw----"}),
        (0o2750, {"drwxr-s---", "-rw-r-----"}),
    ],
)
def test_a_directory_is_private_or_its_groups(tmp_path: Path, mode: int | None, modes: set[str], fsync: bool) -> None:
    """Records and keys are for the store's user alone, and for the group where the directory is shared with it, whatever the
    umask is: a group that may write the directory, or whose id it hands on."""
    root = tmp_path / "store"
    if mode is not None:
        root.mkdir()
        root.chmod(mode)
    for umask in (0o022, 0o077, 0):
        before = os.umask(umask)
        try:
            LocalStore(root, fsync=fsync).put(f"a/{umask}/b", b"x")
        finally:
            os.umask(before)
    assert _modes(root) == modes
