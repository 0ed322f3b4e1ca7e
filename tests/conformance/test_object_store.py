"""What ``log_format.store`` promises, on every store."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from log_format.errors import ObjectExists, ObjectMissing, ObjectTooLarge
from log_format.store import ObjectStore

RIVALS = 64
PRINTABLE_ASCII = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "/")


def _keys(store: ObjectStore, prefix: str = "", start_after: str = "") -> list[str]:
    return [found.key for found in store.list(prefix, start_after=start_after)]


def _simultaneously(count: int, act: Callable[[int], object]) -> list[object]:
    """What ``act`` returned or raised (an ``ObjectExists``) in each of ``count`` threads that start together."""
    barrier = threading.Barrier(count)

    def run(index: int) -> object:
        barrier.wait()
        try:
            return act(index)
        except ObjectExists as error:
            return error

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def test_it_is_an_object_store(any_store: ObjectStore) -> None:
    """Every store has the protocol's operations."""
    assert isinstance(any_store, ObjectStore)
    assert not any_store.uri.endswith("/")


def test_an_object_is_read_as_it_was_put(any_store: ObjectStore) -> None:
    """Bytes come back exactly, whole and by range, and head knows their number."""
    data = bytes(range(256)) * 5
    any_store.put("a/b", data)
    assert any_store.get("a/b") == data
    assert any_store.get_range("a/b", 0, 1) == data[:1]
    assert any_store.get_range("a/b", 100, 1000) == data[100:1000]
    assert any_store.get_range("a/b", len(data) - 1, len(data)) == data[-1:]
    assert any_store.head("a/b").size_bytes == len(data)
    assert any_store.head("a/b").key == "a/b"


def test_a_range_is_cut_at_the_end(any_store: ObjectStore) -> None:
    """A range that goes past the end gives what there is; one that begins there or later gives nothing."""
    any_store.put("a", b"0123456789")
    assert any_store.get_range("a", 8, 11) == b"89"
    assert any_store.get_range("a", 0, 1 << 40) == b"0123456789"
    assert any_store.get_range("a", 10, 11) == b""
    assert any_store.get_range("a", 1 << 40, 1 << 41) == b""


def test_an_empty_object_is_an_object(any_store: ObjectStore) -> None:
    """An object without bytes exists: it is read, listed, ranged over and not written again by put_if_absent."""
    any_store.put_if_absent("empty", b"")
    assert any_store.get("empty") == b""
    assert any_store.get_range("empty", 0, 10) == b""
    assert any_store.head("empty").size_bytes == 0
    assert [(found.key, found.size_bytes) for found in any_store.list("")] == [("empty", 0)]
    with pytest.raises(ObjectExists):
        any_store.put_if_absent("empty", b"x")


@pytest.mark.parametrize(("start", "end"), [(-1, 1), (1, 1), (2, 1)])
def test_what_is_no_range_is_a_mistake(any_store: ObjectStore, start: int, end: int) -> None:
    """A range must hold at least one byte and no negative one."""
    any_store.put("a", b"0123456789")
    with pytest.raises(ValueError, match="range"):
        any_store.get_range("a", start, end)


def test_what_is_not_there_is_missing(any_store: ObjectStore) -> None:
    """Reading what does not exist says so, also beside and below what does; listings of it are empty."""
    any_store.put("a/b/c", b"x")
    for key in ("a", "a/b", "a/b/d", "a/b/c/d", "z"):
        with pytest.raises(ObjectMissing) as raised:
            any_store.get(key)
        assert raised.value.key == key
        with pytest.raises(ObjectMissing):
            any_store.get_range(key, 0, 1)
        with pytest.raises(ObjectMissing):
            any_store.head(key)
    assert _keys(any_store, "z/") == []
    assert list(any_store.list_directories("z/")) == []


def test_an_empty_store_lists_nothing(any_store: ObjectStore) -> None:
    """A store that no process has written to is empty, not an error."""
    assert _keys(any_store) == []
    assert list(any_store.list_directories("")) == []
    any_store.delete("a")


def test_put_replaces(any_store: ObjectStore) -> None:
    """A put over an object replaces it whole, with a longer or a shorter one."""
    for data in (b"first", b"second and longer", b"3"):
        any_store.put("a", data)
        assert any_store.get("a") == data
        assert any_store.head("a").size_bytes == len(data)
    assert _keys(any_store) == ["a"]


def test_put_if_absent_never_replaces(any_store: ObjectStore) -> None:
    """put_if_absent leaves an existing object as it is, however it came there, and writes again after a delete."""
    any_store.put_if_absent("a", b"first")
    any_store.put("b", b"first")
    for key in ("a", "b"):
        with pytest.raises(ObjectExists) as raised:
            any_store.put_if_absent(key, b"second")
        assert raised.value.key == key
        assert any_store.get(key) == b"first"
        any_store.delete(key)
        any_store.put_if_absent(key, b"third")
        assert any_store.get(key) == b"third"


@pytest.mark.parametrize("directory", ["", "new/directory/"])
def test_one_of_many_rivals_wins(any_store: ObjectStore, directory: str) -> None:
    """Of 64 simultaneous put_if_absent of one key exactly one succeeds, and its bytes are the object's (promise 1)."""
    key = f"{directory}00000000000000000007.json"
    outcomes = _simultaneously(RIVALS, lambda index: any_store.put_if_absent(key, b"%d" % index * 1000))
    winners = [index for index, outcome in enumerate(outcomes) if outcome is None]
    assert len(winners) == 1
    assert any_store.get(key) == b"%d" % winners[0] * 1000
    assert _keys(any_store) == [key]


def test_deleting_is_idempotent(any_store: ObjectStore) -> None:
    """A deleted object is gone from everywhere, its neighbours stay, and deleting it again does nothing."""
    any_store.put("a/b/c", b"x")
    any_store.put("a/d", b"x")
    for _ in range(2):
        any_store.delete("a/b/c")
        with pytest.raises(ObjectMissing):
            any_store.get("a/b/c")
        assert _keys(any_store) == ["a/d"]
        assert list(any_store.list_directories("a/")) == []
    any_store.delete("a/d")
    any_store.put("a", b"an object where a directory was")
    assert _keys(any_store) == ["a"]


def test_deleting_a_directory_deletes_nothing(any_store: ObjectStore) -> None:
    """Only objects can be deleted: the name of a directory is none."""
    any_store.put("a/b/c", b"x")
    any_store.delete("a/b")
    any_store.delete("a/b/c/d")
    assert _keys(any_store) == ["a/b/c"]


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(PRINTABLE_ASCII, id="all-printable-ascii"),
        pytest.param("x=1/y=a b/%2F%20+&?#;:@.parquet", id="as-partitioned-tables"),
        pytest.param("größe/数据/𝄞/é", id="unicode"),
        pytest.param(" leading and trailing ", id="spaces"),
        pytest.param("-/--/~/.hidden/...x", id="dots-and-dashes"),
        pytest.param("n" * 255, id="longest-name"),
        pytest.param("/".join(["n" * 99] * 9), id="longest-key"),
        pytest.param("*?[a]/{b}/'\"\\`$(x)", id="shell"),
    ],
)
def test_any_allowed_character(any_store: ObjectStore, key: str) -> None:
    """A key of any allowed characters is kept as it is by every operation; nothing is escaped or folded."""
    any_store.put_if_absent(key, b"x")
    with pytest.raises(ObjectExists):
        any_store.put_if_absent(key, b"y")
    assert any_store.get(key) == b"x"
    assert any_store.head(key).key == key
    assert _keys(any_store) == [key]
    assert _keys(any_store, key) == [key]
    assert _keys(any_store, key[:-1], start_after=key[:-1]) == [key]
    assert _keys(any_store, start_after=key) == []
    if "/" in key:
        assert list(any_store.list_directories("")) == [key.partition("/")[0]]
    any_store.delete(key)
    assert _keys(any_store) == []


@pytest.mark.parametrize(
    "key",
    [
        *("", "/a", "a/", "a//b", ".", "..", "a/./b", "a/../b", "a/..", "a\0b", "a\nb", "a\x7f", ".tmp/a", "\ud800"),
        "n" * 256,
        "/".join(["n" * 99] * 10),
    ],
)
def test_what_is_no_key_is_a_mistake(any_store: ObjectStore, key: str) -> None:
    """A key that some store could not hold, or that leads out of it, is refused by all, before anything is done."""
    operations: list[Callable[[], object]] = [
        lambda: any_store.put(key, b"x"),
        lambda: any_store.put_if_absent(key, b"x"),
        lambda: any_store.copy_if_absent(key, "b"),
        lambda: any_store.copy_if_absent("b", key),
        lambda: any_store.get(key),
        lambda: any_store.get_range(key, 0, 1),
        lambda: any_store.head(key),
        lambda: any_store.delete(key),
    ]
    for operation in operations:
        with pytest.raises(ValueError, match=r"key"):
            operation()
    assert _keys(any_store) == []


@pytest.mark.parametrize("prefix", ["/", "a//", "../", "a/../", "a/.", "..", "a\0"])
def test_what_is_no_prefix_is_a_mistake(any_store: ObjectStore, prefix: str) -> None:
    """A listing can't leave the store, and says at the call what is wrong with its prefix."""
    with pytest.raises(ValueError, match="key"):
        any_store.list(prefix)
    with pytest.raises(ValueError, match=r"key|end with"):
        any_store.list_directories(prefix)
    with pytest.raises(ValueError, match="end with"):
        any_store.list_directories("a")


def test_keys_are_ordered_by_their_bytes(listed_store: ObjectStore) -> None:
    """A listing is in the order of the whole keys' UTF-8 bytes, with directories among files and any characters."""
    keys = [
        "a/b",
        "a-b",
        "a.b",
        "a0",
        "a b",
        "A",
        "Z/z",
        "z",
        "é",
        "e\u0301",
        "\uffee/x",
        "𝄞",
        "a/b-c/d",
        "a/b.c",
        "a/0",
    ]
    keys += ["10", "9", "_x", "~x", "a-b!/c", "a,b/c"]
    shuffled = keys.copy()
    random.Random(3).shuffle(shuffled)
    for key in shuffled:
        listed_store.put(key, key.encode())
    expected = sorted(keys, key=str.encode)
    assert _keys(listed_store) == expected
    for start_after in ["", " ", *keys, "a", "a/", "a/b-", "a/zz", "\U0010ffff"]:
        wanted = [key for key in expected if key.encode() > start_after.encode()]
        assert _keys(listed_store, start_after=start_after) == wanted, start_after
        for prefix in ("a", "a/", "a/b", "z", "Z/", "𝄞"):
            assert _keys(listed_store, prefix, start_after) == [key for key in wanted if key.startswith(prefix)], prefix
    assert set(listed_store.list_directories("")) == {"a", "Z", "\uffee", "a-b!", "a,b"}
    assert list(listed_store.list_directories("a/")) == ["b-c"]


def test_listings_show_size_and_time(listed_store: ObjectStore) -> None:
    """A listing says of each object what head says: size to the byte, time within a second."""
    before_ms = time.time_ns() // 1_000_000
    listed_store.put("log/a", b"12345")
    after_ms = time.time_ns() // 1_000_000
    [found] = listed_store.list("log/")
    head = listed_store.head("log/a")
    assert (found.key, found.size_bytes) == (head.key, head.size_bytes) == ("log/a", 5)
    for modified_at_ms in (found.modified_at_ms, head.modified_at_ms):
        assert before_ms - 1000 <= modified_at_ms <= after_ms + 1000


def test_many_keys_come_in_pages(any_store: ObjectStore) -> None:
    """More keys than a page holds are listed without gap or repeat, from the start and from any key on."""
    keys = [f"log/{version:020d}.json" for version in range(1203)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda key: any_store.put(key, b"x"), keys))
    any_store.put("log.after/x", b"not below the prefix, and before it in order")
    any_store.put("logs/x", b"not below the prefix, and after it")
    assert _keys(any_store, "log/") == keys
    for start in (0, 1, 999, 1000, 1001, 1201, 1202):
        assert _keys(any_store, "log/", keys[start]) == keys[start + 1 :]
    assert _keys(any_store, "log/000000000000000000", "log/00000000000000000007x") == keys[8:100]
    assert [found.key for found, _ in zip(any_store.list("log/"), range(3), strict=False)] == keys[:3]


def test_directories_are_listed_without_what_is_in_them(listed_store: ObjectStore) -> None:
    """Each name with something below it comes once, in key order, however much is in it; objects are no directories."""
    for index in range(30):
        listed_store.put(f"topics/b/{index:02d}/x", b"x")
    for key in ("topics/a/_delta_log/0", "topics/a-b/x", "topics/c/d/e/f", "topics/file", "top", "topics2/g/x"):
        listed_store.put(key, b"x")
    assert list(listed_store.list_directories("topics/")) == ["a-b", "a", "b", "c"]
    assert list(listed_store.list_directories("")) == ["topics", "topics2"]
    assert list(listed_store.list_directories("topics/b/")) == [f"{index:02d}" for index in range(30)]
    assert list(listed_store.list_directories("topics/a/_delta_log/")) == []
    listed_store.delete("topics/a-b/x")
    listed_store.delete("topics/c/d/e/f")
    assert list(listed_store.list_directories("topics/")) == ["a", "b"]


def test_large_objects(any_store: ObjectStore) -> None:
    """8 MiB go in and out whole, and any range of them."""
    data = random.Random(8).randbytes(8 * 1024 * 1024)
    any_store.put("large", data)
    assert any_store.get("large") == data
    assert any_store.get_range("large", 5_000_000, 5_000_017) == data[5_000_000:5_000_017]
    any_store.put_if_absent("large too", data)
    assert any_store.get("large too") == data


def test_writes_are_seen_at_once(any_store: ObjectStore) -> None:
    """Whatever begins after a put or delete has returned sees it, reads and listings, from any thread (promise 2)."""

    def check(worker: int) -> object:
        for turn in range(10):
            key = f"worker {worker}/{turn}"
            any_store.put(key, key.encode())
            assert any_store.get(key) == key.encode()
            assert any_store.head(key).size_bytes == len(key)
            assert _keys(any_store, f"worker {worker}/") == [key]
            any_store.delete(key)
            assert _keys(any_store, f"worker {worker}/") == []
            any_store.put_if_absent(key, b"again")
            any_store.delete(key)
            with pytest.raises(ObjectMissing):
                any_store.get(key)
        return None

    assert _simultaneously(8, check) == [None] * 8
    assert _keys(any_store) == []


def test_no_half_objects_while_one_is_replaced(any_store: ObjectStore) -> None:
    """A reader meets the old object or the new one whole, and never none, while they replace each other (promise 3)."""
    versions = [b"a" * 300_000, b"b" * 200_000, b"c" * 100_000]
    any_store.put("x/y", versions[0])
    seen: list[bytes] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            seen.append(any_store.get("x/y"))
            assert _keys(any_store) == ["x/y"]

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        for turn in range(30):
            any_store.put("x/y", versions[turn % 3])
        stop.set()
        for reader in readers:
            reader.result()
    assert seen
    assert set(seen) <= set(versions)


def test_an_object_that_is_too_large_is_not_read(any_store: ObjectStore) -> None:
    """One byte above what the caller takes: refused, with its size, and the store goes on."""
    any_store.put("a", b"0123456789")
    assert any_store.get("a", bytes_max=10) == b"0123456789"
    for _ in range(5):
        with pytest.raises(ObjectTooLarge, match="10 bytes, more than 9"):
            any_store.get("a", bytes_max=9)
    assert any_store.get("a") == b"0123456789"
