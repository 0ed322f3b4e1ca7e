"""A webhook is told of each alarm that begins and ends, again where it did not take it, and never in the log."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gateway.monitoring.alarm_rules import RULES
from gateway.monitoring.alarm_watch import Alarm
from gateway.monitoring.alarm_webhook import AlarmWebhook, read_webhook_url

SECRET = "hook-3f1c"
BEHIND = next(rule for rule in RULES if rule.name == "ConsumerBehind")
ALARM = Alarm(rule=BEHIND, about=("g", "t"), since_ms=1_700_000_000_000, value=901)
OTHER = Alarm(rule=BEHIND, about=("g", "u"), since_ms=1_700_000_000_000, value=905)


class Receiver:
    """A webhook that answers ``status`` and keeps what it took."""

    def __init__(self) -> None:
        self.status = 200
        self.messages: list[dict[str, Any]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                receiver.messages.append(body | {"path": self.path})
                self.send_response(receiver.status)
                self.send_header("location", "/elsewhere")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """No log."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def told(self) -> list[list[tuple[str, str]]]:
        """Status and labels of what each message told."""
        return [[(one["status"], one["labels"]["about"]) for one in message["alerts"]] for message in self.messages]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def webhook(receiver: Receiver, tmp_path: Path) -> AlarmWebhook:
    (tmp_path / "url").write_text(f"http://127.0.0.1:{receiver.server.server_port}/{SECRET}\n")
    return AlarmWebhook(tmp_path / "url", gateway_id="a", gateway_url="http://gateway:8080")


async def test_what_begins_and_what_ends_is_told_once(webhook: AlarmWebhook, receiver: Receiver) -> None:
    """In the form of Alertmanager; nothing while nothing changes."""
    for firing in ([], [ALARM], [ALARM], [ALARM, OTHER], [OTHER], [OTHER], []):
        await webhook.tell(firing, 1_700_000_600_000)
    assert receiver.told() == [[("firing", "g/t")], [("firing", "g/u")], [("resolved", "g/t")], [("resolved", "g/u")]]
    first, last = receiver.messages[0], receiver.messages[-1]
    assert (first["version"], first["status"], last["status"]) == ("4", "firing", "resolved")
    assert first["alerts"][0]["labels"]["alertname"] == "ConsumerBehind"
    assert first["alerts"][0]["annotations"]["summary"] == "g/t: the oldest unread record is 901 s old."
    assert first["alerts"][0]["startsAt"] == "2023-11-14T22:13:20.000Z"
    assert first["alerts"][0]["endsAt"].startswith("0001-")
    assert last["alerts"][0]["endsAt"] == "2023-11-14T22:23:20.000Z"
    assert receiver.messages[0]["alerts"][0]["fingerprint"] == receiver.messages[2]["alerts"][0]["fingerprint"]


@pytest.mark.parametrize("status", [500, 404, 302])
async def test_what_was_not_taken_is_told_again(
    webhook: AlarmWebhook, receiver: Receiver, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    """Also what began meanwhile; a redirect is followed nowhere; the log says so once, without the URL."""
    receiver.status = status
    await webhook.tell([ALARM], 0)
    await webhook.tell([ALARM, OTHER], 0)
    receiver.status = 200
    await webhook.tell([ALARM, OTHER], 0)
    await webhook.tell([ALARM, OTHER], 0)
    both = [("firing", "g/t"), ("firing", "g/u")]
    assert receiver.told() == [[("firing", "g/t")], both, both]
    assert {message["path"] for message in receiver.messages} == {f"/{SECRET}"}
    assert caplog.text.count("can't be told") == 1
    assert f"answers {status}" in caplog.text
    assert SECRET not in caplog.text


async def test_a_webhook_that_is_away_or_has_no_file_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged; and the URL is read anew each time."""
    path = tmp_path / "url"
    webhook = AlarmWebhook(path, gateway_id="a", gateway_url="http://gateway:8080")
    await webhook.tell([ALARM], 0)
    assert "can't be read: No such file" in caplog.text
    for url in (f"http://127.0.0.1:9/{SECRET}", f"no url {SECRET}", f"http://[{SECRET}/"):
        path.write_text(url)
        await webhook.tell([ALARM], 0)
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    "text", [None, "", "hooks.example/x", "file:///etc/passwd", "http://a/\nhttp://b/", "http:///x"]
)
def test_a_file_without_a_url_is_an_error(tmp_path: Path, text: str | None) -> None:
    """With which a gateway does not start: an operator hears of it then. The text is not shown."""
    path = tmp_path / "url"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ValueError, match=r"can't be read|must be an http") as said:
        read_webhook_url(path)
    assert not text or text not in str(said.value)
    path.write_text("https://hooks.example/x\n")
    assert read_webhook_url(path) == "https://hooks.example/x"
