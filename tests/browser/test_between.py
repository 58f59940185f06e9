"""Messages that go to another queue manager: their story, and what an operator does on the way."""

from __future__ import annotations

import pytest

from tests.browser.programs import Stage
from tests.integration.commands import until
from tests.integration.copied_stores import Pair

NOBODY = "dray://127.0.0.1:1"


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    with Pair(tmp_path_factory.mktemp("pair")) as pair:
        yield pair


@pytest.fixture(scope="module")
def stage(pair, tmp_path_factory):
    """A console at the source; it may ask the destination too, and one that is not there."""
    folder = tmp_path_factory.mktemp("console")
    also = ("--also", pair.destination.url, "--also", NOBODY)
    place = Stage(pair.source.url, folder, *also)
    yield place
    place.console.stop()


def test_the_story_of_a_message_goes_on_at_another_queue_manager(
    open_page, pair, check_accessible, screenshot
):
    with pair.source.process.connect() as manager:
        id = manager.queue(pair.url).send(b"x", label="travels")
        until(lambda: pair.source.outgoing(pair.url) == ("connected", 0))
    page = open_page(f"/story?id={id}")
    chapter = page.get_by_role("listitem").filter(has_text="It arrived in orders and waits there.")
    assert chapter.locator(".tag").inner_text() == "destination"
    page.get_by_text("Asked: source, destination.").wait_for()
    page.get_by_role("status").filter(has_text=f"{NOBODY} was not heard").wait_for()
    check_accessible(page)
    screenshot(page, "page-story-across")
