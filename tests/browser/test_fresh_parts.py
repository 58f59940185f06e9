"""Parts of pages that the script keeps fresh, while somebody works with them."""

from __future__ import annotations

import os
import signal

import pytest

import dray
from dray.testing.processes import ManagerProcess
from tests.browser.programs import Stage
from tests.integration.commands import until


@pytest.fixture
def manager(stage):
    with stage.connect() as manager:
        yield manager


def test_the_queue_for_dead_letters_stays_written_while_others_come(open_page, manager):
    doomed = manager.create_queue("doomed", exist_ok=True)
    rescue = manager.create_queue("rescue", exist_ok=True)
    manager.drop_dead_letters([each.id for each in manager.dead_letters()])
    doomed.send(b"one", label="first", use_dead_letter_queue=True)
    doomed.purge()
    page = open_page("/deadletters")
    # Nothing is filled again while a field has the focus, and the first look may be an older one.
    page.get_by_label("Choose first").wait_for()
    page.get_by_label("To another queue").fill("rescue")
    page.get_by_label("Choose first").check()
    doomed.send(b"two", label="second", use_dead_letter_queue=True)
    doomed.purge()
    page.get_by_label("Choose second").wait_for()
    assert page.get_by_label("To another queue").input_value() == "rescue"
    page.get_by_role("button", name="Send all again").click()
    page.get_by_text("2 dead letters sent again.").wait_for()
    assert rescue.info().message_count == 2
    assert doomed.info().message_count == 0


def test_a_button_that_is_pressed_while_its_part_comes_again_acts(open_page, manager):
    orders = manager.create_queue("orders", exist_ok=True)
    manager.create_queue("other", exist_ok=True)
    orders.send(b"x")
    page = open_page("/queues/one?name=orders")
    page.get_by_label("Move the chosen ones to").fill("other")
    page.get_by_label("Choose the message").check()
    box = page.get_by_role("button", name="Move").bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    orders.send(b"y")
    asked = []

    def hold(route):
        asked.append(route)

    page.route("**/queues/one*", hold)
    with page.expect_request("**/queues/one*"):
        pass
    page.mouse.down()
    with page.expect_response("**/queues/one*"):
        asked[0].continue_()
    page.unroute("**/queues/one*")
    # The script fills the part in the task in which it has read the answer.
    page.wait_for_timeout(200)
    page.mouse.up()
    page.get_by_text("1 message moved from orders to other.").wait_for()


def test_a_download_that_fails_says_why(open_page, manager):
    holed = manager.create_queue("holed", exist_ok=True)
    large = dray.LargeMessageQueue(holed, fragment_size=10)
    large.send(b"x" * 30, label="holed.bin", use_dead_letter_queue=True)
    holed.purge()
    (letter,) = (each for each in manager.dead_letters() if each.label == "holed.bin")
    raw = manager.queue(letter.queue, raw=True)
    raw.receive_by_lookup_id(letter.lookup_id + 1)
    page = open_page("/deadletters")
    page.provoked.append("409")
    until(lambda: page.get_by_label("Choose holed.bin").count())
    row = page.get_by_role("row").filter(has_text="holed.bin")
    row.get_by_role("link", name="Download").click()
    page.get_by_role("alert").filter(has_text="lacks fragment 1").wait_for()


def test_an_open_page_says_that_a_queue_manager_that_hangs_does_not_answer(open_page, tmp_path):
    with ManagerProcess("hung", tmp_path) as hung:
        place = Stage(hung.url, tmp_path)
        try:
            page = open_page("/queues", at=place)
            old = page.get_by_role("status").filter(has_text="What you see may be old")
            os.kill(hung.pid, signal.SIGSTOP)
            try:
                old.filter(has_text="No answer has come for 10 s.").wait_for()
            finally:
                os.kill(hung.pid, signal.SIGCONT)
            old.wait_for(state="hidden")
        finally:
            assert place.console.stop() == 0


def test_focus_stays_on_a_link_while_its_part_comes_again(open_page, manager):
    manager.create_token("kept")
    page = open_page("/access")
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="kept"))
    row.get_by_role("link", name="Revoke…").focus()
    manager.create_token("added")
    page.get_by_role("rowheader", name="added").wait_for()
    assert page.evaluate("document.activeElement.textContent") == "Revoke…"
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Revoke the token kept?").wait_for()
