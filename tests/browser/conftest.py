"""A real browser for the tests of the console: Debian's Chromium, driven by Playwright.

    page = open_page("/queues", theme="dark", width=400)   signed in at the console of `stage`
    check_accessible(page)                                  axe-core finds nothing serious
    screenshot(page, "queues")                              both themes, both widths, kept

Each page fails its test if the browser's own console has an error or a warning, unless the test
says beforehand that it provokes one: `page.provoked.append("the words")`.

`make browser` installs the browser and axe-core. Without them the tests are skipped; where
DRAY_BROWSER is "required", as in .ci/run, they fail.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.browser.programs import screenshots_folder, staged

CHROMIUM = shutil.which("chromium")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "dray", "browser")
AXE = CACHE / "node_modules" / "axe-core" / "axe.min.js"
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-color-profile=srgb",
]
"""Nothing leaves the machine. Root has no sandbox of Chromium."""
WIDTHS = (400, 1600)
THEMES = ("light", "dark")
HEIGHT = 900
SERIOUS = {"serious", "critical"}


@pytest.fixture(scope="module")
def browser():
    """One browser for the tests of a file: while it runs, nothing else can have an event loop."""
    missing = [
        name for name, found in (("chromium", CHROMIUM), ("axe-core", AXE.exists())) if not found
    ]
    if missing:
        said = f"no {' and no '.join(missing)}: run `make browser`"
        if os.environ.get("DRAY_BROWSER") == "required":
            pytest.fail(said)
        pytest.skip(said)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    """A queue manager and its console, for all tests of a module."""
    with staged(tmp_path_factory.mktemp("stage")) as stage:
        yield stage


@pytest.fixture
def open_page(browser, stage):
    """Open a page of the console as somebody who is signed in."""
    contexts, pages = [], []

    def open_page(
        path="/",
        *,
        theme="light",
        width=1600,
        at=None,
        script=True,
        signed_in=True,
        certificates=(),
    ):
        place = at or stage
        context = browser.new_context(
            color_scheme=theme,
            viewport={"width": width, "height": HEIGHT},
            java_script_enabled=script,
            reduced_motion="reduce",
            ignore_https_errors=True,
            client_certificates=list(certificates),
        )
        context.set_default_timeout(20_000)
        contexts.append(context)
        if signed_in:
            name, value = place.cookie
            context.add_cookies([{"name": name, "value": value, "url": place.address}])
        page = context.new_page()
        page.said, page.provoked = [], []
        pages.append(page)
        page.on("console", lambda message: page.said.append((message.type, message.text)))
        page.on("pageerror", lambda error: page.said.append(("error", str(error))))
        page.goto(place.address + path)
        return page

    yield open_page
    said = [
        (kind, text)
        for page in pages
        for kind, text in page.said
        if kind in {"error", "warning"} and not any(each in text for each in page.provoked)
    ]
    for context in contexts:
        context.close()
    assert not said, f"the browser's console says: {said}"


@pytest.fixture(scope="session")
def check_accessible():
    """Let axe-core look for what keeps people from using a page, in both themes."""

    def check(page):
        # Not as an element of the page: its policy allows the console's own scripts only.
        page.evaluate(AXE.read_text("utf-8"))
        page.emulate_media(color_scheme="light")
        found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
        page.emulate_media(color_scheme="dark")
        # Of all rules only this one depends on colours.
        dark = page.evaluate(
            "() => axe.run(document, {runOnly: ['color-contrast'], resultTypes: ['violations']})"
        )
        serious = [
            f"{each['id']} ({each['impact']}): {each['help']}: "
            + "; ".join(node["html"][:200] for node in each["nodes"][:3])
            for each in [*found["violations"], *dark["violations"]]
            if each["impact"] in SERIOUS
        ]
        assert not serious, "\n".join(serious)

    return check


@pytest.fixture(scope="session")
def screenshot():
    """Keep a picture of a page in both themes and both widths."""
    folder = screenshots_folder()
    folder.mkdir(parents=True, exist_ok=True)

    def shoot(page, name):
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": HEIGHT})
            wide = page.evaluate("() => document.documentElement.scrollWidth")
            assert wide <= width, f"{name} is {wide} px wide on a screen of {width} px"
            for theme in THEMES:
                page.emulate_media(color_scheme=theme)
                # Playwright would write it in a thread that stays.
                picture = page.screenshot(full_page=True)
                (folder / f"{name}-{width}-{theme}.png").write_bytes(picture)

    return shoot


@pytest.fixture
def looks_good(check_accessible, screenshot):
    def look(page, name):
        check_accessible(page)
        screenshot(page, f"page-{name}")

    return look
