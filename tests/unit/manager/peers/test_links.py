"""Two managers at one table: queues, streams, order acks (S2-2, S2-4, S2-7, R33 to R36)."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from dray import errors
from dray.manager.events import (
    Answer,
    CloseSession,
    Dial,
    Effect,
    HangUp,
    LinkDown,
    LinkFrame,
    LinkSend,
    LinkUp,
    Peer,
    Request,
    SessionClosed,
    SessionOpened,
)
from dray.manager.notices import NoticeKind
from dray.model.callers import OWNER
from dray.model.classes import MessageClass
from dray.model.limits import WELCOME_TIMEOUT_S
from dray.model.message import Message
from dray.store.heap.heap import Extent
from dray.testing.keyed_manager import KeyedManager, id_named
from dray.wire import frames, peer_frames, queue_frames
from dray.wire.head import Head
from dray.wire.stream import Frame
from tests.unit.manager.conftest import ManagerDriver
from tests.unit.manager.requests.test_large_messages import send_large, take_large

PEER = Peer("127.0.0.1", 7340)
ADDRESS = "dray://127.0.0.1:7340/orders"


class Pair:
    """A source and a destination; `deliver` carries what is said, unless the line is cut."""

    def __init__(self, path: Path) -> None:
        self.source = ManagerDriver(path / "source", "a")
        self.destination = ManagerDriver(path / "destination", "b")
        self.line: int | None = None
        self.next_line = 1000
        self.said: list[Head] = []
        self.shown = ""
        """The caller that the certificate of the destination names."""

    def deliver(self, *, upto: int = 10_000) -> int:
        """Carry frames until nothing is said any more, or `upto` of them."""
        carried = 0
        while carried < upto:
            effects, self.source.effects = self.source.effects, []
            outward = [e for e in effects if isinstance(e, Dial | HangUp | LinkSend)]
            answers = [e for e in self.destination.effects if self._for_line(e)]
            self.destination.effects = []
            if not outward and not answers:
                break
            for effect in outward:
                carried += 1
                self._outward(effect)
            for effect in answers:
                carried += 1
                self._inward(effect)
        return carried

    def cut(self) -> None:
        """The line breaks; both sides notice."""
        line, self.line = self.line, None
        if line is not None:
            self.source.turn(LinkDown(PEER, "cut"))
            self.destination.turn(SessionClosed(line))

    def _for_line(self, effect: Effect) -> bool:
        return isinstance(effect, Answer | CloseSession) and effect.session == self.line

    def _outward(self, effect: Effect) -> None:
        if isinstance(effect, Dial):
            self.next_line += 1
            self.line = self.next_line
            self.destination.turn(SessionOpened(self.line, OWNER))
            self.source.turn(LinkUp(PEER, self.shown))
            self._tell(self.source.manager.hello(PEER), b"")
        elif isinstance(effect, HangUp):
            self.cut()
        elif isinstance(effect, LinkSend):
            self._tell(effect.head, self.source.body_of(effect))

    def _tell(self, head: Head, body: bytes) -> None:
        self.said.append(head)
        if self.line is not None:
            frame = Frame(head, 0, memoryview(bytearray(body)))
            self.destination.turn(Request(self.line, frame))

    def _inward(self, effect: Effect) -> None:
        if isinstance(effect, Answer):
            self.said.append(effect.head)
            frame = Frame(effect.head, 0, memoryview(self.destination.body_of(effect)))
            self.source.turn(LinkFrame(PEER, frame))
        else:
            self.cut()


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    pair = Pair(tmp_path)
    pair.destination.session().create("orders")
    return pair


def bodies_at_destination(pair: Pair) -> list[bytes]:
    caller = pair.destination.session()
    return caller.receive(caller.open("orders"), max_messages=1000)[1]


def test_what_is_sent_to_a_remote_queue_arrives_once_and_in_order(pair: Pair) -> None:
    caller = pair.source.session()
    queue = caller.open(ADDRESS)
    for n in range(10):
        caller.send(queue, Message(body=b"%d" % n), Message(body=b"%d'" % n))
    pair.deliver()
    expected = [body for n in range(10) for body in (b"%d" % n, b"%d'" % n)]
    assert bodies_at_destination(pair) == expected
    assert pair.source.store.live_bytes == 0


@pytest.mark.parametrize("side", ["source", "destination", "both", "line"])
@pytest.mark.parametrize("after", range(1, 12))
def test_a_crash_after_any_frame_loses_nothing_and_repeats_nothing(
    pair: Pair, side: str, after: int
) -> None:
    caller = pair.source.session()
    queue = caller.open(ADDRESS)
    for n in range(6):
        caller.send(queue, Message(body=b"%d" % n))
        if n == 2:
            pair.deliver(upto=after)
    pair.deliver(upto=after)
    pair.cut()
    for name in ("source", "destination"):
        if side in (name, "both"):
            driver: ManagerDriver = getattr(pair, name)
            driver.crash()
    pair.source.advance(10.0)
    pair.deliver()
    assert bodies_at_destination(pair) == [b"%d" % n for n in range(6)]
    assert pair.source.store.live_bytes == 0


def test_a_window_on_its_way_waits_in_heap_files_also_if_its_records_lie_scattered(
    pair: Pair,
) -> None:
    caller = pair.source.session()
    queue, other = caller.open(ADDRESS), caller.create("between")
    for n in range(50):
        caller.send(queue, Message(body=b"%d" % n))
        caller.send(other, Message(body=b"in between"))
    pieces: list[bytes | Extent] = []
    for _ in range(10):
        pair.deliver(upto=1)
        sent = [effect for effect in pair.source.effects if isinstance(effect, LinkSend)]
        pieces += [piece for effect in sent for piece in effect.body]
    assert len(pieces) == 50
    assert all(isinstance(piece, Extent) for piece in pieces)
    pair.deliver()
    assert bodies_at_destination(pair) == [b"%d" % n for n in range(50)]


def test_consumed_messages_do_not_come_back_when_they_are_sent_again(pair: Pair) -> None:
    """The order ack is lost with the line; the receiver has already taken the messages (R33)."""
    caller = pair.source.session()
    queue = caller.open(ADDRESS)
    caller.send(queue, Message(body=b"a"), Message(body=b"b"))
    pair.deliver(upto=5)
    assert any(isinstance(head, peer_frames.Data) for head in pair.said)
    assert bodies_at_destination(pair) == [b"a", b"b"]
    pair.cut()
    pair.destination.crash()
    pair.source.advance(10.0)
    caller.send(queue, Message(body=b"c"))
    pair.deliver()
    assert bodies_at_destination(pair) == [b"c"]


def test_a_queue_that_does_not_exist_drains_the_outgoing_queue_into_dead_letters(
    tmp_path: Path,
) -> None:
    """R39, KB 898618: not for ever in the outgoing queue, and lost only if the sender wants it."""
    pair = Pair(tmp_path)
    caller = pair.source.session()
    queue = caller.open(ADDRESS)
    kept = Message(body=b"kept", use_dead_letter_queue=True)
    unasked = Message(body=b"kept unasked")
    gone = Message(body=b"gone", use_dead_letter_queue=False)
    caller.send(queue, kept, unasked, gone)
    pair.deliver()
    info = caller.call(queue_frames.DescribeQueue(ADDRESS))
    assert info.info.message_count == 0
    envelopes, bodies = caller.receive(caller.open("system$;deadxact"), max_messages=9)
    assert bodies == [b"kept", b"kept unasked"]
    assert {each.message_class for each in envelopes} == {MessageClass.NACK_BAD_DST_Q}


def test_a_message_without_a_transaction_does_not_enter_a_transactional_queue(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R7: no manager of this house sends one, so the line takes the transaction off."""
    tell = pair._tell

    def without_transaction(head: Head, body: bytes) -> None:
        if isinstance(head, peer_frames.Data):
            bare = [replace(each, transaction=0, marks=0) for each in head.envelopes]
            head = replace(head, envelopes=bare)
        tell(head, body)

    monkeypatch.setattr(pair, "_tell", without_transaction)
    caller = pair.source.session()
    caller.send(caller.open(ADDRESS), Message(body=b"x", use_dead_letter_queue=True))
    pair.deliver()
    envelopes, bodies = caller.receive(caller.open("system$;deadxact"))
    assert bodies == [b"x"]
    assert envelopes[0].message_class == MessageClass.NACK_NOT_TRANSACTIONAL_MSG
    assert pair.destination.store.live_bytes == 0


def test_a_refusal_from_before_the_queue_came_ends_nothing_of_what_was_sent_since(
    tmp_path: Path,
) -> None:
    """What the destination says is held up; meanwhile it is asked again, and the queue is made."""
    pair = Pair(tmp_path)
    caller = pair.source.session()
    message = Message(body=b"x", use_dead_letter_queue=True)
    there = pair.destination.session()
    pair.destination.session().create("others")
    caller.send(caller.open(ADDRESS), message)
    held: list[Effect] = []

    def hold() -> None:
        """Carry what the source says, and nothing back."""
        while pair.source.effects:
            effect = pair.source.effects.pop(0)
            if isinstance(effect, Dial | LinkSend):
                pair._outward(effect)
        held.extend(each for each in pair.destination.effects if pair._for_line(each))
        pair.destination.effects = []

    hold()
    welcome = held.pop(0)
    pair._inward(welcome)
    for _ in range(3):
        hold()
        pair.source.advance(31.0)
    there.create("orders")
    hold()
    pair.source.advance(301.0)
    hold()
    errors_said = [getattr(each.head, "error", "") for each in held]
    # The first word of the new queue comes unasked.
    assert errors_said == ["queue-not-found"] * 3 + [""] * 3
    for each in held:
        pair._inward(each)
    pair.deliver()
    assert bodies_at_destination(pair) == [b"x"]
    with pytest.raises(errors.ReceiveTimeout):
        caller.receive(caller.open("system$;deadxact"))


def test_a_confirmation_behind_an_answer_that_was_held_up_finds_its_message_delivered(
    pair: Pair,
) -> None:
    """The order ack in front of it is of an earlier question, and true all the same."""
    caller = pair.source.session()
    caller.send(caller.open(ADDRESS), Message(body=b"x", use_journal_queue=True))
    while not any(isinstance(head, peer_frames.Data) for head in pair.said):
        pair.deliver(upto=1)
    pair.destination.effects.clear()
    pair.cut()
    assert bodies_at_destination(pair) == [b"x"]
    pair.destination.effects.clear()
    pair.source.advance(10.0)
    held: list[Effect] = []
    while not any(
        isinstance(getattr(each, "head", None), peer_frames.Confirmations) for each in held
    ):
        for effect in list(pair.source.effects):
            pair._outward(effect)
        pair.source.effects.clear()
        for each in [each for each in pair.destination.effects if pair._for_line(each)]:
            if isinstance(each, Answer) and isinstance(each.head, frames.Welcome):
                pair._inward(each)
            else:
                held.append(each)
        pair.destination.effects.clear()
    pair.source.advance(31.0)
    for each in held:
        pair._inward(each)
    pair.deliver()
    assert caller.receive(caller.open("system$;journal"))[1] == [b"x"]
    assert pair.source.store.live_bytes == 0


def test_a_full_destination_computer_is_resent_to_until_there_is_room(tmp_path: Path) -> None:
    """S3-3: no negative acknowledgment, no loss; the source tries again until it fits."""
    pair = Pair(tmp_path)
    receiver = pair.destination.session()
    receiver.call(queue_frames.SetQuota("", 400, None))
    full = receiver.create("orders")
    receiver.send(full, Message(body=b"x" * 200))
    caller = pair.source.session()
    caller.send(caller.open(ADDRESS), Message(body=b"y" * 200))
    pair.deliver()
    assert receiver.receive(full)[1] == [b"x" * 200]
    pair.source.advance(30.0)
    pair.deliver()
    assert receiver.receive(full)[1] == [b"y" * 200]


def test_a_full_destination_queue_leaves_a_hole_and_tells_the_source(tmp_path: Path) -> None:
    """R63: refused by the queue's quota, accepted in its sequence, dead-lettered at the source."""
    pair = Pair(tmp_path)
    receiver = pair.destination.session()
    small = receiver.create("orders", quota=200)
    caller = pair.source.session()
    queue = caller.open(ADDRESS)
    big = Message(body=b"b" * 300, use_dead_letter_queue=True)
    caller.send(queue, Message(body=b"a"), big, Message(body=b"c"))
    pair.deliver()
    assert receiver.receive(small)[1] == [b"a", b"c"]
    envelopes, bodies = caller.receive(caller.open("system$;deadxact"))
    assert bodies == [b"b" * 300]
    assert envelopes[0].message_class == MessageClass.NACK_Q_EXCEED_QUOTA


def test_a_quota_smaller_than_a_frame_lets_in_what_fits(tmp_path: Path) -> None:
    """Three messages travel in one frame and only one at a time has room."""
    pair = Pair(tmp_path)
    receiver = pair.destination.session()
    receiver.call(queue_frames.SetQuota("", 400, None))
    small = receiver.create("orders")
    caller = pair.source.session()
    names = [b"1" * 200, b"2" * 200, b"3" * 200]
    caller.send(caller.open(ADDRESS), *[Message(body=name) for name in names])
    received = []
    for _ in names:
        pair.deliver()
        received += receiver.receive(small)[1]
        pair.source.advance(30.0)
    assert received == names


def test_a_large_message_crosses_and_is_whole(pair: Pair) -> None:
    caller = pair.source.session()
    queue, transaction = caller.open(ADDRESS), caller.number_for()
    sequence = send_large(caller, queue, 20, transaction)
    caller.commit(transaction, 3)
    pair.deliver()
    receiver = pair.destination.session()
    found = take_large(receiver, receiver.open("orders"), receiver.number_for())
    assert (found.sequence, found.source, len(found.parts)) == (sequence, id_named("a"), 20)


def test_messages_are_there_as_they_arrive_and_others_may_stand_between_them(
    tmp_path: Path,
) -> None:
    """R21: nobody waits for the rest of a transaction that is on its way."""
    pair = Pair(tmp_path)
    pair.source = ManagerDriver(tmp_path / "narrow", "c", window_messages=2)
    receiver = pair.destination.session()
    orders, arrived = receiver.create("orders"), 0
    caller = pair.source.session()
    queue, transaction = caller.open(ADDRESS), caller.number_for()
    expected = [b"%d" % n for n in range(6)]
    caller.send(queue, *[Message(body=body) for body in expected], transaction=transaction)
    caller.commit(transaction, 1)
    while not arrived:
        assert pair.deliver(upto=1)
        arrived = receiver.call(queue_frames.DescribeQueue("orders")).info.message_count
    assert arrived < len(expected)
    receiver.send(orders, Message(body=b"of another"))
    pair.deliver()
    expected.insert(arrived, b"of another")
    assert bodies_at_destination(pair) == expected


def test_a_paused_queue_sends_nothing_until_it_is_resumed(pair: Pair) -> None:
    caller = pair.source.session()
    queue = caller.open(ADDRESS)
    caller.call(queue_frames.PauseQueue(ADDRESS, paused=True))
    caller.send(queue, Message(body=b"later"))
    pair.source.crash()
    pair.source.advance(100.0)
    assert pair.deliver() == 0
    caller = pair.source.session()
    caller.call(queue_frames.PauseQueue(ADDRESS, paused=False))
    pair.deliver()
    assert bodies_at_destination(pair) == [b"later"]


def test_a_queue_that_is_told_to_go_on_tries_a_peer_that_is_down_without_the_usual_wait(
    pair: Pair,
) -> None:
    source, dialled = pair.source, Dial(PEER)
    caller = source.session()
    caller.send(caller.open(ADDRESS), Message())
    assert source.effects.count(dialled) == 1
    # While it is dialled there is nothing to try.
    caller.call(queue_frames.PauseQueue(ADDRESS, paused=False))
    source.turn(LinkDown(PEER, "nobody there"))
    assert source.effects.count(dialled) == 1
    caller.call(queue_frames.PauseQueue(ADDRESS, paused=False))
    assert source.effects.count(dialled) == 2


def test_a_stream_comes_on_the_newest_session_that_opened_it_and_on_no_other(tmp_path: Path):
    driver = ManagerDriver(tmp_path / "destination", "b")
    driver.session().create("orders")
    first, second = (driver.source(session) for session in (500, 501))
    for source in (first, second):
        source.say(peer_frames.OpenStream(9, "orders"))
    driver.effects = []
    late = peer_frames.Data(9, 1, 0, [])
    first.say(late)
    (answer,) = driver.effects
    assert isinstance(answer, Answer)
    assert isinstance(answer.head, peer_frames.StreamRefused)
    driver.effects = []
    first.say(peer_frames.OpenStream(9, "orders"))
    assert driver.effects == []


def test_a_question_that_was_overtaken_does_not_count_as_the_last(tmp_path: Path):
    """Else every order ack would say so, and the source would believe none of them."""
    driver = ManagerDriver(tmp_path / "destination", "b")
    driver.session().create("orders")
    source = driver.source(500)
    driver.effects = []
    for question in (2, 1):
        source.say(peer_frames.OpenStream(9, "orders", question))
    heads = [each.head for each in driver.effects if isinstance(each, Answer)]
    assert [each.question for each in heads if isinstance(each, peer_frames.StreamState)] == [2, 2]


@pytest.mark.parametrize("welcomed", [False, True])
def test_a_peer_that_answers_with_a_failure_is_a_warning_that_says_its_sentence(
    driver: ManagerDriver, welcomed: bool
) -> None:
    caller = driver.session()
    caller.send(caller.open("dray://far:7340/orders"), Message(body=b"x"))
    far = Peer("far", 7340)
    driver.manager.notices()
    welcome = KeyedManager("f").welcome(driver.manager.hello(far))
    driver.turn(LinkUp(far))
    if welcomed:
        driver.turn(LinkFrame(far, Frame(welcome, 0, memoryview(b""))))
    sentence = "another copy of\nyour store is here" + "!" * 1000
    driver.turn(
        LinkFrame(far, Frame(frames.Failed("protocol-error", sentence, {}), 0, memoryview(b"")))
    )
    (notice,) = driver.manager.notices()
    assert (notice.kind, notice.subject) == ("link-refused", "dray://far:7340")
    did = "ended" if welcomed else "refused"
    told = f"the queue manager there {did} the connection: another copy of\\nyour store is here!"
    assert notice.sentence.startswith(told)
    assert len(notice.sentence) == 500
    assert driver.has_done(HangUp(far))


def test_a_peer_has_its_time_to_answer_and_no_more(driver: ManagerDriver) -> None:
    caller = driver.session()
    caller.send(caller.open("dray://far:7340/orders"), Message(body=b"x"))
    far = Peer("far", 7340)
    driver.manager.hello(far)
    driver.turn(LinkUp(far))
    driver.advance(WELCOME_TIMEOUT_S - 1)
    assert not driver.has_done(HangUp(far))
    driver.advance(1.5)
    assert driver.has_done(HangUp(far))


def test_a_queue_that_is_new_to_its_link_is_opened_once(pair: Pair) -> None:
    caller = pair.source.session()
    caller.send(caller.open(ADDRESS), Message())
    pair.deliver()
    pair.said.clear()
    pair.destination.session().create("later")
    for _ in range(3):
        caller.send(caller.open("dray://127.0.0.1:7340/later"), Message())
    pair.deliver()
    assert [type(each) for each in pair.said].count(peer_frames.OpenStream) == 1


@pytest.mark.parametrize("manager_id", ["", "a" * 31, "a" * 33, "a" * 31 + ";", "é" * 3_000])
def test_a_manager_without_an_id_ends_nobodys_session_but_its_own(
    tmp_path: Path, manager_id: str
) -> None:
    """Clients say no id, and a manager that said none closed the session of each of them."""
    driver = ManagerDriver(tmp_path / "destination", "b")
    client = driver.session()
    driver.turn(SessionOpened(500, OWNER))
    driver.effects = []
    hello = frames.Hello("manager", manager_id)
    driver.turn(Request(500, Frame(hello, 1, memoryview(b""))))
    closed = [each.session for each in driver.effects if isinstance(each, CloseSession)]
    assert closed == [500]
    assert isinstance(client.call(queue_frames.Describe()), queue_frames.ManagerState)


def test_a_manager_does_not_end_the_session_of_a_client_that_says_its_id(tmp_path: Path) -> None:
    driver = ManagerDriver(tmp_path / "destination", "b")
    driver.turn(SessionOpened(400, OWNER))
    hello = frames.Hello("client", id_named("a"))
    driver.turn(Request(400, Frame(hello, 1, memoryview(b""))))
    driver.source(500, "a").say(peer_frames.OpenStream(7, "orders"))
    assert not [each for each in driver.effects if isinstance(each, CloseSession)]


def test_a_destination_that_has_shown_a_name_once_is_known_by_it_from_then_on(pair: Pair) -> None:
    """It was known without any, before it had a certificate."""
    caller = pair.source.session()
    queue = caller.open(ADDRESS)

    def arrived(shown: str, body: bytes) -> list[bytes]:
        pair.cut()
        pair.source.advance(100.0)
        pair.shown = shown
        caller.send(queue, Message(body=body))
        pair.deliver()
        return bodies_at_destination(pair)

    assert arrived("", b"1") == [b"1"]
    assert arrived("cert:depot", b"2") == [b"2"]
    pair.source.crash()
    caller = pair.source.session()
    pair.source.manager.notices()
    for shown in ("cert:mallory", ""):
        with pytest.raises(errors.ReceiveTimeout):
            arrived(shown, b"3")
        (notice, *_) = pair.source.manager.notices()
        assert notice.kind == NoticeKind.OTHER_MANAGER
        assert f"with a certificate for {shown or 'nobody'} and not for cert:depot" in str(notice)
    assert arrived("cert:depot", b"4") == [b"3", b"3", b"4"]


class Inventor(Pair):
    """The destination tells of a sequence that the source never began."""

    invented: int | None = None

    def _inward(self, effect: Effect) -> None:
        if isinstance(effect, Answer) and self.invented is not None:
            head = effect.head
            if isinstance(head, peer_frames.StreamState):
                effect = effect._replace(head=replace(head, sequence_id=self.invented))
        super()._inward(effect)


@pytest.mark.parametrize("invented", [(1 << 64) - 1, -1])
def test_a_sequence_that_was_never_begun_ends_the_line_of_the_peer_that_tells_of_it(
    tmp_path: Path, invented: int
) -> None:
    """A sequence above it had no place in a frame, and the source never started again."""
    pair = Inventor(tmp_path)
    pair.destination.session().create("orders")
    caller = pair.source.session()
    caller.send(caller.open(ADDRESS), Message(body=b"before"))
    pair.deliver()
    pair.source.crash()
    pair.cut()
    caller = pair.source.session()
    caller.send(caller.open(ADDRESS), Message(body=b"after"))
    pair.invented = invented
    pair.deliver()
    assert pair.line is None
    pair.source.crash()
    pair.invented = None
    pair.source.advance(100)
    pair.deliver()
    assert bodies_at_destination(pair) == [b"before", b"after"]
