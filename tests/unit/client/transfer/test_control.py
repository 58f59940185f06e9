"""The control socket: orders that are obeyed, refused, unreadable, and never answered."""

from __future__ import annotations

import re
import socket
import threading
from pathlib import Path

import pytest

from dray.client.transfer import control
from dray.client.transfer.control import ControlSocket, Order, OrderAnswer, give_order
from dray.errors import ConnectionLost, Misuse, TransferSourceChanged

WITHIN_S = 100
PAGE = Path(__file__).parents[4] / "docs" / "formats" / "transfer.md"


@pytest.fixture
def path(tmp_path):
    """Deeper than the address of a socket is long."""
    folder = tmp_path / ("deep" * 30)
    folder.mkdir()
    return folder / f"{'0' * 32}.out.sock"


@pytest.fixture
def serve(path):
    """Accepts as many orders as are to come, and has them obeyed."""
    sockets, threads = [], []

    def serve(obey, orders=1):
        made = ControlSocket(path)
        listener = made.listen()
        listener.setblocking(True)
        listener.settimeout(WITHIN_S)
        threads.append(threading.Thread(target=lambda: [made.accept(obey) for _ in range(orders)]))
        sockets.append(made)
        threads[-1].start()
        return made

    yield serve
    for thread in threads:
        thread.join(WITHIN_S)
    for each in sockets:
        each.close()
        each.settle()


def test_an_order_is_obeyed_before_it_is_answered(path, serve):
    obeyed = []
    serve(obeyed.append)
    give_order(path, Order("suspend", "3"))
    assert obeyed == [Order("suspend", "3")]


def test_what_is_in_the_way_is_raised_where_the_order_was_given(path, serve):
    def refuse(order):
        raise TransferSourceChanged("it is another file", path="p", transfer_id="t")

    serve(refuse)
    with pytest.raises(TransferSourceChanged, match="it is another file"):
        give_order(path, Order("resume"))


@pytest.mark.parametrize("said", [b"{", b'{"act":"dance"}\n', b"x" * control._LINE_BYTES_MAX])
def test_an_order_that_cannot_be_read_is_answered_so(path, serve, said):
    serve(lambda _: pytest.fail("it was obeyed"))
    with socket.socket(socket.AF_UNIX) as sock, control._short(path) as name:
        sock.connect(name)
        sock.sendall(said)
        sock.shutdown(socket.SHUT_WR)
        assert b'"code":"misuse"' in control._line(sock)


def test_where_nobody_listens_the_order_is_refused(path):
    with pytest.raises(Misuse, match="does not answer"):
        give_order(path, Order("cancel"))


def test_what_a_killed_program_has_left_is_replaced(path, serve):
    with socket.socket(socket.AF_UNIX) as left, control._short(path) as name:
        left.bind(name)
    with pytest.raises(Misuse, match="does not answer"):
        give_order(path, Order("cancel"))
    obeyed = []
    serve(obeyed.append)
    give_order(path, Order("cancel"))
    assert obeyed == [Order("cancel")]


def test_an_end_without_an_answer_leaves_open_what_was_done(path):
    with socket.socket(socket.AF_UNIX) as listener, control._short(path) as name:
        listener.bind(name)
        listener.listen()

        def hang_up():
            sock, _ = listener.accept()
            sock.close()

        other = threading.Thread(target=hang_up)
        other.start()
        with pytest.raises(ConnectionLost, match="did not answer in time"):
            give_order(path, Order("cancel"))
        other.join(WITHIN_S)


def test_more_than_a_few_orders_at_once_are_hung_up_on(path, serve):
    may_end = threading.Event()
    begun = threading.Semaphore(0)

    def obey(order):
        begun.release()
        assert may_end.wait(WITHIN_S)

    serve(obey, orders=control._AT_ONCE_MAX + 1)
    given = [
        threading.Thread(target=give_order, args=(path, Order("resume")))
        for _ in range(control._AT_ONCE_MAX)
    ]
    for each in given:
        each.start()
    for _ in given:
        assert begun.acquire(timeout=WITHIN_S)
    with pytest.raises(ConnectionLost):
        give_order(path, Order("resume"))
    may_end.set()
    for each in given:
        each.join(WITHIN_S)


def test_it_is_the_users_alone_and_goes_with_the_transfer(path, serve):
    made = serve(lambda _: None)
    assert path.stat().st_mode & 0o777 == 0o600
    give_order(path, Order("suspend"))
    made.close()
    assert not path.exists()


def test_without_a_place_for_a_socket_there_is_none(tmp_path):
    made = ControlSocket(tmp_path / "missing" / "x.sock")
    assert made.listen() is None
    made.accept(lambda _: pytest.fail("there is nothing to accept"))
    made.close()


def test_the_page_shows_an_order_and_its_answer():
    text = PAGE.read_text("utf-8").split("## The control socket")[1]
    order, answer = re.findall(r"^\{.*\}$", text, re.MULTILINE)
    assert control.msgspec.json.encode(Order("suspend")).decode() == order
    assert control.msgspec.json.encode(OrderAnswer()).decode() == answer
