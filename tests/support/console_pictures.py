"""Makes the pictures of docs/console.md: a gateway with some topics, its console in Chromium, a PNG of each page.

Run ``python -m tests.support.console_pictures``; it takes a minute, and needs what ``scripts/chromium.sh`` installs.
"""

from __future__ import annotations

import json
import random
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Page

from tests.support.browser import Visits, running_browser
from tests.support.console import Console
from tests.support.gateway_process import GatewayProcess, running_gateway

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs/console"
TOPICS = {
    "clicks": 6,
    "emails": 1,
    "inventory": 3,
    "invoices": 1,
    "orders": 3,
    "payments": 3,
    "sessions": 6,
    "shipments": 1,
}
READERS = {"orders": ("billing", "warehouse"), "payments": ("billing", "fraud-check"), "shipments": ("mailer",)}
STATEMENT = """select key, count(*) as orders, sum((value->>'amount')::decimal(9, 2)) as amount
from orders
group by key
order by amount desc
limit 6"""
SECONDS = 60
"""How long records come before the first picture: the plots have a point every ten seconds."""


def produce(url: str, over: threading.Event) -> None:
    """Some records to some topics, until it is over."""
    chance = random.Random(7)
    with httpx.Client(base_url=url) as http:
        while not over.wait(0.2):
            for name in ("orders", "payments", "shipments", "clicks", "sessions"):
                records = [order(chance) for _ in range(chance.randint(5, 40))]
                http.post(f"/v1/topics/{name}/records", json={"records": records})


def read(gateway: GatewayProcess) -> None:
    """Groups that have read most."""
    chance = random.Random(8)
    for topic, groups in READERS.items():
        parts = gateway.http.get(f"/v1/topics/{topic}").json()["partitions"]
        for group in groups:
            behind = [(part["partition"], max(0, part["high_watermark"] - chance.randint(0, 60))) for part in parts]
            offsets = [{"topic": topic, "partition": partition, "offset": offset} for partition, offset in behind]
            gateway.http.put(f"/v1/groups/{group}/offsets", json={"offsets": offsets})


def order(chance: random.Random) -> dict[str, Any]:
    """A record."""
    items = [{"sku": f"A-{chance.randint(1, 99)}", "count": chance.randint(1, 4)} for _ in range(chance.randint(1, 3))]
    value = {"order": chance.randint(1000, 9999), "amount": round(chance.random() * 200, 2), "items": items}
    headers = {"type": chance.choice(["order", "refund"]), "trace": f"{chance.getrandbits(64):016x}"}
    return {"key": f"user-{chance.randint(1, 40)}", "value": json.dumps(value), "headers": headers}


def taken(page: Page, name: str, after_ms: int = 700) -> None:
    """The picture of the page as it stands then."""
    page.wait_for_timeout(after_ms)
    path = PICTURES / f"{name}.png"
    page.screenshot(path=path)
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1024} KiB")


def main() -> None:
    """All of them."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, running_browser() as browser:
        store, log = Path(directory) / "store", Path(directory) / "log"
        with running_gateway(store, log, "--gateway-id", "gateway-1", "--zone", "eu-central-1a") as gateway:
            for name, partition_count in TOPICS.items():
                gateway.topic(name, partition_count, **{"flush.ms": 20})
            over = threading.Event()
            producing = threading.Thread(target=produce, args=(gateway.url, over))
            producing.start()
            try:
                time.sleep(SECONDS)
                read(gateway)
                visits = Visits(browser)
                take_all(Console(visits, gateway.url))
                visits.close()
            finally:
                over.set()
                producing.join()


def take_all(console: Console) -> None:
    """Rates of topics are known after the second look."""
    taken(console.open("/"), "overview")
    taken(console.open("/", scheme="dark"), "overview-dark")
    taken(console.open("/topics"), "topics", after_ms=6_000)
    taken(console.open("/topics/orders", height=1000), "topic", after_ms=6_000)
    messages = console.open("/topics/orders/messages?key=user-7&from=earliest", scheme="dark")
    messages.get_by_role("rowheader").first.get_by_role("button").click()
    taken(messages, "message")
    messages = console.open("/topics/orders/messages?from=offset&offset=-5&key=user-7")
    messages.get_by_role("button", name="Copy or download").click()
    taken(messages, "copy")
    group = console.open("/groups/billing", height=640)
    group.get_by_role("button", name="Reset offsets").click()
    group.get_by_label("To", exact=True).select_option("shift")
    group.get_by_label("Records", exact=True).fill("-100")
    group.get_by_role("button", name="Preview").click()
    taken(group, "reset", after_ms=2_000)
    taken(console.open("/topics/orders/messages?live=1"), "live", after_ms=3_000)
    asked = console.open("/sql", height=640)
    asked.get_by_label("Statement").fill(STATEMENT)
    asked.get_by_role("button", name="Run").click()
    asked.get_by_role("heading", name="Result").wait_for()
    taken(asked, "sql")
    taken(console.open("/topics", width=320, height=640), "narrow")


if __name__ == "__main__":
    main()
