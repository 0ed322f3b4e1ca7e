"""The gateway's certificate: refused by what is wrong with it, changed as a whole or not at all."""

from __future__ import annotations

import logging
import shutil
import ssl
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from gateway.network.certificate import Certificate, ClientCertificate, PeerTrust, client_certificate
from gateway.process.assembly import assemble
from gateway.settings.settings import Settings, SettingsError
from tests.support.certificate_authority import Authority


def _settings(**given: Any) -> Settings:
    return Settings.read({}, {"store": "memory://tls", **given})


def test_what_can_be_no_certificate_is_refused_by_its_name(authority: Authority, tmp_path: Path) -> None:
    """A start with one file of two, a file that is not there, one that is none, another's key, or a key with a password
    ends with the setting's name; so does one whose URL for others contradicts it.
    """
    cert, key = authority.issue()
    with pytest.raises(SettingsError, match="tls_cert and tls_key are given both"):
        _settings(tls_cert=cert)
    with pytest.raises(SettingsError, match="advertised_url is http://a:1, but"):
        _settings(tls_cert=cert, tls_key=key, advertised_url="http://a:1")
    locked = str(tmp_path / "locked.key")
    command = ["openssl", "pkey", "-in", key, "-out", locked, "-aes128", "-passout", "pass:word"]
    subprocess.run(command, check=True, timeout=60)
    wrong = {
        "TLS_KEY: .* can't be read: No such file": (cert, str(tmp_path / "absent")),
        "TLS_CERT: .* can't be read: Is a directory": (str(tmp_path), key),
        "in PEM: ": (__file__, key),
        "MISMATCH": (cert, authority.issue()[1]),
        "in PEM: the key has a password": (cert, locked),
    }
    for said, (cert_path, key_path) in wrong.items():
        with pytest.raises(SettingsError, match=said):
            assemble(_settings(tls_cert=cert_path, tls_key=key_path))
    with pytest.raises(SettingsError, match=r"TIDELOG_TLS_CA: .* is no file of certificates"):
        assemble(_settings(tls_ca=__file__))
    with pytest.raises(SettingsError, match=r"TIDELOG_TLS_CLIENT_CA: .* is no file of certificates"):
        assemble(_settings(tls_cert=cert, tls_key=key, tls_client_ca=__file__))
    with pytest.raises(SettingsError, match="tls_client_ca needs tls_cert"):
        _settings(tls_client_ca=cert)


def test_a_changed_pair_is_used_when_it_is_whole(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Files that stay the same are not read again; half a change leaves the old pair in force, and is logged once."""
    paths = [str(tmp_path / name) for name in ("cert", "key")]

    def replace(index: int, source: str) -> None:
        shutil.copy(source, paths[index] + ".new")
        Path(paths[index] + ".new").replace(paths[index])

    for index, source in enumerate(authority.issue()):
        replace(index, source)
    certificate = Certificate(paths[0], paths[1])
    first = certificate.context
    assert certificate.expires_at_s is not None
    assert abs(certificate.expires_at_s - time.time() - 2 * 86_400) < 3_600
    assert first.minimum_version == ssl.TLSVersion.TLSv1_2
    certificate.look()
    new_cert, new_key = authority.issue()
    replace(0, new_cert)
    with caplog.at_level(logging.INFO):
        certificate.look()
        certificate.look()
    assert certificate.context is first
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    replace(1, new_key)
    certificate.look()
    assert certificate.context is not first
    Path(paths[1]).unlink()
    second = certificate.context
    certificate.look()
    assert certificate.context is second


def _copied(source: str, path: Path) -> str:
    """A file of its own, replaced as a whole."""
    new = path.with_suffix(".new")
    shutil.copy(source, new)
    new.replace(path)
    return str(path)


def test_changed_authorities_of_clients_are_used_when_they_can_be(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What is no file of certificates leaves the old ones in force, and is logged once."""
    file = tmp_path / "clients.pem"
    certificate = Certificate(*authority.issue(), _copied(authority.ca_file, file))
    first = certificate.context
    assert first.verify_mode == ssl.CERT_OPTIONAL
    assert len(first.get_ca_certs()) == 1
    _copied(__file__, file)
    certificate.look()
    certificate.look()
    assert certificate.context is first
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    _copied(authority.ca_file, file)
    certificate.look()
    assert certificate.context is not first
    needed = Certificate(*authority.issue(), authority.ca_file, is_needed_of_clients=True)
    assert needed.context.verify_mode == ssl.CERT_REQUIRED


def test_what_gateways_show_each_other_changes_with_its_files(authority: Authority, tmp_path: Path) -> None:
    """A new pair or new authorities are used from then on; half a change is not."""
    cert, key = authority.issue()
    files = [tmp_path / name for name in ("ca", "cert", "key")]
    ca_file, *pair = (_copied(source, file) for source, file in zip((authority.ca_file, cert, key), files, strict=True))
    trust = PeerTrust(ca_file, "gateway", pair=(pair[0], pair[1]))
    first = trust.context
    assert first is not None
    assert (first.verify_mode, first.check_hostname) == (ssl.CERT_REQUIRED, True)
    new_cert, new_key = authority.issue()
    _copied(new_cert, files[1])
    trust.look()
    assert trust.context is first
    _copied(new_key, files[2])
    trust.look()
    assert trust.context is not first


def test_the_only_uri_of_a_certificate_is_its_principal() -> None:
    """Names of other kinds are none, and neither are two URIs or one that can be no id."""

    def shown(*names: tuple[str, str]) -> ClientCertificate | None:
        return client_certificate({"subjectAltName": names, "notAfter": "Nov 22 00:00:00 2026 GMT"})

    uri = ("URI", "spiffe://corp/billing")
    assert shown(("DNS", "a"), uri) == ClientCertificate("spiffe://corp/billing", 1_795_305_600_000)
    for names in ((), (("DNS", "a"),), (uri, uri), (("URI", ""),), (("URI", "x" * 256),), (("URI", "a\n"),)):
        assert shown(*names) is None
    assert client_certificate(None) is None
    assert client_certificate({}) is None
