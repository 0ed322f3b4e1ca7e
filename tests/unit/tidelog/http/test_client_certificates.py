"""A client shows its certificate to gateways that ask for one, and takes a renewed one for its next connections."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.certificate_authority import Authority
from tests.support.listener import Listener
from tidelog import Admin
from tidelog.errors import GatewayUnreachable

ANSWER = (
    b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 13\r\nConnection: close\r\n\r\n{"topics":[]}'
)


class CertificateServer:
    """Answers each connection once, and notes the serial number of the certificate that it was shown."""

    def __init__(self, authority: Authority) -> None:
        self.serials: list[str] = []
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(*authority.issue())
        self._context.load_verify_locations(authority.ca_file)
        self._context.verify_mode = ssl.CERT_REQUIRED
        self._listener = Listener(self._answer)
        self.url = f"https://127.0.0.1:{self._listener.port}"
        self.end = self._listener.end

    def _answer(self, connection: socket.socket) -> None:
        with self._context.wrap_socket(connection, server_side=True) as tls:
            if tls.recv(65536):
                self.serials.append(str((tls.getpeercert() or {})["serialNumber"]))
                tls.sendall(ANSWER)


@pytest.fixture
def server(authority: Authority) -> Iterator[CertificateServer]:
    started = CertificateServer(authority)
    yield started
    started.end()


def test_a_certificate_is_shown_and_renewed(authority: Authority, server: CertificateServer, tmp_path: Path) -> None:
    """``cert_file`` and ``key_file``; changed files count from the next connection, broken ones not at all."""
    cert, key = tmp_path / "client.pem", tmp_path / "client.key"

    def put(pair: tuple[str, str]) -> None:
        for source, target in zip(pair, (cert, key), strict=True):
            target.write_bytes(Path(source).read_bytes())

    put(authority.issue("URI:tidelog:user:billing"))
    with Admin(server.url, ca_file=authority.ca_file, cert_file=str(cert), key_file=str(key)) as admin:
        assert admin.list_topics() == []
        put(authority.issue("URI:tidelog:user:billing"))
        assert admin.list_topics() == []
        cert.write_text("no certificate")
        os.utime(cert, ns=(1, 1))
        assert admin.list_topics() == []
    first, second, third = server.serials
    assert first != second == third


def test_without_a_certificate_there_is_no_connection(authority: Authority, server: CertificateServer) -> None:
    """The gateway asks for one: a client without it learns that no address took its request."""
    with Admin(server.url, ca_file=authority.ca_file, timeout_ms=300) as admin, pytest.raises(GatewayUnreachable):
        admin.list_topics()
    assert not server.serials


def test_the_environment_names_the_files(
    authority: Authority, server: CertificateServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``TIDELOG_CERT_FILE``, ``TIDELOG_KEY_FILE``, ``TIDELOG_CA_FILE``."""
    cert, key = authority.issue()
    monkeypatch.setenv("TIDELOG_CA_FILE", authority.ca_file)
    monkeypatch.setenv("TIDELOG_CERT_FILE", cert)
    monkeypatch.setenv("TIDELOG_KEY_FILE", key)
    with Admin(server.url) as admin:
        assert admin.list_topics() == []
    assert len(server.serials) == 1


def test_files_that_can_not_be_used_are_named(authority: Authority, tmp_path: Path) -> None:
    """When the client is made, not with its first request; a key with a password asks nothing on the terminal."""
    cert, key = authority.issue()
    locked = str(tmp_path / "locked.key")
    encrypt = ("openssl", "pkey", "-in", key, "-aes256", "-passout", "pass:secret", "-out", locked)
    subprocess.run(encrypt, check=True, capture_output=True, timeout=60)
    url = "https://127.0.0.1:9"
    with pytest.raises(ValueError, match="nowhere"):
        Admin(url, cert_file="nowhere", key_file=key)
    with pytest.raises(ValueError, match="without cert_file"):
        Admin(url, key_file=key)
    with pytest.raises(ValueError, match="not a usable certificate and key"):
        Admin(url, cert_file=cert, key_file=locked)
