"""TLS contexts, made of files that are read at start, and again when they change.

1. The files of a context are taken together or not at all: each reading makes a new context, which new connections use.
2. Files that can't be used are logged once, and the previous context stays in force.
3. With ``client_ca`` a client may show a certificate, and one that no authority of that file signed ends the handshake. If
   nothing else proves a client's identity (``auth`` off), a client must show one.
4. The URI in a client certificate's subjectAltName is its principal. A certificate with two URIs has none.
"""

from __future__ import annotations

import logging
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

LOOK_SECONDS: Final = 2.0
"""Interval of looks at the files."""
CLIENT_CERTIFICATE: Final = "tidelog.client_certificate"
"""Key in a request's scope of its connection's ``ClientCertificate``; absent without one."""
PRINCIPAL_BYTES_MAX: Final = 255
"""Maximum size of a principal, as of every id."""

_log = logging.getLogger("gateway.certificate")


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """The URI of a verified client certificate, and when the certificate ends (milliseconds since the epoch)."""

    uri: str
    expires_at_ms: int


class Certificate:
    """The certificate ``cert_path`` with ``key_path``, which the gateway shows its clients.

    ``context``: for handshakes that begin now. ``client_ca``: file of the authorities of clients' certificates; None: clients
    are not asked for one.
    """

    def __init__(
        self, cert_path: str, key_path: str, client_ca: str | None = None, *, is_needed_of_clients: bool = False
    ) -> None:
        """Read the files. Raises ``ValueError``, whose text names the file and what is wrong with it."""
        self._pair = (cert_path, key_path)
        self._client_ca = client_ca
        self._verify = ssl.CERT_REQUIRED if is_needed_of_clients else ssl.CERT_OPTIONAL
        self._files = _Files(cert_path, key_path, client_ca)
        self.context = self._made()
        self.expires_at_s = _expires_at_s(cert_path)
        """When the first of the certificates of the chain expires, in seconds since the epoch; None: it does not say."""

    def look(self) -> None:
        """Read the files again if they have changed. Blocks: for a thread."""
        if not self._files.changed():
            return
        try:
            self.context = self._made()
            self.expires_at_s = _expires_at_s(self._pair[0])
        except ValueError as error:
            _log.error("the changed certificate is not used, the one before stays: %s", error)
        else:
            _log.warning("new connections get the changed certificate %s", self._pair[0])

    def _made(self) -> ssl.SSLContext:
        context = server_context(*self._pair)
        if self._client_ca is not None:
            _load_client_authorities(context, self._client_ca)
            context.verify_mode = self._verify
        return context


class PeerTrust:
    """Authorities by which other gateways' certificates are judged, and the certificate that this gateway shows them.

    Args:
        ca_file: the authorities; None: the system's, loaded once with the first look.
        name: name that a certificate must be for; None: the host of the peer's URL.
        pair: this gateway's own certificate and key, for peers that ask for one.

    ``context`` is for connections that begin now.
    """

    def __init__(
        self, ca_file: str | None = None, name: str | None = None, *, pair: tuple[str, str] | None = None
    ) -> None:
        """Read the files. Raises ``ValueError``."""
        self.name = name
        self._ca_file = ca_file
        self._pair = pair
        self._files = _Files(ca_file, *(pair or ()))
        self.context = None if ca_file is None else self._made()

    def look(self) -> None:
        """Read the files again if they have changed; the first time also the system's authorities. Blocks: for a thread."""
        if not self._files.changed() and self.context is not None:
            return
        try:
            self.context = self._made()
        except ValueError as error:
            _log.error("what changed is not used towards other gateways, what was before stays: %s", error)

    def _made(self) -> ssl.SSLContext:
        context = _trusting(self._ca_file)
        if self._pair is not None:
            _load_pair(context, *self._pair)
        return context


def server_context(cert_path: str, key_path: str) -> ssl.SSLContext:
    """Return a context for TLS 1.2 and 1.3 with this certificate. Raises ``ValueError``."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Renegotiation would let a client make the gateway sign over and over on one connection.
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    _load_pair(context, cert_path, key_path)
    return context


def client_certificate(shown: dict[str, Any] | None) -> ClientCertificate | None:
    """Return the principal of a verified certificate, given as ``SSLSocket.getpeercert`` returns it; None if it names none, or
    several."""
    if not shown:
        return None
    uris = [value for kind, value in shown.get("subjectAltName", ()) if kind == "URI"]
    if len(uris) != 1 or not 0 < len(uris[0].encode()) <= PRINCIPAL_BYTES_MAX or not uris[0].isprintable():
        return None
    return ClientCertificate(uris[0], int(ssl.cert_time_to_seconds(shown["notAfter"])) * 1000)


def _trusting(ca_file: str | None) -> ssl.SSLContext:
    """Return a client's context with these authorities; None: the system's. Raises ``ValueError``."""
    if ca_file is None:
        return ssl.create_default_context()
    _check_readable(("TIDELOG_TLS_CA", ca_file))
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ValueError) as error:
        raise ValueError(f"TIDELOG_TLS_CA: {_no_certificates(ca_file, error)}") from error


def _load_pair(context: ssl.SSLContext, cert_path: str, key_path: str) -> None:
    _check_readable(("TIDELOG_TLS_CERT", cert_path), ("TIDELOG_TLS_KEY", key_path))
    try:
        context.load_cert_chain(cert_path, key_path, password=_refuse_password)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"TIDELOG_TLS_CERT, TIDELOG_TLS_KEY: {cert_path} and {key_path} must be a certificate, its chain behind it, and"
            f" its private key without a password, in PEM: {getattr(error, 'reason', None) or error}"
        ) from error


def _expires_at_s(path: str) -> float | None:
    from cryptography import x509  # noqa: PLC0415 - large, and only gateways with TLS need it

    try:
        chain = x509.load_pem_x509_certificates(Path(path).read_bytes())
    except (OSError, ValueError):  # OpenSSL has taken the file, and is more tolerant
        return None
    return min(one.not_valid_after_utc.timestamp() for one in chain)


def _load_client_authorities(context: ssl.SSLContext, path: str) -> None:
    _check_readable(("TIDELOG_TLS_CLIENT_CA", path))
    try:
        context.load_verify_locations(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"TIDELOG_TLS_CLIENT_CA: {_no_certificates(path, error)}") from error


def _no_certificates(path: str, error: Exception) -> str:
    return f"{path} is no file of certificates in PEM: {getattr(error, 'reason', None) or error}"


def _check_readable(*files: tuple[str, str]) -> None:
    for setting, path in files:
        try:
            with Path(path).open("rb"):
                pass
        except OSError as error:
            raise ValueError(f"{setting}: {path} can't be read: {error.strerror}") from error


def _refuse_password() -> str:
    """Refuse a key with a password, for which OpenSSL would ask on the terminal."""
    raise ValueError("the key has a password")


class _Files:
    """Files, as they were when they were last looked at."""

    def __init__(self, *paths: str | None) -> None:
        self._paths = [path for path in paths if path is not None]
        self._seen = self._states()

    def changed(self) -> bool:
        """Return whether a file was written or replaced since the last look."""
        before, self._seen = self._seen, self._states()
        return before != self._seen

    def _states(self) -> list[tuple[int, int, int] | None]:
        return [_file_state(path) for path in self._paths]


def _file_state(path: str) -> tuple[int, int, int] | None:
    """Return a state that changes when the file is written or replaced; None if it can't be looked at."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
