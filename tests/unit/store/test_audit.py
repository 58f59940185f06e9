"""The chain of the audit: whatever is done to its lines shows."""

from __future__ import annotations

import hashlib
import json
import threading

import pytest

from dray.errors import StoreError
from dray.store.audit import AUDIT_NAME, AuditLog, read_entries
from dray.store.chain import ORIGIN, ChainHead, verify_chain

NOW = 1_700_000_000.25


@pytest.fixture
def audit(tmp_path):
    audit = AuditLog(tmp_path)
    yield audit
    audit.close()


def write(audit, count=3):
    for number in range(count):
        audit.append("edited", f"f{number}", seen="running", now=NOW, detail="5 bytes")


def test_the_bytes_are_what_they_always_were(audit):
    audit.append("edited", "QMLog", seen="running", now=NOW, detail="5 bytes")
    assert audit.path.read_bytes() == (
        b'{"number":1,"time":"2023-11-14T22:13:20.250Z","change":"edited","file":"QMLog",'
        b'"seen":"running","detail":"5 bytes","previous":"' + b"0" * 64 + b'"}\n'
    )


def test_a_change_is_in_the_log_of_the_program_too_unless_a_command_is_told_of_it(audit, caplog):
    audit.append("edited", "QMLog", seen="running", now=NOW, detail="5 bytes")
    audit.append("removed", "QMLog", seen="running", now=NOW)
    audit.append("edited", "MQTrans", seen="command", now=NOW)
    assert caplog.messages == [
        "QMLog was edited by another program: 5 bytes",
        "QMLog was removed by another program",
    ]


def test_each_line_carries_the_digest_of_the_one_before(audit):
    write(audit)
    lines = audit.path.read_bytes().splitlines()
    for before, line in zip([None, *lines], lines, strict=False):
        expected = ORIGIN if before is None else hashlib.sha256(before).hexdigest()
        assert json.loads(line)["previous"] == expected
    report = verify_chain(audit.path)
    assert report.intact
    assert (report.entries, report.digest) == audit.head
    assert [entry.file for entry in read_entries(audit.path)] == ["f0", "f1", "f2"]


def test_the_chain_goes_on_after_it_was_opened_again(audit, tmp_path):
    write(audit)
    again = AuditLog(tmp_path)
    assert again.known
    assert again.head == audit.head
    write(again)
    again.close()
    assert verify_chain(audit.path).entries == 6


def test_none_is_whole_and_empty(tmp_path):
    assert verify_chain(tmp_path / "none") == (0, ORIGIN, 0, "")
    assert list(read_entries(tmp_path / "none")) == []


@pytest.mark.parametrize(
    ("act", "line"),
    [
        (lambda lines: lines[1:], 1),
        (lambda lines: [lines[0], *lines[2:]], 2),
        (lambda lines: [lines[1], lines[0], *lines[2:]], 1),
        (lambda lines: [lines[0].replace(b"f0", b"f9"), *lines[1:]], 2),
        (lambda lines: [lines[0], b"?\n", *lines[1:]], 2),
        (lambda lines: [lines[0], lines[0], *lines[1:]], 2),
        (lambda lines: [*lines[:-1], lines[-1][:-9]], 4),
        (lambda lines: [*lines[:-1], lines[-1].replace(b'"number":4', b'"number":5')], 4),
    ],
)
def test_what_is_done_to_lines_breaks_the_chain(audit, act, line):
    write(audit, 4)
    audit.path.write_bytes(b"".join(act(audit.path.read_bytes().splitlines(keepends=True))))
    report = verify_chain(audit.path)
    assert not report.intact
    assert (report.line, report.problem != "") == (line, True)


def test_no_flipped_bit_is_missed_but_in_the_last_line(audit):
    write(audit)
    image = audit.path.read_bytes()
    for at in range(image.rfind(b"\n", 0, -1)):
        audit.path.write_bytes(image[:at] + bytes([image[at] ^ 1]) + image[at + 1 :])
        assert not verify_chain(audit.path).intact, at


def test_an_unfinished_line_is_cut_off(audit, tmp_path):
    write(audit)
    head = audit.head
    with audit.path.open("ab") as file:
        file.write(b'{"number":4,')
    assert verify_chain(audit.path).problem == "the last entry is unfinished"
    again = AuditLog(tmp_path)
    assert (again.head, again.cut_bytes) == (head, 12)
    again.close()
    assert verify_chain(audit.path).intact


def test_a_removed_audit_goes_on_in_a_new_file_that_shows_the_loss(audit):
    write(audit)
    audit.path.unlink()
    write(audit, 1)
    report = verify_chain(audit.path)
    assert (report.line, report.intact) == (1, False)
    assert audit.head.entries == 4


def test_any_thread_may_append(audit):
    threads = [threading.Thread(target=write, args=(audit, 20)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert verify_chain(audit.path).entries == 80


def test_a_place_where_nothing_can_be_written_is_named(tmp_path):
    (tmp_path / AUDIT_NAME).mkdir()
    with pytest.raises(StoreError, match=AUDIT_NAME):
        AuditLog(tmp_path)
    with pytest.raises(StoreError, match=AUDIT_NAME):
        verify_chain(tmp_path / AUDIT_NAME)


def test_an_entry_that_could_not_be_written_leaves_the_chain_whole(audit, monkeypatch):
    write(audit)

    def broken(_descriptor):
        raise OSError(5, "input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("dray.store.chain.os.fsync", broken)
        with pytest.raises(StoreError, match="input/output error"):
            write(audit, 1)
    assert audit.head == ChainHead(*verify_chain(audit.path)[:2])
    write(audit, 1)
    assert verify_chain(audit.path).entries == 4
