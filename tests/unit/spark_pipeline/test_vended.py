"""A token goes to the gateway that is named and nowhere else, and only by a way that no third party can read."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from log_format.errors import StoreUnavailable
from spark_pipeline.option_refused import OptionRefused
from spark_pipeline.source.options import parse_options
from spark_pipeline.vended import VendedStore, credential_process, main, may_receive_token, request_credentials

BY_GATEWAY = {"store": "s3://b/p", "gateway": "https://h:1/", "tokenFile": "/t", "subscribe": "a,b"}


class Redirecting(BaseHTTPRequestHandler):
    """Sends each request on to ``/elsewhere`` and notes the paths and credentials that come."""

    seen: ClassVar[list[tuple[str, str | None]]] = []

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.seen.append((self.path, self.headers["authorization"]))
        self.send_response(307)
        self.send_header("location", "/elsewhere")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def redirecting() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Redirecting)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_options_give_a_store_by_vended_credentials() -> None:
    """With the topics that the query names, and no more."""
    options = parse_options(BY_GATEWAY, streaming=False)
    assert options.store == VendedStore("s3://b/p", "https://h:1", "/t", ("a", "b"))


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"tokenFile": None}, "tokenFile"),
        ({"gateway": None}, "gateway"),
        ({"gateway": "http://gateway.example:80"}, "gateway"),
        ({"gateway": "gateway"}, "gateway"),
        ({"store": "/directory"}, "gateway"),
        ({"subscribe": None, "subscribePattern": "a.*"}, "subscribePattern"),
        ({"groupId": "g"}, "groupId"),
    ],
)
def test_what_does_not_go_with_it_is_refused_by_name(more: dict[str, str | None], named: str) -> None:
    """No option is ignored, and no token leaves in plain text."""
    given = {name: value for name, value in (BY_GATEWAY | more).items() if value is not None}
    with pytest.raises(OptionRefused, match=named):
        parse_options(given, streaming=True)


@pytest.mark.parametrize(
    ("url", "is_fit"),
    [
        ("https://gateway.example", True),
        ("http://localhost:8080", True),
        ("http://127.0.0.1:8080", True),
        ("http://[::1]:8080", True),
        ("http://10.0.0.1:8080", False),
        ("http://localhost.example", False),
        ("ftp://localhost", False),
        ("https://", False),
    ],
)
def test_plain_http_is_for_this_machine(url: str, is_fit: bool) -> None:
    """Elsewhere the token could be read on its way."""
    assert may_receive_token(url) is is_fit


def test_a_redirect_is_not_followed(redirecting: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An answer can't make the token go anywhere; the refusal does not show it."""
    token = tmp_path / "token"
    token.write_text("tl_secret\n")
    vended = VendedStore("s3://b", redirecting, str(token), ("a",))
    with pytest.raises(StoreUnavailable) as refusal:
        request_credentials(vended)
    assert Redirecting.seen == [("/v1/credentials", "Bearer tl_secret")]
    assert "tl_secret" not in str(refusal.value)
    assert main(["--gateway", redirecting, "--token-file", str(token), "a"]) == 1
    assert "tl_secret" not in "".join(capsys.readouterr())
    assert "tl_secret" not in credential_process(vended)
