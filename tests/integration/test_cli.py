"""The command line against a real queue manager: what goes in comes out, once, whole."""

import os
import signal

import pytest

from dray import LargeMessageQueue
from dray.large.digests import DIGESTS
from dray.testing.processes import ManagerProcess
from tests.integration.commands import dray, environment, finish, started, until, words

pytestmark = pytest.mark.slow


@pytest.fixture
def manager(tmp_path):
    with ManagerProcess("manager", tmp_path) as process:
        yield process


@pytest.fixture
def url(manager):
    with manager.connect() as connected:
        for name in ("orders", "large"):
            connected.create_queue(name)
    return manager.url


def count(url, queue):
    return dray("queue", "show", queue, "--json", url=url).assert_good().value["message_count"]


def test_a_queue_can_be_made_seen_emptied_and_deleted(manager):
    url = manager.url
    dray(
        "queue", "create", "orders", "--quota", "1MiB", "--label", "what to do", url=url
    ).assert_good()
    assert dray("queue", "create", "orders", url=url).assert_error("queue-exists")
    dray("queue", "create", "orders", "--exist-ok", url=url).assert_good()
    shown = dray("queue", "show", "orders", "--json", url=url).assert_good().value
    assert (shown["quota"], shown["label"], shown["transactional"]) == (1 << 20, "what to do", True)
    listed = dray("queue", "list", url=url).assert_good().out
    assert ["orders", "private", "yes", "0"] in [row[:4] for row in words(listed)]
    dray("send", "orders", "-", url=url, stdin=b"one").assert_good()
    purged = dray("queue", "purge", "orders", "--yes", url=url).assert_good().out
    assert purged.startswith("purged 1 message, ")
    dray("queue", "delete", "orders", url=url).assert_good()
    assert dray("queue", "show", "orders", url=url).assert_error("queue-not-found")


def test_an_outgoing_queue_shows_how_its_delivery_stands(manager):
    url, there = manager.url, "dray://127.0.0.1:1/orders"
    dray("send", there, "--stdin", url=url, stdin=b"waits").assert_good()
    until(lambda: "refused" in dray("queue", "show", there, url=url).assert_good().out)
    rows = words(dray("queue", "show", there, url=url).assert_good().out)
    shown = {row[0]: row[-1] for row in rows}
    assert (shown["next hop"], shown["unacknowledged"]) == ("127.0.0.1:1", "1")
    assert any("disconnected" in value for key, value in shown.items() if "change" in key)
    assert "delivery" not in shown
    plain = dray("queue", "create", "plain", url=url)
    plain.assert_good()
    assert "next hop" not in dray("queue", "show", "plain", url=url).assert_good().out


def test_standard_input_comes_out_on_standard_output_byte_for_byte(url):
    body = bytes(range(256)) * 40
    dray("send", "orders", "--stdin", "--label", "bytes", url=url, stdin=body).assert_good()
    with started("receive", "orders", url=url) as process:
        out, err = process.communicate(timeout=100)
    assert (process.returncode, out, err) == (0, body, b"")


def test_many_files_travel_in_one_transaction_in_their_order(url, tmp_path):
    files = [tmp_path / f"file-{number}.txt" for number in range(5)]
    for number, file in enumerate(files):
        file.write_text(f"content {number}")
    sent = dray("send", "orders", *files, "--json", url=url).assert_good().value
    assert [message["label"] for message in sent["messages"]] == [file.name for file in files]
    peeked = dray("peek", "orders", "--json", url=url).assert_good().out.splitlines()
    assert len(peeked) == 5
    assert all(sent["transaction_id"].replace("\\", "\\\\") in line for line in peeked)
    out = tmp_path / "out"
    dray("receive", "orders", "--to", out, "--max", 9, url=url).assert_good()
    assert [(out / file.name).read_text() for file in files] == [f.read_text() for f in files]
    assert count(url, "orders") == 0


def test_journals_are_listed_and_shown(url):
    dray("queue", "create", "kept", "--journal", url=url).assert_good()
    dray("send", "kept", "--stdin", "--label", "seen", url=url, stdin=b"x" * 10).assert_good()
    dray("receive", "kept", url=url).assert_good()
    lines = dray("journal", "list", "--json", url=url).assert_good().value
    counts = {line["name"]: line["message_count"] for line in lines}
    assert counts == {"kept;journal": 1, "system$;journal": 0}
    listed = dray("journal", "list", url=url).assert_good().out
    assert "no limit" not in listed.split("system$;journal")[1]
    shown = dray("journal", "show", "kept", "--json", url=url).assert_good().value
    assert (shown["queue"], shown["label"], shown["size"]) == ("kept;journal", "seen", 10)
    assert "seen" in dray("journal", "show", "kept", url=url).assert_good().out
    assert "kept;journal" in dray("journal", "list", url=url).assert_good().out
    assert dray("journal", "show", "--json", url=url).assert_good().out == ""
    dray("journal", "show", "nowhere", url=url).assert_error("queue-not-found")


def test_dead_letters_are_shown_with_the_reason(manager, url):
    dray("queue", "create", "doomed", url=url).assert_good()
    with manager.connect() as connected:
        connected.queue("doomed").send(b"lost", label="lost", use_dead_letter_queue=True)
        connected.delete_queue("doomed")
    (shown,) = dray("deadletter", "list", "--json", url=url).assert_good().value
    assert (shown["queue"], shown["label"]) == ("system$;deadxact", "lost")
    assert shown["message_class"] == "NACK_Q_DELETED"
    listed = dray("deadletter", "list", url=url).assert_good().out
    assert "its queue was deleted with it" in listed


def test_a_large_file_comes_back_the_same(url, tmp_path):
    payload = tmp_path / "load.bin"
    payload.write_bytes(os.urandom(9_000_001))
    dray("send", "large", payload, "--large", url=url).assert_good()
    assert count(url, "large") == 5
    received = dray("receive", "large", "--large", "--to", tmp_path / "out", "--json", url=url)
    assert received.assert_good().value["size"] == 9_000_001
    assert (tmp_path / "out" / "load.bin").read_bytes() == payload.read_bytes()
    assert count(url, "large") == 0


@pytest.mark.parametrize("option", [(), ("--digest", "sha256")])
def test_large_messages_have_the_digest_that_their_queue_was_created_with(url, tmp_path, option):
    (tmp_path / "load.bin").write_bytes(b"load")
    dray("queue", "create", "chosen", *option, url=url).assert_good()
    shown = dray("queue", "show", "chosen", "--json", url=url).assert_good().value
    assert shown["digest"] == (option[1] if option else None)
    dray("send", "chosen", tmp_path / "load.bin", "--large", url=url).assert_good()
    told = dray("receive", "chosen", "--large", "--to", tmp_path / "out", "--json", url=url)
    kind = option[1] if option else "blake3"
    assert told.assert_good().value["digest_kind"] == kind
    assert told.value["digest"] == DIGESTS[kind](b"load").hexdigest()


def test_digest_compression_and_dead_letters_of_what_is_sent_can_be_chosen(url, tmp_path, manager):
    (tmp_path / "load.bin").write_bytes(bytes(3_000_000))
    chosen = ("--large", "--digest", "sha256", "--compression", "zstd", "--dead-letter")
    dray("send", "large", tmp_path / "load.bin", *chosen, url=url).assert_good()
    with manager.connect() as connected:
        large = connected.queue("large", raw=True)
        assert all(part.use_dead_letter_queue for part in large.messages())
        assert large.info().byte_count < 100_000
    told = dray("receive", "large", "--large", "--to", tmp_path / "out", "--json", url=url)
    assert told.assert_good().value["digest_kind"] == "sha256"
    assert (tmp_path / "out" / "load.bin").read_bytes() == bytes(3_000_000)
    for option in chosen[1:5:2]:
        said = dray("send", "orders", "-", option, chosen[chosen.index(option) + 1], url=url)
        assert (said.status, "are for --large" in said.err) == (2, True)


def test_files_are_whole_also_where_nothing_waits_for_the_disk(url, tmp_path):
    payload = tmp_path / "load.bin"
    payload.write_bytes(os.urandom(9_000_001))
    dray("send", "large", payload, "--large", url=url).assert_good()
    to = ("--to", tmp_path / "out")
    dray("receive", "large", "--large", *to, "--no-sync", url=url).assert_good()
    assert (tmp_path / "out" / "load.bin").read_bytes() == payload.read_bytes()
    said = dray("receive", "large", "--no-sync", url=url)
    assert said.status == 2
    assert "--no-sync is for --to" in said.err


def test_a_send_that_can_be_resumed_removes_its_state_file(url, tmp_path):
    (tmp_path / "load.bin").write_bytes(b"heavy" * 1000)
    state = tmp_path / "upload.state"
    dray("queue", "create", "heavy-resumed", url=url).assert_good()
    dray("queue", "create", "statusq", "--exist-ok", url=url)
    arguments = ("send", "heavy-resumed", tmp_path / "load.bin", "--large", "--resume", state)
    dray(*map(str, arguments), url=url).assert_good()
    assert not state.exists()
    state.write_text("nonsense")
    dray(*map(str, arguments), url=url).assert_error("misuse")
    for wrong in (arguments[:3] + arguments[4:], (*arguments[:3], tmp_path, *arguments[3:])):
        assert dray(*map(str, wrong), url=url).status == 2


def test_a_receive_goes_on_with_what_an_earlier_one_left(url, tmp_path):
    payload = tmp_path / "load.bin"
    payload.write_bytes(os.urandom(9_000_001))
    dray("send", "large", payload, "--large", url=url).assert_good()
    out = tmp_path / "out"
    out.mkdir()
    dray("receive", "large", "--to", out, "--large", "--resume", url=url).assert_good()
    assert [path.name for path in out.iterdir()] == ["load.bin"]
    assert (out / "load.bin").read_bytes() == payload.read_bytes()
    assert dray("receive", "large", "--resume", url=url).status == 2


def test_an_upload_that_cannot_go_on_is_listed_and_dropped(manager, url, tmp_path):
    """What the error says can be done can be done, with the names that are at hand."""
    load, state = tmp_path / "load.bin", tmp_path / "upload.state"
    load.write_bytes(b"heavy" * 1000)
    assert dray("upload", "list", "large", "--json", url=url).assert_good().value == []

    def stop(*_):
        raise KeyError("as a kill would")

    with manager.connect() as connected:
        large = LargeMessageQueue(connected.queue("large"))
        with pytest.raises(KeyError):
            large.send(load, label="load.bin", resume=state, progress=stop)
    load.write_bytes(b"other" * 1000)
    send = ("send", "large", load, "--large", "--resume", state)
    assert "dray upload drop" in dray(*send, url=url).assert_error("source-changed")
    (listed,) = dray("upload", "list", "large", "--json", url=url).assert_good().value
    assert (listed["path"], listed["bytes_total"]) == (str(load), 5000)
    id = listed["sequence_id"]
    row = words(dray("upload", "list", "large", url=url).assert_good().out)[1]
    assert (row[0], row[-1]) == (id, str(load))
    assert dray("upload", "drop", "large", id, url=url).assert_good().out == f"dropped {id}\n"
    dray("upload", "drop", "large", id, url=url).assert_error("message-not-found")
    dray(*send, url=url).assert_good()
    assert not state.exists()
    received = dray("receive", "large", "--large", "--to", tmp_path / "out", url=url)
    received.assert_good()
    assert (tmp_path / "out" / "load.bin").read_bytes() == load.read_bytes()


def test_several_large_messages_are_sent_in_one_transaction(url, tmp_path):
    files = [tmp_path / name for name in ("a.bin", "empty.bin", "b.bin")]
    for file, size in zip(files, (5_000_000, 0, 100), strict=True):
        file.write_bytes(os.urandom(size))
    dray("send", "large", *files, "--large", "--fragment-size", "1MiB", url=url).assert_good()
    dray("receive", "large", "--large", "--to", tmp_path / "out", "--max", 3, url=url).assert_good()
    for file in files:
        assert (tmp_path / "out" / file.name).read_bytes() == file.read_bytes()


def test_an_empty_queue_is_a_timeout_and_no_error_after_the_first(url):
    dray("receive", "orders", "--timeout", 0, url=url).assert_error("receive-timeout")
    dray("send", "orders", "-", url=url, stdin=b"one").assert_good()
    assert dray("receive", "orders", "--max", 5, url=url).assert_good().out == "one"


def test_a_label_from_elsewhere_cannot_write_outside_the_directory(url, tmp_path):
    out = tmp_path / "inside"
    dray("send", "orders", "-", "--label", "../../escaped", url=url, stdin=b"x").assert_good()
    said = dray("receive", "orders", "--to", out, "--json", url=url).assert_good()
    assert said.value["path"] == str(out / "escaped")
    assert not (tmp_path / "escaped").exists()


def test_the_same_label_twice_makes_two_files(url, tmp_path):
    for body in (b"first", b"second"):
        dray("send", "orders", "-", "--label", "same.txt", url=url, stdin=body).assert_good()
    dray("receive", "orders", "--to", tmp_path, "--max", 2, url=url).assert_good()
    assert (tmp_path / "same.txt").read_bytes() == b"first"
    assert (tmp_path / "same (2).txt").read_bytes() == b"second"


def test_an_interrupt_ends_with_130_and_takes_nothing(url, manager):
    with started("receive", "orders", url=url) as process, manager.connect() as connected:
        assert b"waiting for a message" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        said = finish(process)
        assert said.status == 130
        assert said.err.strip().startswith("dray: interrupted")
        connected.queue("orders").send(b"still here")
    assert dray("receive", "orders", url=url).assert_good().out == "still here"


def test_an_interrupted_receive_to_a_directory_leaves_the_message(url, tmp_path):
    """The directory cannot be written, so the transaction aborts and the message stays."""
    dray("send", "orders", "-", "--label", "kept", url=url, stdin=b"kept").assert_good()
    blocked = tmp_path / "blocked"
    blocked.write_bytes(b"")
    dray("receive", "orders", "--to", blocked, url=url).assert_error("invalid-configuration")
    assert count(url, "orders") == 1


def test_messages_outside_transactions_work_on_their_kind_of_queue(manager, tmp_path):
    url = manager.url
    dray("queue", "create", "plain", "--non-transactional", url=url).assert_good()
    dray("send", "plain", "-", url=url, stdin=b"light").assert_good()
    assert dray("receive", "plain", url=url).assert_good().out == "light"


def test_serve_ends_cleanly_on_a_signal_and_keeps_what_it_has(tmp_path):
    process = ManagerProcess("manager", tmp_path)
    process.start()
    dray("queue", "create", "orders", url=process.url).assert_good()
    dray("send", "orders", "-", url=process.url, stdin=b"kept").assert_good()
    process.stop()
    assert not process.running
    with process:
        assert dray("receive", "orders", url=process.url).assert_good().out == "kept"


def test_an_address_comes_from_the_option_or_the_environment(url):
    assert dray("--url", url, "queue", "list", url="dray://127.0.0.1:1").assert_good()
    assert dray("queue", "list", "--url", url).assert_good()
    assert "DRAY_URL" in environment(url)


def test_a_hole_is_named_and_its_parts_are_gone(url, manager, tmp_path):
    payload = tmp_path / "load.bin"
    payload.write_bytes(os.urandom(5_000_000))
    send = ("send", "large", payload, "--large", "--fragment-size", 1_000_000)
    sent = dray(*send, "--json", url=url).assert_good().value
    with manager.connect() as connected:
        raw = connected.queue("large", raw=True)
        first = raw.peek_by_correlation_id(sent["messages"][0]["id"])
        for fragment in (2, 3):
            raw.receive_by_lookup_id(first.lookup_id + fragment - 1)
    said = dray("receive", "large", "--large", "--to", tmp_path / "out", url=url)
    line = said.assert_error("large-message-hole")
    print(line)
    assert sent["messages"][0]["id"] in line
    assert "2" in line
    assert "3" in line
    assert not (tmp_path / "out").exists()
    assert count(url, "large") == 0
