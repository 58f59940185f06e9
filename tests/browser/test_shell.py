"""What every page of the console has: a frame, a way past it, two themes, errors in sentences."""

from __future__ import annotations

from tests.browser.programs import Stage, managed
from tests.integration.commands import dray


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


def test_a_visitor_from_the_network_signs_in_with_a_token(
    open_page, tmp_path, check_accessible, screenshot
):
    (tmp_path / "dray.toml").write_text(
        '[[access]]\nwho = ["token:alice", "cert:ada"]\nqueues = ["*"]\n'
        'may = ["manage", "send", "receive"]\n'
    )
    made = dray("token", "create", "alice", "--data", tmp_path / "data").assert_good()
    dray("cert", "init", "--dir", tmp_path).assert_good()
    dray("cert", "issue", "web", "--dir", tmp_path, "--host", "127.0.0.1").assert_good()
    dray("cert", "issue", "ada", "--dir", tmp_path).assert_good()
    cert = ("--tls-cert", str(tmp_path / "web.pem"), "--tls-client-ca", str(tmp_path / "ca.pem"))
    with managed(tmp_path, "--config", str(tmp_path / "dray.toml")) as url:
        stage = Stage(url, tmp_path, "--listen", "0.0.0.0:0", *cert)
        stage.address = f"https://127.0.0.1:{stage.address.rpartition(':')[2]}"
        try:
            page = open_page("/sample", at=stage, signed_in=False)
            page.provoked += ["401", "403"]
            check_accessible(page)
            screenshot(page, "sign-in")
            page.fill("#token", "wrong")
            page.keyboard.press("Enter")
            page.get_by_role("alert").wait_for()
            page.fill("#token", made.out.strip())
            page.get_by_role("button", name="Sign in").click()
            page.get_by_role("navigation").wait_for()
            page.get_by_role("button", name="Leave").click()
            page.get_by_role("heading", name="This console is closed").wait_for()
            pem = (tmp_path / "ada.pem").read_bytes()
            ada = {"origin": stage.address, "cert": pem, "key": pem}
            page = open_page(
                "/access",
                at=stage,
                signed_in=False,
                certificates=[ada],
            )
            page.get_by_text("cert:ada").first.wait_for()
            assert page.get_by_role("button", name="Leave").count() == 0
            page.get_by_role("link", name="Queues").click()
            page.get_by_role("link", name="New queue").click()
            page.fill("#name", "made-by-ada")
            page.get_by_role("button", name="Create").click()
            page.get_by_text("made-by-ada was created.").wait_for()
        finally:
            assert stage.console.stop() == 0
