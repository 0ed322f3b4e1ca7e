"""Client certificates: the URI in one is its principal, and gateways show theirs to each other."""

from __future__ import annotations

import shutil
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.access import Client, Right, bootstrap, by, cluster_key
from tests.support.certificate_authority import Authority
from tests.support.gateway_process import GatewayProcess, StartGateway
from tests.support.waiting import eventually

URI = "spiffe://corp/billing"
BODY = {"records": [{"value": "v"}]}


@pytest.fixture
def shown(authority: Authority) -> Callable[..., ssl.SSLContext]:
    """A client's context, with a certificate for these names of this authority."""

    def make(names: str, by_authority: Authority = authority) -> ssl.SSLContext:
        context = authority.trust()
        context.load_cert_chain(*by_authority.issue(names))
        return context

    return make


@pytest.fixture
def start_mutual(
    tmp_path: Path, authority: Authority, start_gateway: StartGateway
) -> Callable[..., tuple[GatewayProcess, str]]:
    """Start gateways that ask for client certificates of an authority."""

    def start(*settings: str, client_ca: str | None = None) -> tuple[GatewayProcess, str]:
        token, auth = bootstrap(tmp_path)
        cert, key = authority.issue()
        tls = ("--tls-cert", cert, "--tls-key", key, "--tls-client-ca", client_ca or authority.ca_file)
        gateway = start_gateway(str(tmp_path / "store"), *auth, *tls, *settings, trust=authority.trust())
        gateway.http.headers.update(by(token))
        return gateway, token

    return start


def test_the_uri_is_the_principal(
    start_mutual: Callable[..., tuple[GatewayProcess, str]],
    client_of: Callable[..., Client],
    authority: Authority,
    shown: Callable[..., ssl.SSLContext],
) -> None:
    """What its ACLs allow is allowed. A token wins over a certificate; a certificate without a URI, or without any, is 401."""
    gateway, token = start_mutual()
    gateway.topic("t")
    billing = client_of(gateway.url, None, verify=shown(f"URI:{URI},DNS:x")).http
    who = billing.get("/v1/whoami").json()
    assert {name: who[name] for name in ("principal", "authentication", "token_id", "super_user")} == {
        "principal": f"User:{URI}", "authentication": "certificate", "token_id": None, "super_user": False,
    }  # fmt: skip
    assert who["expires_at"] > time.time_ns() // 1_000_000
    assert billing.post("/v1/topics/t/records", json=BODY).status_code == 403
    client_of(gateway.url, token, verify=authority.trust()).allow(f"User:{URI}", Right("Write", "topic", "t"))
    assert billing.post("/v1/topics/t/records", json=BODY).status_code == 200
    assert billing.get("/v1/whoami", headers=by(token)).json()["principal"] == "User:bootstrap"
    wrong = billing.get("/v1/whoami", headers=by(token[:-1] + ("A" if token[-1] != "A" else "B")))
    assert wrong.status_code == 401
    for context in (shown("DNS:billing"), shown(f"URI:{URI},URI:{URI}2"), authority.trust()):
        assert client_of(gateway.url, None, verify=context).http.get("/v1/whoami").status_code == 401


def test_certificates_of_other_authorities_end_the_handshake(
    start_mutual: Callable[..., tuple[GatewayProcess, str]],
    client_of: Callable[..., Client],
    shown: Callable[..., ssl.SSLContext],
    tmp_path: Path,
) -> None:
    """Also once the file of authorities changes; one that can't be used changes nothing."""
    (tmp_path / "other").mkdir()
    other = Authority(directory=tmp_path / "other")
    signed = ("-keyout", str(other.directory / "ca.key"), "-out", other.ca_file, "-subj", "/CN=other")
    other.make(*signed)
    file = tmp_path / "clients.pem"
    shutil.copy(other.ca_file, file)
    gateway, _ = start_mutual(client_ca=str(file))

    def status(context: ssl.SSLContext) -> int | None:
        try:
            return client_of(gateway.url, None, verify=context).http.get("/v1/whoami").status_code
        except httpx.TransportError:
            return None

    mine, others = shown(f"URI:{URI}"), shown(f"URI:{URI}", other)
    assert (status(mine), status(others)) == (None, 200)
    file.write_text("no certificate")
    assert eventually(lambda: "the one before stays" in gateway.log())
    assert (status(mine), status(others)) == (None, 200)
    authority_file = Path(str(file) + ".new")
    shutil.copy(gateway_authority(mine, tmp_path), authority_file)
    authority_file.replace(file)
    assert eventually(lambda: (status(mine), status(others)) == (200, None))


def gateway_authority(context: ssl.SSLContext, directory: Path) -> Path:
    """The certificate of the authority that the context trusts, as a file."""
    (trusted,) = context.get_ca_certs(binary_form=True)
    file = directory / "trusted.pem"
    file.write_text(ssl.DER_cert_to_PEM_cert(trusted))
    return file


def test_gateways_show_each_other_their_certificates(
    start_mutual: Callable[..., tuple[GatewayProcess, str]],
    authority: Authority,
    client_of: Callable[..., Client],
    shown: Callable[..., ssl.SSLContext],
    tmp_path: Path,
) -> None:
    """Requests are passed on over mutual TLS, for the certificate's principal; a right is judged at the other gateway."""
    settings = ("--tls-ca", authority.ca_file, *cluster_key(tmp_path), "--heartbeat-ms", "300")
    gateways = [start_mutual(*settings) for _ in range(2)]
    gateway, token = gateways[0]
    assert eventually(lambda: len(gateway.http.get("/v1/cluster").json()["gateways"]) == 2)
    operator = client_of(gateway.url, token, verify=authority.trust())
    operator.allow(f"User:{URI}", Right("Write", "topic", "log", "prefix"))
    billing = client_of(gateway.url, None, verify=shown(f"URI:{URI}")).http
    for number in range(8):
        gateway.topic(f"log{number}")
        assert billing.post(f"/v1/topics/log{number}/records", json=BODY).status_code == 200
        assert billing.get(f"/v1/topics/log{number}/partitions/0/records?offset=0").status_code == 403
    counted = gateway.http.get("/metrics").text
    assert 'tidelog_forwarded_requests_total{outcome="answered"}' in counted
    assert 'tidelog_forwarded_requests_total{outcome="unreachable"}' not in counted
    assert 'tidelog_forwarded_requests_total{outcome="refused"}' not in counted


def test_without_authentication_a_certificate_is_needed(
    authority: Authority, start_gateway: Callable[..., Any], shown: Callable[..., ssl.SSLContext], tmp_path: Path
) -> None:
    """Nothing else would prove the principal: a client without one fails at the handshake."""
    cert, key = authority.issue()
    tls = ("--tls-cert", cert, "--tls-key", key, "--tls-client-ca", authority.ca_file)
    gateway = start_gateway(str(tmp_path / "store"), *tls, trust=shown(f"URI:{URI}"))
    assert gateway.http.get("/v1/whoami").json()["principal"] == "User:anonymous"
    with pytest.raises(httpx.TransportError), httpx.Client(verify=authority.trust(), trust_env=False) as client:
        client.get(f"{gateway.url}/v1/whoami")
