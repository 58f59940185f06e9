"""Many diverged queues and strange peers for minutes: the log stays short and is for people."""

from __future__ import annotations

import json
import re
from datetime import datetime

import pytest

from tests.integration.commands import until
from tests.integration.copied_stores import Pair, Party

pytestmark = [pytest.mark.torture, pytest.mark.timeout(900)]

STRANGE, DIVERGED = 6, 6
APART_S = 59.0
AT_ITS_END = re.compile(r" in the last \d+ seconds\)$")
"""A process that stops says what it held back."""


def test_each_sentence_is_logged_once_a_minute_with_a_count_however_often_it_is_true(
    tmp_path, went_through
):
    with Pair(tmp_path) as pair:
        names = [f"queue-{n}" for n in range(DIVERGED)]
        with pair.destination.process.connect() as manager:
            for name in names:
                manager.create_queue(name)
        urls = [f"{pair.destination.url}/{name}" for name in names]
        places = [pair.other(f"known-{n}") for n in range(STRANGE)]
        for place in places:
            place.process.start()
            with place.process.connect() as manager:
                manager.create_queue("orders")
            urls.append(f"{place.url}/orders")
        for url in urls:
            pair.source.send(url, b"both know")
            until(lambda url=url: pair.source.outgoing(url) == ("connected", 0))
        make_strange(pair, places)
        diverge(pair, urls[:DIVERGED])
        for run in range(2):
            for url in urls:
                pair.source.send(url, b"waits")
            for url in urls[:DIVERGED]:
                until(lambda url=url: pair.source.outgoing(url)[0] == "diverged")
            for url in urls[DIVERGED:]:
                until(lambda url=url: pair.source.outgoing(url)[0] == "need-validation")
            begun = len(pair.source.log())
            until(lambda begun=begun: told_twice(pair.source, begun), within_s=200.0)
            if not run:
                pair.source.process.kill()
                went_through["kills"] += 1
                pair.source.process.start()
        pair.source.process.stop()
        judge(pair.source)
        went_through["warnings"] += sum(int(str(each["times"])) for each in warned(pair.source))


def make_strange(pair: Pair, places: list[Party]) -> None:
    """Start a queue manager over an empty folder at each of the places."""
    for n, place in enumerate(places):
        place.process.kill()
        pair.other(f"strange-{n}", place.process.port).process.start()


def diverge(pair: Pair, urls: list[str]) -> None:
    """A clone of the running source delivers to the queues, while the true one is down."""
    pair.source.copy("clone")
    clone = pair.other("clone")
    for url in urls:
        pair.source.send(url, b"true alone")
        until(lambda url=url: pair.source.outgoing(url) == ("connected", 0))
    pair.source.process.kill()
    clone.process.start()
    for url in urls:
        clone.send(url, b"clone 1", b"clone 2", b"clone 3")
        until(lambda url=url: clone.outgoing(url) == ("connected", 0))
    clone.process.kill()
    pair.source.process.start()


def warned(party: Party) -> list[dict[str, object]]:
    """The lines that notices made."""
    return [line for line in party.log() if "subject" in line and "times" in line]


def told_twice(party: Party, begun: int) -> bool:
    """Whether every strange place was counted in this run of the process."""
    lines = [line for line in party.log()[begun:] if line.get("kind") == "other-manager-at-address"]
    return len([line for line in lines if int(str(line["times"])) > 1]) >= STRANGE


def judge(party: Party) -> None:
    """In each run of the process: of a kind and subject one line a minute, and no Python value."""
    party.assert_readable_log()
    latest: dict[tuple[str, str], datetime] = {}
    for text in party.process.log.read_text("utf-8").splitlines():
        if " ready at " in text:
            latest.clear()
        line = json.loads(text) if text.startswith("{") else {}
        if "times" not in line or AT_ITS_END.search(line["message"]):
            continue
        key, moment = (line["kind"], line["subject"]), datetime.fromisoformat(line["time"])
        assert key not in latest or (moment - latest[key]).total_seconds() > APART_S, line
        latest[key] = moment
