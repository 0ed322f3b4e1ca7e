"""The certificate that the gateway shows its clients: read from two files, and again when these change.

1. A pair is taken whole or not at all: each reading makes a new context, which new connections use.
2. A pair that can't be used is logged once, and the one before stays in force.
"""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import Final

LOOK_SECONDS: Final = 2.0
"""How often the files are looked at."""

_log = logging.getLogger("gateway.certificate")


class Certificate:
    """The pair of ``cert_path`` and ``key_path``. ``context`` is for handshakes that begin now."""

    def __init__(self, cert_path: str, key_path: str) -> None:
        """Raises ``ValueError``, whose text names the file and what is wrong with it."""
        self._paths = (cert_path, key_path)
        self._seen = self._state()
        self.context = server_context(*self._paths)

    def look(self) -> None:
        """Read the files again if they have changed. Blocks: for a thread."""
        state = self._state()
        if state == self._seen:
            return
        self._seen = state
        try:
            self.context = server_context(*self._paths)
        except ValueError as error:
            _log.error("the changed certificate is not used, the one before stays: %s", error)
        else:
            _log.warning("new connections get the changed certificate %s", self._paths[0])

    def _state(self) -> list[tuple[int, int, int] | None]:
        """Changes when a file is written or replaced; None: a file can't be looked at."""
        return [_file_state(path) for path in self._paths]


def server_context(cert_path: str, key_path: str) -> ssl.SSLContext:
    """TLS 1.2 and 1.3 with this certificate. Raises ``ValueError``."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Renegotiation would let a client make the gateway sign over and over on one connection.
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    for name, path in (("TIDELOG_TLS_CERT", cert_path), ("TIDELOG_TLS_KEY", key_path)):
        try:
            with Path(path).open("rb"):
                pass
        except OSError as error:
            raise ValueError(f"{name}: {path} can't be read: {error.strerror}") from error
    try:
        context.load_cert_chain(cert_path, key_path, password=_refuse_password)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"TIDELOG_TLS_CERT, TIDELOG_TLS_KEY: {cert_path} and {key_path} must be a certificate, its chain behind it, and"
            f" its private key without a password, in PEM: {getattr(error, 'reason', None) or error}"
        ) from error
    return context


def _refuse_password() -> str:
    """OpenSSL would ask for it on the terminal."""
    raise ValueError("the key has a password")


def _file_state(path: str) -> tuple[int, int, int] | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
