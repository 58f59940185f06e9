"""The routes by which messages come: remembered while they are needed, and never too many."""

from __future__ import annotations

import pytest
from crc32c import crc32c

from dray.errors import Misuse
from dray.manager.queue.arrival_routes import ArrivalRoute, ArrivalRoutes
from dray.model.access import Access
from dray.model.callers import Caller
from dray.model.limits import ARRIVAL_ROUTES_MAX
from dray.model.message import Message
from dray.wire import message_frames, peer_frames, queue_frames
from dray.wire.head import Head
from dray.wire.record import encode_record
from tests.inspection import look_into
from tests.unit.manager.conftest import ManagerDriver
from tests.unit.manager.incoming.test_end_of_stream import Source
from tests.unit.manager.peers.test_bound_callers import called
from tests.unit.manager.rights.test_table import allowing

FIRST, SECOND = ArrivalRoute("b" * 32, 7, "a" * 32, 2), ArrivalRoute("b" * 32, 7, "d" * 32, 3)


class Forwarder(Source):
    """A source that forwards messages of several origins by one stream, number 7."""

    def __init__(self, driver: ManagerDriver) -> None:
        super().__init__(driver)
        self.opened = self.line()
        self.say(self.opened, peer_frames.OpenStream(7, "orders"))
        self.sent = 0

    def send(self, origin: str) -> list[Head]:
        """Send the next message, one of an origin; what is answered."""
        self.sent += 1
        return self.say(self.opened, *message_of(origin, self.sent))


def message_of(origin: str, number: int) -> tuple[peer_frames.Data, bytes]:
    """The message of a number in stream 7, and its record."""
    record = b"".join(encode_record(Message(body=b"x"), bytes.fromhex(origin * 32), 9))
    envelope = message_frames.Envelope(
        0, len(record), crc32c(record), number, 0, 0, 3, ordinal=1, number=number
    )
    return peer_frames.Data(7, 1 << 32, number - 1, [envelope]), record


def routes_of(driver: ManagerDriver) -> ArrivalRoutes:
    return look_into(driver.manager).state.arrival_routes


def after_a_crash(driver: ManagerDriver) -> list[tuple[int, ArrivalRoute]]:
    driver.crash()
    return routes_of(driver).state()


def test_a_number_is_never_given_twice():
    routes = ArrivalRoutes()
    routes.add(FIRST)
    routes.add(SECOND)
    routes.queue_deleted(SECOND.queue)
    assert (routes.state(), routes.numbered(2), routes.number(SECOND)) == ([(1, FIRST)], None, 0)
    again = ArrivalRoutes(routes.state(), (), routes.last)
    again.add(SECOND)
    assert again.state() == [(1, FIRST), (3, SECOND)]
    assert (again.into(3), again.back("d" * 32, 3)) == ([3], [SECOND])


def test_what_goes_on_by_a_route_is_known_after_a_checkpoint():
    routes = ArrivalRoutes([(1, FIRST), (3, SECOND)], [(3, 9)], 3)
    assert (routes.going(1), routes.going(3), routes.going_state()) == (0, 9, [(3, 9)])


def test_routes_that_are_forgotten_leave_nothing_in_memory():
    routes, empty = ArrivalRoutes(), vars(ArrivalRoutes())
    for each in (FIRST, SECOND, FIRST._replace(origin="e" * 32)):
        routes.add(each)
    routes.queue_deleted(FIRST.queue)
    routes.queue_deleted(SECOND.queue)
    assert vars(routes) == empty | {"last": 3}


def test_the_routes_into_a_deleted_queue_are_forgotten(driver: ManagerDriver) -> None:
    caller = driver.session()
    caller.create("orders")
    source = Forwarder(driver)
    source.send("a")
    source.send("d")
    assert len(routes_of(driver)) == 2
    caller.call(queue_frames.DeleteQueue("orders"))
    assert (len(routes_of(driver)), routes_of(driver).last) == (0, 2)
    assert after_a_crash(driver) == []


@pytest.mark.parametrize("left", [0, 1])
def test_the_routes_of_an_ended_stream_are_forgotten_when_nothing_of_it_is_left(
    driver: ManagerDriver, left: int
) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    source = Forwarder(driver)
    source.send("a")
    source.send("a")
    caller.receive(queue, max_messages=2 - left)
    source.say(source.opened, peer_frames.EndStream(7))
    assert len(routes_of(driver)) == left
    assert len(after_a_crash(driver)) == left


def test_the_managers_of_a_caller_have_a_share_of_the_routes_and_others_have_theirs(
    tmp_path, monkeypatch
) -> None:
    """The source chooses what it calls the manager that a message was first sent at."""
    monkeypatch.setattr("dray.manager.queue.arrival_routes.ARRIVAL_ROUTES_MAX", 12)
    driver = ManagerDriver(
        tmp_path / "data", access=Access([allowing("cert:*", "deliver", "orders")])
    )
    driver.session().create("orders")
    greedy = [called(driver, Caller("cert:greedy"), letter) for letter in "bc"]
    honest = called(driver, Caller("cert:honest"), "d")
    for source in (*greedy, honest):
        source.say(peer_frames.OpenStream(7, "orders"))

    def sends(source, origin: str, number: int) -> Head:
        (answer,) = source.say(*message_of(origin, number))
        return answer

    for source, origin, number in ((greedy[0], "1", 1), (greedy[1], "2", 1), (greedy[0], "3", 2)):
        assert isinstance(sends(source, origin, number), peer_frames.StreamState)
    refused = sends(greedy[1], "4", 2)
    assert isinstance(refused, peer_frames.StreamRefused)
    assert refused.error == Misuse.code
    for number, origin in enumerate("123", 1):
        assert isinstance(sends(honest, origin, number), peer_frames.StreamState)


def test_a_way_too_many_is_refused_and_the_known_ones_go_on(driver: ManagerDriver) -> None:
    driver.leave_unchecked()
    caller = driver.session()
    queue = caller.create("orders")
    source = Forwarder(driver)
    source.send("a")
    routes = routes_of(driver)
    for number in range(len(routes), ARRIVAL_ROUTES_MAX):
        routes.add(ArrivalRoute("c" * 32, number, "c" * 32, queue))
    (refused,) = source.send("d")
    assert isinstance(refused, peer_frames.StreamRefused)
    assert (refused.error, refused.upto) == (Misuse.code, 1)
    assert len(routes) == ARRIVAL_ROUTES_MAX
    source.sent -= 1
    source.say(source.opened, peer_frames.OpenStream(7, "orders"))
    (taken,) = source.send("a")
    assert isinstance(taken, peer_frames.StreamState)
    assert (taken.upto, len(caller.receive(queue)[1])) == (2, 2)
