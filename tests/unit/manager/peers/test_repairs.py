"""Repair of holes between managers: from the source's dead letters, exactly once, or told gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dray.machine import Tick
from dray.manager.events import HangUp, LinkFrame, LinkSend, SessionClosed
from dray.manager.notices import NoticeKind
from dray.manager.peers.repairs import nameable
from dray.model.classes import MessageClass, Part
from dray.model.ids import join_id
from dray.model.limits import FRAGMENTS_MAX, HOLES_NAMED_MAX
from dray.model.message import Message
from dray.wire import frames, large_frames, peer_frames, queue_frames, selections
from dray.wire.head import Head
from dray.wire.record import PartMark
from dray.wire.stream import Frame
from tests.cost import Costs
from tests.inspection import look_into
from tests.unit.manager.conftest import Caller, ManagerDriver
from tests.unit.manager.net import Net, address, peer

Missing = list[object]
ASKED = peer_frames.RepairWanted
LINES_OF_A_PART = 200
"""With the reading of its record."""
HEAVY_AT_D = address("d", "heavy")


class Pair:
    """Source a with a queue that leads to heavy at d; fragments of 1,000 bytes."""

    def __init__(self, path: Path, net: Net | None = None, host: str = "a") -> None:
        self.net, self.host = net or Net(path, "ad"), host
        if net is None:
            self.destination.create("heavy")
            self.destination.create("statusq")
        self.leading = self.source.open(address("d", "heavy"))

    @property
    def source(self) -> Caller:
        return self.net[self.host].session()

    @property
    def destination(self) -> Caller:
        return self.net["d"].session()

    @property
    def heavy(self) -> int:
        return self.destination.open("heavy")

    def send(
        self, *, count: int = 5, dead_letters: bool = True, destination: str = HEAVY_AT_D
    ) -> int:
        """Send a large message; some parts of it may find no room."""
        caller = self.source
        transaction = caller.number_for()
        options = {"transaction": transaction, "guarded": False}
        kept = {"use_dead_letter_queue": dead_letters, "destination": destination}
        header = Message(app_specific=-9998, **kept)
        (sequence,) = caller.send(self.leading, header, marks=(PartMark(Part.HEADER),), **options)
        for number in range(1, count + 1):
            fragment = Message(body=bytes([number % 256]) * 1000, app_specific=number, **kept)
            mark = PartMark(Part.FRAGMENT, sequence)
            caller.send(self.leading, fragment, marks=(mark,), **options)
        mark = PartMark(Part.TRAILER, sequence, count)
        caller.send(self.leading, Message(app_specific=-9999, **kept), marks=(mark,), **options)
        caller.commit(transaction, count + 2)
        self.net.deliver()
        return sequence

    def send_with_hole(self, quota: int = 3_500, **options: Any) -> int:
        """The quota of the queue lets only the first of the fragments in, and the trailer."""
        self.destination.call(queue_frames.SetQuota("heavy", quota, None))
        sequence = self.send(**options)
        self.destination.call(queue_frames.SetQuota("heavy", None, None))
        return sequence

    def receive(
        self, caller: Caller, *, repair: bool = True, timeout: float = 60.0, sequence: int = 0
    ) -> int:
        """Ask for a large message, or the one of a sequence; gives the request."""
        statusq = caller.open("statusq")
        name = join_id(self.net[self.host].manager_id, sequence)
        head = large_frames.LargeReceive(
            caller.open("heavy"),
            caller.number_for(),
            timeout,
            selections.SelectBySequence(name) if sequence else selections.SelectFirst(),
            status_queue=statusq,
            repair=repair,
        )
        return caller.ask(head)


def answers_to(net: Net, caller: Caller, request: int) -> list[Head]:
    """Carry everything that is said; gives what a client is answered on the way."""
    found = [each.head for each in caller.answers(request)]
    carried = 1
    while carried:
        carried = 0
        for host in net.drivers:
            carried += net._carry(host)
            # What is not for another manager is forgotten with the next turn that is carried.
            found += [each.head for each in caller.answers(request) if each.head not in found]
    return found


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def dead_classes(pair: Pair) -> list[MessageClass]:
    envelopes, _ = pair.source.what_is_in("system$;deadxact", peek=True)
    return [MessageClass(each.message_class) for each in envelopes]


def bodies_of(caller: Caller, found: large_frames.LargeFound) -> list[bytes]:
    heavy = caller.open("heavy")
    return [
        caller.call_whole(large_frames.ReadPart(heavy, part.lookup_id, 0, part.length))[1][-1:]
        for part in found.parts
    ]


def assert_whole(caller: Caller, answers: list[Head], sequence: int) -> None:
    (found,) = answers
    assert isinstance(found, large_frames.LargeFound), found
    assert found.sequence == sequence
    assert bodies_of(caller, found) == [bytes([n]) for n in range(1, 6)]


def test_a_hole_is_filled_from_the_dead_letters_of_the_source(pair: Pair) -> None:
    sequence = pair.send_with_hole()
    assert dead_classes(pair) == [MessageClass.NACK_Q_EXCEED_QUOTA] * 2
    caller = pair.destination
    request = pair.receive(caller)
    assert_whole(caller, answers_to(pair.net, caller, request), sequence)
    assert dead_classes(pair) == []


@pytest.mark.parametrize("quota", [94, 1_250, 3_400, 4_500, 5_600])
def test_wherever_the_hole_is_it_is_filled(pair: Pair, quota: int) -> None:
    """All but the header, the end, the header itself: whatever found no room."""
    sequence = pair.send_with_hole(quota)
    caller = pair.destination
    assert_whole(caller, answers_to(pair.net, caller, pair.receive(caller)), sequence)


def test_what_was_sent_again_is_found_after_a_restart(pair: Pair) -> None:
    sequence = pair.send_with_hole(3_400)
    caller = pair.destination
    assert_whole(caller, answers_to(pair.net, caller, pair.receive(caller)), sequence)
    for _ in range(2):
        pair.net.crash("d")
        caller = pair.destination
        answers = answers_to(pair.net, caller, pair.receive(caller, timeout=0.0))
        assert_whole(caller, answers, sequence)


def test_without_repair_the_hole_is_told_and_its_parts_reach_the_source(pair: Pair) -> None:
    pair.send_with_hole()
    caller = pair.destination
    (failed,) = answers_to(pair.net, caller, pair.receive(caller, repair=False))
    assert failed.error == "large-message-hole"
    name = failed.fields["sequence_id"]
    number = caller.number_for()
    reject = large_frames.LargeReceive(
        caller.open("heavy"),
        number,
        0.0,
        selections.SelectBySequence(name),
        status_queue=caller.open("statusq"),
        reject=True,
    )
    caller.call(reject)
    caller.commit(number, 0)
    pair.net.deliver()
    classes = dead_classes(pair)
    assert classes.count(MessageClass.NACK_RECEIVE_REJECTED) == 5
    assert classes.count(MessageClass.NACK_Q_EXCEED_QUOTA) == 2


def test_a_hole_of_which_no_copy_was_asked_for_is_raised_at_once_and_says_so(pair: Pair) -> None:
    """Nobody is asked: the source may be away, and has nothing."""
    pair.send_with_hole(dead_letters=False)
    pair.net.block("a", "d")
    caller = pair.destination
    (failed,) = caller.answers(pair.receive(caller))
    assert failed.head.error == "large-message-hole"
    assert failed.head.fields["missing"]
    assert "did not ask for that (use_dead_letter_queue)" in failed.head.sentence


def test_a_purged_copy_is_told_gone(pair: Pair) -> None:
    pair.send_with_hole()
    source = pair.source
    source.call(queue_frames.PurgeQueue(source.open("system$;deadxact")))
    caller = pair.destination
    (failed,) = answers_to(pair.net, caller, pair.receive(caller))
    assert failed.error == "large-message-hole"
    assert "its source was asked and no longer has a copy" in failed.sentence


def test_a_source_is_asked_once_for_each_connection(pair: Pair) -> None:
    pair.send_with_hole()
    driver = pair.net["d"]
    driver.effects.clear()
    pair.receive(pair.destination)
    for _ in range(3):
        driver.turn(Tick())
    asked = [each for each in driver.effects if isinstance(getattr(each, "head", None), ASKED)]
    assert len(asked) == 1


def test_a_copy_that_is_gone_gives_up_no_other_message(pair: Pair) -> None:
    """Two receivers wait for messages that lack the same parts; of one there is no copy."""
    first, source = pair.send_with_hole(), pair.source
    source.call(queue_frames.PurgeQueue(source.open("system$;deadxact")))
    used = pair.destination.call(queue_frames.DescribeQueue("heavy")).info.byte_count
    second = pair.send_with_hole(used + 3_500)
    waiting, caller = pair.destination, pair.destination
    pair.receive(waiting, sequence=first)
    answers = answers_to(pair.net, caller, pair.receive(caller, sequence=second))
    assert_whole(caller, answers, second)
    (failed,) = waiting.answers(pair.receive(waiting, repair=False, sequence=first))
    assert failed.head.fields["missing"] == [[4, 5]]


def test_a_source_that_is_down_is_asked_when_it_is_back(pair: Pair) -> None:
    sequence = pair.send_with_hole()
    pair.net.block("a", "d")
    caller = pair.destination
    request = pair.receive(caller)
    assert answers_to(pair.net, caller, request) == []
    pair.net.unblock("a", "d")
    # Something to say brings the source back.
    pair.source.send(pair.source.open(address("d", "statusq")), Message(body=b"x"))
    pair.net["a"].advance(10)
    leading = pair.leading
    other = pair.source
    transaction = other.number_for()
    other.send(leading, Message(), transaction=transaction, guarded=False)
    other.commit(transaction, 1)
    assert_whole(caller, answers_to(pair.net, caller, request), sequence)


def test_other_messages_come_meanwhile(pair: Pair) -> None:
    first = pair.send_with_hole()
    second = pair.send()
    pair.net.block("a", "d")
    caller = pair.destination
    answers = answers_to(pair.net, caller, pair.receive(caller))
    assert [each.sequence for each in answers] == [second]
    pair.net.unblock("a", "d")
    pair.send()
    pair.net.advance(60)
    answers = answers_to(pair.net, caller, pair.receive(caller))
    assert [each.sequence for each in answers] == [first]


@pytest.mark.parametrize("who", ["a", "d"])
def test_a_crash_after_the_request_loses_and_doubles_nothing(pair: Pair, who: str) -> None:
    sequence = pair.send_with_hole()
    caller = pair.destination
    pair.receive(caller)
    # The request is on its way, or is answered, when one of both ends.
    pair.net._carry("d")
    pair.net.crash(who)
    pair.net.advance(60)
    caller = pair.destination
    answers = answers_to(pair.net, caller, pair.receive(caller))
    if not answers:
        # The line was down when it asked: the source comes back by itself when it has to.
        pair.net.advance(60)
        answers = answers_to(pair.net, caller, pair.receive(caller))
    assert_whole(caller, answers[:1], sequence)


def test_asking_twice_sends_nothing_twice(pair: Pair) -> None:
    sequence = pair.send_with_hole()
    one, two = pair.destination, pair.destination
    first, second = pair.receive(one), pair.receive(two)
    answers = answers_to(pair.net, one, first)
    assert_whole(one, answers, sequence)
    assert [each.head for each in two.answers(second)] == []
    (queue,) = [
        each
        for each in pair.destination.call(queue_frames.ListQueues()).queues
        if each.name == "heavy"
    ]
    assert queue.message_count == 7


def send_here_and_let_a_part_expire(pair: Pair) -> Caller:
    """Sent and received by the same manager: the last fragment expires with a wish to be kept."""
    driver = pair.net["d"]
    caller = driver.session()
    heavy, transaction = caller.open("heavy"), caller.number_for()
    options = {"transaction": transaction, "guarded": False}
    (sequence,) = caller.send(heavy, Message(), marks=(PartMark(Part.HEADER),), **options)
    timed = {"time_to_be_received": 5.0, "use_dead_letter_queue": True, "destination": "heavy"}
    for number in (1, 2):
        more = timed if number == 2 else {}
        fragment = Message(body=bytes([number]), app_specific=number, **more)
        mark = PartMark(Part.FRAGMENT, sequence)
        caller.send(heavy, fragment, marks=(mark,), **options)
    mark = PartMark(Part.TRAILER, sequence, 2)
    caller.send(heavy, Message(), marks=(mark,), **options)
    caller.commit(transaction, 4)
    driver.advance(10)
    return caller


def test_a_message_of_this_manager_is_repaired_at_once_or_never(pair: Pair) -> None:
    caller = send_here_and_let_a_part_expire(pair)
    request = pair.receive(caller, timeout=0.0)
    (found,) = [each.head for each in caller.answers(request)]
    assert isinstance(found, large_frames.LargeFound)
    assert len(found.parts) == 2


def test_a_message_of_this_manager_whose_copies_find_no_room_is_told_to_the_operator(
    pair: Pair,
) -> None:
    caller, driver = send_here_and_let_a_part_expire(pair), pair.net["d"]
    caller.call(queue_frames.SetQuota("heavy", 100, None))
    driver.manager.notices()
    pair.receive(caller, timeout=0.0)
    (told,) = repair_waits(driver)
    assert told.startswith("heavy: missing parts of a large message cannot be sent again yet")


def test_a_peer_may_only_ask_about_its_own_stream(pair: Pair) -> None:
    pair.send_with_hole()
    source = pair.net["a"]
    wanted = peer_frames.RepairWanted(pair.leading, 1, [[1, 9], "x", [1], 7])
    stranger = LinkFrame(peer("z"), Frame(wanted, 0, memoryview(bytearray())))
    source.turn(stranger)
    assert dead_classes(pair) == [MessageClass.NACK_Q_EXCEED_QUOTA] * 2


def repaired_for(
    pair: Pair, asking: int, sequence: int, who: str = "d", *, missing: list[Any] | None = None
) -> list[object]:
    """Let a peer ask for all parts on a stream of its own; what it is told is gone."""
    source = pair.net["a"]
    wanted = peer_frames.RepairWanted(asking, sequence, missing or ["header", [1, 9], "trailer"])
    source.effects.clear()
    source.turn(LinkFrame(peer(who), Frame(wanted, 0, memoryview(bytearray()))))
    (answer,) = [
        each.head
        for each in source.effects
        if isinstance(each, LinkSend) and isinstance(each.head, peer_frames.RepairAnswer)
    ]
    return answer.gone


def test_ranges_that_overlap_are_looked_for_as_one(pair: Pair) -> None:
    pair.send_with_hole()
    overlapping = [[1, 2], [5, 9], [6, 7], [8, 12], [12, 14]]
    gone = repaired_for(pair, pair.leading, 1, missing=overlapping)
    assert gone == [[1, 2], [5, 14]]


@pytest.mark.parametrize("missing", [[[8, 9]], [[1, 2], [8, 9]]])
def test_copies_of_parts_that_nobody_lacks_stay_where_they_are(
    pair: Pair, missing: Missing
) -> None:
    sequence = pair.send_with_hole()
    assert repaired_for(pair, pair.leading, sequence, missing=missing) == missing
    assert dead_classes(pair) == [MessageClass.NACK_Q_EXCEED_QUOTA] * 2


@pytest.mark.parametrize("where", ["another queue of its own", "another peer", "its own"])
def test_who_knows_a_sequence_id_gets_only_what_was_sent_to_its_queue(
    pair: Pair, where: str
) -> None:
    sequence = pair.send_with_hole()
    leads_to = {
        "another queue of its own": ("d", "statusq"),
        "another peer": ("z", "heavy"),
        "its own": ("d", "heavy"),
    }[where]
    asking = pair.source.open(address(*leads_to))
    gone = repaired_for(pair, asking, sequence, leads_to[0])
    if where == "its own":
        assert dead_classes(pair) == []
        assert gone == ["header", [1, 3], [6, 9], "trailer"]
    else:
        assert dead_classes(pair) == [MessageClass.NACK_Q_EXCEED_QUOTA] * 2
        # Nor is it told how many there are.
        assert gone == ["header", [1, 9], "trailer"]


@pytest.mark.parametrize("destination", ["", "no such name;;", "a/b:c", address("d", "another")])
def test_a_copy_that_does_not_say_so_is_not_sent_again(pair: Pair, destination: str) -> None:
    sequence = pair.send_with_hole(destination=destination)
    repaired_for(pair, pair.leading, sequence)
    assert dead_classes(pair) == [MessageClass.NACK_Q_EXCEED_QUOTA] * 2


@pytest.mark.parametrize("who", ["a", "d"])
def test_either_end_killed_after_any_exchange(tmp_path: Path, who: str) -> None:
    for exchanges in range(8):
        pair = Pair(tmp_path / str(exchanges))
        sequence = pair.send_with_hole(3_400)
        first = pair.destination
        pair.receive(first)
        for at in range(exchanges):
            pair.net._carry("da"[at % 2])
        pair.net.crash(who)
        pair.net["d"].turn(SessionClosed(first.number))
        # A source that has nothing to deliver does not come by itself.
        other = pair.send(count=1)
        pair.net.advance(60)
        found: dict[int, large_frames.LargeFound] = {}
        for _ in range(4):
            caller = pair.destination
            answers = answers_to(pair.net, caller, pair.receive(caller))
            if not answers:
                pair.net["d"].turn(SessionClosed(caller.number))
            for answer in answers:
                assert isinstance(answer, large_frames.LargeFound), exchanges
                assert answer.sequence not in found
                found[answer.sequence] = answer
                if answer.sequence == sequence:
                    assert_whole(caller, [answer], sequence)
            pair.net.advance(60)
        assert set(found) == {sequence, other}, exchanges
        heavy = look_into(pair.net["d"].manager).state.queues.find("heavy")
        assert len(heavy.index) == 7 + 3, exchanges
        for driver in pair.net.drivers.values():
            driver.disk.close()


def test_a_link_that_is_cut_resends_no_more_than_its_window(tmp_path: Path) -> None:
    """Between queue managers a large message goes on with the first fragment not acknowledged."""
    window = 8_000
    pair = Pair(tmp_path)
    pair.net["a"].disk.close()
    pair.net.drivers["a"] = ManagerDriver(tmp_path / "a", "a", window_bytes=window)
    source = pair.net["a"]
    pair.leading = pair.source.open(address("d", "heavy"))
    sent = 0
    caller = source.session()
    transaction = caller.number_for()
    options = {"transaction": transaction, "guarded": False}
    (sequence,) = caller.send(pair.leading, Message(), marks=(PartMark(Part.HEADER),), **options)
    for number in range(1, 41):
        mark = PartMark(Part.FRAGMENT, sequence)
        fragment = Message(body=bytes(1000), app_specific=number)
        caller.send(pair.leading, fragment, marks=(mark,), **options)
    caller.send(pair.leading, Message(), marks=(PartMark(Part.TRAILER, sequence, 40),), **options)
    caller.commit(transaction, 42)
    cuts = 0
    for _ in range(400):
        if not (pair.net._carry("a") + pair.net._carry("d")):
            break
        carried = [each for each in pair.net.said if isinstance(each[2], peer_frames.Data)]
        sent = sum(envelope.length for _, _, head in carried for envelope in head.envelopes)
        if cuts < 4 and sent > 9_000 * (cuts + 1):
            cuts += 1
            pair.net.cut("a", "d")
            source.advance(60)
    pair.net.deliver()
    carried = [each for each in pair.net.said if isinstance(each[2], peer_frames.Data)]
    sent = sum(envelope.length for _, _, head in carried for envelope in head.envelopes)
    heavy = look_into(pair.net["d"].manager).state.queues.find("heavy")
    whole = heavy.index.byte_count
    assert len(heavy.index) == 42
    assert cuts == 4
    assert whole < sent <= whole + cuts * (window + 2_000)


def test_a_repair_is_forgotten_once_the_message_is_whole(pair: Pair) -> None:
    """It would be asked for on each new connection, and count against the bound for ever."""
    sequence = pair.send_with_hole()
    caller = pair.destination
    assert_whole(caller, answers_to(pair.net, caller, pair.receive(caller)), sequence)
    assert not look_into(pair.net["d"].manager).subjects.holes.wanted


def test_a_source_has_its_share_of_the_repairs_and_others_are_asked(tmp_path, monkeypatch) -> None:
    """Else holes in the messages of others were given up, while it answers nothing."""
    monkeypatch.setattr("dray.manager.peers.repairs.REPAIRS_MAX", 20)
    net = Net(tmp_path, "abd")
    net["d"].session().create("heavy")
    net["d"].session().create("statusq")
    silent, honest = Pair(tmp_path, net, "a"), Pair(tmp_path, net, "b")
    for pair in (silent, silent, honest, silent):
        used = pair.destination.call(queue_frames.DescribeQueue("heavy")).info.byte_count
        pair.send_with_hole(used + 3_500)
    net.block("a", "d")
    net.block("b", "d")
    caller = net["d"].session()
    (told,) = answers_to(net, caller, silent.receive(caller))
    assert isinstance(told, frames.Failed)
    assert "too many others from its source" in told.sentence
    wanted = look_into(net["d"].manager).subjects.holes.wanted
    assert [each.stream.source for each in wanted] == [net[each].manager_id for each in "aab"]


def test_a_source_looks_at_a_page_of_parts_in_one_event_and_answers_at_the_end(
    pair: Pair, monkeypatch
) -> None:
    monkeypatch.setattr("dray.manager.peers.repairs.REPAIR_PARTS_A_TURN", 256 + 1)
    pair.net.block("a", "d")
    count = 1_200
    sequence = pair.send(count=count)
    source, costs = pair.net["a"], Costs()
    wanted = peer_frames.RepairWanted(pair.leading, sequence, ["header", [1, count + 1]])
    asks = LinkFrame(peer("d"), Frame(wanted, 0, memoryview(b"")))
    source.effects.clear()
    costs.of("asks", lambda: source.turn(asks))
    assert gone_by(source) == []
    for _ in range(count):
        if gone_by(source):
            break
        assert source.manager.deadline() == source.now
        costs.of("goes on", lambda: source.turn(Tick()))
    assert gone_by(source) == [[[count + 1, count + 1]]]
    assert costs.events == 5, "the page itself and its 256 parts are as much as one event does"
    assert costs.most < 256 * LINES_OF_A_PART


def test_copies_are_sent_again_by_the_portion(pair: Pair, monkeypatch) -> None:
    monkeypatch.setattr("dray.manager.peers.repairs.REPAIR_PARTS_A_TURN", 1)
    sequence = pair.send_with_hole()
    source = pair.net["a"]
    wanted = peer_frames.RepairWanted(pair.leading, sequence, [[1, 5]])
    source.turn(LinkFrame(peer("d"), Frame(wanted, 0, memoryview(b""))))
    assert dead_classes(pair) == [MessageClass.NACK_Q_EXCEED_QUOTA]
    source.turn(Tick())
    assert dead_classes(pair) == []


def test_a_queue_is_deleted_behind_its_repair(pair: Pair, monkeypatch) -> None:
    monkeypatch.setattr("dray.manager.peers.repairs.REPAIR_PARTS_A_TURN", 1)
    sequence = pair.send_with_hole()
    source = pair.net["a"]
    wanted = peer_frames.RepairWanted(pair.leading, sequence, [[1, 5]])
    pair.net.block("a", "d")
    source.turn(LinkFrame(peer("d"), Frame(wanted, 0, memoryview(b""))))
    caller = pair.source
    deletion = caller.ask(queue_frames.DeleteQueue(address("d", "heavy")))
    assert caller.answers(deletion) == []
    source.turn(Tick())
    assert len(gone_by(source)) == 1
    assert [type(each.head) for each in caller.answers(deletion)] == [frames.Done]


def test_a_request_that_comes_again_meanwhile_is_answered_for_what_it_names(
    pair: Pair, monkeypatch
) -> None:
    monkeypatch.setattr("dray.manager.peers.repairs.REPAIR_PARTS_A_TURN", 1)
    sequence = pair.send_with_hole()
    source = pair.net["a"]
    source.effects.clear()
    for missing in ([[4, 9]], [[4, 5], [8, 8]]):
        wanted = peer_frames.RepairWanted(pair.leading, sequence, missing)
        source.turn(LinkFrame(peer("d"), Frame(wanted, 0, memoryview(b""))))
    source.turn(Tick())
    assert gone_by(source) == [[[6, 9]], [[8, 8]]]


def test_a_destination_that_asks_for_too_many_repairs_at_once_is_hung_up_on(
    pair: Pair, monkeypatch
) -> None:
    monkeypatch.setattr("dray.manager.peers.repairs.REPAIR_PARTS_A_TURN", 1)
    monkeypatch.setattr("dray.manager.peers.repairs.REPAIRS_MAX", 2)
    sequence = pair.send_with_hole()
    source = pair.net["a"]
    source.effects.clear()
    for each in (sequence, sequence + 1, sequence, sequence + 2):
        assert not source.has_done(HangUp(peer("d")))
        wanted = peer_frames.RepairWanted(pair.leading, each, [[1, 5]])
        source.turn(LinkFrame(peer("d"), Frame(wanted, 0, memoryview(b""))))
    assert source.has_done(HangUp(peer("d")))


def gone_by(source: ManagerDriver) -> list[object]:
    """All that a source has said is gone, by request."""
    return [
        each.head.gone
        for each in source.effects
        if isinstance(each, LinkSend) and isinstance(each.head, peer_frames.RepairAnswer)
    ]


def test_the_last_range_of_too_many_holes_covers_all_that_are_left():
    holes = [[3 * at, 3 * at + 1] for at in range(HOLES_NAMED_MAX + 5)]
    assert nameable(holes[:HOLES_NAMED_MAX]) == holes[:HOLES_NAMED_MAX]
    kept = holes[: HOLES_NAMED_MAX - 1]
    assert nameable(holes) == [*kept, [holes[len(kept)][0], holes[-1][1]]]
    assert nameable(["header", *holes]) == ["header", *kept[:-1], [kept[-1][0], holes[-1][1]]]


def test_parts_that_still_wait_at_the_source_are_not_gone(pair: Pair) -> None:
    pair.net.block("a", "d")
    sequence = pair.send()
    assert repaired_for(pair, pair.leading, sequence, missing=["header", [1, 5], "trailer"]) == []
    assert repaired_for(pair, pair.leading, sequence, missing=[[5, 7]]) == [[6, 7]]
    assert repaired_for(pair, pair.leading, sequence, missing=[[0, 5]]) == [[0, 0]]
    open_end = [[5, FRAGMENTS_MAX]]
    assert repaired_for(pair, pair.leading, sequence, missing=open_end) == []
    assert repaired_for(pair, pair.leading, sequence + 1, missing=open_end) == []
    pair.net.unblock("a", "d")


def test_a_fragment_alone_is_told_gone_as_a_range_of_one(pair: Pair) -> None:
    sequence = pair.send_with_hole()
    assert repaired_for(pair, pair.leading, sequence, missing=[[4, 6]]) == [[6, 6]]
    assert repaired_for(pair, pair.leading, sequence, missing=[[3, 3]]) == [[3, 3]]


def test_when_as_many_repairs_are_open_as_there_may_be_nobody_has_another(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr("dray.manager.peers.repairs.REPAIRS_MAX", 2)
    monkeypatch.setattr("dray.manager.peers.repairs.REPAIRS_SHARE", 1)
    net = Net(tmp_path, "abd")
    net["d"].session().create("heavy")
    net["d"].session().create("statusq")
    pairs = Pair(tmp_path, net, "a"), Pair(tmp_path, net, "b")
    for pair in (pairs[0], pairs[0], pairs[1]):
        used = pair.destination.call(queue_frames.DescribeQueue("heavy")).info.byte_count
        pair.send_with_hole(used + 3_500)
    net.block("a", "d")
    net.block("b", "d")
    caller = net["d"].session()
    (told,) = answers_to(net, caller, pairs[1].receive(caller))
    assert isinstance(told, frames.Failed)
    assert "too many others" in told.sentence


def repair_waits(driver: ManagerDriver) -> list[str]:
    return [
        f"{each.subject}: {each.sentence}"
        for each in driver.manager.notices()
        if each.kind == NoticeKind.REPAIR_WAITS
    ]


def test_a_source_whose_quota_has_no_room_for_copies_tells_its_operator(pair: Pair) -> None:
    pair.send_with_hole()
    driver = pair.net["a"]
    pair.source.call(queue_frames.SetQuota(HEAVY_AT_D, 100, None))
    driver.manager.notices()
    receiver = pair.destination
    pair.receive(receiver)
    pair.net.deliver()
    (told,) = repair_waits(driver)
    assert told.startswith(f"{HEAVY_AT_D}: missing parts of a large message cannot be sent again")
    assert dead_classes(pair) == [MessageClass.NACK_Q_EXCEED_QUOTA] * 2, "the copies are kept"


def test_a_hole_that_cannot_be_filled_is_told_with_the_reason(pair: Pair) -> None:
    pair.send_with_hole(dead_letters=False)
    receiver = pair.destination
    request = pair.receive(receiver)
    (failed,) = answers_to(pair.net, receiver, request)
    assert "it could not be repaired: its sender did not ask for that" in failed.sentence


def test_a_hole_of_a_message_that_was_sent_here_is_told_with_the_reason(pair: Pair) -> None:
    driver = pair.net["d"]
    caller = driver.session()
    heavy, transaction = caller.open("heavy"), caller.number_for()
    options = {"transaction": transaction, "guarded": False}
    (sequence,) = caller.send(heavy, Message(), marks=(PartMark(Part.HEADER),), **options)
    mark = PartMark(Part.TRAILER, sequence, 1)
    caller.send(heavy, Message(), marks=(mark,), **options)
    caller.commit(transaction, 2)
    request = pair.receive(caller, timeout=0.0)
    (failed,) = [each.head for each in caller.answers(request)]
    assert "it could not be repaired: its sender did not ask for that" in failed.sentence


def test_a_hole_of_a_forwarded_message_is_told_with_the_reason(tmp_path: Path) -> None:
    net = Net(tmp_path, "abd", {"a": {"d": "b"}})
    net["d"].session().create("heavy")
    net["d"].session().create("statusq")
    pair = Pair(tmp_path, net)
    pair.send_with_hole()
    receiver = pair.destination
    (failed,) = receiver.answers(pair.receive(receiver))
    assert "it came through another queue manager" in failed.head.sentence


def test_the_answer_of_one_source_gives_up_no_hole_of_another(tmp_path: Path) -> None:
    """Each of them numbers its large messages by itself."""
    net = Net(tmp_path, "abd")
    net["d"].session().create("heavy")
    net["d"].session().create("statusq")
    away, here = Pair(tmp_path, net, "a"), Pair(tmp_path, net, "b")
    sequence = away.send_with_hole()
    used = here.destination.call(queue_frames.DescribeQueue("heavy")).info.byte_count
    assert here.send_with_hole(used + 3_500) == sequence
    net.block("a", "d")
    source = here.source
    source.call(queue_frames.PurgeQueue(source.open("system$;deadxact")))
    waits, told = net["d"].session(), net["d"].session()
    away.receive(waits, sequence=sequence)
    (failed,) = answers_to(net, told, here.receive(told, sequence=sequence))
    assert failed.error == "large-message-hole"
    wanted = look_into(net["d"].manager).subjects.holes.wanted
    assert [each.stream.source for each in wanted] == [net["a"].manager_id]


def test_a_source_is_asked_for_parts_when_it_has_heard_of_all_that_were_refused(
    pair: Pair, monkeypatch
) -> None:
    """Those that it has not heard of wait for word there, and are no dead letters yet."""
    monkeypatch.setattr("dray.manager.peers.confirmations.CONFIRMATIONS_AHEAD_MAX", 1)
    pair.destination.call(queue_frames.SetQuota("heavy", 3_500, None))
    with monkeypatch.context() as patch:
        patch.setattr(pair.net, "deliver", lambda: None)
        sequence = pair.send()
    while not any(isinstance(head, peer_frames.Data) for _, _, head in pair.net.said):
        assert pair.net.step()
    pair.net.block("a", "d")
    pair.destination.call(queue_frames.SetQuota("heavy", None, None))
    caller = pair.destination
    request = pair.receive(caller)
    pair.net.unblock("a", "d")
    pair.net["a"].advance(60)
    assert_whole(caller, answers_to(pair.net, caller, request), sequence)
    kinds = (peer_frames.Confirmations, peer_frames.RepairWanted)
    said = [type(head) for _, _, head in pair.net.said if isinstance(head, kinds)]
    assert said == [peer_frames.Confirmations] * 2 + [peer_frames.RepairWanted]


def test_a_hole_of_a_stream_that_has_ended_is_told_with_the_reason(pair: Pair) -> None:
    pair.send_with_hole()
    pair.source.call(queue_frames.DeleteQueue(HEAVY_AT_D))
    pair.net.deliver()
    receiver = pair.destination
    request = pair.receive(receiver)
    (failed,) = answers_to(pair.net, receiver, request)
    assert "its source has deleted the outgoing queue" in failed.sentence
