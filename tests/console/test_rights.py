"""The console offers what its caller may do: less with fewer rights, nothing to change with ``console=readonly``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import Visits
from tests.support.console import Console, Tab, done
from tests.support.gateway_process import GatewayProcess, running_gateway
from tests.support.secured import Secured

CHANGES = r"^(Create|Register|Delete|Reset|Settings|Redrive|Abort|Make|Add|Rotate|Revoke|Edit|Produce|Change|Save|Erase|Clone)\b"
ROUTES = [
    "/",
    "/topics",
    "/topics/mine",
    "/topics/mine?tab=storage",
    "/topics/mine?tab=settings",
    "/topics/mine/messages",
    "/groups",
    "/groups/mine",
    "/queues",
    "/queues/mine",
    "/transactions",
    "/schemas",
    "/schemas/mine-value",
    "/access",
]


def put(http: object, base: str = "mine") -> None:
    """A topic, a group, a queue and a transaction of this name."""
    call = http.request  # type: ignore[attr-defined]
    offsets = [{"topic": base, "partition": 0, "offset": 0}]
    queue = {"topics": [base], "dead_letter_topic": f"{base}-dead"}
    transaction = {"transactional_id": base, "timeout_ms": 900_000}
    for method, path, body in [
        ("POST", "/v1/topics", {"name": base, "config": {"flush.ms": 0}}),
        ("POST", "/v1/topics", {"name": f"{base}-dead"}),
        ("POST", f"/v1/topics/{base}/records", {"records": [{"value": "v"}]}),
        ("PUT", f"/v1/groups/{base}/offsets", {"offsets": offsets}),
        ("PUT", f"/v1/queues/{base}", queue),
        ("POST", "/v1/transactions", transaction),
        ("POST", f"/registry/subjects/{base}-value/versions", {"schema": '"long"'}),
    ]:
        answer = call(method, path, json=body)
        assert answer.status_code in (200, 201), answer.text


def changes(page: Page) -> list[str]:
    """The buttons of the page that would change something, and can be pressed."""
    page.wait_for_timeout(100)
    found: list[str] = page.evaluate(
        """(pattern) => [...document.querySelectorAll("main button:enabled, main a.button")]
            .map(each => each.textContent.trim()).filter(text => new RegExp(pattern).test(text))""",
        CHANGES,
    )
    return found


@pytest.fixture(scope="module")
def readonly(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway whose console changes nothing."""
    directory: Path = tmp_path_factory.mktemp("readonly")
    with running_gateway(directory / "store", directory / "log", "--console", "readonly") as started:
        put(started.http)
        yield started


def test_a_read_only_console_offers_no_change(visits: Visits, readonly: GatewayProcess) -> None:
    """No button of any page would change anything; the page says that it is read-only, and shows its data."""
    pages = Tab(visits, readonly.url)
    for route in ROUTES:
        page = pages.open(route)
        assert changes(page) == [], route
        expect(page.get_by_text("read-only")).to_be_visible()
        expect(page.get_by_role("alert")).to_have_count(0)


@pytest.fixture(scope="module")
def filled(gateway: GatewayProcess) -> GatewayProcess:
    """A gateway whose console changes what there is."""
    put(gateway.http)
    return gateway


@pytest.mark.parametrize("route", ["/topics", "/groups/mine", "/queues", "/queues/mine", "/transactions", "/schemas"])
def test_the_same_pages_offer_changes_otherwise(tab: Tab, filled: GatewayProcess, route: str) -> None:
    """What the test above looks for is found where changes are offered."""
    page = tab.open(route)
    expect(page.get_by_role("button", name="Menu")).to_be_hidden()
    page.wait_for_function("() => document.querySelectorAll('main button').length > 0")
    assert changes(page)


@pytest.fixture(scope="module", autouse=True)
def data(secured: Secured) -> None:
    """What is mine, and what is the administrator's."""
    put(secured.admin.http)
    put(secured.admin.http, "theirs")


def visitor(visits: Visits, secured: Secured, *rights: tuple[str, str, str]) -> Tab:
    """The console of a new user with these rights."""
    principal, api = secured.user()
    for operation, kind, resource in rights:
        secured.allow(principal, operation, kind, resource)
    return Tab(visits, secured.url, api.token)


def test_lists_show_what_the_caller_may_describe(visits: Visits, secured: Secured) -> None:
    """Nothing of others, not even by name."""
    console = visitor(
        visits,
        secured,
        ("Read", "topic", "mine"),
        ("Describe", "group", "mine"),
        ("Describe", "transactional_id", "mine"),
    )
    for route in ("/topics", "/groups", "/queues", "/transactions"):
        page = console.open(route)
        expect(page.get_by_role("rowheader").first).to_have_text("mine")
        assert "theirs" not in page.content(), route


def test_changes_that_are_not_allowed_are_not_offered(visits: Visits, secured: Secured) -> None:
    """A visitor with the right to describe it sees it; with the right to delete it there is just that button."""
    looking = visitor(
        visits, secured, ("Describe", "group", "mine"), ("Read", "topic", "mine"), ("Read", "topic", "mine-dead")
    )
    deleting = visitor(
        visits, secured, ("Delete", "group", "mine"), ("Read", "topic", "mine"), ("Read", "topic", "mine-dead")
    )
    for route in ("/groups/mine", "/queues/mine"):
        page = looking.open(route)
        expect(page.get_by_role("heading", level=1)).to_have_text("mine")
        assert changes(page) == [], route
        page = deleting.open(route)
        expect(page.get_by_role("button", name="Delete")).to_be_visible()
        assert changes(page) == ["Delete"], route


def test_a_page_without_the_right_says_which(visits: Visits, secured: Secured) -> None:
    """The right that is missing, in words; the same for what is not there at all."""
    visits.expect(403)
    console = visitor(visits, secured, ("Read", "topic", "mine"))
    for route, right in (
        ("/groups/theirs", "Describe on group theirs"),
        ("/queues/theirs", "Describe on group theirs"),
        ("/topics/theirs", "Describe on topic theirs"),
    ):
        page = console.open(route)
        alert = page.get_by_role("alert").first
        expect(alert).to_contain_text("Not allowed")
        expect(alert).to_contain_text(f"You need the right {right}.")
        assert changes(page) == [], route


def test_a_refused_change_says_why(visits: Visits, secured: Secured) -> None:
    """A right that was lost after the page was opened: the refusal stands where it was asked, and nothing changed."""
    principal, api = secured.user()
    secured.allow(principal, "Alter", "group", "mine")
    secured.allow(principal, "Describe", "topic", "mine")
    console = Console(visits, secured.url, api.token)
    visits.expect(403)
    page = console.open("/groups/mine")
    page.get_by_role("button", name="Reset offsets").click()
    page.get_by_label("To", exact=True).select_option("latest")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_text("This changes 1 partition:")).to_be_visible()
    secured.forget(principal)
    secured.allow(principal, "Describe", "group", "mine")
    page.get_by_role("button", name="Reset 1 partition").click()
    expect(page.locator("dialog").get_by_role("alert")).to_contain_text("You need the right Alter on group mine.")
    assert secured.admin.http.get("/v1/groups/mine/offsets").json()["offsets"][0]["offset"] == 0


def test_a_refused_abort_says_why(visits: Visits, secured: Secured) -> None:
    """Another's transaction is not one's own to abort; the administrator's abort is done."""
    console = visitor(visits, secured, ("Write", "transactional_id", "mine"))
    visits.expect(404)
    page = console.open("/transactions")
    page.get_by_role("button", name="Abort mine").click()
    page.get_by_role("dialog").get_by_role("button", name="Abort", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("UNKNOWN_TRANSACTION")
    admin = Console(visits, secured.url, secured.admin.token)
    page = admin.open("/transactions?prefix=theirs")
    page.get_by_role("button", name="Abort theirs").click()
    page.get_by_role("dialog").get_by_role("button", name="Abort", exact=True).click()
    done(page, "The transaction of theirs is aborted.")


def test_signing_in_and_out(visits: Visits, secured: Secured) -> None:
    """Without a token there is the form only; a wrong one is refused; a right one shows the page that was asked for."""
    visits.expect(401)
    made = secured.token("User:grace")
    page = Console(visits, secured.url).open("/groups")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    page.get_by_label("Token").fill("tl_wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_label("Token").fill(made["token"])
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Groups")
    expect(page.get_by_text("User:grace")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("Groups")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    assert made["token"] not in page.evaluate(
        "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])"
    )


def test_a_revoked_token_signs_out(visits: Visits, secured: Secured) -> None:
    """The page that is open asks to sign in again, within the seconds in which it looks again."""
    visits.expect(401)
    made = secured.token("User:heidi")
    page = Console(visits, secured.url, made["token"]).open("/groups")
    secured.admin.http.delete(f"/v1/access/tokens/{made['id']}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
