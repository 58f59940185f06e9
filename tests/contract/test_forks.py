"""Promises about processes made by fork, over every way to connect, through both faces."""

from __future__ import annotations

import asyncio
import multiprocessing
import multiprocessing.resource_tracker
import os
import pickle
import signal
import subprocess
import sys
import threading
import uuid
from collections import Counter

import pytest
import trustme

import dray
import dray.aio
from dray.daemon.config import read_options
from dray.daemon.embedded import EmbeddedDaemon
from tests.children import Child, in_child

DOORS = ("tcp", "tls", "unix")
MESSAGES = {"unix": 500, "tcp": 100, "tls": 100}
"""Of each of four or five senders, by the kind of door: thousands where they cost least."""
BEGUN = 10
THREADS = 3
PATIENCE_S = 60
pytestmark = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded, use of fork.*:DeprecationWarning"
)


@pytest.fixture(scope="module")
def addresses(tmp_path_factory):
    """Daemons behind real sockets: an address, and a file of authorities, by the kind of door."""
    path = tmp_path_factory.mktemp("manager")
    authority = trustme.CA()
    ca, shown = path / "ca.pem", path / "shown.pem"
    authority.cert_pem.write_to_path(ca)
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(shown)
    plain = EmbeddedDaemon(
        path / "data",
        read_options(data="", listen="127.0.0.1:0", open=True, socket=str(path / "dray.sock")),
    )
    secure = EmbeddedDaemon(
        path / "secure", read_options(data="", listen="127.0.0.1:0", open=True, tls_cert=str(shown))
    )
    plain.start()
    secure.start()
    tcp, unix = sorted(plain.addresses, key=lambda address: "unix" in address)
    tls = secure.addresses[0].replace("127.0.0.1", "localhost")
    yield {"tcp": {"url": tcp}, "unix": {"url": unix}, "tls": {"url": tls, "ca": ca}}
    secure.stop()
    plain.stop()


@pytest.fixture(params=DOORS)
def address(request, addresses):
    return addresses[request.param]


@pytest.fixture
def count(request):
    return MESSAGES[request.node.callspec.params["address"]]


@pytest.fixture
def manager(address):
    with dray.connect(**address) as connected:
        yield connected


@pytest.fixture
def queue(manager):
    return manager.create_queue(f"q-{uuid.uuid4().hex}")


@pytest.fixture
def large(manager, queue):
    manager.create_queue("statusq", exist_ok=True)
    return dray.LargeMessageQueue(queue, fragment_size=1000)


def exchange(queue, who, count, begun=lambda: None):
    """Send and receive by turns; give the ids that were given out, and the bodies that came."""
    ids, bodies = [], []
    for number in range(count):
        ids.append(queue.send(f"{who} {number}".encode()))
        bodies.append(bytes(queue.receive(PATIENCE_S).body))
        if number == BEGUN:
            begun()
    return ids, bodies


async def exchange_awaited(queue, who, count, begun=lambda: None):
    ids, bodies = [], []
    for number in range(count):
        ids.append(await queue.send(f"{who} {number}".encode()))
        bodies.append(bytes((await queue.receive(PATIENCE_S)).body))
        if number == BEGUN:
            begun()
    return ids, bodies


def check_nothing_lost_or_doubled(outcomes, count):
    ids = Counter(each for sent, _ in outcomes for each in sent)
    assert len(ids) == ids.total(), "two messages have the same id"
    bodies = Counter(each for _, received in outcomes for each in received)
    assert bodies == Counter(
        f"{who} {number}".encode() for who in range(len(outcomes)) for number in range(count)
    )


@pytest.mark.slow
def test_parent_and_children_send_and_receive_many_at_once_and_nothing_is_lost(queue, count):
    begun = threading.Barrier(THREADS + 1)
    outcomes = {}

    def work(who):
        outcomes[who] = exchange(queue, who, count, lambda: begun.wait(PATIENCE_S))

    threads = [threading.Thread(target=work, args=(who,)) for who in range(THREADS)]
    for thread in threads:
        thread.start()
    begun.wait(PATIENCE_S)
    children = [
        Child(lambda who=who: exchange(queue, who, count)) for who in (THREADS, THREADS + 1)
    ]
    for who, child in enumerate(children, THREADS):
        outcomes[who] = child.result()
    for thread in threads:
        thread.join(PATIENCE_S)
    check_nothing_lost_or_doubled([outcomes[who] for who in range(THREADS + 2)], count)
    assert queue.info().message_count == 0


@pytest.mark.slow
def test_event_loops_of_parent_and_child_send_and_receive_many_and_nothing_is_lost(address, count):
    async def in_parent():
        async with dray.aio.connect(**address) as manager:
            queue = await manager.create_queue(f"q-{uuid.uuid4().hex}")
            begun = [asyncio.Event() for _ in range(THREADS)]
            tasks = [
                asyncio.create_task(exchange_awaited(queue, who, count, each.set))
                for who, each in enumerate(begun)
            ]
            for each in begun:
                await each.wait()
            child = Child(lambda: asyncio.run(exchange_awaited(queue, THREADS, count)))
            outcomes = list(await asyncio.gather(*tasks))
            outcomes.append(await asyncio.to_thread(child.result))
            return outcomes, (await queue.info()).message_count

    outcomes, left = asyncio.run(in_parent())
    check_nothing_lost_or_doubled(outcomes, count)
    assert left == 0


def test_child_numbers_its_messages_and_transactions_itself(manager, queue):
    def begun():
        with manager.transaction() as transaction:
            return transaction.id, queue.send(b"one", transaction=transaction)

    given_out = [begun(), in_child(begun), begun(), in_child(lambda: in_child(begun)), begun()]
    assert len({each for ids in given_out for each in ids}) == 2 * len(given_out)
    assert queue.info().message_count == len(given_out)


TRANSACTION = {
    "commit": lambda transaction, _queue: transaction.commit(),
    "abort": lambda transaction, _queue: transaction.abort(),
    "prepare": lambda transaction, _queue: transaction.prepare(),
    "send": lambda transaction, queue: queue.send(b"in the child", transaction=transaction),
    "receive": lambda transaction, queue: queue.receive(0, transaction),
    "settle": lambda transaction, queue: queue.settle(1, transaction=transaction),
    "end of with": lambda transaction, _queue: transaction.__exit__(None, None, None),
}


@pytest.mark.parametrize("act", TRANSACTION.values(), ids=TRANSACTION)
def test_transaction_of_the_parent_is_refused_in_a_child_and_goes_on_in_the_parent(
    manager, queue, act
):
    with manager.transaction() as transaction:
        queue.send(b"before", transaction=transaction)
        with pytest.raises(dray.WrongProcess) as refusal:
            in_child(lambda: act(transaction, queue))
        queue.send(b"behind", transaction=transaction)
    assert refusal.value.code == "wrong-process"
    assert refusal.value.process == os.getpid()
    assert str(os.getpid()) in str(refusal.value)
    assert str(refusal.value).endswith("begin another one in this process")
    assert [bytes(each.body) for each in queue.messages()] == [b"before", b"behind"]


def test_error_that_leaves_a_transaction_in_a_child_aborts_nothing(manager, queue):
    def fail():
        with transaction:
            raise KeyError("of the child")

    with manager.transaction() as transaction:
        queue.send(b"before", transaction=transaction)
        with pytest.raises(KeyError, match="of the child"):
            in_child(fail)
    assert queue.info().message_count == 1


def test_child_does_not_end_a_transaction_of_the_parent_by_asking_for_its_outcome(manager, queue):
    with manager.transaction() as transaction:
        queue.send(b"one", transaction=transaction)
        with pytest.raises(dray.WrongProcess, match="ask for its outcome there"):
            in_child(lambda: manager.outcome(transaction.id))
    assert manager.outcome(transaction.id) is dray.TransactionStatus.COMMITTED
    committed_by_then = in_child(lambda: manager.outcome(transaction.id))
    assert committed_by_then is dray.TransactionStatus.COMMITTED


def test_cursor_of_the_parent_is_refused_in_a_child(queue):
    queue.send_many([b"one", b"two"])
    with queue.cursor() as cursor:
        cursor.next()
        for act in (cursor.peek, cursor.next, cursor.receive):
            with pytest.raises(dray.WrongProcess, match="take another one from its queue"):
                in_child(act)
        assert bytes(cursor.receive().body) == b"one"


LARGE = {
    "read": lambda message: message.read(),
    "read_range": lambda message: message.read_range(0, 10),
    "body": lambda message: message.body(),
    "save_to": lambda message: message.save_to("never-written"),
    "commit": lambda message: message.commit(),
    "end of with": lambda message: message.__exit__(None, None, None),
}


@pytest.mark.parametrize("act", LARGE.values(), ids=LARGE)
def test_large_message_of_the_parent_is_refused_in_a_child_and_read_on_in_the_parent(
    large, act, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    body = os.urandom(20_000)
    large.send(body)
    with large.receive(PATIENCE_S) as message:
        begun = message.read(5_000)
        with pytest.raises(dray.WrongProcess, match="receive another one in this process"):
            in_child(lambda: act(message))
        in_child(message.close, falls_out=True)
        assert begun + message.read() == body
    assert not list(tmp_path.iterdir())
    with pytest.raises(dray.ReceiveTimeout):
        large.receive(0)


def test_file_open_in_the_parent_is_refused_in_a_child(large):
    large.send(bytes(20_000))
    with large.receive(PATIENCE_S) as message, message.open() as file:
        file.read(10)
        with pytest.raises(dray.WrongProcess):
            in_child(lambda: file.read(10))
        assert len(file.read()) == 19_990


def test_child_receives_a_large_message_of_its_own(large):
    large.send(b"first" * 5_000)
    large.send(b"second" * 5_000)

    def received():
        with large.receive(PATIENCE_S) as message:
            return message.body()

    with large.receive(PATIENCE_S) as message:
        assert in_child(received) == b"second" * 5_000
        assert message.body() == b"first" * 5_000


def closed(manager):
    manager.close()


def left_with_block(manager):
    with manager:
        manager.info()


def dropped(manager):
    manager.info()


@pytest.mark.parametrize("end", [closed, left_with_block, dropped])
def test_end_of_a_child_leaves_the_connection_of_the_parent_open(manager, queue, end):
    connection = manager.awaited._link._connection
    with manager.transaction() as transaction:
        queue.send(b"one", transaction=transaction)
        in_child(lambda: end(manager), falls_out=True)
        queue.send(b"two", transaction=transaction)
    assert manager.awaited._link._connection is connection
    assert connection.lost is None
    assert queue.info().message_count == 2


def test_child_writes_nothing_to_a_connection_of_the_parent_whatever_it_does(manager):
    connection = manager.awaited._link._connection

    def misuse():
        for act in (
            connection.close,
            connection.glance,
            lambda: connection.fail(dray.ConnectionLost("ended by the child")),
        ):
            act()
        with pytest.raises(dray.WrongProcess):
            connection.listen(print)
        return connection._sock.fileno()

    assert in_child(misuse) == -1
    manager.info()
    assert manager.awaited._link._connection is connection


def test_child_works_while_threads_of_the_parent_wait_and_hold_locks(manager, queue):
    link, connection = manager.awaited._link, manager.awaited._link._connection
    transaction = manager.transaction()
    waiting = [threading.Thread(target=queue.receive) for _ in range(THREADS)]
    for each in waiting:
        each.start()

    def in_time():
        queue.send(b"one")
        with pytest.raises(dray.WrongProcess):
            transaction.commit()
        connection.close()
        manager.close()
        return "no lock kept it"

    # As if a thread was just connecting, one sending, one taking in and one committing.
    with link._lock._lock, connection._sending, connection._lock, transaction.awaited._lock._lock:
        child = Child(in_time)
    assert child.result() == "no lock kept it"
    queue.send_many([b"more"] * (THREADS - 1))
    for each in waiting:
        each.join(PATIENCE_S)
        assert not each.is_alive()
    transaction.abort()


def in_worker(queue):
    queue.send(b"from the worker")


def in_spawned_worker(address, name):
    with dray.connect(**address) as manager:
        manager.queue(name).send(b"from the worker")


@pytest.mark.slow
def test_worker_of_multiprocessing_that_is_forked_uses_what_it_inherits(queue):
    workers = [
        multiprocessing.get_context("fork").Process(target=in_worker, args=(queue,))
        for _ in range(3)
    ]
    for each in workers:
        each.start()
    for each in workers:
        each.join(PATIENCE_S)
        assert each.exitcode == 0
        each.close()
    assert [bytes(queue.receive(0).body) for _ in workers] == [b"from the worker"] * 3


@pytest.fixture(scope="module")
def resource_tracker():
    """The process that multiprocessing starts with the first worker that it spawns."""
    resource_tracker = multiprocessing.resource_tracker._resource_tracker
    resource_tracker.ensure_running()
    yield
    resource_tracker._stop()


@pytest.mark.slow
@pytest.mark.usefixtures("resource_tracker")
def test_worker_of_multiprocessing_that_is_spawned_connects_by_address(manager, address, queue):
    worker = multiprocessing.get_context("spawn").Process(
        target=in_spawned_worker, args=(address, queue.name)
    )
    worker.start()
    assert bytes(queue.receive(PATIENCE_S).body) == b"from the worker"
    worker.join(PATIENCE_S)
    assert worker.exitcode == 0
    worker.close()


def test_nothing_connected_is_pickled_for_another_process(manager, queue, large):
    with manager.transaction() as transaction, queue.cursor() as cursor:
        for each in (manager, queue, large, transaction, cursor, manager.awaited, queue.awaited):
            with pytest.raises(dray.WrongProcess, match=r"use dray.connect\(\) there"):
                pickle.dumps(each)


KILLED_PARENT = """
import os, signal, sys
import dray
manager = dray.connect(sys.argv[1], ca=sys.argv[3] or None)
transaction = manager.transaction()
manager.queue(sys.argv[2]).receive(60, transaction)
child = os.fork()
if not child:
    signal.pause()
print(child, flush=True)
signal.pause()
"""


@pytest.mark.slow
def test_child_that_incarnations_on_does_not_hold_what_its_killed_parent_had_received(
    address, queue
):
    queue.send(b"one")
    command = [sys.executable, "-c", KILLED_PARENT, address["url"], queue.name]
    with subprocess.Popen(
        [*command, str(address.get("ca", ""))], stdout=subprocess.PIPE, text=True
    ) as parent:
        child = int(parent.stdout.readline())
        parent.kill()
        parent.wait()
    try:
        assert bytes(queue.receive(PATIENCE_S).body) == b"one"
        os.kill(child, 0)
    finally:
        os.kill(child, signal.SIGKILL)


def test_offer_of_the_parent_is_refused_in_a_child_and_goes_on(manager, queue, tmp_path):
    offered = tmp_path / "offered"
    offered.write_bytes(os.urandom(3_000_000))
    offer = manager.offer_file(offered, queue.name)
    incoming = manager.accept_file(queue.name, timeout=PATIENCE_S)
    for act in (
        offer.wait,
        offer.cancel,
        offer.suspend,
        offer.resume,
        lambda: list(offer),
        lambda: offer.consumers,
        lambda: incoming.save_to(tmp_path / "of the child"),
        incoming.cancel,
        incoming.suspend,
        lambda: list(incoming),
    ):
        with pytest.raises(dray.WrongProcess):
            in_child(act)
    in_child(lambda: (offer.close(), incoming.close(), manager.close()), falls_out=True)
    incoming.save_to(tmp_path / "received")
    assert offer.wait(PATIENCE_S).state is dray.TransferState.DONE
    assert (tmp_path / "received").read_bytes() == offered.read_bytes()
    assert not (tmp_path / "of the child").exists()


def test_child_is_a_consumer_of_its_own_of_a_file_for_many(manager, queue, tmp_path):
    offered = tmp_path / "offered"
    offered.write_bytes(b"offered")
    offer = manager.offer_file(offered, queue.name, consumers="many")

    def take(name):
        manager.accept_file(queue.name, timeout=PATIENCE_S).save_to(tmp_path / name)
        return (tmp_path / name).read_bytes()

    assert take("of the parent") == b"offered"
    assert in_child(lambda: take("of the child")) == b"offered"
    offer.cancel()


def test_transfer_is_taken_up_again_while_a_child_lives_on(manager, queue, tmp_path):
    offered = tmp_path / "offered"
    offered.write_bytes(b"offered")
    offer = manager.offer_file(offered, queue.name)
    child = Child(signal.pause)
    offer.close()
    try:
        manager.resume_transfer(offer.transfer_id).cancel()
    finally:
        os.kill(child.pid, signal.SIGKILL)
        with pytest.raises(AssertionError, match="said nothing"):
            child.result()


ENDED_CHILD = """
import os, sys
import dray
url, name, ca = sys.argv[1:]
with dray.connect(url, ca=ca or None) as manager:
    queue = manager.queue(name)
    connection = manager.awaited._link._connection
    with manager.transaction() as transaction:
        queue.send(b"one", transaction=transaction)
        transaction.awaited.connection()
        child = os.fork()
        if not child:
            # Leaves both blocks, and everything that the interpreter tears down at its end.
            sys.exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        queue.send(b"two", transaction=transaction)
    assert manager.awaited._link._connection is connection and connection.lost is None
"""


@pytest.mark.slow
def test_child_that_ends_as_a_program_does_disturbs_nothing_and_says_nothing(address, queue):
    arguments = [address["url"], queue.name, str(address.get("ca", ""))]
    ended = subprocess.run(
        [
            sys.executable,
            "-X",
            "dev",
            "-W",
            "ignore::DeprecationWarning",
            "-c",
            ENDED_CHILD,
            *arguments,
        ],
        check=True,
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_S,
    )
    assert not ended.stderr
    assert [bytes(each.body) for each in queue.receive_many(10)] == [b"one", b"two"]
