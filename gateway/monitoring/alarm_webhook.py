"""Tells a webhook of alarms: those that began to fire and those that ended, as Prometheus' Alertmanager would.

1. What the webhook has not taken (any answer but 2xx) is told again with the next round, a minute later. So an alarm may be told
   twice, and one that begins and ends while the webhook is away is not told.
2. What is known to be told is memory: a gateway that starts tells all that fires; one that stops says nothing of its alarms.
3. The file with the URL is read anew each time: such a URL is a secret, and may be changed.

Source: Prometheus, "Alerting: configuration", webhooks, version 4 of the message.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import urllib3

from gateway.monitoring.alarm_watch import Alarm

SECONDS_MAX: Final = 10
"""How long the webhook may take to answer."""
_NOT_YET: Final = "0001-01-01T00:00:00Z"
"""End of an alarm that fires."""
_Key = tuple[str, tuple[str, ...], int]

_log = logging.getLogger("gateway.alarms")


def read_webhook_url(path: Path) -> str:
    """Return the URL of a file. Raise ``ValueError`` if there is none, with words that do not show the file's text."""
    try:
        url = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} can't be read: {getattr(error, 'strerror', None) or 'it is no text'}") from None
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and len(url.split()) == 1
    except ValueError:
        is_url = False
    if not is_url:
        raise ValueError(f"the only line of {path} must be an http:// or https:// URL")
    return url


class AlarmWebhook:
    """The webhook. ``url_file``: has its URL as its only line; ``gateway_id`` and ``gateway_url``: who tells."""

    def __init__(self, url_file: Path, *, gateway_id: str, gateway_url: str) -> None:
        self._url_file = url_file
        self._gateway_id = gateway_id
        self._gateway_url = gateway_url
        self._told: dict[_Key, Alarm] = {}
        self._fails = False

    async def tell(self, firing: Sequence[Alarm], now_ms: int) -> None:
        """Tell what began and what ended since the webhook took the last message. Failures are logged, once until they end."""
        present = {(one.rule.name, one.about, one.since_ms): one for one in firing}
        began = [one for key, one in present.items() if key not in self._told]
        ended = [one for key, one in self._told.items() if key not in present]
        if not began and not ended:
            return
        alerts = [self._alert(one, None) for one in began] + [self._alert(one, now_ms) for one in ended]
        failure = await asyncio.to_thread(_post, self._url_file, self._message(alerts))
        if failure is None:
            self._told = present
        if failure is not None and not self._fails:
            _log.warning("alarms can't be told, and are told again each minute: %s", failure)
        elif failure is None and self._fails:
            _log.warning("alarms are told again")
        self._fails = failure is not None

    def _message(self, alerts: Sequence[Mapping[str, Any]]) -> bytes:
        labels = {"gateway": self._gateway_id}
        message = {
            "version": "4",
            "groupKey": f"tidelog/{self._gateway_id}",
            "truncatedAlerts": 0,
            "status": "firing" if any(alert["status"] == "firing" for alert in alerts) else "resolved",
            "receiver": "tidelog",
            "groupLabels": labels,
            "commonLabels": labels,
            "commonAnnotations": {},
            "externalURL": self._gateway_url,
            "alerts": alerts,
        }
        return json.dumps(message).encode()

    def _alert(self, alarm: Alarm, ended_ms: int | None) -> dict[str, Any]:
        labels = {
            "alertname": alarm.rule.name,
            "severity": alarm.rule.severity,
            "gateway": self._gateway_id,
            "about": "/".join(alarm.about),
        }
        return {
            "status": "firing" if ended_ms is None else "resolved",
            "labels": labels,
            "annotations": {"summary": alarm.said},
            "startsAt": _time(alarm.since_ms),
            "endsAt": _NOT_YET if ended_ms is None else _time(ended_ms),
            "generatorURL": f"{self._gateway_url}/v1/monitoring/alarms",
            "fingerprint": hashlib.sha256(json.dumps(labels).encode()).hexdigest()[:16],
        }


def _post(url_file: Path, message: bytes) -> str | None:
    """Send a message; return why it was not taken, None if it was. The URL is in no text, since it may be a secret. Blocks."""
    try:
        url = read_webhook_url(url_file)
    except ValueError as error:
        return str(error)
    try:
        with urllib3.PoolManager(num_pools=1, retries=False, timeout=urllib3.Timeout(total=SECONDS_MAX)) as pool:
            answer = pool.request(
                "POST",
                url,
                body=message,
                headers={"content-type": "application/json", "user-agent": "tidelog"},
                redirect=False,
                preload_content=False,
            )
            answer.close()
    except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        return f"the webhook can't be reached: {type(error).__name__}"
    return None if 200 <= answer.status < 300 else f"the webhook answers {answer.status}"


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
