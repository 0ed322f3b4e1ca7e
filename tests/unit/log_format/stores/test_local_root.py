"""A store's directory that is moved, deleted or unmounted: nothing is acknowledged beside the log, and nothing is missed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from log_format.errors import StoreUnavailable
from log_format.stores.local import LocalStore
from log_format.stores.local_root import LocalRoot

OPERATIONS: dict[str, Callable[[LocalStore], object]] = {
    "get": lambda store: store.get("a/b"),
    "get a missing one": lambda store: store.get("a/none"),
    "get_range": lambda store: store.get_range("a/b", 0, 1),
    "head": lambda store: store.head("a/b"),
    "put": lambda store: store.put("a/c", b"x"),
    "put_if_absent": lambda store: store.put_if_absent("a/c", b"x"),
    "put_if_absent of a taken name": lambda store: store.put_if_absent("a/b", b"x"),
    "copy_if_absent": lambda store: store.copy_if_absent("a/b", "a/c"),
    "copy_all_if_absent": lambda store: store.copy_all_if_absent([("a/b", "a/c")]),
    "list": lambda store: list(store.list("a/")),
    "list_directories": lambda store: list(store.list_directories("")),
    "delete": lambda store: store.delete("a/b"),
}


def _nothing(_: Path) -> None:
    """The path has no directory any more."""


def _another(root: Path) -> None:
    LocalStore(root).put("a/b", b"of another log")


def _file(root: Path) -> None:
    root.write_text("a file")


@pytest.mark.parametrize("then", [_nothing, _another, _file])
@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_fails_until_the_directory_is_back(
    tmp_path: Path, name: str, then: Callable[[Path], None]
) -> None:
    """And has changed nothing, neither in the directory that is now at the path nor in the one that was."""
    root, away = tmp_path / "log", tmp_path / "away"
    store = LocalStore(root)
    store.put("a/b", b"x")
    root.rename(away)
    then(root)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(StoreUnavailable, match="moved, deleted or unmounted") as said:
        OPERATIONS[name](store)
    assert not said.value.may_have_happened
    assert not said.value.may_pass
    assert sorted(tmp_path.rglob("*")) == before
    if root.is_dir():
        root.rename(tmp_path / "other")
    root.unlink(missing_ok=True)
    away.rename(root)
    assert store.get("a/b") == b"x"


def test_a_write_during_which_the_directory_goes_may_have_happened(tmp_path: Path) -> None:
    """It is not acknowledged."""
    root = tmp_path / "log"
    store = LocalStore(root)
    store.put("a/b", b"x")
    publish = store._publish

    def late(*arguments: object) -> None:
        publish(*arguments)  # type: ignore[arg-type]
        root.rename(tmp_path / "away")

    store._publish = late  # type: ignore[assignment, method-assign]
    with pytest.raises(StoreUnavailable) as said:
        store.put("a/c", b"x")
    assert said.value.may_have_happened


def test_a_directory_that_does_not_exist_yet_is_made_by_the_first_put(tmp_path: Path) -> None:
    """Until then there is nothing; a listing that is broken off is no error."""
    store = LocalStore(tmp_path / "log")
    assert list(store.list("")) == []
    for key in ("a", "b"):
        store.put(key, b"x")
    next(store.list(""))
    assert [info.key for info in store.list("")] == ["a", "b"]


def test_a_directory_that_another_thread_makes_meanwhile_is_no_other_one(tmp_path: Path) -> None:
    """Which looks before there is one, and compares after it was made."""
    path = tmp_path / "log"

    class Late(LocalRoot):
        """Another thread makes the directory, and notes it, right after a look."""

        def _seen(self) -> tuple[int, int] | None:
            found = super()._seen()
            if found is None and hasattr(self, "_identity"):
                path.mkdir()
                self._identity = super()._seen()
            return found

    root = Late(str(path))
    root.check("a/b")
    root.check("a/b")
