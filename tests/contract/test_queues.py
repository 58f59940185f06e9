"""Promises about making, finding and describing queues."""

from __future__ import annotations

import uuid

import pytest

import dray
from dray.wire.frames import Done
from dray.wire.queue_frames import DeleteQueue


def test_a_created_queue_is_listed_with_what_it_was_created_with(manager, make_queue):
    made = make_queue(quota="1MiB", label="mine")
    info = next(each for each in manager.queues() if each.name == made.name)
    assert (info.transactional, info.quota, info.label) == (True, 1 << 20, "mine")
    assert info == made.info()


def test_creating_a_queue_again_is_refused_unless_it_may_exist(manager, queue):
    with pytest.raises(dray.QueueExists) as caught:
        manager.create_queue(queue.name)
    assert caught.value.queue == queue.name
    assert manager.create_queue(queue.name, exist_ok=True).name == queue.name


def test_a_queue_that_exists_otherwise_than_it_is_asked_for_is_refused(manager, make_queue):
    plain, copied = make_queue(transactional=False), make_queue(journal=True, digest="sha256")
    for queue, options, differs in (
        (plain, {}, "not transactional"),
        (copied, {"transactional": False}, "transactional"),
        (plain, {"transactional": False, "journal": True}, "without a journal"),
        (copied, {"digest": "blake3"}, "with the digest sha256"),
    ):
        with pytest.raises(
            dray.QueueExists, match=f"{queue.name}' exists, but {differs}"
        ) as caught:
            manager.create_queue(queue.name, exist_ok=True, **options)
        assert caught.value.queue == queue.name
    manager.create_queue(plain.name, transactional=False, digest="blake3", exist_ok=True)
    manager.create_queue(copied.name, journal=True, digest="sha256", exist_ok=True)
    manager.create_queue(copied.name, exist_ok=True)


def test_a_queue_that_another_connection_made_anew_takes_large_messages(face, addresses):
    name = f"q-{uuid.uuid4().hex}"
    with face.connect(addresses["unix"]) as manager, face.connect(addresses["unix"]) as other:
        large = face.LargeMessageQueue(manager.create_queue(name))
        large.send(b"before")
        other.delete_queue(name)
        other.create_queue(name)
        manager.create_queue(name, exist_ok=True)
        large.send(b"after")
        with large.receive(timeout=10) as message:
            assert message.body() == b"after"


@pytest.mark.parametrize("name", ["", "a/b", "x" * 125, "a;b", "mine$", "dray://host/there"])
def test_a_bad_name_is_refused_when_a_queue_is_created(manager, name):
    with pytest.raises(dray.InvalidQueueName):
        manager.create_queue(name)


def test_a_missing_queue_is_told_at_first_use(manager):
    missing = manager.queue("nowhere")
    for act in (lambda: missing.send(b""), lambda: missing.receive(0), missing.info, missing.purge):
        with pytest.raises(dray.QueueNotFound) as caught:
            act()
        assert caught.value.queue == "nowhere"


def test_a_deleted_queue_is_gone_with_its_messages(manager, queue):
    queue.send(b"lost")
    manager.delete_queue(queue.name)
    with pytest.raises(dray.QueueNotFound):
        queue.receive(0)
    assert manager.create_queue(queue.name).info().message_count == 0


def test_a_commit_after_a_deletion_says_that_the_transaction_was_aborted(face, manager, queue):
    """Whether its sends went out before the deletion or after it."""
    for early in (True, False):
        manager.create_queue(queue.name, exist_ok=True)
        queue.send(b"its number is known now")
        transaction = manager.transaction()
        if early:
            queue.send(bytes(2 << 20), transaction=transaction)
        face.wait(queue.awaited.handle.link.ask(DeleteQueue(queue.name), Done))
        if not early:
            queue.send(b"", transaction=transaction)
        with pytest.raises(dray.TransactionAborted, match="has been deleted"):
            transaction.commit()
        assert transaction.status is dray.TransactionStatus.ABORTED


def test_a_handle_finds_a_queue_that_another_program_made_anew(face, manager, queue):
    queue.send(b"old")
    # Not through the manager's handle, which would forget the number it knows.
    face.wait(queue.awaited.handle.link.ask(DeleteQueue(queue.name), Done))
    manager.create_queue(queue.name)
    queue.send(b"new")
    assert queue.receive(0).body == b"new"


def test_names_compare_without_regard_to_case(manager, queue):
    queue.send(b"x")
    assert manager.queue(queue.name.upper()).receive(0).body == b"x"


def test_the_queue_manager_describes_itself(manager, queue):
    identity = queue.send(b"x")
    info = manager.info()
    assert identity.startswith(f"{info.id}\\")
    assert info.version == dray.__version__
    assert info.bytes_used > 0
