"""Checks of a gateway's address: whether others can read along, and how long its certificate is valid."""

from __future__ import annotations

import socket
import ssl
import time
import warnings
from collections.abc import Iterator
from typing import Final

from urllib3.util import parse_url

from log_format.inspection.finding import Finding, bad, good, poor
from tidelog.http.credentials import Credentials, is_private

_TIMEOUT_S: Final = 5.0
_CERTIFICATE_S_MIN: Final = 14 * 86_400
_OLD: Final = (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1)


def check_address(url: str, credentials: Credentials) -> Iterator[Finding]:
    """Yield findings about TLS, its versions, and the certificate. Raises nothing."""
    if not url.lower().startswith("https://"):
        if is_private(url):
            yield good("address", f"{url} is plain HTTP, reachable on this machine only.")
            return
        advice = "Give the gateway tls_cert and tls_key, or put a proxy with TLS in front of it."
        yield bad("address", f"{url} is plain HTTP: tokens and records can be read on the network.", advice)
        return
    parsed = parse_url(url)
    address = ((parsed.host or "").strip("[]"), parsed.port or 443)
    yield _certificate(url, address, credentials)
    yield _versions(url, address)


def _certificate(url: str, address: tuple[str, int], credentials: Credentials) -> Finding:
    what = "certificate"
    try:
        with (
            socket.create_connection(address, _TIMEOUT_S) as tcp,
            credentials.tls().wrap_socket(tcp, server_hostname=address[0]) as tls,
        ):
            until = str((tls.getpeercert() or {}).get("notAfter", ""))
            spoken = tls.version()
    except ssl.SSLCertVerificationError as error:
        advice = "Set TIDELOG_CA_FILE to its authority's file, or give the gateway a certificate for this name."
        return bad(what, f"{url} has a certificate that is not trusted: {error.verify_message}.", advice)
    except (OSError, ValueError) as error:
        return bad(what, f"{url} can't be reached by TLS: {error}.", "Check the address, and that the gateway runs.")
    left_s = ssl.cert_time_to_seconds(until) - time.time() if until else float("inf")
    if left_s < _CERTIFICATE_S_MIN:
        advice = "Renew it: gateways read changed files automatically."
        return poor(
            what, f"{url} has a certificate that expires in {max(0, left_s) / 86_400:.0f} days ({until}).", advice
        )
    return good(what, f"{url} speaks {spoken}, and its certificate is valid until {until or 'its end'}.")


def _versions(url: str, address: tuple[str, int]) -> Finding:
    what = "TLS versions"
    taken = [version.name for version in _OLD if _takes(address, version)]
    if taken:
        advice = "Allow only TLS 1.2 and 1.3, as gateways do: change the policy of the load balancer or proxy in front of them."
        return bad(what, f"{url} still accepts {' and '.join(taken)}.", advice)
    return good(what, f"{url} accepts no TLS below 1.2.")


def _takes(address: tuple[str, int], version: ssl.TLSVersion) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is sent: the question is whether it answers at all
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            context.set_ciphers("ALL:@SECLEVEL=0")
            context.minimum_version = context.maximum_version = version
        with socket.create_connection(address, _TIMEOUT_S) as tcp, context.wrap_socket(tcp, server_hostname=address[0]):
            return True
    except (OSError, ValueError):
        return False
