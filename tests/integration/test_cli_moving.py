"""Dead letters and moves by the installed program: nothing is lost, nothing comes twice."""

import json
import os

import pytest

import dray as client
from dray.cli.program import run
from dray.testing.processes import ManagerProcess
from tests.integration.commands import dray, finish, started, until

pytestmark = pytest.mark.slow
DEAD = "system$;deadxact"


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    with ManagerProcess("manager", tmp_path_factory.mktemp("moving")) as running:
        yield running


@pytest.fixture
def manager(process):
    with process.connect() as connected:
        for name in ("statusq", "other", "heavy", "plain"):
            connected.create_queue(name, exist_ok=True)
        yield connected
        for name in ("other", "heavy", "plain", DEAD):
            connected.queue(name).purge()


def ids_in(manager, name):
    return [each.id for each in manager.queue(name).contents()]


def dead_large(manager, body):
    large = client.LargeMessageQueue(manager.queue("heavy"), fragment_size=1000)
    id = large.send(body, label="load.bin", use_dead_letter_queue=True)
    manager.queue("heavy").purge()
    return id


def dead_plain(manager, count):
    orders = manager.queue("plain")
    ids = orders.send_many([client.Message(b"x", use_dead_letter_queue=True)] * count)
    orders.purge()
    return ids


def test_a_large_dead_letter_is_one_line_with_its_reason_in_words(process, manager):
    id = dead_large(manager, os.urandom(9_000))
    (shown,) = dray("deadletter", "list", "--json", url=process.url).assert_good().value
    assert (shown["id"], shown["size"], shown["parts"]) == (id, 9_000, 11)
    assert shown["reason"] == "it was purged from its queue"
    lines = dray("deadletter", "list", url=process.url).assert_good().out.splitlines()
    assert len(lines) == 2
    assert "it was purged from its queue" in lines[1]
    told = dray("deadletter", "show", id.replace("\\", "-"), url=process.url).assert_good().out
    assert "load.bin" in told
    assert "heavy" in told
    dray("deadletter", "show", id + "0", url=process.url).assert_error("message-not-found")


def test_a_dead_letter_is_saved_and_sent_again_and_dropped(process, manager, tmp_path):
    body = os.urandom(9_000)
    id = dead_large(manager, body)
    for name in ("load.bin", "load (2).bin"):
        saved = dray("deadletter", "save", id, "--to", tmp_path, "--json", url=process.url)
        assert saved.assert_good().value["path"] == str(tmp_path / name)
        assert (tmp_path / name).read_bytes() == body
    told = dray("deadletter", "retry", id, "--to", "other", url=process.url).assert_good().out
    assert told == "sent 1 message again\n"
    assert (ids_in(manager, DEAD), ids_in(manager, "other")) == ([], [id])
    again = dead_large(manager, body)
    said = dray("deadletter", "drop", again, url=process.url)
    assert (said.status, "--yes" in said.err, ids_in(manager, DEAD)) == (2, True, [again])
    dray("deadletter", "drop", again, "--yes", url=process.url).assert_good()
    assert ids_in(manager, DEAD) == []
    gone = dray("deadletter", "show", again, url=process.url).assert_error("message-not-found")
    assert again in gone, "as the list shows it"


def test_a_saved_dead_letter_replaces_no_file_that_appears_while_it_is_saved(
    process, manager, tmp_path, monkeypatch
):
    def write_theirs(step):
        if step == "file-synced":
            (tmp_path / "load.bin").write_bytes(b"theirs")

    body = os.urandom(9_000)
    id = dead_large(manager, body)
    monkeypatch.setattr("dray.client.files.steps.watch", write_theirs)
    assert run(["--url", process.url, "deadletter", "save", id, "--to", str(tmp_path)]) == 0
    assert (tmp_path / "load.bin").read_bytes() == b"theirs"
    assert (tmp_path / "load (2).bin").read_bytes() == body
    assert len(list(tmp_path.iterdir())) == 2
    dray("deadletter", "drop", id, "--yes", url=process.url).assert_good()


def test_a_dead_letter_that_cannot_be_sent_keeps_no_other_back(process, manager):
    manager.create_queue("doomed", exist_ok=True)
    lost = manager.queue("doomed").send(b"x", use_dead_letter_queue=True)
    manager.delete_queue("doomed")
    ids = dead_plain(manager, 3)
    said = dray("deadletter", "retry", "--all", url=process.url)
    said.assert_error("queue-not-found")
    assert "sent 3 messages again" in said.out
    assert (ids_in(manager, DEAD), ids_in(manager, "plain")) == ([lost], ids)


@pytest.mark.parametrize("name", ["plain", ".\\private$\\plain"])
def test_a_move_to_the_same_queue_is_a_usage_error(process, manager, name):
    ids = manager.queue("plain").send_many([b"x", b"y"])
    for source in ("plain", "other"):
        said = dray("move", source, name.replace("plain", source), url=process.url)
        assert said.status == 2
        assert f"FROM and TO are both {source}: name another queue as TO." in said.err
    assert ids_in(manager, "plain") == ids


def test_messages_move_between_any_two_queues(process, manager):
    sent = manager.queue("plain").send_many([b"a", b"b", b"c"])
    told = dray("move", "plain", "plain;poison", sent[1], "--json", url=process.url)
    assert told.assert_good().value["moved"] == 1
    assert "moved 2 messages" in dray("move", "plain", "other", url=process.url).assert_good().out
    dray("move", "plain;poison", "other", url=process.url).assert_good()
    assert ids_in(manager, "other") == [sent[0], sent[2], sent[1]]
    dray("move", "plain", "other", sent[1], url=process.url).assert_error("message-not-found")
    dray("move", "other", DEAD, url=process.url).assert_error("access-denied")


@pytest.mark.parametrize("killed", ["the program", "the queue manager"])
def test_a_retry_through_kills_loses_nothing_and_sends_nothing_twice(tmp_path, killed):
    with ManagerProcess("killed", tmp_path) as process:
        with process.connect() as manager:
            manager.create_queue("plain")
            ids = dead_plain(manager, 3_000)
        with started("deadletter", "retry", "--all", "--json", url=process.url) as program:
            with process.connect() as manager:
                dead = manager.queue(DEAD)
                until(lambda: dead.info().message_count < len(ids) or program.poll() is not None)
            if killed == "the program":
                program.kill()
            else:
                process.kill()
                process.start()
            said = finish(program)
        if killed == "the queue manager":
            assert json.loads(said.assert_good().out)["retried"] == len(ids)
        dray("deadletter", "retry", "--all", url=process.url).assert_good()
        with process.connect() as manager:
            assert (ids_in(manager, DEAD), ids_in(manager, "plain")) == ([], ids)


def test_a_dead_letter_of_another_manager_is_delivered_there_by_a_retry(process, manager, tmp_path):
    body = os.urandom(9_000)
    with ManagerProcess("there", tmp_path) as there:
        address = f"{there.url}/missing"
        large = client.LargeMessageQueue(manager.queue(address), fragment_size=1000)
        id = large.send(body, label="load.bin")
        until(lambda: ids_in(manager, DEAD) == [id])
        (shown,) = dray("deadletter", "list", "--json", url=process.url).assert_good().value
        assert shown["reason"].startswith("its queue does not exist")
        with there.connect() as destination:
            for name in ("missing", "statusq"):
                destination.create_queue(name)
            dray("deadletter", "retry", "--all", url=process.url).assert_good()
            received = client.LargeMessageQueue(destination.queue("missing")).receive(20)
            with received as message:
                assert (message.sequence_id, message.label, message.body()) == (
                    id,
                    "load.bin",
                    body,
                )
        assert ids_in(manager, DEAD) == []
