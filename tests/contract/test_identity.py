"""Promises about other queue managers, diverged queues and births of queues, restarts included."""

from __future__ import annotations

import shutil

import pytest

import dray
from dray.daemon.config import ServeOptions
from dray.daemon.embedded import EmbeddedDaemon
from tests.integration.commands import until

NOBODY = "dray://127.0.0.1:1"
DEAD = "system$;deadxact"


@pytest.fixture
def destination(tmp_path):
    """A queue manager elsewhere, with a queue `orders`; its address."""
    options = ServeOptions(data="", listen="127.0.0.1:0", open=True)
    daemon = EmbeddedDaemon(tmp_path / "destination", options)
    daemon.start()
    (address,) = daemon.addresses
    with dray.connect(address) as manager:
        manager.create_queue("orders")
    yield address
    daemon.stop()


def deliver(manager, url, *bodies):
    queue = manager.queue(url)
    for body in bodies:
        queue.send(body)
    until(lambda: queue.info().state == "connected" and queue.info().message_count == 0)


def bodies_at(url):
    address, _, name = url.rpartition("/")
    with dray.connect(address) as manager:
        return [bytes(each.body) for each in manager.queue(name).messages()]


def test_the_manager_that_was_met_at_an_address_is_listed_also_after_a_restart(house, destination):
    manager = house.start()
    assert manager.peers() == []
    deliver(manager, f"{destination}/orders", b"one")
    with dray.connect(destination) as there:
        expected = there.info().id
    (known,) = manager.peers()
    assert (known.address, known.manager_id) == (destination, expected)
    assert (known.state, known.found) == ("known", "")
    (after,) = house.start().peers()
    assert (after.address, after.manager_id, after.since) == (
        destination,
        expected,
        known.since,
    )


def test_accepting_or_forgetting_where_there_is_nothing_is_a_misuse(manager):
    with pytest.raises(dray.Misuse, match="nothing to accept"):
        manager.accept_peer(NOBODY)
    with pytest.raises(dray.Misuse, match="not the id of a queue manager"):
        manager.accept_peer(NOBODY, "short")
    with pytest.raises(dray.Misuse, match="no queue manager is known"):
        manager.forget_peer(NOBODY)


def test_a_peer_that_was_accepted_by_its_id_is_known_until_it_is_forgotten(house):
    manager = house.start()
    manager.accept_peer(NOBODY, "a" * 32)
    manager = house.start()
    (peer,) = manager.peers()
    assert (peer.address, peer.manager_id, peer.state) == (NOBODY, "a" * 32, "known")
    manager.forget_peer(NOBODY)
    assert manager.peers() == []
    assert house.start().peers() == []


def test_another_manager_than_the_accepted_one_is_sent_nothing_until_it_is_accepted(
    house, destination
):
    url = f"{destination}/orders"
    manager = house.start()
    manager.accept_peer(destination, "a" * 32)
    manager.queue(url).send(b"waits")
    until(lambda: manager.queue(url).info().state == "need-validation")
    (peer,) = manager.peers()
    with dray.connect(destination) as there:
        assert (peer.manager_id, peer.state) == ("a" * 32, "need-validation")
        assert peer.found == there.info().id
    assert bodies_at(url) == []
    manager.accept_peer(destination)
    until(lambda: bodies_at(url) == [b"waits"])
    assert [each.state for each in manager.peers()] == ["known"]


@pytest.mark.parametrize("act", ["accept_outgoing", "discard_outgoing"])
def test_only_a_diverged_queue_can_be_accepted_or_discarded(house, act):
    manager, outgoing = house.start(), f"{NOBODY}/orders"
    manager.create_queue("local")
    manager.queue(outgoing).send(b"waits")
    for name in ("local", outgoing):
        with pytest.raises(dray.Misuse, match="has not diverged"):
            getattr(manager, act)(name)
    with pytest.raises(dray.QueueNotFound):
        getattr(manager, act)("no-such-queue")


@pytest.mark.parametrize("act", ["accept_outgoing", "discard_outgoing"])
def test_a_diverged_queue_waits_over_restarts_for_a_word(house, destination, tmp_path, act):
    url, data = f"{destination}/orders", tmp_path / "data"
    deliver(house.start(), url, b"both know")
    house.stop()
    shutil.copytree(data, tmp_path / "first")
    deliver(house.start(), url, b"first copy")
    house.stop()
    data.rename(tmp_path / "second")
    (tmp_path / "first").rename(data)
    deliver(house.start(), url, b"other copy")
    house.stop()
    shutil.rmtree(data)
    (tmp_path / "second").rename(data)
    manager = house.start()
    manager.queue(url).send(b"doubtful 1")
    until(lambda: manager.queue(url).info().state == "diverged")
    manager = house.start()
    manager.queue(url).send(b"doubtful 2")
    assert manager.queue(url).info().state == "diverged"
    assert getattr(manager, act)(url) == 2
    manager = house.start()
    deliver(manager, url, b"later")
    doubtful = [b"doubtful 1", b"doubtful 2"]
    arrived = doubtful if act == "accept_outgoing" else []
    assert bodies_at(url) == [b"both know", b"first copy", b"other copy", *arrived, b"later"]
    dead = [bytes(each.body) for each in manager.queue(DEAD).messages()]
    assert dead == ([] if arrived else doubtful)


def test_a_queue_that_is_made_again_has_a_higher_birth_number_and_higher_positions(house):
    manager = house.start()
    births, positions = [], []
    for round_ in range(4):
        queue = manager.create_queue("orders")
        births.append(queue.info().born)
        queue.send_many([b"1", b"2", b"3"])
        positions += [each.lookup_id for each in queue.messages()]
        if round_ == 1:
            manager = house.start()
            assert manager.queue("orders").info().born == births[-1]
        manager.delete_queue("orders")
        if round_ == 2:
            manager = house.start()
    assert births == sorted(set(births))
    assert positions == sorted(set(positions))
    assert len(positions) == 12


@pytest.mark.parametrize("restart", [False, True])
def test_a_queue_that_was_made_again_is_not_settled_by_a_position_of_the_earlier_one(
    house, restart
):
    manager = house.start()
    earlier = manager.create_queue("orders").info().born
    manager.delete_queue("orders")
    queue = manager.create_queue("orders")
    queue.send_many([b"1", b"2", b"3"])
    upto = [each.lookup_id for each in queue.messages()][1]
    if restart:
        queue = house.start().queue("orders")
    born = queue.info().born
    with pytest.raises(dray.QueueRecreated) as raised:
        queue.settle(upto, born=earlier)
    assert (raised.value.queue, raised.value.born, raised.value.expected) == (
        "orders",
        born,
        earlier,
    )
    assert not raised.value.retryable
    assert queue.info().message_count == 3
    queue.settle(upto, born=born)
    assert [bytes(each.body) for each in queue.messages()] == [b"3"]


@pytest.mark.parametrize("act", ["purge", "delete"])
def test_a_queue_that_was_made_again_is_not_purged_or_deleted_for_the_earlier_one(house, act):
    manager = house.start()
    earlier = manager.create_queue("orders").info().born
    manager.delete_queue("orders", earlier)
    queue = manager.create_queue("orders")
    queue.send(b"stays")

    def act_on(born):
        return queue.purge(born=born) if act == "purge" else manager.delete_queue("orders", born)

    with pytest.raises(dray.QueueRecreated, match="made again") as raised:
        act_on(earlier)
    assert (raised.value.queue, raised.value.expected) == ("orders", earlier)
    assert [bytes(each.body) for each in queue.messages()] == [b"stays"]
    act_on(queue.info().born)
    with pytest.raises((dray.QueueNotFound, dray.ReceiveTimeout)):
        queue.receive(0)


def test_a_sub_queue_that_is_made_again_has_a_birth_number_of_its_own(house):
    manager = house.start()
    births = []
    for _ in range(3):
        manager.create_queue("orders")
        births.append(manager.queue("orders;retry").info().born)
        manager.delete_queue("orders")
        manager = house.start()
    assert births == sorted(set(births))
