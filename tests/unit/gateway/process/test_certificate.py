"""The gateway's certificate: refused by what is wrong with it, changed as a whole or not at all."""

from __future__ import annotations

import logging
import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gateway.certificate import Certificate
from gateway.process.assembly import assemble
from gateway.settings import Settings, SettingsError
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
