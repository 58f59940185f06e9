"""A store that is an old copy of itself: restored, or cloned (semantics 2.9, R38, R77)."""

from __future__ import annotations

import shutil
from pathlib import Path

from dray.manager.notices import NoticeKind
from dray.model.message import Message
from dray.wire import frames

from .conftest import Desk
from .test_links import ADDRESS, Pair, bodies_at_destination


def send(pair: Pair, *bodies: bytes) -> None:
    caller = pair.source.session()
    caller.send(caller.open(ADDRESS), *[Message(body=body) for body in bodies])


def state_of_outgoing_queue(pair: Pair) -> tuple[str, int]:
    caller = pair.source.session()
    described = caller.call(frames.DescribeQueue(ADDRESS))
    assert isinstance(described, frames.QueueState)
    return described.info.state, described.info.message_count


def back_up(desk: Desk, to: Path) -> None:
    shutil.copytree(desk.path, to)


def restore(desk: Desk, backup: Path) -> None:
    """Put an old copy in the place of the store, a minute later."""
    desk.disk.close()
    shutil.rmtree(desk.path)
    shutil.copytree(backup, desk.path)
    desk.now += 60.0
    desk.start()


def test_a_restored_source_is_believed_because_its_next_sequence_is_new(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.destination.session().create("orders")
    send(pair, b"before the backup")
    pair.deliver()
    back_up(pair.source, tmp_path / "backup")
    for n in range(3):
        send(pair, b"lost with the disk %d" % n)
        pair.deliver()
    pair.cut()
    restore(pair.source, tmp_path / "backup")
    send(pair, b"after the restore")
    pair.source.advance(10.0)
    pair.deliver()
    assert bodies_at_destination(pair)[-1] == b"after the restore"
    assert state_of_outgoing_queue(pair) == ("connected", 0)


def test_a_source_restored_with_messages_waiting_stops_and_keeps_them(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.destination.session().create("orders")
    send(pair, b"waiting at the backup")
    back_up(pair.source, tmp_path / "backup")
    pair.deliver()
    send(pair, b"another")
    pair.deliver()
    pair.cut()
    restore(pair.source, tmp_path / "backup")
    send(pair, b"after the restore")
    pair.source.advance(10.0)
    pair.deliver()
    assert state_of_outgoing_queue(pair) == ("need validation", 2)
    assert any(
        notice.kind == NoticeKind.DESTINATION_AHEAD for notice in pair.source.manager.notices()
    )
    assert bodies_at_destination(pair) == [b"waiting at the backup", b"another"]


def test_a_restored_destination_goes_on_with_what_comes_next(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.destination.session().create("orders")
    back_up(pair.destination, tmp_path / "backup")
    send(pair, b"lost with the disk")
    pair.deliver()
    pair.cut()
    pair.source.advance(10.0)
    restore(pair.destination, tmp_path / "backup")
    send(pair, b"after the restore")
    pair.source.advance(10.0)
    pair.deliver()
    assert bodies_at_destination(pair)[-1] == b"after the restore"
    assert state_of_outgoing_queue(pair) == ("connected", 0)
