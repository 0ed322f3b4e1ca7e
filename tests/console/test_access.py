"""The console's page of access. A caller with the right sees tokens, ACLs, roles, quotas; others see themselves."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import expect

from tests.support.browser import Visits
from tests.support.console import Console, Tab, done, row
from tests.support.gateway_process import GatewayProcess
from tests.support.secured import Secured


@pytest.fixture(scope="module")
def admins_tab(lasting: Visits, secured: Secured) -> Tab:
    """As the administrator sees it."""
    return Tab(lasting, secured.url, secured.admin.token)


@pytest.fixture
def admin(admins_tab: Tab) -> Iterator[Tab]:
    """That one, for this test."""
    with admins_tab.lent() as lent:
        yield lent


def test_without_authentication_there_is_nothing_to_set(visits: Visits, gateway: GatewayProcess) -> None:
    """The page says that everyone may do everything, and how that is changed."""
    page = Console(visits, gateway.url).open("/access")
    expect(page.get_by_text("Everyone may do everything")).to_be_visible()
    expect(page.get_by_text("User:anonymous")).to_be_visible()


def test_others_see_themselves_only(visits: Visits, secured: Secured) -> None:
    """A caller without rights learns its own principal and groups, and which right it lacks."""
    made = secured.token("User:alice", "Group:readers")
    page = Console(visits, secured.url, made["token"]).open("/access")
    expect(page.locator("main").get_by_text("User:alice")).to_be_visible()
    expect(page.get_by_text("Group:readers")).to_be_visible()
    expect(page.get_by_text("You need the right Alter on the cluster.")).to_be_visible()
    expect(page.get_by_role("navigation", name="Access")).to_have_count(0)


def test_a_tokens_text_is_shown_once(admin: Tab, secured: Secured) -> None:
    """Where it is made; it works; after the dialog it is nowhere on the page."""
    page = admin.open("/access")
    page.get_by_role("button", name="Create token").click()
    page.get_by_label("Principal").fill("User:bob")
    page.get_by_label("Groups").fill("Group:a, Group:b")
    page.get_by_label("Description").fill("nightly job")
    page.get_by_label("Expires in days").fill("10")
    page.get_by_role("button", name="Create", exact=True).click()
    field = page.get_by_label("Token of User:bob")
    secret = field.input_value()
    with httpx.Client(headers={"authorization": f"Bearer {secret}"}, trust_env=False) as http:
        me = http.get(f"{secured.url}/v1/whoami").json()
    assert (me["principal"], me["groups"]) == ("User:bob", ["Group:a", "Group:b"])
    page.get_by_role("button", name="Copy").click()
    expect(page.locator(".toasts")).to_contain_text("Copied.")
    assert page.evaluate("navigator.clipboard.readText()") == secret
    page.get_by_role("button", name="I have stored it").click()
    expect(page.locator("dialog")).to_have_count(0)
    assert secret not in page.content()
    expect(page.get_by_role("row", name="nightly job")).to_contain_text("User:bob")
    assert "in 9.9" in row(page, "User:bob")[5] or "in 10 d" in row(page, "User:bob")[5]


def test_a_token_is_rotated_and_revoked(admin: Tab, secured: Secured) -> None:
    """The old text ends when that was said; revoking asks for the id, and ends all of them."""
    made = secured.token("User:carol")
    page = admin.open("/access")
    page.get_by_role("button", name=f"Rotate {made['id']}").click()
    page.get_by_label("Hours for which the old secret stays valid").fill("0")
    page.get_by_role("button", name="Rotate", exact=True).click()
    secret = page.get_by_label("Token of User:carol").input_value()

    def status(token: str) -> int:
        return httpx.get(f"{secured.url}/v1/whoami", headers={"authorization": f"Bearer {token}"}).status_code

    assert (status(made["token"]), status(secret)) == (401, 200)
    page.get_by_role("button", name="I have stored it").click()
    page.get_by_role("button", name=f"Revoke {made['id']}").click()
    page.get_by_label("Name of the token").fill(made["id"])
    page.get_by_role("button", name="Revoke", exact=True).click()
    done(page, f"Token {made['id']} is revoked.")
    assert status(secret) == 401
    expect(page.get_by_text(made["id"], exact=True)).to_have_count(0)


def test_an_acl_is_added_asked_for_and_deleted(admin: Tab, secured: Secured) -> None:
    """What was added allows at once; deleting it asks for the principal's name."""
    _, dave = secured.user(name="User:dave")
    page = admin.open("/access?part=acls")
    page.get_by_role("button", name="Add ACL").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Principal").fill("User:dave")
    dialog.get_by_label("Operation").select_option("Create")
    dialog.get_by_label("Name", exact=True).fill("dave-")
    dialog.get_by_label("Match").select_option("prefix")
    dialog.get_by_role("button", name="Add").click()
    done(page, "ACL added.")
    assert row(page, "User:dave")[1:5] == ["allow", "Create", "topic", "dave-…"]
    assert dave.http.post("/v1/topics", json={"name": "dave-1"}).status_code == 201
    page.get_by_label("Principal").fill("User:dave")
    page.get_by_label("Operation").select_option("Create")
    page.get_by_label("Name", exact=True).fill("dave-2")
    page.get_by_role("button", name="Test").click()
    expect(page.locator("main").get_by_role("status")).to_contain_text(
        "allowed by User:dave allow Create topic prefix dave-"
    )
    page.get_by_role("button", name="Change User:dave").click()
    page.get_by_label("Name of the ACL").fill("User:dave")
    page.get_by_role("button", name="Delete").click()
    done(page, "ACL deleted.")
    expect(page.get_by_role("rowheader", name="User:dave")).to_have_count(0)
    assert dave.http.post("/v1/topics", json={"name": "dave-2"}).status_code == 403
    page.get_by_role("button", name="Test").click()
    expect(page.locator("main").get_by_role("status")).to_contain_text("denied by no ACL")


def test_a_role_is_added_changed_and_deleted(admin: Tab, secured: Secured) -> None:
    """Members are those of the form; deleting asks for the name."""
    page = admin.open("/access?part=roles")
    page.get_by_role("button", name="Add role").click()
    page.get_by_label("Name", exact=True).fill("writers")
    page.get_by_label("Members").fill("User:erin\nGroup:staff")
    page.get_by_role("button", name="Save").click()
    done(page, "Role saved.")
    assert row(page, "writers")[1:3] == ["2", "User:erin, Group:staff"]
    page.get_by_role("button", name="Change writers").click()
    page.get_by_label("Members").fill("User:erin")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("row", name="writers")).not_to_contain_text("Group:staff")
    assert secured.admin.http.get("/v1/access/roles").json()["roles"] == [{"role": "writers", "members": ["User:erin"]}]
    page.get_by_role("button", name="Change writers").click()
    page.get_by_role("button", name="Delete role").click()
    page.get_by_label("Name of the role").fill("writers")
    page.get_by_role("button", name="Delete", exact=True).click()
    done(page, "Role deleted.")
    assert secured.admin.http.get("/v1/access/roles").json()["roles"] == []


def test_a_quota_is_set(visits: Visits, secured: Secured) -> None:
    """Empty fields limit nothing; what is wrong is refused with the field's name."""
    visits.expect(400)
    page = Console(visits, secured.url, secured.admin.token).open("/access?part=quotas")
    page.get_by_role("button", name="Add quota").click()
    page.get_by_label("Principal").fill("nobody")
    page.get_by_label("Requests/s").fill("100")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_label("Principal")).to_have_value("nobody")
    page.get_by_label("Principal").fill("User:frank")
    page.get_by_role("button", name="Save").click()
    done(page, "Quota saved.")
    assert secured.admin.http.get("/v1/access/quotas/User:frank").json()["requests_per_s"] == 100
    assert row(page, "User:frank")[1:4] == ["–", "–", "100"]
    page.get_by_role("button", name="Change User:frank").click()
    page.get_by_label("Requests/s").fill("")
    page.get_by_label("Connections").fill("5")
    page.get_by_role("button", name="Save").click()
    done(page, "Quota saved.")
    found = secured.admin.http.get("/v1/access/quotas/User:frank").json()
    assert (found["requests_per_s"], found["connections"]) == (None, 5)
