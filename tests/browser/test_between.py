"""Messages that go to another queue manager: their story, and what an operator does on the way."""

from __future__ import annotations

import re

import pytest

import dray
from dray.testing.processes import ManagerProcess
from tests.browser.programs import Stage
from tests.integration.commands import until
from tests.integration.copied_stores import Pair

NOBODY = "dray://127.0.0.1:1"


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    with Pair(tmp_path_factory.mktemp("pair"), "window_messages = 2\n") as pair:
        diverge(pair)
        meet_a_stranger(pair)
        yield pair


def diverge(pair):
    """A copy of the source has sent to the same queues, so that two of them diverge."""
    with pair.destination.process.connect() as manager:
        manager.create_queue("spare")
    urls = [pair.url, f"{pair.destination.url}/spare"]
    for url in urls:
        pair.source.send(url, b"both know")
        until(lambda url=url: pair.source.outgoing(url) == ("connected", 0))
    pair.source.copy("copy")
    copy = pair.other("copy")
    copy.process.start()
    for url in urls:
        pair.source.send(url, b"only the source knows")
        until(lambda url=url: pair.source.outgoing(url) == ("connected", 0))
    pair.source.process.kill()
    for url in urls:
        copy.send(url, b"of the copy", b"too")
        until(lambda url=url: copy.outgoing(url) == ("connected", 0))
    copy.process.kill()
    pair.source.process.start()
    for url in urls:
        pair.source.send(url, b"ours", b"and this", b"and that")
        until(lambda url=url: pair.source.outgoing(url) == ("diverged", 3))


def meet_a_stranger(pair):
    """Another queue manager answers where the source knows one."""
    known = pair.other("depot")
    known.process.start()
    with known.process.connect() as manager:
        manager.create_queue("orders")
    url = f"{known.url}/orders"
    pair.source.send(url, b"first")
    until(lambda: pair.source.outgoing(url) == ("connected", 0))
    known.process.kill()
    stranger = pair.other("stranger", known.process.port)
    stranger.process.start()
    with stranger.process.connect() as manager:
        manager.create_queue("orders")
    pair.source.send(url, b"second")
    until(lambda: pair.source.outgoing(url) == ("need-validation", 1))
    pair.stranger = stranger


@pytest.fixture(scope="module")
def stage(pair, tmp_path_factory):
    """A console at the source; it may ask the destination too, and one that is not there."""
    folder = tmp_path_factory.mktemp("console")
    also = ("--also", pair.destination.url, "--also", NOBODY)
    place = Stage(pair.source.url, folder, *also)
    yield place
    place.console.stop()


def test_a_diverged_queue_is_accepted_or_discarded_after_a_question(open_page, pair, looks_good):
    page = open_page("/deliveries")
    looks_good(page, "deliveries-diverged")
    spare = f"{pair.destination.url}/spare"
    for url, act, said in (
        (pair.url, "Accept", f"3 messages of {pair.url} are delivered."),
        (spare, "Discard", f"3 messages of {spare} became dead letters."),
    ):
        card = page.locator("section.card").filter(has=page.get_by_role("heading", name=url))
        card.get_by_role("link", name=f"{act}…").click()
        page.get_by_text("3 messages").first.wait_for()
        page.get_by_role("button", name=act).click()
        page.get_by_text(said).wait_for()
    until(lambda: pair.source.outgoing(pair.url) == ("connected", 0))
    assert pair.destination.bodies()[-3:] == [b"ours", b"and this", b"and that"]
    with pair.source.process.connect() as manager:
        assert len(manager.dead_letters()) == 3


def test_another_queue_manager_is_accepted_or_forgotten_after_a_question(open_page, pair):
    page = open_page("/deliveries")
    known = page.get_by_role("region", name="Known queue managers")
    row = known.get_by_role("row").filter(has_text=pair.stranger.url)
    row.get_by_text("need-validation").wait_for()
    row.get_by_role("link", name="Accept…").click()
    page.get_by_role("button", name="Accept").click()
    page.get_by_text(f"answers at {pair.stranger.url} is accepted.").wait_for()
    until(lambda: pair.stranger.bodies() == [b"second"])
    row.get_by_role("link", name="Forget…").click()
    page.get_by_role("button", name="Forget").click()
    page.get_by_text(f"The queue manager at {pair.stranger.url} is forgotten.").wait_for()


def test_the_story_of_a_message_goes_on_at_another_queue_manager(open_page, pair, looks_good):
    url = f"{pair.destination.url}/told"
    with pair.destination.process.connect() as manager:
        manager.create_queue("told")
    with pair.source.process.connect() as manager:
        id = manager.queue(url).send(b"x", label="travels")
    until(lambda: pair.source.outgoing(url) == ("connected", 0))
    page = open_page(f"/story?id={id}")
    chapter = page.get_by_role("listitem").filter(has_text="It arrived in told and waits there.")
    assert chapter.locator(".tag").inner_text() == "destination"
    page.get_by_text("Asked: source, destination.").wait_for()
    page.get_by_role("status").filter(
        has_text=f"The queue manager at {NOBODY} was not heard"
    ).wait_for()
    looks_good(page, "story-across")


@pytest.fixture
def on_its_way(pair, request):
    """A large message of which some parts have left, and which is suspended."""
    with pair.source.process.connect() as source, pair.destination.process.connect() as far:
        name = f"slow-{request.node.name}"[:60]
        url = f"{pair.destination.url}/{name}"
        orders = far.create_queue(name)
        source.queue(url).send(b"first")
        until(lambda: source.queue(url).info().message_count == 0)
        source.pause(url)
        large = dray.LargeMessageQueue(source.queue(url), fragment_size=10_000)
        large.send(b"x" * 6_000_000, label="ship.iso")
        source.resume(url)
        until(lambda: orders.info().message_count > 1)
        source.pause(url)
        until(lambda: source.queue(url).info().state == "on hold")
        assert source.queue(url).info().message_count
        yield source, orders, url


def test_a_large_message_on_its_way_is_suspended_resumed_and_cancelled(
    open_page, on_its_way, looks_good, tmp_path
):
    source, orders, url = on_its_way
    there = Stage(url.rpartition("/")[0], tmp_path)
    with there.console.client() as client:
        assert "of 5.7 MiB in" in client.get("/transfers").text
        *_, arriving = orders.contents()
        for path in ("message", "message/body"):
            at = f"/queues/{path}?queue={orders.name}&at={arriving.lookup_id}"
            assert "Not all parts of this large message have arrived" in client.get(at).text
    assert there.console.stop() == 0
    (leaving,) = source.queue(url).contents()
    assert (leaving.wholeness, leaving.parts_in_all) == (dray.Wholeness.IN_FLIGHT, 602)
    page = open_page("/transfers")
    card = page.locator("section.card").filter(has_text="ship.iso leaves")
    bar = card.get_by_role("progressbar")
    assert 0 < float(bar.get_attribute("value")) < float(bar.get_attribute("max")) == 602
    card.get_by_text(re.compile("messages? resent")).wait_for()
    looks_good(page, "transfers-leaving")
    card.get_by_role("link", name="Cancel…").click()
    page.get_by_role("heading", name="Cancel ship.iso?").wait_for()
    page.get_by_role("link", name="Leave everything as it is").click()
    card.get_by_role("button", name="Resume").click()
    page.get_by_text(f"{url} delivers again.").wait_for()
    until(lambda: source.queue(url).info().message_count == 0)
    page.get_by_text("Nothing is in flight.").wait_for()
    (arrived,) = [each for each in orders.contents() if each.parts]
    assert arrived.wholeness is dray.Wholeness.WHOLE


def test_a_large_message_that_is_cancelled_takes_nothing_else_out_of_its_outgoing_queue(
    open_page, on_its_way
):
    source, orders, url = on_its_way
    large = dray.LargeMessageQueue(source.queue(url), fragment_size=10_000)
    behind = large.send(b"y" * 50_000, label="behind.iso")
    page = open_page("/transfers")
    card = page.locator("section.card").filter(has_text="ship.iso leaves")
    card.get_by_role("link", name="Cancel…").click()
    page.get_by_text("parts that have not left").wait_for()
    page.get_by_role("button", name="Cancel the message").click()
    page.get_by_text(f"left {url} for good").wait_for()
    page.get_by_text("behind.iso").wait_for()
    source.resume(url)
    until(lambda: source.queue(url).info().message_count == 0)
    found = {each.id: each.wholeness for each in orders.contents() if each.parts}
    assert found.pop(behind) is dray.Wholeness.WHOLE
    assert dray.Wholeness.WHOLE not in found.values()
    with pytest.raises(dray.LargeMessageHole):
        dray.LargeMessageQueue(orders).receive(timeout=0)
    with dray.LargeMessageQueue(orders).receive(timeout=0) as received:
        assert received.read() == b"y" * 50_000


def test_an_open_page_says_that_the_queue_manager_is_away_and_goes_on_when_it_is_back(
    open_page, tmp_path, looks_good
):
    with ManagerProcess("away", tmp_path) as away:
        place = Stage(away.url, tmp_path)
        try:
            page = open_page("/queues", at=place)
            page.provoked.append("503")
            page.get_by_text("There is no queue yet").wait_for()
            away.kill()
            old = page.get_by_role("status").filter(has_text="What you see may be old")
            old.filter(has_text="No queue manager answers at").wait_for()
            assert page.get_by_text("There is no queue yet").is_visible(), "what was known stays"
            looks_good(page, "manager-away")
            page.reload()
            page.get_by_role("alert").filter(has_text="No queue manager answers at").wait_for()
            away.start()
            page.reload()
            page.get_by_text("There is no queue yet").wait_for()
            with away.connect() as manager:
                manager.create_queue("after")
            page.get_by_role("link", name="after").wait_for()
            assert not old.is_visible()
        finally:
            assert place.console.stop() == 0
        assert place.console.logged() == ""


def test_a_cancelled_large_message_has_a_hole_at_its_destination(open_page, pair):
    url = f"{pair.destination.url}/half"
    with pair.source.process.connect() as source, pair.destination.process.connect() as far:
        half = far.create_queue("half")
        source.queue(url).send(b"first")
        until(lambda: source.queue(url).info().message_count == 0)
        half.receive(0)
        source.pause(url)
        large = dray.LargeMessageQueue(source.queue(url), fragment_size=10_000)
        large.send(bytes(6_000_000), label="half.iso")
        source.resume(url)
        until(lambda: half.info().message_count)
        source.pause(url)
        page = open_page("/transfers")
        card = page.locator("section.card").filter(has_text="half.iso leaves")
        card.get_by_role("link", name="Cancel…").click()
        page.get_by_role("button", name="Cancel the message").click()
        page.get_by_text("so that the destination hears of that").wait_for()
        page.get_by_role("navigation").get_by_role("link", name="Between managers").click()
        card = page.locator("section.card").filter(has=page.get_by_role("heading", name=url))
        card.get_by_role("button", name="Resume").click()
        until(lambda: [each.wholeness for each in half.contents()] == [dray.Wholeness.HOLE])
        with pytest.raises(dray.LargeMessageHole):
            dray.LargeMessageQueue(half).receive(timeout=0)
        assert list(half.contents()) == []


def test_an_open_page_says_what_is_gone(open_page, pair):
    with pair.source.process.connect() as source:
        source.create_queue("soon-gone", exist_ok=True)
        page = open_page("/queues/one?name=soon-gone")
        page.provoked.append("404")
        page.get_by_text("The queue is empty.").wait_for()
        source.delete_queue("soon-gone")
    page.get_by_role("alert").filter(has_text="There is no queue").wait_for()
