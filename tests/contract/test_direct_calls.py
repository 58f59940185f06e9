"""Promises about `dray.open` in a blocking program: its threads do the queue manager's work."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path

import pytest

import dray

PATIENCE_S = 100
THREADS = 4


@pytest.fixture
def manager(tmp_path):
    with dray.open(tmp_path / "data") as manager:
        yield manager


def wake_ups():
    """How often the threads of the loops of this program went from waiting to work."""
    found = 0
    for thread in threading.enumerate():
        if thread.name == "dray-daemon":
            told = Path(f"/proc/self/task/{thread.native_id}/status").read_text("ascii")
            found += sum(int(x.split()[1]) for x in told.splitlines() if x.startswith("voluntary"))
    return found


def test_a_lone_send_and_a_lone_receive_do_not_wake_the_thread_of_the_loop(manager):
    queue = manager.create_queue("orders")
    queue.send(b"first")
    before = wake_ups()
    for _ in range(100):
        queue.send(b"one")
        queue.receive()
    # A timer goes off now and then, whatever is called.
    assert before
    assert wake_ups() - before < 100


def test_threads_share_syncs(manager):
    """More threads send more messages than there are syncs, and each message is there once."""
    queue = manager.create_queue("orders")
    queue.send(b"first")
    store = _store_of(manager)
    before = store.counters.groups
    with ThreadPoolExecutor(THREADS) as threads:
        sent = list(threads.map(lambda number: queue.send(b"%d" % number), range(400)))
    groups = store.counters.groups - before
    assert len(set(sent)) == 400
    assert {each.body for each in queue.messages()} == {b"first", *(b"%d" % n for n in range(400))}
    assert groups < 400


def _store_of(manager):
    return manager.awaited._stop._daemon._server._store


class StoppedHereError(Exception):
    """What a signal handler of the program raises."""


@contextmanager
def signals(handler, pauses):
    """Send signals to the main thread until the block is over, each after a pause in seconds.

    The timer of the process and its signal are those of the tests' timeout.
    """
    main, over = threading.main_thread().ident, threading.Event()

    def send():
        for pause in pauses:
            if over.wait(pause):
                return
            signal.pthread_kill(main, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handler)
    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        over.set()
        sender.join()
        signal.signal(signal.SIGUSR1, before)


@contextmanager
def interrupts(pauses, parts):
    """Interrupt the main thread while it is in these parts of Dray; gives the count in a list."""
    count = [0]

    def interrupt(_number, frame):
        files = [each.f_code.co_filename for each, _ in traceback.walk_stack(frame)]
        # Python drops what is raised while it frees an object.
        freed = any(part in each for each in files for part in FREEING)
        if not freed and any(f"/dray/{part}/" in each for each in files for part in parts):
            count[0] += 1
            raise StoppedHereError

    with signals(interrupt, pauses):
        yield count


def now_and_then(seed):
    """Pauses of about the time of a send."""
    chance = random.Random(seed)
    while True:
        yield chance.uniform(0.0002, 0.003)


INSIDE = ("daemon", "manager", "store")
"""Parts that decide, sync and answer."""
FREEING = ("weakref", "_pytest/unraisable", "junkdrawer")
"""Files of functions that Python calls while it frees objects or collects them."""


@pytest.mark.slow
@pytest.mark.parametrize("transactional", [True, False])
def test_interrupts_at_any_moment_of_a_send_lose_and_repeat_nothing(manager, transactional):
    queue = manager.create_queue("orders", transactional=transactional)
    sure, perhaps, number = set(), set(), 0
    with interrupts(now_and_then(1), INSIDE) as count:
        while count[0] < 40:
            number += 1
            body = b"%d" % number
            try:
                queue.send(body)
                sure.add(body)
            except (StoppedHereError, dray.DrayError):
                perhaps.add(body)
    found = [each.body for each in queue.messages()]
    assert len(set(found)) == len(found)
    assert sure <= set(found) <= sure | perhaps
    assert [int(each) for each in found] == sorted(int(each) for each in found)


@pytest.mark.slow
@pytest.mark.parametrize("transactional", [True, False])
def test_interrupts_in_the_middle_of_a_receive_lose_and_repeat_nothing(manager, transactional):
    queue = manager.create_queue("orders", transactional=transactional)
    bodies = [b"%d" % number for number in range(200)]
    queue.send_many(bodies)
    taken = []
    with interrupts(now_and_then(2), INSIDE) as count:
        while len(taken) < len(bodies):
            try:
                taken.append(queue.receive(0).body)
            except (StoppedHereError, dray.ConnectionLost):
                continue
    assert count[0], "nothing was interrupted"
    assert sorted(taken) == sorted(bodies)
    with pytest.raises(dray.ReceiveTimeout):
        queue.receive(0)


@pytest.mark.slow
def test_interrupts_in_the_middle_of_a_transaction_leave_all_of_it_or_nothing(manager):
    queue = manager.create_queue("orders")
    sure, perhaps, number = set(), set(), 0
    with interrupts(now_and_then(3), INSIDE) as count:
        while count[0] < 20:
            number += 1
            try:
                with manager.transaction() as transaction:
                    for part in range(3):
                        queue.send(b"%d/%d" % (number, part), transaction=transaction)
                sure.add(number)
            except (StoppedHereError, dray.DrayError):
                perhaps.add(number)
    found = [each.body for each in queue.messages()]
    groups = {each.split(b"/")[0] for each in found}
    assert len(found) == len(set(found)) == 3 * len(groups)
    assert sure <= {int(each) for each in groups} <= sure | perhaps


@contextmanager
def interrupt_at(function):
    """Interrupt once, when a function of this name begins in the lock of a call."""

    def interrupt(frame, _event, _argument):
        if frame.f_code.co_name == function and frame.f_code.co_filename.endswith("threads.py"):
            sys.settrace(None)
            raise StoppedHereError

    sys.settrace(interrupt)
    try:
        with pytest.raises(StoppedHereError):
            yield
        assert sys.gettrace() is None, "nothing was interrupted"
    finally:
        sys.settrace(None)


@pytest.mark.parametrize("function", ["__aenter__", "__aexit__"])
def test_a_call_that_is_interrupted_at_its_lock_keeps_no_other_call_out(manager, function):
    queue = manager.create_queue("orders")
    with interrupt_at(function), manager.transaction() as transaction:
        queue.send(b"interrupted", transaction=transaction)
    assert transaction.status is dray.TransactionStatus.ABORTED
    assert manager.outcome(transaction.id) is dray.TransactionStatus.ABORTED
    kept = manager.transaction()
    with interrupt_at(function):
        queue.send(b"perhaps", transaction=kept)
    queue.send(b"more", transaction=kept)
    with ThreadPoolExecutor(1) as threads:
        threads.submit(queue.send, b"of another thread", transaction=kept).result(PATIENCE_S)
    kept.commit()
    assert [each.body for each in queue.messages()][-2:] == [b"more", b"of another thread"]


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
def test_a_wait_that_is_interrupted_at_any_call_raises_that_and_keeps_no_other_call_out(manager):
    queue = manager.create_queue("orders")
    moments = 0

    def interrupt(frame, _event, _argument):
        nonlocal left
        files = {each.f_code.co_filename for each, _ in traceback.walk_stack(frame)}
        # The queue manager holds signals, and Python drops what is raised while it frees an object.
        out = (*(f"/dray/{part}/" for part in INSIDE), *FREEING)
        called = any("/dray/client/" in each for each in files)
        if called and not any(part in each for each in files for part in out):
            left -= 1
            if not left:
                sys.settrace(None)
                raise StoppedHereError

    left = 0
    while not left:
        left = moments = moments + 1
        sys.settrace(interrupt)
        try:
            with pytest.raises((StoppedHereError, dray.ReceiveTimeout)):
                queue.receive(0.005)
        finally:
            sys.settrace(None)
        with pytest.raises(dray.ReceiveTimeout):
            queue.receive(0)
    assert moments > 20


def test_an_interrupted_wait_ends_at_once_and_takes_nothing(manager):
    queue = manager.create_queue("orders")

    with interrupts(repeat(0.05), ("client",)), pytest.raises(StoppedHereError):
        queue.receive()
    queue.send(b"after")
    assert queue.receive(PATIENCE_S).body == b"after"


@pytest.mark.slow
def test_a_signal_handler_can_send_while_its_thread_sends(manager):
    queue = manager.create_queue("orders")
    sent, inside = [], []

    def send(_number, _frame):
        if not inside:
            inside.append(True)
            sent.append(queue.send(b"of the handler"))
            inside.clear()

    with signals(send, repeat(0.0005)):
        while len(sent) < 200:
            queue.send(b"of the program")
    assert {*sent} <= {each.id for each in queue.messages()}


def test_a_signal_handler_can_close_the_queue_manager(tmp_path):
    manager = dray.open(tmp_path / "data")
    queue = manager.create_queue("orders")
    closed = []

    def close(_number, _frame):
        manager.close()
        closed.append(True)

    sent = []
    with signals(close, [0.01]), pytest.raises(dray.DrayError):
        sent.extend(queue.send(b"x") for _ in iter(int, 1))
    assert closed
    with dray.open(tmp_path / "data") as manager:
        assert manager.queue("orders").info().message_count in {len(sent), len(sent) + 1}


def test_closing_tells_threads_that_wait(tmp_path):
    manager = dray.open(tmp_path / "data")
    queue = manager.create_queue("orders")
    connection = manager.awaited._link._connection
    with ThreadPoolExecutor(THREADS) as threads:
        waiting = [threads.submit(queue.receive) for _ in range(THREADS)]
        while len(connection._session._pending) < THREADS:
            continue
        manager.close()
        for each in waiting:
            with pytest.raises(dray.ConnectionLost):
                each.result(PATIENCE_S)


PARTY = """
import os, sys, threading, dray
manager = dray.open(sys.argv[1])
queue = manager.queue("orders")
told = threading.Lock()
def send(name):
    number = 0
    while True:
        body = f"{name}/{number}"
        queue.send(body.encode())
        with told:
            os.write(1, body.encode() + b"\\n")
        number += 1
for name in range(4):
    threading.Thread(target=send, args=(name,), daemon=True).start()
threading.Event().wait()
"""


@pytest.mark.slow
@pytest.mark.parametrize("lines", [1, 100])
def test_what_threads_were_told_is_there_after_a_kill(tmp_path, lines):
    data = tmp_path / "data"
    with dray.open(data) as manager:
        manager.create_queue("orders")
    with subprocess.Popen([sys.executable, "-c", PARTY, data], stdout=subprocess.PIPE) as party:
        told = [party.stdout.readline() for _ in range(lines)]
        os.kill(party.pid, signal.SIGKILL)
        told += party.stdout.readlines()
    sure = [line[:-1] for line in told if line.endswith(b"\n")]
    with dray.open(data) as manager:
        found = [each.body for each in manager.queue("orders").messages()]
    assert len(set(found)) == len(found)
    assert set(sure) <= set(found)
    for name in range(4):
        of_one = [int(x.split(b"/")[1]) for x in found if x.startswith(b"%d/" % name)]
        assert of_one == list(range(len(of_one)))
