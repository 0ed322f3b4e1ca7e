"""A store that first proves that it honours put-if-absent.

1. No ``put_if_absent``, ``copy_if_absent`` or ``copy_all_if_absent`` reaches the store before the proof: one object under
   ``system/probes/`` is put if absent twice, and the store must refuse the second put. The object is deleted afterwards; one left
   behind by a crash or a lost answer is harmless.
2. The proof is made once, by several threads concurrently if need be: none waits for another's. A store that is down,
   read-only or full proves nothing. Then the caller's ``put_if_absent`` fails with that error, and the next one tries the
   proof again.
3. All other calls go straight to the store, so that a gateway on a read-only store serves reads. On a store that ignores
   ``If-None-Match`` two gateways would overwrite each other's commits, and acknowledged records would be lost (G3).
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import suppress

from gateway.stores.wrapped import WrappedStore
from log_format.errors import ObjectExists, StoreUnavailable
from log_format.layout import PROBES
from log_format.store import ObjectStore


class UnsafeStore(Exception):
    """The store let a second put-if-absent of one key through: no log can be kept in it."""

    def __init__(self, uri: str) -> None:
        super().__init__(
            f"The store {uri} ignores put-if-absent (PUT with If-None-Match: *): it let an object be replaced that it should "
            "have kept. Gateways would overwrite each other's commits there, so none starts. Use a store that honours it."
        )


class ProvenStore(WrappedStore):
    """``store``, proved before its first ``put_if_absent``. Safe from any thread."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self._is_proven = False

    def prove(self) -> None:
        """Prove that the store honours put-if-absent, unless that is known.

        Raises ``UnsafeStore`` when it does not; ``StoreUnavailable`` (nothing was written for the caller) when it can't be
        told.
        """
        if not self._is_proven:
            self._probe(f"{PROBES}{uuid.uuid4()}")
            self._is_proven = True

    def put_if_absent(self, key: str, data: bytes) -> None:
        """Put an object if it is absent (``ObjectStore.put_if_absent``). Raises ``StoreUnavailable`` for a store that fails the
        proof, too."""
        self._prove_for(key)
        self._store.put_if_absent(key, data)

    def copy_if_absent(self, source: str, target: str) -> None:
        """Copy an object if the target is absent (``ObjectStore.copy_if_absent``), with the same proof."""
        self._prove_for(target)
        self._store.copy_if_absent(source, target)

    def copy_all_if_absent(self, copies: Sequence[tuple[str, str]]) -> None:
        """Copy many objects (``CopiesMany``), with the same proof."""
        for _, target in copies[:1]:
            self._prove_for(target)
        super().copy_all_if_absent(copies)

    def _prove_for(self, key: str) -> None:
        """Prove it before ``key`` is written. Raises ``StoreUnavailable`` that says that it was not."""
        try:
            self.prove()
        except UnsafeStore as error:
            raise StoreUnavailable(key, str(error), may_have_happened=False) from error
        except StoreUnavailable as error:
            raise StoreUnavailable(key, error.detail, may_have_happened=False, reason=error.reason) from error

    def _probe(self, key: str) -> None:
        is_safe = False
        try:
            self._store.put_if_absent(key, b"first")
        except ObjectExists:
            is_safe = True  # A proxy or client on the way sent it twice, and the store kept the first.
        try:
            if not is_safe:
                self._store.put_if_absent(key, b"second")
        except ObjectExists:
            is_safe = True
        finally:
            with suppress(StoreUnavailable):
                self._store.delete(key)
        if not is_safe:
            raise UnsafeStore(self.uri)
