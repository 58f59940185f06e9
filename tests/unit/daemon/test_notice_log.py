"""Notices in the log: the first at once, then one a minute that says how many there were."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

import pytest

from dray.daemon.limits import NOTICE_SUBJECTS_MAX, NOTICE_SUBJECTS_SHARE
from dray.daemon.logs import JsonLogFormatter
from dray.daemon.notice_log import NoticeLog
from dray.manager.notices import OTHERS, Notice, NoticeKind

KIND = NoticeKind.REFUSED_NO_QUEUE


def refused(queue: str = "orders", times: int = 1, kind: str = KIND) -> Notice:
    return Notice(kind, queue, "a message was refused; make room", times)


class Timer:
    def __init__(self, at: float, call: Callable[[], None]) -> None:
        self.at, self.call = at, call
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Time:
    """Loop and clock of a test."""

    def __init__(self) -> None:
        self.at = 1_000.0
        self.timers: list[Timer] = []

    def now(self) -> float:
        return self.at

    def call_later(self, delay: float, call: Callable[[], None]) -> Timer:
        self.timers.append(Timer(self.at + delay, call))
        return self.timers[-1]

    def pass_by(self, seconds: float) -> None:
        end = self.at + seconds
        while due := [each for each in self.timers if each.at <= end and not each.cancelled]:
            first = min(due, key=lambda each: each.at)
            self.timers.remove(first)
            self.at = first.at
            first.call()
        self.at = end


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def log(time: Time) -> NoticeLog:
    return NoticeLog(time, time)  # type: ignore[arg-type]


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.WARNING, "dray.daemon.notice_log")

    def fetched() -> list[str]:
        found = [each.getMessage() for each in caplog.records]
        caplog.clear()
        return found

    return fetched


def test_a_warning_is_logged_at_once_and_then_once_a_minute_with_its_count(time, log, lines):
    log.write([refused()])
    assert lines() == ["orders: a message was refused; make room"]
    for _ in range(412):
        time.pass_by(0.1)
        log.write([refused()])
    assert lines() == []
    time.pass_by(60.0)
    assert lines() == ["orders: a message was refused; make room (412 times in the last minute)"]
    time.pass_by(600.0)
    assert lines() == []
    assert not time.timers
    log.write([refused(times=3)])
    assert lines() == ["orders: a message was refused; make room (3 times)"]


def test_warnings_about_other_subjects_or_of_other_kinds_are_not_held_back(time, log, lines):
    log.write([refused(), refused("other"), refused(kind=NoticeKind.DAMAGED)])
    assert len(lines()) == 3
    log.write([refused(), refused("other"), refused(kind=NoticeKind.DAMAGED), refused()])
    assert lines() == []
    time.pass_by(60.0)
    assert [line.partition("(")[2] for line in lines()] == [
        "2 times in the last minute)",
        "1 time in the last minute)",
        "1 time in the last minute)",
    ]


def test_warnings_that_were_held_back_are_logged_when_the_daemon_stops(time, log, lines):
    log.write([refused(), refused(times=6), refused("other")])
    time.pass_by(12.0)
    lines()
    log.stop()
    assert lines() == ["orders: a message was refused; make room (6 times in the last 12 seconds)"]
    time.pass_by(600.0)
    log.stop()
    assert lines() == []


def test_a_daemon_that_stops_at_once_speaks_of_the_last_second(time, log, lines):
    log.write([refused(), refused(times=6)])
    time.pass_by(0.02)
    lines()
    log.stop()
    assert lines() == ["orders: a message was refused; make room (6 times in the last second)"]


def test_what_a_start_found_is_logged_sentence_by_sentence(log, lines):
    found = [Notice(NoticeKind.AT_START, "storage", f"p{number} is missing") for number in range(3)]
    log.write(found)
    assert lines() == [f"storage: p{number} is missing" for number in range(3)]


def test_memory_and_lines_are_bounded_however_many_subjects_there_are(time, log, lines):
    """And one kind of warnings hides no other."""
    most = NOTICE_SUBJECTS_MAX // NOTICE_SUBJECTS_SHARE
    log.write(refused(f"queue {number}") for number in range(most + 500))
    assert len(lines()) == most + 1
    log.say(NoticeKind.DISK_REFUSES, "disk", "there is no room")
    assert lines() == ["disk: there is no room"]
    time.pass_by(60.0)
    (line,) = lines()
    assert "(499 times in the last minute)" in line
    time.pass_by(120.0)
    assert not log._repeats._keys
    assert OTHERS not in line


def test_a_line_tells_programs_kind_subject_and_count(log, caplog):
    log.write([refused(times=7)])
    entry = json.loads(JsonLogFormatter().format(caplog.records[0]))
    assert (entry["kind"], entry["subject"], entry["times"]) == (
        "refused-queue-not-found",
        "orders",
        7,
    )
    assert entry["message"] == "orders: a message was refused; make room (7 times)"


def test_ends_of_messages_are_counted_by_sentence(time, log, lines):
    kept = Notice(NoticeKind.ENDED_EXPIRED, "orders", "it expired; it is kept")
    gone = Notice(NoticeKind.ENDED_EXPIRED, "orders", "it expired; it is not kept")
    log.write([kept, gone, kept._replace(times=3), gone._replace(times=2)])
    assert lines() == ["orders: it expired; it is kept", "orders: it expired; it is not kept"]
    time.pass_by(60.0)
    assert lines() == [
        "orders: it expired; it is kept (3 times in the last minute)",
        "orders: it expired; it is not kept (2 times in the last minute)",
    ]


def test_links_that_come_and_go_are_logged_for_information(log, caplog):
    caplog.set_level(logging.INFO, "dray.daemon.notice_log")
    log.say(NoticeKind.LINK_DOWN, "there:7340", "the link is down: cut")
    log.say(NoticeKind.LINK_REFUSED, "there:7340", "it refused")
    assert [each.levelname for each in caplog.records] == ["INFO", "WARNING"]
