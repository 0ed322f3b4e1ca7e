"""Certificates for gateways, signed by an authority of the tests' own."""

from __future__ import annotations

import secrets
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """A certificate authority of the tests' own, by the ``openssl`` command: its keys end with the session's directory."""

    directory: Path

    @property
    def ca_file(self) -> str:
        """The authority's certificate."""
        return str(self.directory / "ca.pem")

    def trust(self) -> ssl.SSLContext:
        """A client's context that trusts this authority and no other."""
        return ssl.create_default_context(cafile=self.ca_file)

    def issue(self, names: str = "IP:127.0.0.1,DNS:localhost") -> tuple[str, str]:
        """The files of a new certificate for ``names`` and of its key."""
        cert, key = (str(self.directory / f"{secrets.token_hex(8)}.{kind}") for kind in ("pem", "key"))
        signer = ("-CA", self.ca_file, "-CAkey", str(self.directory / "ca.key"), "-addext", "basicConstraints=CA:FALSE")
        self.make("-keyout", key, "-out", cert, "-subj", "/CN=gateway", "-addext", f"subjectAltName={names}", *signer)
        return cert, key

    def make(self, *arguments: str) -> None:
        """A key and a certificate."""
        request = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc", "-days", "2")
        subprocess.run(["openssl", *request, *arguments], check=True, capture_output=True, timeout=60)
