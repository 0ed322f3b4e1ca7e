"""The console's page of transactions: those that are open, and how others ended; aborting one."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.support.console import Console, Tab, done, row
from tests.support.gateway_process import GatewayProcess


def begin(gateway: GatewayProcess, transactional_id: str) -> str:
    body = {"transactional_id": transactional_id, "timeout_ms": 900_000}
    answer = gateway.http.post("/v1/transactions", json=body)
    assert answer.status_code == 201
    transaction: str = answer.json()["transaction_id"]
    return transaction


def test_nothing_is_open(tab: Tab) -> None:
    """An empty list says what would stand there."""
    page = tab.open("/transactions?prefix=nothing")
    expect(page.get_by_text("No open transactions")).to_be_visible()


def test_transactions_are_found_by_state_and_id(tab: Tab, gateway: GatewayProcess) -> None:
    """Open ones at first; others by their state; all of them by how their ids begin."""
    begin(gateway, "billing-1")
    gateway.http.post(f"/v1/transactions/{begin(gateway, 'billing-2')}:commit")
    gateway.http.post(f"/v1/transactions/{begin(gateway, 'orders-1')}:abort")
    page = tab.open("/transactions?prefix=billing")
    expect(page.get_by_role("rowheader")).to_have_text(["billing-1"])
    assert row(page, "billing-1")[1] == "open"
    assert row(page, "billing-1")[3].startswith("in 1")
    page.get_by_label("State").select_option("all")
    expect(page.get_by_role("rowheader")).to_have_text(["billing-1", "billing-2"])
    assert row(page, "billing-2")[1] == "committed"
    page.get_by_label("Prefix of the transactional id").fill("orders")
    expect(page.get_by_role("rowheader")).to_have_text(["orders-1"])
    assert row(page, "orders-1")[1] == "aborted"
    page.get_by_label("State").select_option("committed")
    expect(page.get_by_text("No matching transactions")).to_be_visible()


def test_an_open_transaction_is_aborted(tab: Tab, gateway: GatewayProcess) -> None:
    """After a question; then it is no longer open, and its producer's commit is refused."""
    transaction = begin(gateway, "stuck")
    page = tab.open("/transactions?prefix=stuck")
    page.get_by_role("button", name="Abort stuck").click()
    dialog = page.get_by_role("dialog", name="Abort transaction")
    expect(dialog).to_contain_text(transaction)
    assert gateway.http.get(f"/v1/transactions/{transaction}").json()["state"] == "open"
    dialog.get_by_role("button", name="Abort", exact=True).click()
    done(page, "The transaction of stuck is aborted.")
    expect(page.get_by_text("No open transactions")).to_be_visible()
    answer = gateway.http.post(f"/v1/transactions/{transaction}:commit")
    assert answer.json()["error_code"] == "TRANSACTION_NOT_OPEN"


def test_a_transaction_that_ended_meanwhile(console: Console, gateway: GatewayProcess) -> None:
    """Aborting what was just committed is refused, and the dialog says why."""
    transaction = begin(gateway, "quick")
    console.visits.expect(409)
    page = console.open("/transactions?prefix=quick")
    page.get_by_role("button", name="Abort quick").click()
    gateway.http.post(f"/v1/transactions/{transaction}:commit")
    page.get_by_role("dialog").get_by_role("button", name="Abort", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("TRANSACTION_NOT_OPEN")


def test_many_transactions_come_in_pages(tab: Tab, gateway: GatewayProcess) -> None:
    """Fifty at a time, forwards and back."""
    for number in range(60):
        begin(gateway, f"many-{number:02}")
    page = tab.open("/transactions?prefix=many")
    expect(page.get_by_role("rowheader")).to_have_count(50)
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_role("rowheader")).to_have_text([f"many-{number}" for number in range(50, 60)])
    expect(page.get_by_role("button", name="Next")).to_be_disabled()
    page.get_by_role("button", name="Back").click()
    expect(page.get_by_role("rowheader")).to_have_count(50)
