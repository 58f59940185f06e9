"""The sample's test application: each row of its table, in a real browser."""

from __future__ import annotations

import os
import re

import pytest

import dray
from tests.browser.pictures import picture
from tests.browser.programs import staged
from tests.integration.commands import until

QUEUE = "largemessageq"
LIMIT_MB = 4_000_000


@pytest.fixture
def sample(open_page, stage, tmp_path):
    """The page of the sample over two fresh queues."""

    def opened(**options):
        page = open_page("/sample", **options)
        page.folder = tmp_path
        return page

    with stage.connect() as manager:
        for name in (QUEUE, "statusq"):
            if name in {each.name for each in manager.queues()}:
                manager.delete_queue(name)
        yield opened, manager


def choose(page, name, body):
    path = page.folder / name
    path.write_bytes(body)
    page.set_input_files("#file", path)
    page.locator("#drop.valid", has_text=name).wait_for()


def press(page, name):
    page.get_by_role("button", name=name, exact=True).click()


def send_large(page, name, body, fragment_size=None):
    choose(page, name, body)
    if fragment_size is not None:
        page.fill("#fragment-size", str(fragment_size))
    press(page, "LargeMessageSample Send")
    page.locator("#sent .notice.good").wait_for()


def depth(page, text):
    page.locator("#queue .depth", has_text=text).wait_for()
    return page.locator("#queue .depth").get_attribute("class")


def colour(page, selector, property_):
    return page.eval_on_selector(selector, f"each => getComputedStyle(each).{property_}")


def drop(page, code):
    """Drop what `code` puts into a DataTransfer called `data`."""
    page.evaluate(
        "(code) => { const data = new DataTransfer(); new Function('data', code)(data);"
        " const drop = document.getElementById('drop');"
        " for (const kind of ['dragenter', 'dragover', 'drop'])"
        " drop.dispatchEvent(new DragEvent(kind, {dataTransfer: data, bubbles: true,"
        " cancelable: true})); }",
        code,
    )


def test_file_to_send_is_chosen_or_dropped_and_its_border_says_whether_it_can_be_sent(sample):
    page = sample[0]()
    plain = colour(page, "#drop", "borderTopColor")
    drop(page, "data.items.add(new File(['hello'], 'dropped.txt'))")
    page.locator("#drop.valid").wait_for()
    assert "dropped.txt" in page.inner_text("#file-said")
    green = colour(page, "#drop", "borderTopColor")
    drop(page, "data.items.add(new File(['a'], 'a')); data.items.add(new File(['b'], 'b'))")
    page.locator("#drop.invalid").wait_for()
    assert page.inner_text("#file-wrong") == "These are several files; drop one."
    red = colour(page, "#drop", "borderTopColor")
    assert len({plain, green, red}) == 3
    drop(page, "data.items.add('some words', 'text/plain')")
    assert page.inner_text("#file-wrong") == "This is no file; drop a file."
    choose(page, "any.bin", b"\0\1\2")
    assert page.inner_text("#file-wrong") == ""
    press(page, "LargeMessageSample Send")
    page.locator("#sent .notice.good", has_text="any.bin").wait_for()


def test_fragment_size_is_10000_by_default_and_0_is_the_largest(sample):
    open_page, manager = sample
    page = open_page()
    assert page.input_value("#fragment-size") == "10000"
    for written, parts in (("10000", 7), ("1000", 43), ("0", 3), ("4000000", 3)):
        send_large(page, f"{written}.bin", bytes(41_000), written)
        assert "good" in depth(page, f"{parts} messages")
        manager.queue(QUEUE).purge()


def test_another_fragment_size_is_refused_beside_the_field(sample):
    open_page, manager = sample
    page = open_page()
    choose(page, "f.bin", b"hello")
    for written in ("4000001", "-1", "many", "1.5", ""):
        page.fill("#fragment-size", written)
        assert page.inner_text("#fragment-wrong") == ""
        press(page, "LargeMessageSample Send")
        page.get_by_text(
            "Write a whole number from 1 to 4,000,000, or 0 for the largest."
        ).wait_for()
        assert page.get_attribute("#fragment-size", "aria-invalid") == "true"
    assert manager.queue(QUEUE).info().message_count == 0


def test_file_size_is_green_to_4000000_bytes_and_blue_above_and_said_in_words(sample):
    page = sample[0]()
    choose(page, "small.bin", bytes(LIMIT_MB))
    assert page.inner_text(".file-size") == "4,000,000 bytes: small, up to 4,000,000"
    small = colour(page, ".file-size", "backgroundColor")
    choose(page, "large.bin", bytes(LIMIT_MB + 1))
    assert page.inner_text(".file-size") == "4,000,001 bytes: large, above 4,000,000"
    assert colour(page, ".file-size", "backgroundColor") != small


def test_normal_send_is_a_plain_send(sample):
    open_page, manager = sample
    page = open_page()
    choose(page, "plain.txt", b"hello")
    press(page, "Normal Send")
    page.locator("#sent .notice.good").wait_for()
    assert "good" in depth(page, "1 message")
    assert page.get_attribute("#send-bar", "class") == "good"
    message = manager.queue(QUEUE).peek(timeout=0)
    assert (bytes(message.body), message.label) == (b"hello", "plain.txt")


def test_normal_send_above_the_limit_is_red_and_leaves_the_queue_column_empty(sample):
    page = sample[0]()
    page.provoked.append("413")
    choose(page, "large.bin", bytes(5_000_000))
    press(page, "Normal Send")
    page.get_by_role("alert").filter(has_text="over the limit of 4194304 bytes").wait_for()
    assert "A message of 5000000 bytes" in page.inner_text("#sent")
    assert page.get_attribute("#send-bar", "class") == "bad"
    assert "bad" in depth(page, "Empty")


def test_large_message_sample_send_uses_the_fragment_size_and_asks_for_dead_letters(sample):
    open_page, manager = sample
    page = open_page()
    body = bytes(range(256)) * 100
    send_large(page, "f.bin", body, 5_000)
    assert "good" in depth(page, "8 messages")
    large = dray.LargeMessageQueue(manager.queue(QUEUE))
    with large.receive(timeout=10) as message:
        assert (message.label, message.body(), message.fragment_count) == ("f.bin", body, 6)
    send_large(page, "f.bin", body, 5_000)
    manager.queue(QUEUE, raw=True).receive(timeout=10)
    with pytest.raises(dray.LargeMessageHole) as hole, large.receive(timeout=10):
        pass
    assert hole.value.sequence_id in {each.id for each in manager.dead_letters()}


def test_a_file_that_changed_after_it_was_chosen_is_sent_only_when_it_is_chosen_again(sample):
    open_page, manager = sample
    page = open_page()
    choose(page, "f.bin", b"first")
    path = page.folder / "f.bin"
    path.write_bytes(b"second")
    os.utime(path, (1_000_000_000, 1_000_000_000))
    press(page, "Normal Send")
    page.get_by_role("alert").filter(has_text="it has changed since you chose it").wait_for()
    assert "bad" in depth(page, "Empty")
    choose(page, "f.bin", b"second")
    assert page.inner_text("#sent") == ""
    press(page, "Normal Send")
    page.locator("#sent .notice.good").wait_for()
    assert bytes(manager.queue(QUEUE).receive(timeout=10).body) == b"second"


def test_sender_queue_and_receiver_show_pictures_on_both_sides(
    sample, check_accessible, screenshot
):
    page = sample[0]()
    body = picture(60, 40)
    send_large(page, "picture.png", body, 100)
    page.get_by_text("The picture to send, 60 x 40").wait_for()
    count = -(-len(body) // 100) + 2
    assert "good" in depth(page, f"{count} messages")
    press(page, "Complete Receive")
    page.get_by_text("The picture that was received, 60 x 40").wait_for()
    assert "bad" in depth(page, "Empty")
    check_accessible(page)
    screenshot(page, "sample-picture")


def test_anything_else_is_shown_with_name_size_and_digest(sample):
    page = sample[0]()
    body = b"no picture" * 1_000
    send_large(page, "text.txt", body)
    sent = page.inner_text("#sent")
    press(page, "Complete Receive")
    page.locator("#received .notice.good").wait_for()
    received = page.inner_text("#received")
    digest = re.search(r"blake3:[0-9a-f]{64}", received)
    for said in (sent, received):
        assert "text.txt" in said
        assert "10,000 bytes" in said
        assert digest[0] in said
    assert page.locator("#receiver-picture img").count() == 0


def test_the_receivers_picture_is_drawn_from_what_was_received(sample):
    open_page, manager = sample
    page = open_page()
    choose(page, "sent.png", picture(10, 10))
    manager.create_queue(QUEUE, exist_ok=True)
    large = dray.LargeMessageQueue(manager.queue(QUEUE), fragment_size=100)
    large.send(picture(33, 21), label="other.png")
    press(page, "Complete Receive")
    page.get_by_text("The picture that was received, 33 x 21").wait_for()


def test_two_bars_move_by_the_real_progress_and_turn_green(sample):
    page = sample[0]()
    page.evaluate(
        "() => { window.moves = {send: [], receive: []};"
        " for (const each of ['send', 'receive']) new MutationObserver(() =>"
        " moves[each].push(document.getElementById(each + '-bar').value))"
        ".observe(document.getElementById(each + '-bar'), {attributes: true}); }"
    )
    send_large(page, "f.bin", bytes(100_000_000), 0)
    press(page, "Complete Receive")
    page.locator("#received .notice.good").wait_for()
    page.locator("#receive-bar.good").wait_for()
    assert page.get_attribute("#send-bar", "class") == "good"
    moves = page.evaluate("() => moves")
    for each in ("send", "receive"):
        between = {move for move in moves[each] if 0 < move < 0.99}
        assert between, moves[each]


def test_lossy_receive_takes_the_first_message_and_finds_the_hole(
    sample, check_accessible, screenshot
):
    page = sample[0]()
    page.provoked.append("409")
    send_large(page, "f.bin", bytes(41_000))
    press(page, "Lossy Receive")
    box = page.locator("#received .notice.bad")
    box.wait_for()
    assert page.get_attribute("#receive-bar", "class") == "bad"
    assert "the header" in box.inner_text()
    assert "bad" in depth(page, "Empty")
    check_accessible(page)
    screenshot(page, "sample-hole")


def test_lossy_receive_drops_the_part_that_was_chosen(sample):
    page = sample[0]()
    page.provoked.append("409")
    page.provoked.append("400")
    send_large(page, "f.bin", bytes(41_000))
    page.check("input[name=drop][value=fragment]")
    page.fill("input[name=number]", "9")
    press(page, "Lossy Receive")
    page.get_by_text("The first message has fragments 1 to 5; choose one of them.").wait_for()
    for part, number, missing in (("fragment", "3", "fragment 3"), ("trailer", "", "the trailer")):
        page.check(f"input[name=drop][value={part}]")
        page.fill("input[name=number]", number)
        press(page, "Lossy Receive")
        box = page.locator("#received .notice.bad", has_text=missing)
        box.wait_for()
        assert "Large Sequence Id:" in box.inner_text()
        send_large(page, f"{part}.bin", bytes(41_000))


def test_complete_receive_offers_the_file_as_received_label(sample, tmp_path):
    page = sample[0]()
    body = bytes(range(256)) * 200
    send_large(page, "f.bin", body)
    press(page, "Complete Receive")
    with page.expect_download() as saved:
        page.get_by_role("link", name="Save “Received - f.bin”").click()
    assert saved.value.suggested_filename == "Received - f.bin"
    saved.value.save_as(tmp_path / "f.bin")
    assert (tmp_path / "f.bin").read_bytes() == body


@pytest.mark.slow
def test_complete_receive_of_an_empty_queue_says_the_sentence_of_the_timeout(sample):
    page = sample[0]()
    page.provoked.append("504")
    press(page, "Complete Receive")
    page.locator("#received .notice.bad", has_text="10").wait_for()
    assert page.get_attribute("#receive-bar", "class") == "bad"


def test_error_box_names_the_sequence_the_missing_parts_and_the_dead_letters(sample):
    open_page, manager = sample
    page = open_page()
    page.provoked.append("409")
    send_large(page, "f.bin", bytes(41_000))
    (queued,) = manager.queue(QUEUE).contents()
    page.check("input[name=drop][value=fragment]")
    page.fill("input[name=number]", "2")
    press(page, "Lossy Receive")
    box = page.locator("#received .notice.bad")
    box.wait_for()
    said = box.inner_text()
    assert "Large Sequence Id:" in said
    assert queued.id in said
    assert "fragment 2" in said
    assert "6 parts" in said
    assert box.get_by_role("link").get_attribute("href") == "/deadletters"


def test_sample_is_used_by_keyboard_alone(sample):
    page = sample[0]()
    choose(page, "f.bin", bytes(20_000))
    page.focus("#fragment-size")
    page.keyboard.press("Control+A")
    page.keyboard.type("5000")
    reach(page, "send-large")
    page.keyboard.press("Enter")
    assert "good" in depth(page, "6 messages")
    page.locator("#sent .notice.good").wait_for()
    reach(page, "Complete Receive")
    page.keyboard.press("Space")
    page.locator("#received .notice.good").wait_for()
    reach(page, "Save “Received - f.bin”")
    with page.expect_download() as saved:
        page.keyboard.press("Enter")
    assert saved.value.suggested_filename == "Received - f.bin"


def reach(page, name):
    """Press Tab until the element of that id or text has the focus, which can be seen."""
    for _ in range(30):
        page.keyboard.press("Tab")
        found = page.evaluate(
            "() => { const each = document.activeElement;"
            " return [each.id, each.textContent.trim(), getComputedStyle(each).outlineStyle]; }"
        )
        if name in found[:2]:
            assert found[2] != "none"
            return
    raise AssertionError(f"Tab does not reach {name}")


def test_start_afresh_asks_and_says_what_goes(sample, check_accessible, screenshot):
    open_page, manager = sample
    page = open_page()
    send_large(page, "f.bin", bytes(20_000))
    page.get_by_role("link", name="Start afresh…").click()
    page.get_by_text("largemessageq: 4 messages").wait_for()
    check_accessible(page)
    screenshot(page, "sample-afresh")
    page.get_by_role("link", name="Leave everything as it is").click()
    assert manager.queue(QUEUE).info().message_count == 4
    page.get_by_role("link", name="Start afresh…").click()
    press(page, "Delete and make again")
    page.get_by_text("Both queues were deleted and made again; they are empty.").wait_for()
    assert manager.queue(QUEUE).info().message_count == 0


def test_nothing_of_anybodys_is_deleted_when_the_page_opens(sample):
    open_page, manager = sample
    manager.create_queue(QUEUE).send(b"mine", label="mine")
    page = open_page()
    depth(page, "1 message")
    assert manager.queue(QUEUE).info().message_count == 1
    assert "statusq" in {each.name for each in manager.queues()}


def test_sample_works_without_script(sample, tmp_path):
    open_page, manager = sample
    page = open_page(script=False)
    body = picture(30, 20)
    path = tmp_path / "p.png"
    path.write_bytes(body)
    page.fill("#fragment-size", "50")
    page.set_input_files("#file", path)
    press(page, "LargeMessageSample Send")
    count = -(-len(body) // 50) + 2
    page.get_by_text(f"p.png was sent as a large message of {count} parts.").wait_for()
    press(page, "Complete Receive")
    page.get_by_text("The message is held for you.").wait_for()
    shown = page.get_by_role("img", name="The picture that was received")
    until(lambda: shown.evaluate("image => image.complete"))
    assert shown.evaluate("image => image.naturalWidth") == 30
    with page.expect_download() as saved:
        page.get_by_role("link", name="Save “Received - p.png”").click()
    saved.value.save_as(tmp_path / "saved.png")
    assert (tmp_path / "saved.png").read_bytes() == body
    press(page, "Keep it")
    page.get_by_text("p.png was received and has left the queue.").wait_for()
    assert manager.queue(QUEUE).info().message_count == 0
    page.fill("#fragment-size", "x")
    page.set_input_files("#file", path)
    press(page, "LargeMessageSample Send")
    page.get_by_text("Nothing was sent: write a whole number").wait_for()


def test_a_senders_label_and_body_never_become_markup(sample, screenshot):
    open_page, manager = sample
    hostile = "<img src=x onerror=document.title=1>\"'&.svg"
    manager.create_queue(QUEUE, exist_ok=True)
    body = b"<svg xmlns='http://www.w3.org/2000/svg' onload='document.title=1'></svg>"
    dray.LargeMessageQueue(manager.queue(QUEUE)).send(body, label=hostile)
    page = open_page()
    press(page, "Complete Receive")
    page.locator("#received .notice.good").wait_for()
    assert hostile in page.inner_text("#received")
    assert page.locator("#received img, #received svg, #receiver-picture img").count() == 0
    assert page.title() != "1"


def test_a_read_only_console_sends_and_receives_nothing(
    open_page, tmp_path, check_accessible, screenshot
):
    with staged(tmp_path, "--read-only") as stage:
        page = open_page("/sample", at=stage)
        assert page.get_by_role("button", name="Complete Receive").is_disabled()
        check_accessible(page)
        screenshot(page, "sample-read-only")
        with stage.console.client() as client:
            for method, path in (("PUT", "/sample/sent/plain"), ("POST", "/sample/afresh")):
                answer = client.request(method, path, content=b"x")
                assert answer.status_code == 403
                assert "start it without --read-only" in answer.text
        with stage.connect() as manager:
            assert QUEUE not in {each.name for each in manager.queues()}


def test_sample_in_both_themes_and_widths(sample, check_accessible, screenshot):
    page = sample[0]()
    check_accessible(page)
    screenshot(page, "sample")
    page.emulate_media(color_scheme="dark")
    check_accessible(page)
