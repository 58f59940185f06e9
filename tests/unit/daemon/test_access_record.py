"""Acts of callers on their way to the access log: counted, bounded, and written by a thread."""

from __future__ import annotations

import asyncio
import logging
import threading

from dray.daemon import access_record
from dray.daemon.access_record import AccessRecord, last_acts
from dray.daemon.limits import ACCESS_LINES_MAX, NOTICE_S
from dray.daemon.notice_log import NoticeLog
from dray.errors import StoreError
from dray.manager.events import ActKind, CallerAct
from dray.model.access import Access, AccessRule, Verb
from dray.model.callers import NOBODY, Caller
from dray.store.access_log import AccessEntry, AccessLog, read_access_log, verify_access_log
from dray.store.chain import moment
from tests.unit.daemon.test_notice_log import Time

ADA = Caller("user:ada", address="10.0.0.1:4000")


def act(kind=ActKind.REFUSED, caller=ADA, subject="orders", frame="PurgeQueue"):
    return CallerAct(kind, caller, 7, frame, subject)


def recorded(tmp_path, *steps):
    """What stands in the log after these steps, each given the record and the time."""
    time = Time()

    async def run():
        loop = asyncio.get_running_loop()
        record = AccessRecord(loop, time, tmp_path, NoticeLog(loop, time))
        record._repeats._loop = time
        for step in steps:
            waits = step(record, time)
            if waits is not None:
                await waits
        await record.stop()

    asyncio.run(run())
    assert verify_access_log(tmp_path)[1].intact
    return [(each.act, each.caller, each.subject, each.times) for each in read_access_log(tmp_path)]


def test_the_first_refusal_of_a_caller_is_a_line_and_the_others_of_a_minute_are_counted(tmp_path):
    def many(record, time):
        for number in range(500):
            record.note(act(subject=f"queue {number}"))
        record.note(act(caller=Caller("user:bob")))
        time.pass_by(NOTICE_S)

    assert recorded(tmp_path, many) == [
        ("refused", "user:ada", "queue 0", 1),
        ("refused", "user:bob", "orders", 1),
        ("refused", "user:ada", "queue 499", 499),
    ]


def test_each_managing_act_is_a_line_until_there_are_too_many(tmp_path):
    def many(record, time):
        for number in range(ACCESS_LINES_MAX + 5):
            record.note(act(ActKind.MANAGE, subject=f"queue {number}"))

    found = recorded(tmp_path, many)
    assert len(found) == ACCESS_LINES_MAX + 1
    assert found[-1] == ("manage", "user:ada", f"queue {ACCESS_LINES_MAX + 4}", 5)


def test_a_stream_that_is_opened_again_and_again_costs_a_line_a_minute_for_each_queue(tmp_path):
    def many(record, time):
        for number in range(100):
            record.note(act(ActKind.DELIVER, subject=f"queue {number % 2}"))

    assert [(subject, times) for _, _, subject, times in recorded(tmp_path, many)] == [
        ("queue 0", 1),
        ("queue 1", 1),
        ("queue 0", 49),
        ("queue 1", 49),
    ]


def test_rules_are_told_by_their_digest(tmp_path):
    rules = [AccessRule(("user:ada",), (Verb.SEND,), ("orders",))]

    def change(record, _time):
        record.rules(Access(), "start")
        record.rules(Access(rules), "reload")

    first, second = recorded(tmp_path, change)
    assert first[0] == second[0] == "rules"
    assert "0 rules" in first[2]
    assert "1 rules" in second[2]
    assert first[2].split()[-1] != second[2].split()[-1]


def test_a_caller_that_does_much_at_very_many_queues_hides_no_act_of_another(tmp_path):
    def many(record, _time):
        for number in range(2_000):
            record.note(act(ActKind.DELIVER, subject=f"queue {number}"))
        for number in range(2_000):
            stranger = Caller(NOBODY, address=f"[2001:db8::{number:x}]:4000")
            record.note(act(caller=stranger, frame="Hello", subject=""))
        record.note(act(caller=Caller("user:bob"), subject="secrets"))
        record.note(act(ActKind.MANAGE, caller=Caller("user:eve"), subject="gone"))

    found = recorded(tmp_path, many)
    assert ("refused", "user:bob", "secrets", 1) in found
    assert ("manage", "user:eve", "gone", 1) in found
    assert "others" not in {caller for _, caller, _, _ in found}
    for name, most in (("user:ada", 252), (NOBODY, 252)):
        times = [each for _, caller, _, each in found if caller == name]
        assert sum(times) == 2_000
        assert len(times) <= most


def test_very_many_callers_share_a_line_that_names_none_of_them(tmp_path, monkeypatch):
    monkeypatch.setattr("dray.daemon.repeats.NOTICE_SUBJECTS_MAX", 3)

    def many(record, _time):
        for number in range(10):
            record.note(act(caller=Caller(f"user:{number}")))

    found = recorded(tmp_path, many)
    assert [caller for _, caller, _, _ in found] == ["user:0", "user:1", "user:2", *["others"] * 2]
    assert sum(times for *_, times in found) == 10


def test_the_loop_does_not_wait_for_the_disk(tmp_path, monkeypatch):
    gate, threads = threading.Event(), set()
    append = AccessLog.append

    def slow(log, lines):
        threads.add(threading.current_thread())
        gate.wait(60)
        append(log, lines)

    monkeypatch.setattr(AccessLog, "append", slow)
    monkeypatch.setattr(access_record, "ACCESS_LINES_WAITING_MAX", 5)

    def many(record, _time):
        for number in range(20):
            record.note(act(caller=Caller(f"user:{number}")))
        gate.set()

    found = recorded(tmp_path, many)
    assert threading.main_thread() not in threads
    assert [kind for kind, *_ in found] == ["refused"] * 6 + ["lost"]
    assert sum(times for *_, times in found) == 20


def test_lines_that_the_disk_refused_are_written_when_it_takes_them(tmp_path, monkeypatch):
    append, failed, written = AccessLog.append, [], threading.Event()

    def refusing(log, lines):
        if len(failed) < 2:
            failed.append(1)
            raise StoreError("access.jsonl: there is no room")
        append(log, lines)
        written.set()

    monkeypatch.setattr(AccessLog, "append", refusing)
    monkeypatch.setattr(access_record, "ACCESS_RETRY_S", 0.0)
    found = recorded(
        tmp_path,
        lambda record, _: record.note(act()),
        lambda record, _: record.note(act(caller=Caller("user:bob"))),
        lambda *_: asyncio.to_thread(written.wait, 60),
    )
    assert [caller for _, caller, _, _ in found] == ["user:ada", "user:bob"]


def test_acts_that_could_never_be_written_are_an_error_in_the_log(tmp_path, monkeypatch, caplog):
    def refusing(_log, _lines):
        raise StoreError("access.jsonl: there is no room")

    monkeypatch.setattr(AccessLog, "append", refusing)
    with caplog.at_level(logging.WARNING):
        assert recorded(tmp_path, lambda record, _: record.note(act())) == []
    assert "missing in the access log: 1 act" in caplog.text
    assert "there is no room" in caplog.text


def test_the_last_acts_are_those_of_callers_the_newest_first(tmp_path):
    log = AccessLog(tmp_path)
    acts = [AccessEntry(0, moment(at), "manage", "user:ada", subject=str(at)) for at in range(300)]
    log.append(acts)
    rules = AccessEntry(0, moment(300), "rules", "owner", frame="start")
    log.append([rules, AccessEntry(0, moment(301), "lost")])
    log.close()
    path = tmp_path / "access.jsonl"
    path.write_bytes(path.read_bytes().replace(b"1970-01-01T00:04:59", b"some other words..."))
    acts = last_acts(tmp_path)
    assert len(acts) == 197
    assert (acts[0].when, acts[0].subject, acts[0].act) == (298.0, "298", "manage")
    assert last_acts(None) == last_acts(tmp_path / "nowhere") == ()
