"""Envelope encryption of values in the client: only their readers can decrypt them, not gateways, the store or backups.

::

    envelope = Envelope(LocalKeys("keys"))
    with Producer(envelope=envelope) as producer:
        producer.send("orders", b"a secret", key="user-7")
    with Consumer("orders", envelope=envelope) as consumer:
        ...  # record.value == b"a secret"

``Producer`` and ``Consumer``, also those of ``tidelog.aio``, encrypt and decrypt. Programs that send in other ways must do so
themselves.

1. A value is encrypted by AES-256-GCM under a data key. The data key, wrapped by a key that a ``KeyProvider`` holds, travels
   with the record in the header ``tidelog-envelope``.
2. The record's key is authenticated with the value but stays plain: partitioning, compaction and ordering depend on it.
3. A data key serves at most ``VALUES_MAX`` values and ``AGE_S_MAX`` seconds: far below what random nonces allow (2^32).
4. A null value is a tombstone and stays one.

Layout of the header: ``01``, the length of the wrapping key's id (one byte), the id in UTF-8, the wrapped data key. Layout of
the value: nonce (12 bytes), ciphertext, tag (16 bytes). Associated data: ``01``, then ``00`` for no key, or ``01`` and the key.

Absent on purpose: topics, offsets and header names are not authenticated, so a record can be copied and moved. Keys are not
encrypted. Needs ``pip install 'tidelog[encryption]'``. Source: NIST SP 800-38D (GCM).
"""

from __future__ import annotations

import os
import re
import stat
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Protocol

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        "encryption needs cryptography: pip install 'tidelog[encryption]'", name="cryptography"
    ) from None

from tidelog.types.record import Record
from tidelog.types.sealing import Pair

HEADER: Final = "tidelog-envelope"
VALUES_MAX: Final = 1_000_000
AGE_S_MAX: Final = 3_600.0
OPENED_KEYS_MAX: Final = 1_024
"""Number of unwrapped data keys that a reader caches; the least recently used is evicted first."""
OVERHEAD_BYTES: Final = 28
"""Number of bytes that encryption adds to a value, not counting the header."""

_VERSION: Final = b"\x01"
_NONCE_BYTES: Final = 12
_DATA_KEY_BYTES: Final = 32
_LINE: Final = re.compile(r"([A-Za-z0-9._-]{1,64}) ([0-9a-f]{64})")


class EnvelopeError(ValueError):
    """The value can't be decrypted: it was changed, belongs to another key, or its wrapping key is missing. No message shows a
    key."""


class KeyProvider(Protocol):
    """Wrapper of data keys: a key management service, or ``LocalKeys``. Called once for each data key, in the caller's thread."""

    def wrap(self, data_key: bytes) -> tuple[str, bytes]:
        """Return the wrapping key's id (up to 255 bytes of UTF-8) and the wrapped data key (up to 4 KiB)."""

    def unwrap(self, key_id: str, wrapped: bytes) -> bytes:
        """Return the data key. Raises ``EnvelopeError``."""


class LocalKeys:
    """Wrapping keys in a file with lines of an id and 64 hexadecimal digits. The first key wraps, any key unwraps.

    Create a file by ``echo "2026-01 $(openssl rand -hex 32)" > keys`` under ``umask 077``. To rotate, prepend a line.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Read the file. Raises ``ValueError`` for a file that others can read, or without keys; ``OSError``."""
        file = Path(path)
        if stat.S_IMODE(file.stat().st_mode) & (stat.S_IRWXO | stat.S_IWGRP):
            raise ValueError(f"other users can read or change {path}: run chmod 600 on it")
        found = [_LINE.fullmatch(line) for line in file.read_text(encoding="ascii").splitlines() if line.strip()]
        keys = {each.group(1): AESGCM(bytes.fromhex(each.group(2))) for each in found if each is not None}
        if not keys or len(keys) != len(found):
            raise ValueError(
                f"each line of {path} must have an id and 64 hexadecimal digits, and each id may occur once"
            )
        self._keys = keys
        self._first = next(iter(keys))

    def wrap(self, data_key: bytes) -> tuple[str, bytes]:
        """Wrap by the first key."""
        nonce = os.urandom(_NONCE_BYTES)
        return self._first, nonce + self._keys[self._first].encrypt(nonce, data_key, self._first.encode())

    def unwrap(self, key_id: str, wrapped: bytes) -> bytes:
        """Unwrap by the key of this id. Raises ``EnvelopeError``."""
        key = self._keys.get(key_id)
        if key is None:
            raise EnvelopeError(f"the wrapping key {key_id!r} is missing: give all keys that values were sealed with")
        try:
            return key.decrypt(wrapped[:_NONCE_BYTES], wrapped[_NONCE_BYTES:], key_id.encode())
        except (InvalidTag, ValueError) as error:
            raise EnvelopeError(
                f"the data key can't be unwrapped: {key_id!r} is another key here, or the header was changed"
            ) from error


class Envelope:
    """Encrypts and decrypts values. Thread-safe."""

    def __init__(
        self, keys: KeyProvider, *, values_max: int = VALUES_MAX, opened_keys_max: int = OPENED_KEYS_MAX
    ) -> None:
        """Create the envelope.

        Args:
            values_max: values encrypted under one data key.
            opened_keys_max: unwrapped data keys cached for decryption.
        """
        self._keys = keys
        self._values_max = values_max
        self._opened_keys_max = opened_keys_max
        self._lock = threading.Lock()
        self._header = b""
        self._sealing: AESGCM | None = None
        self._left = 0
        self._until = 0.0
        self._opened: OrderedDict[bytes, AESGCM] = OrderedDict()

    def seal(
        self, value: bytes | str | None, *, key: bytes | str | None = None, headers: Iterable[Pair] = ()
    ) -> tuple[bytes | None, list[Pair]]:
        """Return the encrypted value and the headers to send with this key. Raises what the provider raises."""
        given = list(headers)
        if value is None:
            return None, given
        plain = value.encode() if isinstance(value, str) else value
        sealing, header = self._data_key()
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + sealing.encrypt(nonce, plain, _bound(key)), [*given, (HEADER, header)]

    def open(self, record: Record) -> bytes | None:
        """Return the plain value; None for a tombstone. Raises ``EnvelopeError``, also for a value that is not encrypted."""
        if record.value is None:
            return None
        header = next((value for name, value in reversed(record.headers) if name == HEADER), None)
        if not isinstance(header, bytes):
            raise EnvelopeError(
                f"{record.topic}/{record.partition}@{record.offset} is not encrypted: it has no header {HEADER}"
            )
        opening = self._unwrapped(header)
        try:
            return opening.decrypt(record.value[:_NONCE_BYTES], record.value[_NONCE_BYTES:], _bound(record.key))
        except (InvalidTag, ValueError) as error:
            where = f"{record.topic}/{record.partition}@{record.offset}"
            raise EnvelopeError(
                f"{where} can't be decrypted: its value was changed, or its key is not the one that it was sealed with"
            ) from error

    def _data_key(self) -> tuple[AESGCM, bytes]:
        with self._lock:
            now = time.monotonic()
            if self._sealing is None or self._left == 0 or now >= self._until:
                data_key = os.urandom(_DATA_KEY_BYTES)
                key_id, wrapped = self._keys.wrap(data_key)
                named = key_id.encode()
                self._header = _VERSION + bytes([len(named)]) + named + wrapped
                self._sealing = AESGCM(data_key)
                self._left, self._until = self._values_max, now + AGE_S_MAX
            self._left -= 1
            return self._sealing, self._header

    def _unwrapped(self, header: bytes) -> AESGCM:
        with self._lock:
            known = self._opened.get(header)
            if known is not None:
                self._opened.move_to_end(header)
                return known
        if len(header) < 2 or header[:1] != _VERSION or len(header) < 2 + header[1]:
            raise EnvelopeError(f"the header {HEADER} was changed, or has a version that this release does not know")
        end = 2 + header[1]
        try:
            key_id = header[2:end].decode()
        except UnicodeDecodeError as error:
            raise EnvelopeError(f"the header {HEADER} was changed") from error
        opened = AESGCM(self._keys.unwrap(key_id, header[end:]))
        with self._lock:
            self._opened[header] = opened
            while len(self._opened) > self._opened_keys_max:
                self._opened.popitem(last=False)
        return opened


def _bound(key: bytes | str | None) -> bytes:
    """Return the associated data of a value: the record's key, encoded."""
    if key is None:
        return _VERSION + b"\x00"
    return _VERSION + b"\x01" + (key.encode() if isinstance(key, str) else key)
