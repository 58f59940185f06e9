"""The commands for who runs a queue manager: looking at messages, queues, rates and connections."""

import json
import os
import pty
import signal
import subprocess
import termios

import pytest

import dray as client
from dray.cli.program import run
from dray.testing.processes import ManagerProcess
from tests.integration.commands import COMMAND, dray, environment, until, words

pytestmark = pytest.mark.slow
THERE = "dray://127.0.0.1:1/orders"


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    with ManagerProcess("manager", tmp_path_factory.mktemp("operators")) as running:
        with running.connect() as manager:
            for name in ("orders", "heavy", "statusq"):
                manager.create_queue(name)
        yield running


@pytest.fixture
def url(process):
    return process.url


@pytest.fixture
def manager(process):
    with process.connect() as connected:
        yield connected
        for name in ("orders", "heavy"):
            connected.queue(name).purge()


def large(manager):
    return client.LargeMessageQueue(manager.queue("heavy"), fragment_size=1000)


def rows_of(said):
    return {row[0]: row[1:] for row in words(said.assert_good().out)[1:]}


def test_peek_shows_a_large_message_on_one_line_and_whether_it_is_whole(url, manager):
    id = large(manager).send(b"x" * 2500, label="load.csv")
    other = large(manager).send(b"y" * 1500, label="other.bin")
    shown = [each.lookup_id for each in manager.queue("heavy").contents()]
    manager.queue("heavy", raw=True).receive_by_lookup_id(shown[1] + 1)
    lines = words(dray("peek", "heavy", "--large", url=url).assert_good().out)[1:]
    assert [(line[1], line[3], line[4], line[6]) for line in lines] == [
        ("load.csv", "5", "whole", id),
        ("other.bin", "3", "hole", other),
    ]
    matched = dray("peek", "heavy", "--large", "--match", "*.csv", "--json", url=url)
    assert matched.assert_good().value["id"] == id
    behind = dray("peek", "heavy", "--large", "--after", shown[0], "--json", url=url)
    assert behind.assert_good().value["wholeness"] == "hole"


def test_peek_begins_behind_a_position_and_shows_labels_that_match(url, manager):
    orders = manager.queue("orders")
    orders.send_many([client.Message(b"x", label=label) for label in ("a", "b", "c")])
    first = orders.peek().lookup_id
    for arguments in (("--after", first), ("--match", "[bc]")):
        said = dray("peek", "orders", *arguments, "--max", 1, "--json", url=url).assert_good()
        assert said.value["label"] == "b"
        assert {"extension", "abort_count", "response_queue", "correlation_id"} <= set(said.value)


def test_show_gives_the_properties_or_the_body_of_one_message(url, manager):
    body = os.urandom(2500)
    id = large(manager).send(body, label="load")
    plain = manager.queue("orders").send(b"\x00hello, world", label="plain", app_specific=7)
    assert dray("show", "orders", plain, "--json", url=url).assert_good().value["app_specific"] == 7
    assert "plain" in dray("show", "orders", plain.replace("\\", "/"), url=url).assert_good().out
    shown = dray("show", "heavy", id, "--json", url=url).assert_good().value
    assert (shown["label"], shown["size"], shown["parts"]) == ("load", 2500, 5)
    assert "2,500 bytes" in dray("show", "heavy", id, url=url).assert_good().out
    done = subprocess.run(
        [*COMMAND, "show", "heavy", id, "--body"],
        capture_output=True, check=True, env=environment(url),
    )  # fmt: skip
    assert done.stdout == body
    position = manager.queue("orders").peek().lookup_id
    dumped = dray("show", "orders", position, "--hex", url=url).assert_good().out
    encoded = b"\0hello, world".hex(" ")
    assert dumped == f"00000000  {encoded:<47}  .hello, world\n"
    dray("show", "orders", id, url=url).assert_error("message-not-found")
    assert manager.queue("heavy").info().message_count == 5


def test_info_shows_the_queue_manager(url, process):
    shown = dray("info", url=url).assert_good().out
    assert str(process.pid) in shown
    assert "running for" in shown
    assert dray("info", "--json", url=url).assert_good().value["pid"] == process.pid


def test_top_shows_depths_rates_and_the_age_of_the_oldest(url, manager):
    orders = manager.queue("orders")
    orders.send_many([b"x"] * 3)
    with subprocess.Popen(
        [*COMMAND, "top", "--once", "--interval", "1", "--json"],
        stdout=subprocess.PIPE, env=environment(url),
    ) as top:  # fmt: skip
        while top.poll() is None:
            orders.send(b"y")
            orders.receive(0)
        out = top.stdout.read()
    (row,) = [each for each in json.loads(out) if each["queue"] == "orders"]
    assert row["message_count"] in (3, 4)
    assert min(row["arriving_per_s"], row["leaving_per_s"]) > 0
    assert row["oldest_s"] > 0
    table = rows_of(dray("top", "--once", "--interval", "0.05", url=url))
    assert table["orders"][0] == "3"


def test_top_draws_one_screen_on_a_terminal_until_it_is_interrupted(url, manager):
    manager.queue("orders").send(b"x")
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(ours, (24, 120))
    with subprocess.Popen(
        [*COMMAND, "top", "--interval", "0.1"],
        stdout=theirs, stderr=subprocess.PIPE, env=environment(url) | {"TERM": "xterm"},
    ) as top:  # fmt: skip
        os.close(theirs)
        said = b""
        while said.count(b"\x1b[H\x1b[J") < 3:
            said += os.read(ours, 65536)
        top.send_signal(signal.SIGINT)
        while top.poll() is None:
            try:
                os.read(ours, 65536)
            except OSError:
                break
        assert top.wait(60) == 130
    os.close(ours)
    screen = said.split(b"\x1b[H\x1b[J")[1]
    assert b"orders" in screen
    assert screen.count(b"\n") <= 24


def test_an_outgoing_queue_is_paused_resumed_and_tried_again(url, manager):
    manager.queue(THERE).send(b"x")
    assert rows_of(dray("outgoing", "list", url=url))[THERE][0] == "1"
    assert "127.0.0.1:1" in dray("outgoing", "show", THERE, url=url).assert_good().out
    assert dray("outgoing", "pause", THERE, url=url).assert_good().out == f"paused {THERE}\n"
    assert manager.queue(THERE).info().state == "on hold"
    dray("outgoing", "retry", THERE, url=url).assert_error("misuse")
    dray("outgoing", "resume", THERE, url=url).assert_good()

    def tried():
        return sum(each.times for each in manager.queue(THERE).info().delivery.history)

    before = until(tried)
    dray("outgoing", "retry", THERE, url=url).assert_good()
    until(lambda: tried() > before)
    dray("outgoing", "show", "orders", url=url).assert_error("misuse")
    manager.delete_queue(THERE)


def test_quotas_of_a_queue_are_set_and_lifted(url, manager):
    said = dray("queue", "set", "orders", "--quota", "1MiB", "--json", url=url).assert_good()
    assert said.value == {"queue": "orders", "quota": 1 << 20, "journal_quota": None}
    dray("queue", "set", "orders", "--journal-quota", "2MiB", url=url).assert_good()
    info = manager.queue("orders").info()
    assert (info.quota, info.journal_quota) == (1 << 20, 2 << 20)
    told = dray("queue", "set", "orders", "--quota", "none", url=url).assert_good().out
    assert "quota no limit, journal quota 2.0 MiB" in told
    assert dray("queue", "set", "orders", url=url).status == 2


def test_queue_list_counts_large_messages_and_hides_what_nobody_asked_for(url, manager):
    large(manager).send(b"x" * 2500)
    manager.queue(THERE).send(b"x")
    manager.queue(THERE).purge()
    listed = rows_of(dray("queue", "list", url=url))
    assert listed["heavy"][2:4] == ["5", "1"]
    assert not {"system$;deadxact", THERE} & set(listed)
    every = rows_of(dray("queue", "list", "--all", url=url))
    assert {"system$;deadxact", THERE} <= set(every)
    names = {each["name"] for each in dray("queue", "list", "--json", url=url).value}
    assert {"system$;deadxact", THERE} <= names
    manager.pause(THERE)
    assert THERE in rows_of(dray("queue", "list", url=url))
    manager.delete_queue(THERE)


def test_create_says_whether_the_queue_was_there(url, manager):
    for said in ("created", "exists"):
        told = dray("queue", "create", "new", "--exist-ok", url=url).assert_good().out
        assert told == f"{said} new\n"
    for option in ("--non-transactional", "--journal"):
        refused = dray("queue", "create", "new", "--exist-ok", option, url=url)
        assert "exists, but" in refused.assert_error("queue-exists")
    told = dray("queue", "delete", "new", url=url).assert_good().out
    assert told.startswith("deleted new with 0")


@pytest.mark.parametrize(("command", "done"), [("purge", "purged 2 me"), ("delete", "deleted tmp")])
def test_a_command_that_destroys_asks_on_a_terminal_and_needs_yes_elsewhere(
    url, manager, command, done
):
    queue = manager.create_queue("tmp", exist_ok=True)
    queue.send_many([b"abc", b"def"])
    refused = dray("queue", command, "tmp", url=url)
    assert (refused.status, "2 messages" in refused.err, "--yes" in refused.err) == (2, True, True)
    for answer, status in ((b"n\n", 130), (b"y\n", 0)):
        ours, theirs = pty.openpty()
        with subprocess.Popen(
            [*COMMAND, "queue", command, "tmp"],
            stdin=theirs, stderr=theirs, stdout=subprocess.PIPE, env=environment(url),
        ) as asked:  # fmt: skip
            os.write(ours, answer)
            out, _ = asked.communicate(timeout=60)
        os.close(ours)
        os.close(theirs)
        assert asked.returncode == status
        assert out.decode().startswith(done) == (status == 0)
        if status:
            assert queue.info().message_count == 2


def test_a_purge_takes_no_message_that_came_after_the_question(url, manager, monkeypatch):
    def came_since(*_, **__):
        queue.send(b"came since")

    queue = manager.create_queue("purged")
    queue.send_many([b"abc", b"def"])
    monkeypatch.setattr("dray.cli.commands.queue.make_sure", came_since)
    assert run(["--url", url, "queue", "purge", "purged"]) == 0
    assert [each.body for each in queue.messages()] == [b"came since"]
    manager.delete_queue("purged")
