"""Promises about a queue manager of `dray.open` in processes made by fork."""

import asyncio
import multiprocessing
import os
import signal
import threading
from pathlib import Path

import pytest

import dray
import dray.aio
from tests.children import Child, in_child
from tests.contract.faces import AwaitedFace, BlockingFace

MESSAGES = 1_000
PATIENCE_S = 60
pytestmark = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded, use of fork.*:DeprecationWarning"
)


@pytest.fixture(params=[BlockingFace, AwaitedFace], ids=lambda face: face.__name__)
def face(request):
    made = request.param()
    yield made
    made.close()


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data"


def in_store(data, descriptor):
    """Whether a descriptor leads to a file of the store, to write to it."""
    where = Path(f"/proc/self/fd/{descriptor}").readlink()
    if not where.is_relative_to(data):
        return False
    told = Path(f"/proc/self/fdinfo/{descriptor}").read_text("ascii")
    (flags,) = (int(line.split()[1], 8) for line in told.splitlines() if "flags" in line)
    return bool(flags & (os.O_WRONLY | os.O_RDWR))


def open_in_store(data):
    with os.scandir("/proc/self/fd") as entries:
        names = [each.name for each in entries]
    return [
        each for each in names if os.path.lexists(f"/proc/self/fd/{each}") and in_store(data, each)
    ]


CALLS = {
    "info": lambda manager: manager.info(),
    "queues": lambda manager: manager.queues(),
    "send": lambda manager: manager.queue("orders").send(b"of the child"),
    "receive": lambda manager: manager.queue("orders").receive(PATIENCE_S),
    "transaction": lambda manager: manager.transaction(),
    "create_queue": lambda manager: manager.create_queue("of the child"),
    "backup": lambda manager: manager.backup("never-written"),
    "accept_file": lambda manager: manager.accept_file("orders", PATIENCE_S),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_embedded_manager_refuses_at_once_in_a_child(data, call):
    with dray.open(data) as manager:
        queue = manager.create_queue("orders")
        queue.send(b"one")
        with pytest.raises(dray.WrongProcess) as refusal:
            in_child(lambda: call(manager))
        assert refusal.value.code == "wrong-process"
        assert refusal.value.process == os.getpid()
        assert f"the queue manager over {data} belongs to process" in str(refusal.value)
        assert str(refusal.value).endswith("and use dray.connect() in this process")
        assert [bytes(each.body) for each in queue.messages()] == [b"one"]


def test_embedded_manager_with_an_event_loop_refuses_at_once_in_a_child(data):
    async def in_parent():
        async with dray.aio.open(data) as manager:
            queue = await manager.create_queue("orders")
            child = Child(lambda: asyncio.run(awaited(queue.send(b"of the child"))))
            await queue.send(b"of the parent")
            with pytest.raises(dray.WrongProcess, match="belongs to process"):
                await asyncio.to_thread(child.result)
            return [bytes(each.body) async for each in queue.messages()]

    async def awaited(awaitable):
        return await awaitable

    assert asyncio.run(in_parent()) == [b"of the parent"]


@pytest.mark.slow
def test_embedded_manager_loses_nothing_while_children_begin_and_end(data):
    with dray.open(data) as manager:
        queue = manager.create_queue("orders")
        ids, bodies = [], []
        begun = threading.Event()

        def exchange():
            for number in range(MESSAGES):
                ids.append(queue.send(b"%d" % number))
                bodies.append(bytes(queue.receive(PATIENCE_S).body))
                begun.set()

        working = threading.Thread(target=exchange)
        working.start()
        begun.wait(PATIENCE_S)
        children = 0
        while working.is_alive():
            with pytest.raises(dray.WrongProcess):
                in_child(lambda: queue.receive(PATIENCE_S), falls_out=True)
            in_child(manager.close, falls_out=True)
            children += 2
        working.join()
        assert children >= 2
        assert bodies == [b"%d" % number for number in range(MESSAGES)]
        assert len(set(ids)) == MESSAGES


def test_child_has_nothing_open_to_write_to_the_store_of_its_parent(data):
    with dray.open(data) as manager:
        manager.create_queue("orders").send(bytes(1 << 20))
        assert open_in_store(data)
        assert in_child(lambda: open_in_store(data)) == []


def test_end_of_a_child_leaves_the_store_locked_for_its_parent(face, data):
    with face.open(data) as manager:
        queue = manager.create_queue("orders")

        def leave():
            with dray.open(data):
                pass

        with pytest.raises(dray.StoreLocked):
            in_child(leave, falls_out=True)
        with pytest.raises(dray.StoreLocked):
            dray.open(data)
        queue.send(b"one")
        assert queue.info().message_count == 1


def test_store_can_be_opened_again_while_a_child_lives_on(face, data):
    with face.open(data, listen="127.0.0.1:0", open=True) as manager:
        manager.create_queue("orders").send(b"one")
        child = Child(signal.pause)
    try:
        with face.open(data) as manager:
            assert bytes(manager.queue("orders").receive(0).body) == b"one"
    finally:
        os.kill(child.pid, signal.SIGKILL)
        with pytest.raises(AssertionError, match="said nothing"):
            child.result()


def test_address_is_free_again_while_a_child_lives_on(data):
    with dray.open(data, listen="127.0.0.1:0", open=True) as manager:
        address = listening_at(manager)
        child = Child(signal.pause)
    try:
        with (
            dray.open(data, listen=address.removeprefix("dray://"), open=True),
            dray.connect(address) as again,
        ):
            again.info()
    finally:
        os.kill(child.pid, signal.SIGKILL)
        with pytest.raises(AssertionError, match="said nothing"):
            child.result()


def test_child_connects_to_the_address_at_which_its_parent_listens(data):
    with dray.open(data, listen="127.0.0.1:0", open=True) as manager:
        queue = manager.create_queue("orders")
        address = listening_at(manager)

        def connected():
            with dray.connect(address) as own:
                return own.queue("orders").send(b"of the child")

        assert in_child(connected) != queue.send(b"of the parent")
        assert [bytes(queue.receive(0).body) for _ in range(2)] == [
            b"of the child",
            b"of the parent",
        ]


def test_child_of_a_child_has_a_store_of_its_own(data, tmp_path):
    def in_its_own():
        with dray.open(tmp_path / "of the child") as own:
            queue = own.create_queue("orders")
            queue.send(b"one")
            with pytest.raises(dray.WrongProcess):
                in_child(lambda: queue.receive(0))
            return bytes(queue.receive(0).body)

    with dray.open(data) as manager:
        assert in_child(in_its_own, falls_out=True) == b"one"
        manager.info()


def refused_in_worker(manager):
    try:
        manager.info()
    except dray.WrongProcess:
        return
    os._exit(3)


@pytest.mark.slow
def test_worker_of_multiprocessing_is_refused_an_embedded_manager(data):
    with dray.open(data) as manager:
        worker = multiprocessing.get_context("fork").Process(
            target=refused_in_worker, args=(manager,)
        )
        worker.start()
        worker.join(PATIENCE_S)
        assert worker.exitcode == 0
        worker.close()


def listening_at(manager):
    """The address of an embedded manager that listens at a port of the system's choice."""
    dialer = manager.awaited._link.dialer
    return dialer._daemon.addresses[0]
