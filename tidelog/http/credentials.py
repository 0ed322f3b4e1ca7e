"""A client's credentials and the gateways that may get them: bearer token, client certificate, trusted authorities and hosts.

1. A token is sent over TLS, or to this machine. A client with a token refuses any other plain address at its creation.
2. A token is sent to the addresses that the client was given. Addresses that gateways advertise get it if their host is among
   the given ones or in ``trusted_hosts``. Other advertised addresses are not used at all.
3. Certificate files are read again when they change, for new connections; invalid ones leave the old ones in force.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from tidelog.errors import Unauthenticated
from tidelog.http import token_source
from tidelog.http.token_source import TokenSource

if TYPE_CHECKING:
    import ssl

_log = logging.getLogger("tidelog.transport")

Token = str | Callable[[], str]


class ConnectionSettings(TypedDict, total=False):
    """Settings by which ``Producer``, ``Consumer`` and ``Admin`` reach gateways and prove their identity.

    ``token``: the bearer token, or a callable that returns it, called in the thread of a request. ``token_file``: a file with
    the token in one line, read again when it changes. Neither: the environment's ``TIDELOG_TOKEN`` or ``TIDELOG_TOKEN_FILE``.
    ``trusted_hosts``: hosts that may get the token when a gateway advertises them; ``.example.com`` matches every host below
    it. ``ca_file``: PEM file of the authorities for gateways' certificates; None: ``TIDELOG_CA_FILE``, else the system's.
    ``cert_file``, ``key_file``: PEM files of the client's own certificate and its key; None: ``TIDELOG_CERT_FILE``,
    ``TIDELOG_KEY_FILE``. ``zone``: the client's availability zone, as named by its gateways; None: ``TIDELOG_ZONE``. The client
    fetches from a gateway of its zone, and sends records for topics at journals to one.
    """

    token: Token | None
    token_file: str | os.PathLike[str] | None
    trusted_hosts: Sequence[str]
    ca_file: str | None
    cert_file: str | None
    key_file: str | None
    zone: str | None


class Credentials:
    """Credentials of one client. Thread-safe."""

    def __init__(
        self,
        *,
        token: Token | None = None,
        token_file: str | os.PathLike[str] | None = None,
        trusted_hosts: Sequence[str] = (),
        ca_file: str | None = None,
        cert_file: str | None = None,
        key_file: str | None = None,
        zone: str | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """Read the settings, as explained by ``ConnectionSettings``. Raises ``ValueError``; no error contains a token."""
        self._source = _source(token, token_file, environment)
        if isinstance(trusted_hosts, str):
            raise ValueError("trusted_hosts is a list of hosts, not a string")
        self._trusted = tuple(host.lower() for host in trusted_hosts)
        self._ca_file = ca_file or environment.get("TIDELOG_CA_FILE") or None
        self._cert_file = cert_file or environment.get("TIDELOG_CERT_FILE") or None
        self._key_file = key_file or environment.get("TIDELOG_KEY_FILE") or None
        if self._key_file is not None and self._cert_file is None:
            raise ValueError("key_file is given without cert_file")
        self.zone = zone or environment.get("TIDELOG_ZONE") or None
        self._lock = threading.Lock()
        self._tls: ssl.SSLContext | None = None
        self._tls_version: object = None

    def tls(self) -> ssl.SSLContext:
        """Return the TLS context for new connections. Raises ``ValueError`` for unusable files, unless earlier ones were
        usable."""
        with self._lock:
            try:
                files = (self._ca_file, self._cert_file, self._key_file)
                version = [None if each is None else _version(Path(each)) for each in files]
                if self._tls is None or version != self._tls_version:
                    self._tls, self._tls_version = self._context(), version
            except (OSError, ValueError) as error:
                if self._tls is None:
                    raise ValueError(str(error)) from error
                _log.warning("the changed certificate files can't be used, so the previous ones stay in use: %s", error)
            assert self._tls is not None
            return self._tls

    def check_address(self, url: str) -> None:
        """Raise ``ValueError`` if the token must not be sent to this address."""
        if self._source is not None and not is_private(url):
            raise ValueError(
                f"{url} is plain HTTP to another machine, so others on the network could read the token: use https://, or "
                "do not give a token (token, token_file, TIDELOG_TOKEN, TIDELOG_TOKEN_FILE)"
            )

    def trusts(self, url: str, given: Sequence[str]) -> bool:
        """Return whether an advertised address may be asked. ``given``: the addresses that the user gave."""
        if self._source is None:
            return True
        host = _host(url)
        hosts = {_host(each) for each in given}
        named = any(host.endswith(each) if each.startswith(".") else host == each for each in self._trusted)
        return is_private(url) and (host in hosts or named)

    def token(self) -> str | None:
        """Return the token to send now, or None. Raises ``Unauthenticated`` when its source gives none."""
        return None if self._source is None else self._source.current()

    def renewed(self, refused: str | None) -> bool:
        """Return whether there is another token than the one that a gateway refused."""
        return self._source is not None and refused is not None and self._source.renewed(refused)

    def _context(self) -> ssl.SSLContext:
        import ssl  # noqa: PLC0415 - takes a while

        try:
            context = ssl.create_default_context(cafile=self._ca_file)
        except OSError as error:
            what = f"ca_file {self._ca_file!r} can't be read, or has no certificates in PEM"
            raise ValueError(f"{what}: {error}") from error
        if self._cert_file is not None:
            try:
                # Without this, OpenSSL would ask for a key's password on the terminal.
                context.load_cert_chain(self._cert_file, self._key_file, password="")
            except (OSError, ValueError) as error:
                what = f"cert_file {self._cert_file!r} and its key are not a usable certificate and key in PEM"
                raise ValueError(f"{what}: {error}") from error
        return context


def authorization(token: str | None) -> dict[str, str]:
    """Return the header with the token; empty without a token."""
    return {} if token is None else {"Authorization": f"Bearer {token}"}


def _version(file: Path) -> object:
    """Return the file's version; None if there is no such file, which its reader then reports."""
    try:
        return token_source.file_version(file)
    except OSError:
        return None


def is_private(url: str) -> bool:
    """Return whether no one in between can read what is sent to ``url``: it uses TLS, or is this machine."""
    return url.lower().startswith("https://") or is_loopback(_host(url))


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, by its name or address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _host(url: str) -> str:
    from urllib3.util import parse_url  # noqa: PLC0415 - takes a while

    return (parse_url(url).host or "").strip("[]").lower()


def _source(
    token: Token | None, token_file: str | os.PathLike[str] | None, environment: Mapping[str, str]
) -> TokenSource | None:
    """Return the source of the given token, else of the environment's; None without a token."""
    if token is not None and token_file is not None:
        raise ValueError("token and token_file are both given: give only one")
    if token is not None:
        return token_source.from_callable(token) if callable(token) else _text(token, "token")
    if token_file is not None:
        return token_source.from_file(os.fspath(token_file))
    text, path = environment.get("TIDELOG_TOKEN"), environment.get("TIDELOG_TOKEN_FILE")
    if text and path:
        raise ValueError("TIDELOG_TOKEN and TIDELOG_TOKEN_FILE are both set: set only one")
    if path:
        return token_source.from_file(path)
    return _text(text, "TIDELOG_TOKEN") if text else None


def _text(token: str, what: str) -> TokenSource:
    source = token_source.from_text(token, what)
    try:
        source.current()
    except Unauthenticated as error:
        raise ValueError(str(error)) from None
    return source
