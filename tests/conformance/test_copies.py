"""What ``ObjectStore.copy_if_absent`` promises, on every store."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from log_format.errors import ObjectExists, ObjectMissing
from log_format.store import ObjectStore, copy_all_if_absent


@pytest.mark.parametrize("size_bytes", [0, 10, 6 * 1024 * 1024])
def test_a_copy_is_the_object_again(any_store: ObjectStore, size_bytes: int) -> None:
    """A copy has the source's bytes, below a directory that did not exist, and each can be replaced or deleted without the other:
    small and large, since a store may copy these in two ways."""
    data = random.Random(size_bytes).randbytes(size_bytes)
    any_store.put("a/from", data)
    any_store.copy_if_absent("a/from", "new/directory/to")
    assert any_store.get("new/directory/to") == data
    assert any_store.head("new/directory/to").size_bytes == size_bytes
    assert [found.key for found in any_store.list("")] == ["a/from", "new/directory/to"]
    any_store.put("a/from", b"replaced")
    assert any_store.get("new/directory/to") == data
    any_store.copy_if_absent("new/directory/to", "again")
    any_store.delete("new/directory/to")
    assert any_store.get("again") == data
    assert any_store.get("a/from") == b"replaced"


@pytest.mark.parametrize("size_bytes", [10, 6 * 1024 * 1024])
def test_a_copy_never_replaces(any_store: ObjectStore, size_bytes: int) -> None:
    """A copy leaves an existing target as it is, also itself; without a source nothing appears, also beside a directory."""
    any_store.put("from/one", bytes(size_bytes))
    any_store.put("to", b"first")
    for source, target in (("from/one", "to"), ("from/one", "from/one")):
        with pytest.raises(ObjectExists) as raised:
            any_store.copy_if_absent(source, target)
        assert raised.value.key == target
    assert any_store.get("to") == b"first"
    for missing in ("none", "from", "from/none", "to/none"):
        with pytest.raises(ObjectMissing) as lacking:
            any_store.copy_if_absent(missing, "target")
        assert lacking.value.key == missing
    assert [found.key for found in any_store.list("")] == ["from/one", "to"]


@pytest.mark.parametrize("size_bytes", [10, 2 * 1024 * 1024])
def test_one_of_many_copies_wins(any_store: ObjectStore, size_bytes: int) -> None:
    """Of simultaneous copies of several sources to one key exactly one succeeds, and its bytes are the object's (promise 1)."""
    for index in range(16):
        any_store.put(f"from/{index}", bytes([index]) * size_bytes)
    barrier = threading.Barrier(16)

    def copy(index: int) -> bool:
        barrier.wait()
        try:
            any_store.copy_if_absent(f"from/{index}", "to")
        except ObjectExists:
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        have_won = list(pool.map(copy, range(16)))
    winners = [index for index, has_won in enumerate(have_won) if has_won]
    assert len(winners) == 1
    assert any_store.get("to") == bytes([winners[0]]) * size_bytes


def test_many_copies_are_as_many_single_ones(any_store: ObjectStore) -> None:
    """Copies between several directories, of small and large objects, are the objects again; an object that is there stays as it
    is, and a source that is missing is named, whichever place it has among the others."""
    objects = {"a/one": b"1", "a/two": bytes(2 * 1024 * 1024), "b/c/three": b"", "four": b"4"}
    for key, data in objects.items():
        any_store.put(key, data)
    copies = [(key, f"new/{index}/{key}") for index, key in enumerate(objects)]
    copy_all_if_absent(any_store, [*copies, ("a/one", "five")])
    for source, target in copies:
        assert any_store.get(target) == objects[source]
    assert any_store.get("five") == b"1"
    with pytest.raises(ObjectExists) as raised:
        copy_all_if_absent(any_store, [("a/one", "x/1"), ("a/two", "four"), ("a/one", "x/2")])
    assert raised.value.key == "four"
    assert any_store.get("four") == b"4"
    for missing in ("none", "a", "a/none", "none/none"):
        with pytest.raises(ObjectMissing) as lacking:
            copy_all_if_absent(any_store, [("a/one", f"y/{missing}/1"), (missing, f"y/{missing}/2")])
        assert lacking.value.key == missing
    copy_all_if_absent(any_store, [])
