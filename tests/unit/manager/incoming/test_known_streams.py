"""How many streams and managers a destination remembers, whoever calls and whatever it says."""

from __future__ import annotations

import pytest

from dray.delivery.incoming import IncomingStreams, StreamKey
from dray.errors import Misuse
from dray.manager.events import CloseSession
from dray.model.limits import CONFIRMATION_ORDINAL_MAX
from dray.wire import peer_frames
from dray.wire.head import Head
from tests.inspection import look_into
from tests.unit.manager.conftest import ManagerDriver

SEQUENCE = 7


class Passing:
    """A manager that leaves positions in streams and brings no message."""

    def __init__(self, driver: ManagerDriver, letter: str, session: int) -> None:
        self.driver, self.session = driver, session
        self.source = driver.source(session, letter)

    def is_ended_by(self, head: Head) -> bool:
        del self.driver.effects[:]
        self.source.say(head)
        return any(isinstance(each, CloseSession) for each in self.driver.effects)

    def pass_over(self, stream: int) -> list[str]:
        """Open a stream and record a position in it; gives why it was refused."""
        self.source.say(peer_frames.OpenStream(stream, "orders"))
        heads = self.source.say(peer_frames.Passed(stream, SEQUENCE, 0, 5))
        return [head.error for head in heads if isinstance(head, peer_frames.StreamRefused)]


@pytest.fixture
def small(driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch) -> ManagerDriver:
    monkeypatch.setattr("dray.delivery.incoming.STREAMS_PER_PEER_MAX", 3)
    monkeypatch.setattr("dray.delivery.incoming.PEERS_MET_MAX", 2)
    driver.session().create("orders")
    return driver


def test_positions_of_one_source_are_bounded_and_known_streams_go_on(small: ManagerDriver) -> None:
    """60 frames left 195 MiB on disk for ever."""
    source = Passing(small, "b", 500)
    assert [source.pass_over(stream) for stream in (1, 2, 3, 4)] == [[], [], [], ["misuse"]]
    small.crash()
    source = Passing(small, "b", 501)
    source.source.say(peer_frames.OpenStream(1, "orders"))
    source.source.say(peer_frames.Passed(1, SEQUENCE, 5, 9))
    assert source.pass_over(5) == ["misuse"]


def test_sources_are_bounded_and_one_takes_nothing_from_another(small: ManagerDriver) -> None:
    sources = [Passing(small, letter, number) for number, letter in enumerate("bcd", 500)]
    assert [source.pass_over(1) for source in sources] == [[], [], ["misuse"]]
    assert sources[0].pass_over(2) == []


def test_a_session_asks_about_a_bounded_number_of_streams(
    small: ManagerDriver, monkeypatch
) -> None:
    monkeypatch.setattr("dray.manager.incoming.streams.STREAMS_PER_PEER_MAX", 3)
    source = Passing(small, "b", 500)
    for stream in (1, 2, 3, 1):
        assert not source.is_ended_by(peer_frames.OpenStream(stream, "no"))
    assert source.is_ended_by(peer_frames.OpenStream(4, "no"))


def test_a_checkpoint_brings_the_count_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dray.delivery.incoming.STREAMS_PER_PEER_MAX", 1)
    streams = IncomingStreams()
    streams.accepted(StreamKey("a", 1), SEQUENCE, 1)
    again = IncomingStreams(streams.state())
    again.check_room(StreamKey("a", 1))
    with pytest.raises(Misuse, match="delete outgoing queues"):
        again.check_room(StreamKey("a", 2))


def test_a_stream_that_never_carried_a_message_leaves_nothing(small: ManagerDriver) -> None:
    """However many confirmations its source says that it has heard."""
    source = Passing(small, "b", 500)
    source.source.say(peer_frames.OpenStream(1, "orders", heard=9))
    assert look_into(small.manager).state.outbox.state() == []
    assert source.pass_over(1) == []


def test_ordinals_that_no_manager_tells_end_the_connection(small: ManagerDriver) -> None:
    source = Passing(small, "b", 500)
    most = CONFIRMATION_ORDINAL_MAX
    assert not source.is_ended_by(peer_frames.OpenStream(1, "orders", heard=most))
    assert source.is_ended_by(peer_frames.OpenStream(1, "orders", heard=most + 1))
