"""Keys by which the gateways of one store know each other's heartbeats and messages (``forwarding.hop``).

1. With ``cluster_key_file`` the keys are its lines: one, or two during a change of keys. The first signs; both are accepted.
2. Without it the key is derived from the producers' key in ``system/cluster.json``. It keeps out a writer of
   ``system/gateways/`` that can't read the rest of the store. A reader of ``system/cluster.json`` can forge it.
3. A MAC (HMAC-SHA256) covers its purpose, the cluster's id and the bytes, so that it is worth nothing in another store.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
from dataclasses import dataclass, field
from typing import Final

from log_format.cluster.identity import Cluster

KEY_CHARACTERS_MIN: Final = 32
KEY_CHARACTERS_MAX: Final = 256
KEYS_MAX: Final = 2
"""Number of keys that may be in use: the new one and the old one."""
_FILE_BYTES_MAX: Final = 4096
_DEFAULT_KEY: Final = b"tidelog cluster key"
_KEY_ID: Final = b"tidelog key id"
_KEY_ID_DIGITS: Final = 8
HEARTBEAT: Final = b"tidelog heartbeat"
HOP: Final = b"tidelog hop"


@dataclass(frozen=True, slots=True)
class ClusterKeys:
    """Keys of a cluster: the first of ``keys`` signs, each is accepted."""

    cluster_id: str
    keys: tuple[bytes, ...] = field(repr=False)
    is_from_file: bool = False
    """Whether the keys are those of ``cluster_key_file``, which no reader of the store knows."""
    ids: tuple[str, ...] = field(init=False)
    """Name of each key, which reveals nothing of the key."""
    _begun: tuple[hmac.HMAC, ...] = field(init=False, repr=False, compare=False)
    """An empty MAC by each key: copying it is cheaper than making a new one."""

    def __post_init__(self) -> None:
        begun = tuple(hmac.new(key, digestmod="sha256") for key in self.keys)
        object.__setattr__(self, "_begun", begun)
        object.__setattr__(self, "ids", tuple(self._mac(one, _KEY_ID, b"")[:_KEY_ID_DIGITS] for one in begun))

    @property
    def signing_id(self) -> str:
        """Name of the key that signs."""
        return self.ids[0]

    def sign(self, purpose: bytes, data: bytes) -> str:
        """Return the MAC of these bytes for the purpose, 64 hexadecimal digits."""
        return self._mac(self._begun[0], purpose, data)

    def is_signed(self, purpose: bytes, data: bytes, mac: str, key_id: str | None = None) -> bool:
        """Return whether a gateway of this cluster signed these bytes for the purpose; takes the same time whichever byte
        differs.

        ``key_id``: name of the key that must have signed; None: any.
        """
        found, given = False, mac.encode()
        for begun, name in zip(self._begun, self.ids, strict=True):
            if key_id is None or key_id == name:
                found |= hmac.compare_digest(self._mac(begun, purpose, data).encode(), given)
        return found

    def _mac(self, begun: hmac.HMAC, purpose: bytes, data: bytes) -> str:
        mac = begun.copy()
        mac.update(b"\0".join((purpose, self.cluster_id.encode(), data)))
        return mac.hexdigest()


def cluster_keys(cluster: Cluster, from_file: tuple[bytes, ...] | None) -> ClusterKeys:
    """Return the keys of ``cluster``: those of ``cluster_key_file``, or the one derived from its producers' key."""
    default = hmac.new(cluster.producer_key, _DEFAULT_KEY, hashlib.sha256).digest()
    return ClusterKeys(cluster.cluster_id, from_file or (default,), is_from_file=from_file is not None)


def read_key_file(path: str) -> tuple[bytes, ...]:
    """Return the keys in the file. Raises ``ValueError``, whose text says what to do and shows no key."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            mode = os.fstat(descriptor).st_mode
            data = os.read(descriptor, _FILE_BYTES_MAX + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ValueError(f"{path} can't be read: {error.strerror}") from error
    if mode & stat.S_IROTH:
        raise ValueError(f"{path} can be read by every user of this machine: chmod o-r it, and make new keys")
    keys = data.split()
    if (
        len(data) > _FILE_BYTES_MAX
        or not 1 <= len(keys) <= KEYS_MAX
        or not all(KEY_CHARACTERS_MIN <= len(key) <= KEY_CHARACTERS_MAX for key in keys)
    ):
        raise ValueError(
            f"{path} must hold one key, or two while keys change, each on a line of its own and of {KEY_CHARACTERS_MIN} to "
            f"{KEY_CHARACTERS_MAX} characters: openssl rand -hex 32"
        )
    return tuple(keys)
