"""A person logs in at the issuer of OpenID Connect, by code and PKCE. What goes wrong on the way is said in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import Visits
from tests.support.console import Console, settled
from tests.support.issuer import AUDIENCE, Issuer, running_issuer
from tests.support.secured import Secured, secured_gateway


@dataclass(frozen=True, slots=True)
class Service:
    """A gateway whose console is a client of the issuer."""

    secured: Secured
    issuer: Issuer


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running_issuer() as issuer:
        login = ("--oidc-issuer", issuer.url, "--oidc-audience", AUDIENCE, "--oidc-client-id", "console")
        with secured_gateway(tmp_path_factory.mktemp("login"), *login, "--oidc-scope", "openid profile") as (
            secured,
            _,
        ):
            secured.allow("User:alice", "Describe", "topic", "*")
            yield Service(secured, issuer)


@pytest.fixture
def begun(service: Service, visits: Visits) -> Page:
    """The page that a visitor without a token wanted, which asks to sign in."""
    visits.expect(401, f"left the origin: {service.issuer.url}/")
    return Console(visits, service.secured.url).open("/topics?search=or")


def log_in(page: Page, service: Service) -> None:
    page.get_by_role("button", name=f"Log in at {service.issuer.url.removeprefix('http://')}").click()


@pytest.mark.parametrize("opaque", [True, False])
def test_a_login_leads_back_to_the_page(
    begun: Page, service: Service, opaque: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its token is the tab's as any other; which of the issuer's is for the gateway, the gateway says. Signing out forgets it."""
    monkeypatch.setattr(service.issuer, "is_opaque", opaque)
    log_in(begun, service)
    expect(begun.locator(".who")).to_have_text("User:alice")
    expect(begun.get_by_role("heading", name="Topics", exact=True)).to_be_visible()
    expect(begun).to_have_url(f"{service.secured.url}/#/topics?search=or")
    asked = service.issuer.logins[-1]
    assert (asked["client_id"], asked["scope"]) == ("console", "openid profile")
    assert begun.evaluate("Object.keys(sessionStorage)") == ["tidelog.token"]
    assert begun.evaluate("Object.keys(localStorage)") == []
    begun.reload()
    settled(begun)
    expect(begun.locator(".who")).to_have_text("User:alice")
    begun.get_by_role("button", name="Sign out").click()
    expect(begun.get_by_role("heading", name="Sign in")).to_be_visible()
    assert begun.evaluate("Object.keys(sessionStorage)") == []


def test_a_token_that_ended_leads_to_the_login_again(begun: Page, service: Service) -> None:
    """What the gateway refuses with 401 is over: the page says so, and the next login leads back to where it was."""
    log_in(begun, service)
    expect(begun.locator(".who")).to_be_visible()
    begun.route(
        "**/v1/groups*", lambda route: route.fulfill(status=401, json={"title": "Credentials are missing or wrong"})
    )
    begun.get_by_role("link", name="Groups").click()
    expect(begun.get_by_role("alert")).to_contain_text("it has expired or was revoked. Sign in again.")
    begun.unroute_all()
    log_in(begun, service)
    expect(begun.get_by_role("heading", name="Groups", exact=True)).to_be_visible()
    expect(begun).to_have_url(f"{service.secured.url}/#/groups")


def test_what_the_issuer_refuses_is_said(
    begun: Page, visits: Visits, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its own words, before the code and in place of tokens."""
    visits.expect(400)
    denied = {"error": "access_denied", "error_description": "alice said no"}
    with monkeypatch.context() as patch:
        patch.setattr(service.issuer, "refuses", denied)
        log_in(begun, service)
        expect(begun.get_by_role("alert")).to_contain_text("did not log you in: alice said no")
        patch.setattr(service.issuer, "refuses", {"code": "of-another-page"})
        log_in(begun, service)
        expect(begun.get_by_role("alert")).to_contain_text("refused the login: the code is not yours")
    assert begun.evaluate("Object.keys(sessionStorage)") == []


def test_a_token_that_the_gateway_does_not_take_is_said(
    begun: Page, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A login at the issuer alone opens nothing: its tokens are for other services here."""
    monkeypatch.setattr(service.issuer, "token", lambda: "no.token.of-this-gateway")
    log_in(begun, service)
    expect(begun.get_by_role("alert")).to_contain_text("none is for its oidc_audience")


def test_an_issuer_that_lets_no_page_ask_it_is_named(
    begun: Page, visits: Visits, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page says what the issuer must allow, and stays where it is."""
    visits.expect("CORS policy", "net::ERR_FAILED")
    monkeypatch.setattr(service.issuer, "answers_pages", False)
    log_in(begun, service)
    expect(begun.get_by_role("alert")).to_contain_text(f"allow requests from {service.secured.url}")


def test_a_link_can_not_log_a_visitor_in(service: Service, visits: Visits) -> None:
    """The console takes no code that this tab did not ask for. A user that is signed in stays signed in."""
    visits.expect(401, 403)
    exchanges = len(service.issuer.logins)
    page = visits.page(service.secured.url)
    page.goto(f"{service.secured.url}/?code=stolen&state=foreign#/topics")
    expect(page.get_by_role("alert")).to_contain_text("was not started in this tab")
    expect(page).to_have_url(f"{service.secured.url}/")
    page = Console(visits, service.secured.url, service.issuer.token()).open("/topics")
    page.goto(f"{service.secured.url}/?code=stolen&state=foreign")
    expect(page.locator(".who")).to_have_text("User:alice")
    assert len(service.issuer.logins) == exchanges


def test_without_a_client_there_is_no_login(visits: Visits, secured: Secured) -> None:
    """A token is asked for, as before."""
    visits.expect(401)
    page = Console(visits, secured.url).open("/")
    expect(page.get_by_label("Token")).to_be_visible()
    expect(page.get_by_role("button", name="Log in")).to_have_count(0)
