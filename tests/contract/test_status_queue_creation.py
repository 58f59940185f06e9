"""Promises about the status queue: nobody has to create it, and it is created once."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

import dray

SECONDS = 60
SENDERS = 4
AT_ONCE = """
import sys
import dray

with dray.connect(sys.argv[1]) as manager:
    large = dray.LargeMessageQueue(manager.queue("heavy"))
    sys.stdout.write("ready")
    sys.stdout.flush()
    sys.stdin.readline()
    large.send(b"x")
    with large.receive(60) as message:
        assert message.body() == b"x"
"""


def status_queues(manager):
    return [each for each in manager.queues() if "statusq" in each.name]


def received(large):
    with large.receive(SECONDS) as message:
        return message.body()


def test_a_new_user_sends_and_receives_a_large_message_without_a_status_queue(house, face):
    manager = house.start()
    large = face.LargeMessageQueue(manager.create_queue("heavy"))
    large.send(b"x")
    assert received(large) == b"x"
    (status,) = status_queues(manager)
    assert (status.name, status.transactional, status.message_count) == ("statusq", True, 0)


def test_the_first_large_send_creates_the_status_queue(house, face):
    manager = house.start()
    heavy = manager.create_queue("heavy")
    heavy.send(b"plain")
    assert status_queues(manager) == []
    heavy.receive(0)
    face.LargeMessageQueue(heavy).send(b"x")
    (status,) = status_queues(manager)
    assert status.label == "status messages of large messages"


def test_the_first_large_receive_creates_the_status_queue_that_it_names(house, face):
    manager = house.start()
    large = face.LargeMessageQueue(manager.create_queue("heavy"), status_queue="my-statusq")
    with pytest.raises(dray.ReceiveTimeout):
        large.receive(0)
    assert [each.name for each in status_queues(manager)] == ["my-statusq"]


def test_a_receive_from_a_queue_that_cannot_be_creates_no_status_queue(house, face):
    manager = house.start()
    with pytest.raises(dray.QueueNotFound):
        face.LargeMessageQueue(manager.queue("nowhere")).receive(0)
    plain = manager.create_queue("plain", transactional=False)
    with pytest.raises(dray.NotTransactional):
        face.LargeMessageQueue(plain).receive(0)
    assert status_queues(manager) == []


def test_the_status_queue_is_there_after_a_restart_and_is_created_once(house, face):
    manager = house.start()
    large = face.LargeMessageQueue(manager.create_queue("heavy"))
    large.send(b"x")
    large.receive(SECONDS).close()
    manager = house.start()
    (status,) = status_queues(manager)
    assert status.message_count == 1
    assert received(face.LargeMessageQueue(manager.queue("heavy"))) == b"x"
    assert len(status_queues(manager)) == 1


def test_a_configuration_may_leave_the_status_queue_to_the_operator(house, face):
    manager = house.start(create_status_queue=False)
    large = face.LargeMessageQueue(manager.create_queue("heavy"))
    large.send(b"x")
    assert status_queues(manager) == []
    with pytest.raises(dray.StatusQueueMissing, match=r"create_status_queue.*create it") as caught:
        large.receive(0)
    assert caught.value.queue == "statusq"
    manager.create_queue("statusq")
    assert received(large) == b"x"


def test_a_queue_that_cannot_be_a_status_queue_is_told(house, face):
    manager = house.start()
    manager.create_queue("statusq", transactional=False)
    large = face.LargeMessageQueue(manager.create_queue("heavy"))
    large.send(b"x")
    with pytest.raises(dray.StatusQueueMissing, match="not transactional"):
        large.receive(0)
    named = face.LargeMessageQueue(manager.queue("heavy"), status_queue="system$;nothing")
    named.send(b"y")
    with pytest.raises(dray.StatusQueueMissing) as caught:
        named.receive(0)
    assert caught.value.queue == "system$;nothing"


def test_many_who_ask_at_once_create_one_status_queue(house, face):
    manager = house.start()
    manager.create_queue("heavy")
    if house.url is None:
        at_once(lambda: use(face, manager))
    else:
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", AT_ONCE, house.url],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(2)
        ]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.read(5) == "ready"
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        at_once(lambda: use_connected(face, house.url))
        for process in processes:
            process.communicate(timeout=SECONDS)
            assert process.returncode == 0
    assert [each.name for each in status_queues(manager)] == ["statusq"]
    assert manager.queue("heavy").info().message_count == 0


def use(face, manager):
    large = face.LargeMessageQueue(manager.queue("heavy"))
    large.send(b"x")
    received(large)


def use_connected(face, url):
    with face.connect(url) as manager:
        use(face, manager)


def at_once(act):
    together = threading.Barrier(SENDERS)
    failures = []

    def run():
        together.wait(SECONDS)
        try:
            act()
        except dray.DrayError as error:
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(SENDERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert failures == []
