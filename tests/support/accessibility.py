"""What a page must be for a user with poor sight, no mouse, or a small screen (WCAG 2.2, level AA; in part).

Names and roles are those of Chromium's accessibility tree, which screen readers get. Contrast is of computed styles.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal

from playwright.sync_api import Page

NAMED_ROLES: Final = {
    *("alertdialog", "button", "checkbox", "combobox", "dialog", "image", "img", "link", "listbox", "menuitem"),
    *(
        "meter",
        "navigation",
        "option",
        "progressbar",
        "radio",
        "radiogroup",
        "region",
        "searchbox",
        "slider",
        "spinbutton",
    ),
    *("switch", "tab", "tabpanel", "textbox"),
}
"""Those that say nothing without a name."""

_SCRIPT: Final = Path(__file__).with_suffix(".js").read_text()


def _ask(page: Page, what: str) -> Any:
    return page.evaluate(f"({_SCRIPT}).{what}()")


def unnamed(page: Page) -> list[str]:
    """Controls, tables, dialogs and pictures that a screen reader has no name for."""
    session = page.context.new_cdp_session(page)
    nodes: list[dict[str, Any]] = session.send("Accessibility.getFullAXTree")["nodes"]
    session.detach()
    shown = [node for node in nodes if not node.get("ignored")]
    return [
        f"{node['role']['value']} without a name"
        for node in shown
        if node["role"]["value"] in NAMED_ROLES and not str(node.get("name", {}).get("value", "")).strip()
    ]


def faults(page: Page) -> list[str]:
    """All that is wrong with the page as it stands."""
    found: list[str] = unnamed(page)
    for check in ("structure", "contrast", "small"):
        found += _ask(page, check)
    return found


def overflow(page: Page) -> list[str]:
    """What makes the page scroll sideways."""
    found: list[str] = _ask(page, "wide")
    return found


def sideways(page: Page) -> list[str]:
    """What scrolls sideways within the page, which nobody finds on a phone."""
    found: list[str] = _ask(page, "sideways")
    return found


def faults_on_screens(page: Page, *widths: int) -> list[str]:
    """What is wrong on screens of these widths, light and dark, and where."""
    found: list[str] = []
    schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    for width in widths:
        page.set_viewport_size({"width": width, "height": 800})
        found += [f"{width}: {fault}" for fault in overflow(page)]
        for scheme in schemes:
            page.emulate_media(color_scheme=scheme)
            found += [f"{width}, {scheme}: {fault}" for fault in faults(page)]
    return found


def focus_walk(page: Page, steps: int, key: str = "Tab") -> list[str]:
    """The names of what a key comes to, in its order; fails where focus can't be seen. Ends where the page does."""
    names: list[str] = []
    for _ in range(steps):
        page.keyboard.press(key)
        focus = _ask(page, "focus")
        if focus is None:
            break
        assert focus["shown"], f"focus is out of sight: {focus['name']} behind {names[-3:]}"
        assert focus["ringed"], f"focus can't be seen: {focus['name']} behind {names[-3:]}"
        assert not focus["covered"], f"focus is covered: {focus['name']} behind {names[-3:]}"
        names.append(focus["name"])
    return names
