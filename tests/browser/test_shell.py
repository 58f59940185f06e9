"""What every page of the console has: a frame, a way past it, two themes, errors in sentences."""

from __future__ import annotations


def test_a_page_can_be_used_by_keyboard_and_screen_reader(open_page, check_accessible):
    page = open_page("/sample")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    for landmark in ("banner", "navigation", "main"):
        assert page.get_by_role(landmark).count() == 1
    check_accessible(page)


def test_a_missing_page_is_said_in_a_sentence(open_page, check_accessible, screenshot):
    page = open_page("/no/such/page")
    page.provoked.append("404")
    page.said[:] = [each for each in page.said if "404" not in each[1]]
    assert page.get_by_role("alert").inner_text() == (
        "Not Found. There is no such page; choose one above."
    )
    check_accessible(page)
    screenshot(page, "missing-page")


def test_a_stranger_sees_how_to_come_in_and_nothing_else(open_page, check_accessible, screenshot):
    page = open_page("/sample", signed_in=False)
    page.provoked.append("401")
    page.get_by_role("heading", name="This console is closed").wait_for()
    assert page.get_by_role("navigation").count() == 0
    check_accessible(page)
    screenshot(page, "closed")


def test_the_start_link_opens_the_console_in_a_browser(open_page, stage):
    page = open_page("/sample", signed_in=False)
    page.provoked.append("401")
    page.goto(stage.console.link_file.read_text().strip())
    assert "/start/" not in page.url
    page.get_by_role("navigation").wait_for()
    assert page.evaluate("document.cookie") == ""
