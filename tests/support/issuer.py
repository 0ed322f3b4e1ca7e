"""An OpenID Connect issuer of the tests' own: keys that rotate, a login of people, and what goes wrong with it."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

AUDIENCE = "tidelog"


class Issuer:
    """``keys``: private ones by id, ``asked``: how often its key set was read. ``answer`` stands in place of the key set."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {}
        self.asked = 0
        self.answer: bytes | None = None
        self.status = 200
        self.url = ""
        self.named: str | None = None
        """As its discovery document names it; None: rightly."""
        self.refuses: dict[str, str] | None = None
        """What it answers to a login in place of a code."""
        self.answers_pages = True
        """Whether it lets pages of other origins read what it answers."""
        self.is_opaque = True
        """Whether its access tokens are none that the gateway can read; its ID tokens are."""
        self.logins: list[dict[str, str]] = []
        """What each of them asked for."""
        self._codes: dict[str, dict[str, str]] = {}
        self.rotate("first")

    def rotate(self, key_id: str, *, kind: str = "RSA", bits: int = 2048) -> None:
        """Sign by a new key; the others stay."""
        self.keys[key_id] = (
            rsa.generate_private_key(65537, bits) if kind == "RSA" else ec.generate_private_key(ec.SECP256R1())
        )
        self.newest = key_id

    def claims(self, **more: Any) -> dict[str, Any]:
        """Of a good token; None leaves one out."""
        made = {"iss": self.url, "aud": AUDIENCE, "sub": "alice", "exp": time.time() + 300} | more
        return {name: value for name, value in made.items() if value is not None}

    def token(self, *, key_id: str | None = None, algorithm: str = "RS256", header: Any = None, **claims: Any) -> str:
        """A token signed by a key of the issuer's."""
        key_id = key_id or self.newest
        return jwt.encode(self.claims(**claims), self.keys[key_id], algorithm, headers=header or {"kid": key_id})

    def public_pem(self, key_id: str) -> bytes:
        """What an attacker may know of a key."""
        pem: bytes = self.keys[key_id].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return pem

    def key_set(self) -> bytes:
        """The JWKS."""
        listed = []
        for key_id, key in self.keys.items():
            algorithm: Any = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
            listed.append(algorithm.to_jwk(key.public_key(), as_dict=True) | {"kid": key_id, "use": "sig"})
        return json.dumps({"keys": listed}).encode()

    def body(self, path: str) -> bytes:
        """What it answers."""
        if path.endswith("/.well-known/openid-configuration"):
            endpoints = {f"{name}_endpoint": f"{self.url}/{name}" for name in ("authorization", "token")}
            return json.dumps({"issuer": self.named or self.url, "jwks_uri": f"{self.url}/keys"} | endpoints).encode()
        self.asked += 1
        return self.key_set() if self.answer is None else self.answer

    def redirect(self, query: str) -> str:
        """Where a browser that asks for a login is led, at once."""
        asked = dict(parse_qsl(query))
        assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
        self.logins.append(asked)
        given = self.refuses
        if given is None:
            given = {"code": secrets.token_urlsafe()}
            self._codes[given["code"]] = asked
        return f"{asked['redirect_uri']}?{urlencode({**given, 'state': asked['state']})}"

    def exchanged(self, body: str) -> tuple[int, dict[str, Any]]:
        """Tokens for a code, to the page that asked for it, once."""
        form = dict(parse_qsl(body))
        asked = self._codes.pop(form["code"], None)
        digest = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=").decode()
        same = {name: form[name] for name in ("client_id", "redirect_uri")} | {"code_challenge": digest}
        if form["grant_type"] != "authorization_code" or asked is None or not same.items() <= asked.items():
            return 400, {"error": "invalid_grant", "error_description": "the code is not yours"}
        access = secrets.token_urlsafe() if self.is_opaque else self.token()
        return 200, {"token_type": "Bearer", "access_token": access, "id_token": self.token(), "expires_in": 300}


@contextmanager
def running_issuer() -> Iterator[Issuer]:
    """An issuer that serves on loopback for the time of the block."""
    issuer = Issuer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            if asked.path == "/authorization":
                self.answer(302, b"", ("location", issuer.redirect(asked.query)))
            else:
                self.answer(issuer.status, issuer.body(self.path))

        def do_POST(self) -> None:
            status, tokens = issuer.exchanged(self.rfile.read(int(self.headers["content-length"])).decode())
            self.answer(status, json.dumps(tokens).encode())

        def answer(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
            self.send_response(status)
            pages = [("access-control-allow-origin", "*")] if issuer.answers_pages else []
            for name, value in (*headers, *pages, ("content-length", str(len(body)))):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
