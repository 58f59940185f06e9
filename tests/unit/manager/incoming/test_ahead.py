"""Pieces of large messages that come ahead of their commit (docs/explanation/ahead.md)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import crc32c
import pytest

from dray.manager.disk import RoomLeft
from dray.manager.entries import TAIL_BYTES
from dray.manager.events import CloseSession, LinkSend, SessionClosed
from dray.model.classes import Part
from dray.model.ids import ManagerId
from dray.model.limits import AHEAD_AGE_S_MAX
from dray.model.message import Message
from dray.testing.keyed_manager import id_named
from dray.wire import batch_frames, large_frames, message_frames, peer_frames, queue_frames
from dray.wire.head import Head
from dray.wire.record import HEADER_BYTES, PartMark, encode_record, read_header
from tests.inspection import look_into
from tests.unit.manager.conftest import Caller, ManagerDriver, Source
from tests.unit.manager.net import Net, address
from tests.unit.manager.peers.test_links import ADDRESS, Pair
from tests.unit.manager.requests.test_large_messages import send_large, take_large
from tests.unit.manager.requests.test_uploads import Sender

FRAGMENTS = 3


class AheadPair(Pair):
    """A source that sends fragments of any length ahead, over a stream that is open."""

    def __init__(self, path: Path, ahead_bytes_min: int = 1) -> None:
        super().__init__(path)
        self.source = ManagerDriver(path / "near", "a", ahead_bytes_min=ahead_bytes_min)
        there = self.destination.session()
        there.create("orders")
        there.create("other")
        here = self.source.session()
        here.send(here.open(ADDRESS), Message(body=b"first"))
        self.deliver()
        there.receive(there.open("orders"))
        self.deliver()
        self.said.clear()

    def begin(self, caller: Caller) -> int:
        """Stage a large message and let its pieces travel; the transaction, not committed."""
        transaction = caller.number_for()
        send_large(caller, caller.open(ADDRESS), FRAGMENTS, transaction)
        self.deliver()
        return transaction

    def count(self, kind: type[Head]) -> int:
        return sum(isinstance(each, kind) for each in self.said)

    @property
    def records_sent(self) -> int:
        """How many messages the source has sent with their records."""
        data = [each for each in self.said if isinstance(each, peer_frames.Data) and not each.ahead]
        return sum(len(each.envelopes) for each in data)

    @property
    def bytes_ahead(self) -> int:
        return look_into(self.destination.manager).ahead(self.source.manager_id)[0]


@pytest.fixture
def pair(tmp_path: Path) -> AheadPair:
    return AheadPair(tmp_path)


def staged(driver: ManagerDriver) -> int:
    return sum(look_into(driver.manager).state.ledger.staged.values())


def assert_nothing_is_left(pair: AheadPair) -> None:
    pair.source.store.sync()
    pair.destination.store.sync()
    assert (staged(pair.source), staged(pair.destination), pair.bytes_ahead) == (0, 0, 0)
    assert pair.destination.store.live_bytes == pair.source.store.live_bytes == 0


def take_whole(driver: ManagerDriver) -> list[bytes]:
    """Receive the large message at the destination; the bytes of its fragments."""
    there = driver.session()
    queue, taking = there.open("orders"), there.number_for()
    found = take_large(there, queue, taking)
    bodies = []
    for part in found.parts:
        _, record = there.call_whole(large_frames.ReadPart(queue, part.lookup_id, 0, part.length))
        assert crc32c.crc32c(record) == part.crc
        bodies.append(bytes(record[-1:]))
    there.commit(taking, 0)
    return bodies


WHOLE = [b"\1", b"\2", b"\3"]


def test_fragments_arrive_before_the_commit_and_travel_once(pair: AheadPair) -> None:
    here = pair.source.session()
    transaction = pair.begin(here)
    assert pair.count(peer_frames.Ahead) == FRAGMENTS
    assert pair.bytes_ahead == staged(pair.destination) > 0
    here.commit(transaction, 3)
    pair.deliver()
    assert pair.records_sent == 2, "only header and trailer come with their records"
    assert take_whole(pair.destination) == WHOLE
    pair.deliver()
    assert_nothing_is_left(pair)


def test_of_pieces_whose_messages_find_no_room_in_one_fact_nothing_is_left_behind(
    pair: AheadPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = pair.source.session()
    transaction = pair.begin(here)
    with monkeypatch.context() as patch:
        patch.setattr(RoomLeft, "fact_bytes_max", property(lambda _: TAIL_BYTES))
        here.commit(transaction, 3)
        pair.deliver()
    pair.source.advance(31.0)
    pair.deliver()
    assert take_whole(pair.destination) == WHOLE
    pair.deliver()
    assert_nothing_is_left(pair)


@pytest.mark.parametrize(("beyond", "count"), [(0, FRAGMENTS), (1, 0)])
def test_only_fragments_of_some_length_travel_ahead(
    tmp_path: Path, beyond: int, count: int
) -> None:
    pair = AheadPair(tmp_path, HEADER_BYTES + 1 + beyond)
    here = pair.source.session()
    transaction = pair.begin(here)
    assert pair.count(peer_frames.Ahead) == count
    here.commit(transaction, 3)
    pair.deliver()
    assert take_whole(pair.destination) == WHOLE


def test_a_transaction_all_of_which_was_sent_is_remembered_no_more(pair: AheadPair) -> None:
    here = pair.source.session()
    transaction = pair.begin(here)
    (leading,) = (each for each in look_into(pair.source.manager).state.queues if each.ahead)
    here.commit(transaction, 3)
    pair.deliver()
    assert not leading.ahead


def test_no_receiver_sees_a_piece_before_its_commit(pair: AheadPair) -> None:
    pair.begin(pair.source.session())
    info = pair.destination.session().call(queue_frames.DescribeQueue("orders")).info
    assert (info.message_count, info.byte_count) == (0, 0)
    assert not pair.count(peer_frames.Data)


def test_the_first_piece_of_a_queue_opens_its_stream(pair: AheadPair) -> None:
    here = pair.source.session()
    queue = here.open(ADDRESS.replace("orders", "other"))
    transaction = here.number_for()
    send_large(here, queue, 1, transaction, trailer=False)
    pair.deliver()
    assert not pair.count(peer_frames.Ahead)
    mark = PartMark(Part.FRAGMENT, 1)
    here.send(queue, Message(body=b"2", app_specific=2), transaction=transaction, marks=(mark,))
    pair.deliver()
    assert pair.count(peer_frames.Ahead) == 1


def test_what_cannot_travel_ahead_opens_no_stream_before_its_commit(pair: AheadPair) -> None:
    here = pair.source.session()
    queue = here.open(ADDRESS.replace("orders", "other"))
    here.send(queue, Message(body=b"plain"), transaction=here.number_for())
    pair.deliver()
    assert not pair.count(peer_frames.OpenStream)


@pytest.mark.parametrize("cut", [False, True])
def test_an_abort_gives_the_pieces_up(pair: AheadPair, *, cut: bool) -> None:
    here = pair.source.session()
    transaction = pair.begin(here)
    (leading,) = (each for each in look_into(pair.source.manager).state.queues if each.ahead)
    if cut:
        pair.cut()
    here.call(message_frames.Abort(transaction))
    pair.deliver()
    assert pair.count(peer_frames.AheadDropped) == (not cut)
    assert not leading.ahead
    assert_nothing_is_left(pair)


def test_a_batch_sends_records_and_the_pieces_of_its_tasks_are_given_up(pair: AheadPair) -> None:
    here = pair.source.session()
    transaction = pair.begin(here)
    assert pair.bytes_ahead
    here.call(batch_frames.StageForBatch(transaction, 3, "a query", 0))
    staged_id = f"{pair.source.manager_id}\\{transaction}"
    here.call(batch_frames.CommitBatch("a query", 0, b"", here.number_for(), [staged_id]))
    pair.deliver()
    assert pair.bytes_ahead == staged(pair.destination) == 0
    assert pair.records_sent == FRAGMENTS + 2
    assert take_whole(pair.destination) == WHOLE
    pair.deliver()
    assert not any(each.ahead for each in look_into(pair.source.manager).state.queues)
    assert_nothing_is_left(pair)


def test_the_pieces_of_an_upload_are_given_up_when_its_connection_is_lost(pair: AheadPair) -> None:
    here = pair.source.session()
    upload = Sender(here, here.open(ADDRESS))
    upload.begin()
    upload.send(Part.HEADER)
    upload.send(Part.FRAGMENT, 1)
    pair.deliver()
    assert pair.bytes_ahead
    pair.source.turn(SessionClosed(here.number))
    pair.deliver()
    assert pair.bytes_ahead == staged(pair.destination) == 0
    upload.resume(pair.source.session())
    upload.send(Part.HEADER)
    upload.finish(1)
    pair.deliver()
    assert take_whole(pair.destination) == WHOLE


def test_pieces_die_with_the_line_and_the_commit_sends_records(pair: AheadPair) -> None:
    here = pair.source.session()
    transaction = pair.begin(here)
    pair.cut()
    assert pair.bytes_ahead == staged(pair.destination) == 0
    here.commit(transaction, 3)
    pair.source.advance(60.0)
    pair.deliver()
    assert pair.records_sent == FRAGMENTS + 2
    assert take_whole(pair.destination) == WHOLE
    pair.deliver()
    assert_nothing_is_left(pair)


def test_pieces_die_with_their_source(pair: AheadPair) -> None:
    pair.begin(pair.source.session())
    pair.cut()
    pair.source.crash()
    pair.deliver()
    assert_nothing_is_left(pair)


def test_a_destination_that_starts_again_finds_no_piece_and_gets_records(pair: AheadPair) -> None:
    here = pair.source.session()
    transaction = pair.begin(here)
    pair.cut()
    pair.destination.crash()
    assert pair.destination.store.live_bytes == 0
    here.commit(transaction, 3)
    pair.source.advance(60.0)
    pair.deliver()
    assert take_whole(pair.destination) == WHOLE


def test_a_piece_that_nobody_commits_is_given_up_after_ten_minutes(pair: AheadPair) -> None:
    here = pair.source.session()
    transaction = pair.begin(here)
    pair.destination.advance(AHEAD_AGE_S_MAX - 1)
    assert pair.bytes_ahead
    assert pair.destination.manager.deadline() <= pair.destination.now + 1
    pair.destination.advance(1.0)
    assert pair.bytes_ahead == staged(pair.destination) == 0
    pair.deliver()
    here.commit(transaction, 3)
    pair.deliver()
    assert pair.records_sent == FRAGMENTS + 2
    assert take_whole(pair.destination) == WHOLE


def test_a_frame_that_names_a_lost_piece_is_not_taken_and_its_records_come(pair: AheadPair) -> None:
    """The source commits before it hears that the pieces were given up."""
    here = pair.source.session()
    transaction = pair.begin(here)
    pair.destination.advance(AHEAD_AGE_S_MAX)
    here.commit(transaction, 3)
    # Its frames are on their way when the word of the destination comes.
    gone, pair.destination.effects = pair.destination.effects, []
    outward = [each for each in pair.source.effects if isinstance(each, LinkSend)]
    assert any(isinstance(each.head, peer_frames.Data) and each.head.ahead for each in outward)
    pair.deliver()
    assert peer_frames.AheadKept(here.open(ADDRESS)) in pair.said
    pair.destination.effects += gone
    pair.deliver()
    assert take_whole(pair.destination) == WHOLE
    pair.deliver()
    assert_nothing_is_left(pair)


def test_pieces_take_half_of_the_free_quota_and_the_message_arrives(pair: AheadPair) -> None:
    there = pair.destination.session()
    here = pair.source.session()
    size = pair_size(pair)
    there.call(queue_frames.SetQuota("", 4 * size, None))
    transaction = pair.begin(here)
    assert (pair.bytes_ahead, pair.count(peer_frames.Ahead)) == (2 * size, FRAGMENTS)
    there.call(queue_frames.SetQuota("", 1 << 20, None))
    here.commit(transaction, 3)
    pair.deliver()
    assert pair.records_sent == 3, "header, trailer and the piece that was left out"
    assert take_whole(pair.destination) == WHOLE


def pair_size(pair: AheadPair) -> int:
    """The bytes of a piece."""
    here = pair.source.session()
    transaction = pair.begin(here)
    size = pair.bytes_ahead // FRAGMENTS
    here.call(message_frames.Abort(transaction))
    pair.deliver()
    pair.said.clear()
    return size


def test_a_committed_message_comes_before_what_is_ahead(pair: AheadPair) -> None:
    """It finds no room in the quota: the pieces are given up, and it enters."""
    there, here, size = pair.destination.session(), pair.source.session(), pair_size(pair)
    there.call(queue_frames.SetQuota("", 8 * size, None))
    transaction = pair.begin(here)
    assert pair.bytes_ahead == FRAGMENTS * size
    here.send(here.open(ADDRESS.replace("orders", "other")), Message(body=bytes(6 * size)))
    pair.deliver()
    info = there.call(queue_frames.DescribeQueue("other")).info
    assert (info.message_count, pair.bytes_ahead) == (1, 0)
    here.call(message_frames.Abort(transaction))


def test_large_messages_that_are_sent_at_once_enter_in_the_order_of_their_commits(
    pair: AheadPair,
) -> None:
    first, second = pair.source.session(), pair.source.session()
    early, late = pair.begin(first), pair.begin(second)
    second.commit(late, 3)
    pair.deliver()
    assert pair.bytes_ahead
    there = pair.destination.session()
    assert there.call(queue_frames.DescribeQueue("orders")).info.message_count == FRAGMENTS + 2
    first.commit(early, 3)
    pair.deliver()
    assert pair.records_sent == 4
    assert [take_whole(pair.destination) for _ in range(2)] == [WHOLE, WHOLE]
    pair.deliver()
    assert_nothing_is_left(pair)


def test_the_pieces_of_a_message_that_is_refused_are_given_up(pair: AheadPair) -> None:
    here, there = pair.source.session(), pair.destination.session()
    transaction = pair.begin(here)
    there.call(queue_frames.SetQuota("orders", 1, None))
    here.commit(transaction, 3)
    pair.deliver()
    assert (
        here.call(queue_frames.DescribeQueue("system$;deadxact")).info.message_count
        == FRAGMENTS + 2
    )
    assert pair.bytes_ahead == staged(pair.destination) == 0
    pair.destination.store.sync()
    assert pair.destination.store.live_bytes == 0


def test_a_deleted_outgoing_queue_gives_its_pieces_up(pair: AheadPair) -> None:
    here = pair.source.session()
    here.call(message_frames.Abort(pair.begin(here)))
    there = look_into(pair.destination.manager)
    source = Rig(pair.destination)
    source.ahead(1, source.record())
    assert there.ahead(source.id) != (0, 0)
    source.say(peer_frames.EndStream(source.stream))
    assert there.ahead(source.id) == (0, 0)


def test_bytes_under_way_keep_their_place_after_an_abort(pair: AheadPair) -> None:
    """The kernel may read them until the destination has answered."""
    here = pair.source.session()
    transaction = here.number_for()
    send_large(here, here.open(ADDRESS), FRAGMENTS, transaction)
    here.call(message_frames.Abort(transaction))
    fill = here.create("fill")
    here.send(fill, Message(body=b"x" * 200))
    pair.deliver()
    assert pair.count(peer_frames.AheadKept) == 1, (
        "it was not damaged, and the others were not sent"
    )
    assert pair.bytes_ahead == 0


def test_the_file_of_a_piece_is_pinned_until_the_destination_has_answered_and_no_longer(
    pair: AheadPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, pins = pair.source.store, Counter[int]()
    pin, unpin = store.pin, store.unpin
    monkeypatch.setattr(store, "pin", lambda file: (pins.update([file]), pin(file)))
    monkeypatch.setattr(store, "unpin", lambda file: (pins.subtract([file]), unpin(file)))
    here = pair.source.session()
    transaction = here.number_for()
    send_large(here, here.open(ADDRESS), FRAGMENTS, transaction)
    assert pins.total() == 1, "the others wait for the first"
    pair.deliver()
    here.commit(transaction, 3)
    pair.deliver()
    assert pins.total() == 0
    assert take_whole(pair.destination) == WHOLE


def test_a_message_that_is_forwarded_travels_ahead_for_one_hop(tmp_path: Path) -> None:
    net = Net(tmp_path, "abc", {"a": {"c": "b"}})
    net["c"].session().create("orders")
    here = net["a"].session()
    queue, transaction = here.open(address("c", "orders")), here.number_for()
    here.send(queue, Message(body=b"first"))
    net.deliver()
    there = net["c"].session()
    there.receive(there.open("orders"))
    send_large(here, queue, FRAGMENTS, transaction)
    net.deliver()
    here.commit(transaction, 3)
    net.deliver()
    assert take_whole(net["c"]) == WHOLE


# ------------------------------------------------------------------------------ hostile peers


class Rig(Source):
    """A peer that says what it likes, over a stream that it has opened."""

    stream = 5

    def __init__(self, driver: ManagerDriver, number: int = 77) -> None:
        super().__init__(driver, number, "z")
        self.begin()
        self.id = id_named("z")
        self.say(peer_frames.OpenStream(self.stream, "orders", 1))

    def record(
        self, part: Part = Part.FRAGMENT, source: str = "", body: bytes = b"x", **more: object
    ) -> bytes:
        owner = bytes.fromhex(source or self.id)
        message = Message(body=body, app_specific=1, **more)
        head, rest = encode_record(message, owner, 9, PartMark(part, 8))
        return head + bytes(rest)

    def ahead(self, ordinal: int, record: bytes, crc: int | None = None) -> list[Head]:
        crc = crc32c.crc32c(record) if crc is None else crc
        return self.say(peer_frames.Ahead(self.stream, 3, ordinal, crc), record)


@pytest.fixture
def rig(driver: ManagerDriver) -> Rig:
    driver.session().create("orders")
    return Rig(driver)


def closed(rig: Rig) -> bool:
    return CloseSession(rig.number) in rig.driver.effects


def test_a_piece_of_another_sender_ends_the_connection(rig: Rig) -> None:
    rig.ahead(1, rig.record(source=ManagerId(id_named("y"))))
    assert closed(rig)


@pytest.mark.parametrize("part", [Part.PLAIN, Part.HEADER, Part.TRAILER])
def test_only_fragments_come_ahead(rig: Rig, part: Part) -> None:
    rig.ahead(1, rig.record(part))
    assert closed(rig)


def test_a_piece_that_was_damaged_on_the_way_ends_the_connection(rig: Rig) -> None:
    rig.ahead(1, rig.record(), crc=1)
    assert closed(rig)


@pytest.mark.parametrize("ordinal", [0, -1, 1 << 40])
def test_a_piece_without_a_possible_place_ends_the_connection(rig: Rig, ordinal: int) -> None:
    rig.ahead(ordinal, rig.record())
    assert closed(rig)


@pytest.mark.parametrize("over", [0, 1])
def test_a_piece_with_properties_that_no_client_writes_ends_the_connection(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, over: int
) -> None:
    record = rig.record(correlation_id="order 1")
    beginning = HEADER_BYTES + read_header(record).properties_bytes
    monkeypatch.setattr("dray.manager.incoming.ahead.AHEAD_HEAD_BYTES_MAX", beginning - over)
    rig.ahead(1, record)
    assert closed(rig) == bool(over)


def test_a_piece_of_a_stream_that_is_not_open_is_not_kept(rig: Rig) -> None:
    record = rig.record()
    head = peer_frames.Ahead(6, 3, 1, crc32c.crc32c(record))
    assert rig.say(head, record) == [peer_frames.AheadKept(6, 3, 1)]
    assert look_into(rig.driver.manager).ahead(rig.id) == (0, 0)


def test_a_piece_that_comes_again_is_kept_once(rig: Rig) -> None:
    once = rig.ahead(1, rig.record())
    size = look_into(rig.driver.manager).ahead(rig.id)
    assert rig.ahead(1, rig.record()) == once == [peer_frames.AheadKept(5, 3, 1, kept=True)]
    assert look_into(rig.driver.manager).ahead(rig.id) == size
    rig.ahead(1, rig.record(body=b"another"))
    assert look_into(rig.driver.manager).ahead(rig.id)[1] == 1


@pytest.mark.parametrize("bound", ["AHEAD_BYTES_MAX", "AHEAD_PIECES_MAX"])
def test_the_pieces_of_a_peer_are_bounded(rig: Rig, monkeypatch, bound: str) -> None:
    record = rig.record()
    monkeypatch.setattr(f"dray.manager.incoming.ahead.{bound}", 2 * len(record))
    if bound == "AHEAD_PIECES_MAX":
        monkeypatch.setattr("dray.manager.incoming.ahead.AHEAD_PIECES_MAX", 2)
    kept = [head.kept for ordinal in (1, 2, 3) for head in rig.ahead(ordinal, record)]
    assert kept == [True, True, False]


def test_a_frame_that_names_pieces_has_no_records(rig: Rig) -> None:
    envelope = message_frames.Envelope(1, 65, 0, 3, 0, 0, 0, 0, 0, 0, 1, 1)
    rig.say(peer_frames.Data(5, 1, 0, [envelope], ahead=True), b"x" * 65)
    assert closed(rig)


def test_a_frame_that_names_a_piece_never_sent_is_not_taken(rig: Rig) -> None:
    envelope = message_frames.Envelope(1, 65, 0, 3, 0, 0, 0, 0, 0, 0, 1, 1)
    assert rig.say(peer_frames.Data(5, 1, 0, [envelope], ahead=True)) == [peer_frames.AheadKept(5)]


def test_a_piece_is_not_taken_for_a_message_with_another_checksum(rig: Rig) -> None:
    record = rig.record()
    rig.ahead(1, record)
    envelope = message_frames.Envelope(1, len(record), 1, 3, 0, 0, 0, 0, 0, 0, 1, 1)
    assert rig.say(peer_frames.Data(5, 1, 0, [envelope], ahead=True)) == [peer_frames.AheadKept(5)]


def test_two_messages_do_not_share_a_piece(rig: Rig) -> None:
    record = rig.record()
    rig.ahead(1, record)
    crc = crc32c.crc32c(record)
    pair = [message_frames.Envelope(n, len(record), crc, 3, 0, 0, 0, 0, 0, 0, 1, n) for n in (1, 2)]
    (refusal,) = rig.say(peer_frames.Data(5, 1, 0, pair, ahead=True))
    assert isinstance(refusal, peer_frames.StreamRefused)
    assert look_into(rig.driver.manager).state.incoming.position((rig.id, 5)).number == 0


def test_a_piece_is_given_up_when_its_message_comes_with_its_record(rig: Rig) -> None:
    record = rig.record()
    rig.ahead(1, record)
    rig.ahead(2, record)
    one = look_into(rig.driver.manager).ahead(rig.id)[0] // 2
    envelope = message_frames.Envelope(
        1, len(record), crc32c.crc32c(record), 3, 0, 0, 0, 0, 0, 0, 1, 1
    )
    rig.say(peer_frames.Data(5, 1 << 32, 0, [envelope]), record)
    assert look_into(rig.driver.manager).state.incoming.position((rig.id, 5)).number == 1
    assert look_into(rig.driver.manager).ahead(rig.id) == (one, 1)


@pytest.mark.parametrize("how", ["abort", "hang up"])
def test_pieces_of_a_transaction_that_ends_without_a_commit_are_given_up_there_at_once(
    pair: AheadPair, how: str
) -> None:
    here = pair.source.session()
    transaction = pair.begin(here)
    assert pair.bytes_ahead > 0
    if how == "abort":
        here.call(message_frames.Abort(transaction))
    else:
        pair.source.turn(SessionClosed(here.number))
    pair.deliver()
    assert pair.count(peer_frames.AheadDropped) == 1
    assert_nothing_is_left(pair)
