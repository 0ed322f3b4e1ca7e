"""The console's tests can fail: each trouble of a page is heard, and each check of accessibility finds what it looks for.

The pages of this file come from the tests themselves.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from tests.support.accessibility import faults, focus_walk, overflow, sideways, unnamed
from tests.support.browser import Visits
from tests.support.visitors import Visitors

ORIGIN = "http://127.0.0.1:9"
POLICY = "default-src 'self'"
HEAD = '<!doctype html><html lang="en"><title>t</title>'


@pytest.fixture
def loose(browser: Visitors) -> Iterator[Visits]:
    """Pages whose troubles the test itself looks at."""
    opened = Visits(browser)
    yield opened
    opened.close()


def shown(visits: Visits, body: str, *, policy: str = POLICY, script: str = "", width: int = 800) -> Page:
    """A page with this body, and its script as a file."""
    page = visits.page(ORIGIN, width=width)
    page.route(f"{ORIGIN}/", lambda route: route.fulfill(
        body=f"{HEAD}<body>{body}<script src=/script.js></script>",
        headers={"content-type": "text/html; charset=utf-8", "content-security-policy": policy},
    ))  # fmt: skip
    page.route(f"{ORIGIN}/script.js", lambda route: route.fulfill(body=script, content_type="text/javascript"))
    page.route(f"{ORIGIN}/favicon.ico", lambda route: route.fulfill(body="", content_type="image/png"))
    page.route(f"{ORIGIN}/refused", lambda route: route.fulfill(status=503, body="{}"))
    page.goto(f"{ORIGIN}/")
    return page


@pytest.mark.parametrize(
    ("body", "script", "trouble"),
    [
        ("", "console.error('no')", "error: no"),
        ("", "console.warn('hm')", "warning: hm"),
        ("", "throw new Error('thrown')", "Error: thrown"),
        ("", "Promise.reject(new Error('rejected'))", "Error: rejected"),
        ("<script>1</script>", "", "Content Security Policy"),
        ('<p onclick="1">x</p>', "document.querySelector('p').click()", "Content Security Policy"),
        ("", "document.body.setAttribute('style', 'color: red'); eval('1')", "Content Security Policy"),
        ('<img src="http://127.0.0.1:8/x.png" alt="">', "", "left the origin"),
        ("", "new WebSocket('ws://127.0.0.1:8')", "a web socket"),
        ("", "fetch('/refused')", "status of 503"),
        ("", "alert(1)", "a script asks: 1"),
    ],
)
def test_what_goes_wrong_is_heard(loose: Visits, body: str, script: str, trouble: str) -> None:
    """An error, a warning, an exception, a breach of the policy, and a request to elsewhere are troubles of the test."""
    policy = "" if "http" in body or "ws:" in script else POLICY
    page = shown(loose, body, policy=policy, script=script)
    for _ in range(200):
        if any(trouble in said for said in loose.troubles()):
            return
        page.wait_for_timeout(50)
    pytest.fail(f"{loose.troubles()}")


def test_a_quiet_page_has_no_trouble(loose: Visits) -> None:
    """What is right is not reported, nor is an answer that the test expects."""
    page = shown(loose, "<main><h1>t</h1></main>", script="fetch('/refused')")
    for _ in range(200):
        page.wait_for_timeout(50)
        if loose.troubles():
            break
    assert len(loose.troubles()) == 1
    loose.expect(503)
    assert loose.troubles() == []


FAULTS = [
    ("<h1>t</h1>", "0 of main"),
    ("<main>t</main>", "0 of h1"),
    ("<main><h1>t</h1><h3>u</h3></main>", "h3 behind h1"),
    ("<main><h1>t</h1><i id=a></i><i id=a></i></main>", "id twice: a"),
    ("<main><h1>t</h1><button></button></main>", "button without a name"),
    ("<main><h1>t</h1><input></main>", "textbox without a name"),
    ("<main><h1>t</h1><table><tr><td>1</td></tr></table></main>", "a table without header cells"),
    ("<main><h1>t</h1><label for=b>x</label></main>", "for of nothing: b"),
    ("<main><h1>t</h1><button tabindex=2>x</button></main>", "tabindex 2"),
    ("<main><h1>t</h1><p style='color: #999'>pale</p></main>", '"pale"'),
    ("<main><h1>t</h1><p style='opacity: 0.4'>faded</p></main>", '"faded"'),
    ("<main><h1>t</h1><div style='background: oklch(30% 0 0)'><p>dark</p></div></main>", '"dark"'),
    ("<main><h1>t</h1><button style='width: 9px; padding: 0'>x</button><button>y</button></main>", "9 x "),
]


def test_each_fault_is_found(loose: Visits) -> None:
    """Structure, names, contrast and sizes are judged."""
    page = loose.page(ORIGIN)
    for body, fault in FAULTS:
        page.set_content(f"{HEAD}<body>{body}")
        found = faults(page)
        assert any(fault in each for each in found), (fault, found)


def test_a_sound_page_has_no_fault(loose: Visits) -> None:
    """What is right is not called a fault."""
    page = loose.page(ORIGIN)
    page.set_content(f"""{HEAD}<body><main><h1>t</h1><label>Name <input></label><button>Go</button>
        <p style="color: #555; background: oklch(99% 0 0)">grey</p></main>""")
    assert faults(page) == unnamed(page) == overflow(page) == []


def test_a_wide_page_is_found(loose: Visits) -> None:
    """What scrolls sideways is named; what scrolls within a box of its own is not."""
    wide = "<div style='width: 500px' id={}>x</div>"
    assert "wide" in overflow(shown(loose, wide.format("wide"), policy="", width=320))[1]
    inner = shown(loose, f"<div style='overflow: auto'>{wide.format('inner')}</div>", policy="", width=320)
    assert "overflow: auto" in sideways(inner)[0]
    assert (
        overflow(shown(loose, f"<div style='overflow: auto'>{wide.format('inner')}</div>", policy="", width=320)) == []
    )


def test_focus_is_followed(loose: Visits) -> None:
    """A walk by keyboard gives the names in their order, and fails where focus can't be seen."""
    page = shown(loose, "<button>one</button><button>two</button>", policy="")
    assert focus_walk(page, 5) == ["one", "two"]
    hidden = shown(loose, "<button style='outline: none'>one</button>", policy="")
    with pytest.raises(AssertionError, match="can't be seen"):
        focus_walk(hidden, 1)


def test_a_visitor_leaves_nothing_to_the_next(browser: Visitors) -> None:
    """The profile is the same one: pages, storage and cookies are gone."""
    found = []
    for script in ("localStorage.a = sessionStorage.a = 1; document.cookie = 'a=1; max-age=900'", ""):
        visits = Visits(browser)
        page = shown(visits, "", script=script)
        known = page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]")
        found.append((page.context, len(page.context.pages), known))
        visits.close()
    assert found == [(page.context, 2, [1, 1, "a=1"]), (page.context, 2, [0, 0, ""])]
