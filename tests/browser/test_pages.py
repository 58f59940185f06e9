"""The pages of operators: each action, in a real browser."""

from __future__ import annotations

import json
import time

import pytest

import dray
from tests.browser.pictures import picture
from tests.browser.programs import Stage
from tests.interrupted_sends import interrupt

HOSTILE = '"><script>document.title="broken"</script><img src=x onerror=alert(1)>'
LONG = "a.very.long.name.of.a.queue.that.a.program.made.of.a.package.and.a.region.eu-central-1"
ACTING = "a[href], button, input:not([type=hidden]), select, summary, [tabindex='0']"
WALK = (
    ("Doctor",),
    ("Queues", "orders", "seen", "Its story"),
    ("Queues", "New queue"),
    ("Queues", "orders", "Purge…"),
    ("Dead letters", "first"),
    ("Between managers",),
    ("In flight",),
    ("Access",),
    ("Sample",),
)
"""Ways through the pages by links."""
SHOTS = ("/", "/queues", "/deadletters", "/deliveries", "/transfers", "/access")


@pytest.fixture(scope="module")
def manager(stage):
    with stage.connect() as manager:
        for name in ("orders", "other", "statusq"):
            manager.create_queue(name, exist_ok=True)
        yield manager


@pytest.fixture
def orders(manager):
    queue = manager.queue("orders")
    queue.purge()
    return queue


@pytest.fixture
def letters(stage, manager):
    """Three dead letters, one of them large."""
    everything = [each.id for each in manager.dead_letters()]
    manager.drop_dead_letters(everything)
    doomed = manager.create_queue("doomed", exist_ok=True)
    doomed.send(b"one", label="first", use_dead_letter_queue=True)
    doomed.send(b"two", label="second", use_dead_letter_queue=True)
    large = dray.LargeMessageQueue(manager.create_queue("heavy", exist_ok=True), fragment_size=1000)
    large.send(b"x" * 2500, label="third", use_dead_letter_queue=True)
    doomed.purge()
    manager.queue("heavy").purge()
    found = manager.dead_letters()
    assert len(found) == 3
    # Browsers share answers, so the page may show older ones for a moment.
    with stage.console.client() as client:
        until(lambda: all(each.id in client.get("/deadletters").text for each in found))
    return found


def message_page(queue):
    (found,) = list(queue.contents())
    return f"/queues/message?queue={queue.name}&at={found.lookup_id}"


def test_the_first_page_says_that_nothing_is_wrong_or_offers_a_remedy(open_page, manager, letters):
    page = open_page("/")
    page.get_by_role("link", name="Look at the dead letters").click()
    page.get_by_role("heading", name="Dead letters").wait_for()
    manager.drop_dead_letters([each.id for each in letters])
    page.goto(page.url.partition("/deadletters")[0] + "/")
    page.get_by_text("Nothing is wrong").wait_for()


def test_a_queue_is_created_found_and_deleted_after_a_question(open_page, manager):
    page = open_page("/queues")
    page.get_by_role("link", name="New queue").click()
    page.get_by_label("Name").fill("bad;;name")
    page.provoked.append("400")
    page.get_by_role("button", name="Create").click()
    page.get_by_role("alert").wait_for()
    page.get_by_label("Name").fill("invoices")
    page.get_by_label("Quota", exact=True).fill("8MiB")
    page.get_by_role("button", name="Create").click()
    page.get_by_text("invoices was created.").wait_for()
    assert manager.queue("invoices").info().quota == 8 << 20
    page.get_by_role("link", name="Queues", exact=True).first.click()
    page.get_by_label("Find by name or label").fill("invo")
    page.get_by_label("Find by name or label").press("Enter")
    page.get_by_text("1 of").wait_for()
    page.get_by_role("link", name="invoices").click()
    page.get_by_role("link", name="Delete…").click()
    page.get_by_text("the queue invoices with all that is in it").wait_for()
    page.get_by_role("button", name="Delete").click()
    page.get_by_text("invoices was deleted.").wait_for()
    assert "invoices" not in {each.name for each in manager.queues()}


def test_the_rates_of_a_queue_are_drawn_as_lines(open_page, manager):
    other = manager.queue("other")
    page = open_page("/queues")
    line = page.get_by_role("row").filter(has_text="other").get_by_role("img")
    end = time.monotonic() + 60
    # A look every five seconds; the page shows the next one by itself.
    while not line.count():
        assert time.monotonic() < end
        other.send(b"x")
        page.wait_for_timeout(200)
    assert line.locator("path.in").get_attribute("d").startswith("M0,")
    other.purge()


def test_a_quota_is_set_and_shown_as_a_gauge(open_page, manager, orders):
    page = open_page("/queues/one?name=orders")
    page.get_by_label("Quota", exact=True).fill("1MiB")
    page.get_by_role("button", name="Set quotas").click()
    page.get_by_text("The quotas of orders are set.").wait_for()
    assert manager.queue("orders").info().quota == 1 << 20
    page.get_by_label("quota used").wait_for()
    manager.set_quota("orders", None)


def test_a_queue_is_purged_after_a_question_that_says_what_goes(open_page, orders):
    orders.send_many([b"x" * 1000] * 3)
    page = open_page("/queues/one?name=orders")
    page.get_by_role("link", name="Purge…").click()
    page.get_by_text("3 messages").wait_for()
    page.get_by_role("button", name="Purge").click()
    page.get_by_text("3 messages left orders for good.").wait_for()
    assert orders.info().message_count == 0


def test_chosen_messages_move_to_another_queue(open_page, manager, orders):
    orders.send_many([b"a", b"b", b"c"])
    page = open_page("/queues/one?name=orders")
    page.get_by_label("Choose the message at position").first.check()
    page.get_by_label("Move the chosen ones to").fill("other")
    page.get_by_role("button", name="Move").click()
    page.get_by_text("1 message moved from orders to other.").wait_for()
    assert orders.info().message_count == 2
    manager.queue("other").purge()


def test_a_large_message_is_one_row_with_its_parts_inside(open_page, manager, orders):
    dray.LargeMessageQueue(orders, fragment_size=1000).send(b"y" * 2500, label="load")
    page = open_page("/queues/one?name=orders")
    assert page.get_by_role("row").filter(has_text="fragment").count() == 0
    page.get_by_role("link", name="5 parts").click()
    page.get_by_text("fragment 3").wait_for()
    assert page.get_by_role("row").filter(has_text="fragment").count() == 3


@pytest.mark.parametrize(
    "case",
    [
        ("note.txt", b"plain words", "plain words"),
        ("a.json", json.dumps({"sum": 7}).encode(), '"sum": 7'),
        ("a.csv", b"city,count\nUlm,4\nBonn,5\n", "Bonn"),
        ("page.html", b"<h1 id=theirs>Hello</h1>", "<h1 id=theirs>Hello</h1>"),
        ("a.svg", b"<svg onload='alert(1)'></svg>", "<svg onload='alert(1)'></svg>"),
        ("a.bin", bytes(range(256)), "00000010"),
    ],
)
def test_a_body_is_previewed_by_its_type_and_never_as_markup(open_page, orders, case):
    label, body, shown = case
    orders.send(body, label=label)
    page = open_page(message_page(orders))
    page.get_by_text(shown).first.wait_for()
    assert page.locator("#theirs").count() == page.locator("svg[onload]").count() == 0
    assert page.locator("table").count() == (label == "a.csv")


def test_a_picture_is_shown_whole_or_offered_as_a_download(open_page, orders):
    orders.send(picture(60, 40), label="small.png")
    page = open_page(message_page(orders))
    shown = page.get_by_role("img", name="The picture in the body")
    assert shown.evaluate("each => each.decode().then(() => each.naturalWidth)") == 60
    orders.purge()
    orders.send(picture(60, 40) + bytes(70_000), label="large.png")
    page = open_page(message_page(orders))
    page.get_by_text("A picture, image/png, 68.6 KiB.").wait_for()
    assert page.locator("main img").count() == 0
    with page.expect_download() as waiting:
        page.get_by_role("link", name="Download large.png").click()
    assert waiting.value.suggested_filename == "large.png"


def test_the_first_rows_of_a_parquet_file_are_a_table(open_page, orders, tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    file = tmp_path / "a.parquet"
    parquet.write_table(arrow.table({"city": ["Ulm", "Bonn"], "count": [4, 5]}), file)
    dray.LargeMessageQueue(orders, fragment_size=500).send(file, label="a.parquet")
    page = open_page(message_page(orders))
    page.get_by_text("Parquet, 2 rows").wait_for()
    page.get_by_role("cell", name="Bonn").wait_for()


def test_nothing_that_a_sender_wrote_becomes_markup(open_page, manager, orders):
    orders.send(
        HOSTILE.encode(), label=HOSTILE, correlation_id=HOSTILE, response_queue=HOSTILE,
        extension=HOSTILE.encode(), use_dead_letter_queue=True,
    )  # fmt: skip
    (id,) = [each.id for each in orders.contents()]
    orders.purge()
    (letter,) = [each for each in manager.dead_letters() if each.id == id]
    orders.send(HOSTILE.encode(), label=HOSTILE, correlation_id=HOSTILE)
    dead = f"/queues/message?queue={letter.queue}&at={letter.lookup_id}"
    for path in ("/queues/one?name=orders", message_page(orders), "/deadletters", dead):
        page = open_page(path)
        page.get_by_text(HOSTILE).first.wait_for()
        assert "broken" not in page.title() or "script" in page.title()
        assert page.locator("img[onerror]").count() == 0
        assert page.locator("script").count() == 1


def test_a_body_is_downloaded_as_an_attachment_that_no_browser_opens(open_page, stage, orders):
    body = b"<script>1</script>" * 100_000
    dray.LargeMessageQueue(orders, fragment_size=100_000).send(body, label="../../a<b>.html")
    page = open_page(message_page(orders))
    with page.expect_download() as waiting:
        page.get_by_role("link", name="Download").click()
    with open(waiting.value.path(), "rb") as file:  # noqa: PTH123 - as playwright gives it
        assert file.read() == body
    with stage.console.client() as client:
        answer = client.get(message_page(orders).replace("message?", "message/body?"))
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-type"] == "application/octet-stream"


def test_a_dead_letter_is_sent_again_to_its_queue(open_page, manager, letters):
    page = open_page("/deadletters")
    page.get_by_text("It was purged from its queue").first.wait_for()
    page.get_by_label("Choose first").check()
    page.get_by_role("button", name="Send chosen again").click()
    page.get_by_text("1 dead letter sent again.").wait_for()
    assert manager.queue("doomed").receive(0).body == b"one"


def test_dead_letters_that_another_page_has_taken_are_said_to_be_gone(open_page, manager, letters):
    page = open_page("/deadletters")
    page.provoked.append("status of 404")
    page.get_by_label("Choose first").check()
    manager.drop_dead_letters([each.id for each in manager.dead_letters()])
    page.get_by_role("button", name="Send chosen again").click()
    page.get_by_text("None of these dead letters is there any more").wait_for()


def test_chosen_dead_letters_then_all_are_sent_again_to_their_queues(open_page, manager, letters):
    page = open_page("/deadletters")
    page.get_by_label("Choose first").check()
    page.get_by_label("Choose second").check()
    page.get_by_role("button", name="Send chosen again").click()
    page.get_by_text("2 dead letters sent again.").wait_for()
    page.get_by_role("button", name="Send all again").click()
    page.get_by_text("1 dead letter sent again.").wait_for()
    assert [each.label for each in manager.queue("doomed").contents()] == ["first", "second"]
    assert [each.label for each in manager.queue("heavy").contents()] == ["third"]
    manager.queue("doomed").purge()
    manager.queue("heavy").purge()


def test_all_dead_letters_are_sent_again_to_another_queue(open_page, manager, letters):
    page = open_page("/deadletters")
    page.get_by_label("To another queue").fill("heavy")
    manager.drop_dead_letters([each.id for each in letters if not each.parts])
    page.get_by_role("button", name="Send all again").click()
    page.get_by_text("1 dead letter sent again.").wait_for()
    assert [each.label for each in manager.queue("heavy").contents()] == ["third"]
    manager.queue("heavy").purge()


def test_a_chosen_dead_letter_is_moved(open_page, manager, letters):
    page = open_page("/deadletters")
    page.get_by_label("Choose second").check()
    page.get_by_label("To another queue").fill("other")
    page.get_by_role("button", name="Move chosen").click()
    page.get_by_text("1 dead letter moved to other.").wait_for()
    assert manager.queue("other").receive(0).body == b"two"


def test_dead_letters_are_dropped_after_a_question_that_says_what_goes(open_page, manager, letters):
    page = open_page("/deadletters")
    page.get_by_role("button", name="Drop all…").click()
    page.get_by_role("heading", name="Drop 3 dead letters").wait_for()
    page.get_by_text("second, 3 B").wait_for()
    page.get_by_role("button", name="Drop for good").click()
    page.get_by_text("3 dead letters dropped for good.").wait_for()
    assert manager.dead_letters() == []


def test_the_story_of_a_message_tells_where_it_is(open_page, orders):
    id = orders.send(b"x")
    page = open_page(message_page(orders))
    page.get_by_role("link", name="Its story").click()
    page.get_by_text("It arrived in orders and waits there.").wait_for()
    assert page.get_by_label("Id of the message").input_value() == id


def test_a_delivery_shows_what_it_waits_for_and_is_paused_resumed_and_retried(open_page, manager):
    goal = "dray://127.0.0.1:1/far"
    manager.queue(goal).send(b"x")
    page = open_page("/deliveries")
    page.get_by_role("button", name="Retry now").click()
    page.get_by_text(f"{goal} delivers again.").wait_for()
    page.get_by_text("there is no connection to 127.0.0.1:1").first.wait_for()
    page.get_by_role("button", name="Pause").click()
    page.get_by_text(f"{goal} is paused").first.wait_for()
    page.get_by_role("button", name="Resume").click()
    page.get_by_text(f"{goal} delivers again.").wait_for()
    assert manager.queue(goal).info().state != "on hold"
    manager.delete_queue(goal)


def test_a_file_transfer_is_suspended_resumed_and_cancelled(open_page, manager, tmp_path):
    file = tmp_path / "annual report.pdf"
    file.write_bytes(b"x" * 1000)
    manager.create_queue("files", exist_ok=True)
    offer = manager.offer_file(file, "files", listen=None)
    until(lambda: manager.running_transfer(offer.transfer_id))
    page = open_page("/transfers")
    card = page.locator("section.card").filter(has_text="annual report.pdf")
    card.get_by_role("progressbar").wait_for()
    card.get_by_role("button", name="Suspend").click()
    page.get_by_text(f"{offer.transfer_id} is suspended.").wait_for()
    until(lambda: offer.status.state == "suspended")
    card.get_by_role("button", name="Resume").click()
    page.get_by_text(f"{offer.transfer_id} is resumed.").wait_for()
    card.get_by_role("link", name="Cancel…").click()
    page.get_by_text("annual report.pdf: 0 B that have arrived").wait_for()
    page.get_by_role("button", name="Cancel the transfer").click()
    page.get_by_text(f"{offer.transfer_id} is cancelled.").wait_for()
    until(lambda: offer.status.state == "cancelled")
    offer.close()


def test_an_unfinished_upload_is_shown_and_dropped_after_a_question(open_page, orders, tmp_path):
    large = dray.LargeMessageQueue(orders, fragment_size=1000)
    interrupt(large, tmp_path / "state")
    page = open_page("/transfers")
    card = page.locator("section.card").filter(has_text="Upload to orders")
    card.get_by_text("waits for its sender").wait_for()
    card.get_by_role("link", name="Drop…").click()
    page.get_by_role("button", name="Drop").click()
    page.get_by_text("is dropped.").wait_for()
    assert large.unfinished() == []


def test_prepared_transactions_are_committed_and_aborted(open_page, manager, orders):
    ids = []
    for _ in range(2):
        transaction = manager.transaction()
        transaction.__enter__()
        orders.send(b"x", transaction=transaction)
        transaction.prepare()
        ids.append(str(transaction.id))
    page = open_page("/")
    page.get_by_role("link", name="Settle it").first.click()
    for id, act, said in zip(ids, ("Commit", "Abort"), ("committed", "aborted"), strict=True):
        page.goto(page.url.partition("/doctor")[0].rstrip("/") + "/doctor/prepared")
        card = page.locator("section.card").filter(has_text=id)
        card.get_by_role("button", name=act).click()
        page.get_by_text(f"The transaction {id} is {said}.").wait_for()
    assert orders.info().message_count == 1
    assert manager.prepared() == []


def test_poison_is_moved_back_from_the_first_page(open_page, orders):
    orders.send(b"bad")
    orders.move(orders.peek(0), "orders;poison")
    page = open_page("/")
    page.get_by_role("button", name="Move them back").click()
    page.get_by_text("1 moved back to orders.").wait_for()
    assert orders.receive(0).body == b"bad"


def test_queues_are_sorted_by_a_column_and_shown_with_the_system_queues(open_page, orders):
    orders.send_many([b"x"] * 3)
    page = open_page("/queues")
    page.get_by_role("columnheader").get_by_role("link", name="Messages").click()
    page.locator("th[aria-sort=descending]", has_text="Messages").wait_for()
    assert page.locator("tbody tr").first.inner_text().startswith("orders")
    page.get_by_label("Sort by").select_option("bytes")
    page.get_by_label("also journals, system queues").check()
    page.get_by_role("button", name="Show").click()
    page.locator("th[aria-sort=descending]", has_text="Size").wait_for()
    page.get_by_role("link", name="system$;deadxact").wait_for()


def test_messages_and_dead_letters_come_by_page(open_page, manager, orders, letters):
    orders.send_many([b"x"] * 130)
    page = open_page("/queues/one?name=orders")
    page.get_by_role("link", name="Next page").click()
    page.get_by_text("Messages behind position").wait_for()
    assert page.locator("tbody tr").count() == 30
    page.get_by_role("link", name="From the beginning").click()
    page.get_by_text("The first messages").wait_for()
    doomed = manager.queue("doomed")
    doomed.send_many([dray.Message(b"x", label="many", use_dead_letter_queue=True)] * 130)
    doomed.purge()
    page.goto(page.url.partition("/queues")[0] + "/deadletters")
    page.get_by_text("page 1 of 2").wait_for()
    page.get_by_role("link", name="Next").click()
    page.get_by_text("page 2 of 2").wait_for()
    assert page.locator("tbody tr").count() == 33
    page.get_by_role("link", name="Previous").click()
    page.get_by_text("page 1 of 2").wait_for()
    manager.drop_dead_letters([each.id for each in manager.dead_letters()])


def until(found):
    end = time.monotonic() + 30
    while not (value := found()):
        assert time.monotonic() < end
    return value


def test_a_token_is_created_shown_once_and_revoked(open_page, manager):
    page = open_page("/access")
    page.get_by_label("Name").fill("till")
    page.get_by_label("Days until it expires").fill("30")
    page.get_by_role("button", name="Create").click()
    page.get_by_role("heading", name="The token till").wait_for()
    assert [each.name for each in manager.tokens()] == ["till"]
    page.get_by_role("link", name="Back to access").click()
    page.get_by_text("CreateToken").first.wait_for()
    page.get_by_role("link", name="Revoke…").click()
    page.get_by_role("button", name="Revoke").click()
    page.get_by_text("The token till is revoked.").wait_for()
    assert manager.tokens() == []


def test_a_double_click_acts_once(open_page, manager):
    """The second request would take the place of the first one, and its answer is an error."""
    page = open_page("/access")
    page.get_by_label("Name").fill("till")
    stopped = page.get_by_role("button", name="Create").evaluate(
        """button => {
            const stopped = [];
            window.addEventListener("submit", (event) => stopped.push(event.defaultPrevented));
            button.click();
            button.click();
            return stopped;
        }"""
    )
    assert stopped == [False, True]
    page.get_by_role("heading", name="The token till").wait_for()
    manager.revoke_token("till")


def test_a_dead_letter_is_sent_again_by_keyboard_alone(open_page, manager, letters):
    page = open_page("/deadletters")
    page.get_by_label("Choose first").wait_for()
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.ariaLabel") == "Choose first":
            break
    page.keyboard.press("Space")
    for _ in range(60):
        page.keyboard.press("Shift+Tab")
        if page.evaluate("document.activeElement.textContent") == "Send chosen again":
            break
    page.keyboard.press("Enter")
    page.get_by_text("1 dead letter sent again.").wait_for()
    assert manager.queue("doomed").receive(0).body == b"one"


def test_every_page_works_without_script(open_page, manager, orders, letters):
    orders.send(b"plain", label="seen")
    page = open_page("/", script=False)
    for name, *more in WALK:
        page.get_by_role("navigation", name="Pages").get_by_role("link", name=name).click()
        page.get_by_role("heading", level=1).wait_for()
        assert page.locator("nav [aria-current=page]").inner_text() == name
        for each in more:
            page.get_by_role("link", name=each, exact=True).first.click()
            page.get_by_role("heading", level=1).wait_for()
        # What acts is a link or a form: it needs no script.
        assert page.locator("main button:not(form button)").count() == 0
    page.goto(page.url.partition("/sample")[0] + "/deadletters")
    page.get_by_label("Choose first").check()
    page.get_by_role("button", name="Drop chosen…").click()
    page.get_by_role("button", name="Drop for good").click()
    page.get_by_text("1 dead letter dropped for good.").wait_for()


@pytest.mark.usefixtures("letters_and_delivery")
def test_every_act_of_every_page_is_reached_by_the_tab_key(open_page, manager, orders):
    orders.send(b"plain", label="seen")
    manager.create_token("keyboard")
    paths = [*SHOTS, "/queues/one?name=orders", message_page(orders), "/queues/new", "/story"]
    paths += ["/queues/ask?name=orders&act=purge", "/doctor/prepared"]
    page = open_page("/")
    # Nothing is filled again meanwhile, and each element that gets the focus is noted.
    page.context.add_init_script(
        "window.setTimeout = () => 0; window.reached = new Set(); window.unseen = [];"
        "addEventListener('focusin', (event) => { reached.add(event.target);"
        " if (getComputedStyle(event.target).outlineStyle === 'none')"
        " unseen.push(event.target.outerHTML); });"
    )
    for path in paths:
        page.goto(page.url[: page.url.index("/", 8)] + path)
        for _ in range(page.locator(ACTING).count() + 2):
            page.keyboard.press("Tab")
        missed = page.evaluate(
            "(acting) => [...document.querySelectorAll(acting)].filter((each) =>"
            " each.checkVisibility() && !reached.has(each)).map((each) => each.outerHTML)",
            ACTING,
        )
        assert not missed, (path, missed)
        assert not page.evaluate("() => unseen"), path
    manager.revoke_token("keyboard")


def test_a_console_for_looking_offers_no_act(stage, orders, tmp_path):
    orders.send(b"x", label="seen")
    place = Stage(stage.url, tmp_path, "--read-only")
    try:
        with place.console.client() as client:
            asking = ("/queues/new", "/queues/ask?name=orders&act=purge", "/sample/afresh")
            for path in (*SHOTS, "/queues/one?name=orders", *asking):
                text = client.get(path).text
                assert text.count("<button") == text.count("Leave</button>") + (
                    path == "/queues"
                ), path
            assert client.post("/queues/act", data={"name": "orders", "act": "purge"}).status_code
        assert orders.info().message_count == 1
    finally:
        place.console.stop()


@pytest.fixture
def letters_and_delivery(manager, letters):
    goal = "dray://127.0.0.1:1/far"
    manager.queue(goal).send(b"x")
    yield
    manager.delete_queue(goal)


@pytest.mark.usefixtures("letters_and_delivery")
def test_pages_are_accessible_and_fit_both_widths(open_page, stage, manager, *, looks_good, orders):
    orders.send_many([b"x" * 1000] * 20)
    dray.LargeMessageQueue(orders, fragment_size=1000).send(b"y" * 2500, label="load.bin")
    first = next(iter(orders.contents()))
    long = manager.create_queue(LONG, label="L" * 100, quota="1MiB", exist_ok=True)
    told = long.send(b"city,count\nUlm,4\nBonn,5\n", label="x" * 200)
    (named,) = long.contents()
    others = {
        "queue": "/queues/one?name=orders",
        "message": f"/queues/message?queue=orders&at={first.lookup_id}",
        "message-long": f"/queues/message?queue={LONG}&at={named.lookup_id}",
        "queue-long": f"/queues/one?name={LONG}",
        "new-queue": "/queues/new",
        "ask": f"/queues/ask?name={LONG}&act=delete",
        "story": f"/story?id={told}",
        "prepared": "/doctor/prepared",
        "nothing-found": "/queues?find=nothing-has-this-name",
    }
    for path in SHOTS:
        others[path.strip("/") or "doctor"] = path
    # One page for all: Chromium starts a process for each that is opened.
    page = open_page("/")
    for name, path in others.items():
        page.goto(stage.address + path)
        looks_good(page, name)
    manager.delete_queue(LONG)
