"""No gateway keeps a log in a store that ignores put-if-absent."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gateway.stores.proven import ProvenStore, UnsafeStore
from log_format.errors import ObjectExists, StoreUnavailable
from log_format.store import ObjectStore
from log_format.stores.memory import MemoryStore

START_ON_A_CARELESS_STORE = """
import sys
from gateway.process import stores
from gateway.__main__ import main
from log_format.stores.memory import MemoryStore

class CarelessStore(MemoryStore):
    def put_if_absent(self, key, data):
        self.put(key, data)

stores.open_store = lambda *arguments, **more: CarelessStore()
sys.exit(main(["--store", "memory://careless", "--port", "0"]))
"""


class CarelessStore(MemoryStore):
    """Ignores the condition, as some servers that speak S3's protocol do."""

    def put_if_absent(self, key: str, data: bytes) -> None:
        self.put(key, data)


class FailingStore(MemoryStore):
    """Takes nothing while ``is_down``."""

    is_down = True
    outcome_known = True

    def put_if_absent(self, key: str, data: bytes) -> None:
        if self.is_down:
            raise StoreUnavailable(key, "the file system is read-only", may_have_happened=not self.outcome_known)
        super().put_if_absent(key, data)


def test_a_store_that_keeps_its_promise_is_proved_once(any_store: ObjectStore) -> None:
    """The probe leaves nothing behind, is made once, and what is put then is put if absent."""
    store = ProvenStore(any_store)
    store.prove()
    assert list(any_store.list("")) == []
    store.put_if_absent("topics/a", b"1")
    with pytest.raises(ObjectExists):
        store.put_if_absent("topics/a", b"2")
    assert store.get("topics/a") == b"1"
    assert [info.key for info in store.list("")] == ["topics/a"]


def test_a_store_that_ignores_the_condition_is_found_out() -> None:
    """Neither the proof nor any commit goes through, and nothing of either is in the store."""
    careless = CarelessStore()
    store = ProvenStore(careless)
    with pytest.raises(UnsafeStore, match="If-None-Match"):
        store.prove()
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="If-None-Match") as refusal:
            store.put_if_absent("topics/a", b"1")
        assert not refusal.value.may_have_happened
    careless.put("topics/a", b"1")
    with pytest.raises(StoreUnavailable, match="If-None-Match"):
        store.copy_if_absent("topics/a", "topics/b")
    assert [info.key for info in careless.list("")] == ["topics/a"]


@pytest.mark.parametrize("outcome_known", [True, False])
def test_a_store_that_is_down_proves_nothing(outcome_known: bool) -> None:
    """What was to be put did not happen, whatever became of the probe; when the store is back the proof is made up for."""
    failing = FailingStore()
    failing.outcome_known = outcome_known
    store = ProvenStore(failing)
    with pytest.raises(StoreUnavailable):
        store.prove()
    with pytest.raises(StoreUnavailable) as refusal:
        store.put_if_absent("topics/a", b"1")
    assert refusal.value.key == "topics/a"
    assert not refusal.value.may_have_happened
    failing.is_down = False
    store.put_if_absent("topics/a", b"1")
    assert [info.key for info in failing.list("")] == ["topics/a"]


def test_a_gateway_refuses_to_start_on_it() -> None:
    """Status 3 and one clear sentence, before it listens."""
    ended = subprocess.run(
        [sys.executable, "-c", START_ON_A_CARELESS_STORE], capture_output=True, timeout=60, check=False
    )
    assert ended.returncode == 3
    assert ended.stdout == b""
    assert b"ignores put-if-absent" in ended.stderr
    assert ended.stderr.count(b"\n") == 1
