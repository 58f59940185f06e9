"""`dray doctor` finds each fault that is made here, and nothing where there is none."""

import os
import shlex
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

import dray as client
from dray.client.awaited import doctor
from dray.testing.processes import ManagerProcess, _own_port
from tests.integration.commands import dray, environment, until

pytestmark = pytest.mark.slow
THERE = "dray://127.0.0.1:1/orders"
LATER = """
import sys, time
now = time.time
time.time = lambda: now() + 3600
from dray.cli import main
main(["doctor"])
"""


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    with ManagerProcess("manager", tmp_path_factory.mktemp("doctor")) as running:
        yield running


@pytest.fixture
def manager(process):
    with process.connect() as connected:
        connected.create_queue("orders")
        yield connected
        for id in connected.prepared():
            connected.abort_prepared(id)
        for info in connected.queues():
            if info.kind in ("private", "outgoing"):
                connected.delete_queue(info.name)
        connected.queue("system$;deadxact").purge()


def findings(url, *arguments):
    """The findings by their codes; the exit status says whether there are any."""
    said = dray("doctor", *arguments, "--json", url=url)
    found = {each["code"]: each for each in said.value}
    assert said.status == (1 if found else 0)
    for each in found.values():
        assert each["sentence"][0].islower() or each["sentence"][0].isdigit()
        assert ";" in each["sentence"], "it says what to do"
    return found


def test_nothing_is_found_where_nothing_is_wrong(process, manager):
    manager.queue("orders").send(b"x")
    assert findings(process.url) == {}
    told = dray("doctor", url=process.url).assert_good().out
    assert told == "nothing keeps messages from moving\n"
    dray("doctor", "missing", url=process.url).assert_error("queue-not-found")


def test_a_full_quota_is_found(process, manager):
    manager.set_quota("orders", 1000)
    manager.queue("orders").send(b"x" * 900)
    found = findings(process.url, "orders")
    assert list(found) == ["quota"]
    assert "dray queue set orders --quota" in found["quota"]["sentence"]


def test_a_peer_that_is_down_is_found_and_a_pause(process, manager):
    queue = manager.queue(THERE)
    queue.send(b"x")
    until(lambda: queue.info().delivery.history)
    assert "127.0.0.1:1" in findings(process.url, THERE)["peer-down"]["sentence"]
    manager.pause(THERE)
    assert list(findings(process.url, THERE)) == ["paused"]
    manager.delete_queue(THERE)


def test_a_destination_that_welcomes_and_then_is_silent_is_found(
    process, manager, tmp_path, monkeypatch
):
    monkeypatch.setattr(doctor, "SILENT_S", 0.0)
    with ManagerProcess("there", tmp_path) as there:
        with there.connect() as connected:
            connected.create_queue("orders")
        address = f"{there.url}/orders"
        queue = manager.queue(address)
        queue.send(b"delivered")
        until(lambda: queue.info().message_count == 0)
        os.kill(there.pid, signal.SIGSTOP)
        try:
            queue.send(b"waits")
            (found,) = manager.doctor(address)
        finally:
            os.kill(there.pid, signal.SIGCONT)
        assert found.code == "peer-silent"
        assert f"a message waits in {address}, and the queue manager at" in found.sentence
        until(lambda: queue.info().message_count == 0)
        assert manager.doctor(address) == []
        manager.delete_queue(address)


def test_a_destination_that_refuses_and_its_dead_letters_are_found(process, manager, tmp_path):
    with ManagerProcess("there", tmp_path) as there:
        address = f"{there.url}/missing"
        manager.queue(address).send(b"x")
        until(lambda: manager.queue(address).info().state == "refused")
        until(manager.dead_letters)
        found = findings(process.url, address)
        assert set(found) == {"refused", "dead-letters"}
        assert "queue-not-found" in found["refused"]["sentence"]
        assert "dray deadletter retry --all" in found["refused"]["sentence"]
        assert "dray deadletter list" in found["dead-letters"]["sentence"]
        manager.delete_queue(address)


def test_a_poison_message_at_the_head_is_found_and_one_put_aside(process, manager):
    orders = manager.queue("orders")
    orders.send(b"poison")
    for _ in range(3):
        with manager.transaction() as transaction:
            orders.receive(0, transaction)
            transaction.abort()
    assert "given back 3 times" in findings(process.url, "orders")["poison"]["sentence"]
    orders.move(orders.peek(0), "orders;poison")
    found = findings(process.url, "orders")["poison"]
    assert (found["queue"], "dray move 'orders;poison'" in found["sentence"]) == (
        "orders;poison",
        True,
    )


def words_of_a_shell(line):
    words = shlex.shlex(line, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    return list(words)


def test_commands_of_a_finding_can_be_copied_into_a_shell(process, manager):
    orders = manager.queue("orders")
    orders.send(b"poison")
    orders.move(orders.peek(0), "orders;later")
    later = manager.queue("orders;later")
    for _ in range(3):
        with manager.transaction() as transaction:
            later.receive(0, transaction)
            transaction.abort()
    found = findings(process.url, "orders")["poison"]
    commands = [words_of_a_shell(each) for each in found["sentence"].split("`")[1::2]]
    for command in commands:
        assert command[0] == "dray"
        dray(*command[1:], url=process.url).assert_good()
    assert [each[1:3] for each in commands] == [["show", "orders;later"], ["move", "orders;later"]]
    assert manager.queue("orders;poison").info().message_count == 1


def test_a_large_message_that_was_given_back_is_poison_and_its_status_message_is_not(
    process, manager
):
    manager.create_queue("statusq", exist_ok=True)
    large = client.LargeMessageQueue(manager.queue("orders"))
    large.send(b"poison")
    for _ in range(3):
        with manager.transaction() as transaction:
            large.receive(0, transaction=transaction).close()
            transaction.abort()
    assert "given back 3 times" in findings(process.url, "orders")["poison"]["sentence"]
    assert manager.queue("statusq").peek(0).abort_count == 3
    assert findings(process.url, "statusq") == {}
    large.receive(0).close()


def test_an_idle_transaction_is_found_and_a_prepared_one(process, manager):
    orders = manager.queue("orders")
    orders.send_many([b"a", b"b"])
    with manager.transaction() as transaction:
        orders.receive(0, transaction)
        assert findings(process.url, "orders") == {}
        found = findings(process.url, "orders", "--idle", "0")["idle-transaction"]
        assert transaction.id in found["sentence"]
        transaction.prepare()
    assert "dray transaction commit" in findings(process.url)["idle-transaction"]["sentence"]
    manager.abort_prepared(transaction.id)


def test_a_hole_at_the_head_is_found(process, manager):
    manager.create_queue("statusq", exist_ok=True)
    client.LargeMessageQueue(manager.queue("orders"), fragment_size=1000).send(b"x" * 2500)
    raw = manager.queue("orders", raw=True)
    raw.receive_by_lookup_id(raw.peek(0).lookup_id + 1)
    assert "--repair" in findings(process.url, "orders")["hole"]["sentence"]


def test_messages_whose_file_is_gone_are_found(tmp_path):
    """A receive waits for them in vain, and the queue counts them."""
    with client.open(tmp_path / "data") as manager:
        queue = manager.create_queue("orders")
        for _ in range(2):
            queue.send(bytes(3_000_000))
    (tmp_path / "data" / "storage" / "p0000001.mq").unlink()
    with client.open(tmp_path / "data") as manager:
        assert manager.queue("orders").info().unreadable_count == 1
        (found,) = manager.doctor("orders")
        assert (found.code, found.queue) == ("unreadable", "orders")
        assert "1 message of 'orders' cannot be read" in found.sentence


def test_a_clock_that_differs_is_found(process, manager):
    done = subprocess.run(
        [sys.executable, "-c", LATER],
        capture_output=True, check=False, env=environment(process.url),
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stdout.startswith(b"clock: the clock of the queue manager's machine is 3600 s behi")


def test_a_source_whose_clock_is_ahead_is_found(process, manager, tmp_path, monkeypatch):
    ahead = SimpleNamespace(time=lambda: time.time() + 3600, monotonic=time.monotonic)
    monkeypatch.setattr("dray.daemon.timekeeper.time", ahead)
    orders = manager.queue("orders")
    with client.open(tmp_path / "ahead") as source:
        source.queue(f"{process.url}/orders").send(b"x")
        until(lambda: orders.info().message_count)
    (finding,) = findings(process.url, "orders").values()
    assert (finding["code"], finding["queue"]) == ("clock", "orders")


def test_a_disk_without_room_is_found(tmp_path):
    disk = os.statvfs(tmp_path)
    low_water = (disk.f_bavail + disk.f_blocks) // 2 * disk.f_frsize
    with ManagerProcess("full", tmp_path, ["--low-water", str(low_water)]) as process:
        with process.connect() as manager:
            queue = manager.create_queue("orders")
            with pytest.raises(client.StoreFull):
                queue.send(b"x")
        assert "new messages are refused" in findings(process.url)["disk"]["sentence"]


def test_a_certificate_that_ends_soon_is_found(tmp_path):
    dray("cert", "init", cwd=tmp_path).assert_good()
    for name, days in (("soon", "5"), ("later", "500")):
        issue = ("cert", "issue", name, "--host", "127.0.0.1", "--days", days)
        dray(*issue, cwd=tmp_path).assert_good()
    port = _own_port()
    listen = f"127.0.0.1:{port}"
    with client.open(
        tmp_path / "data", listen=listen, open=True, tls_cert=str(tmp_path / "soon.pem")
    ):
        for own, count in (("later", 1), ("soon", 2)):
            cert = tmp_path / f"{own}.pem"
            url, ca = f"drays://{listen}", tmp_path / "ca.pem"
            with client.connect(url, ca=ca, cert=cert) as manager:
                found = manager.doctor()
            assert [each.code for each in found] == ["certificate"] * count
            assert "ends in 5.0 days" in found[0].sentence


def test_large_messages_are_counted_as_people_count_them(process, manager):
    manager.create_queue("statusq", exist_ok=True)
    large = client.LargeMessageQueue(manager.queue("orders"), fragment_size=1000)
    for _ in range(2):
        large.send(b"x" * 2500)
    with manager.transaction() as transaction:
        with large.receive(0, transaction=transaction):
            found = findings(process.url, "orders", "--idle", "0")["idle-transaction"]
        assert "(5 parts of large messages of 'orders')" in found["sentence"]
        transaction.abort()
    id = large.peek(0).sequence_id
    dray("move", "orders", "orders;poison", id, url=process.url).assert_good()
    found = findings(process.url, "orders")["poison"]
    assert "could handle 1 large message in 'orders;poison'" in found["sentence"]
    away = manager.queue(THERE)
    for count, wait in ((1, "a message waits"), (2, "2 messages wait")):
        client.LargeMessageQueue(away, fragment_size=1000).send(b"x" * 2500)
        until(lambda: manager.queue(THERE).info().delivery.history)
        sentence = findings(process.url, THERE)["peer-down"]["sentence"]
        assert sentence.startswith(f"{wait} in {THERE}"), count
    manager.delete_queue(THERE)
