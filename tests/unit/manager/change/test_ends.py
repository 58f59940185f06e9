"""Every negative end is a warning at the source: each row of docs/explanation/negative-ends.md."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from dray.delivery.incoming import StreamKey
from dray.manager.entries import unpack
from dray.manager.events import LinkFrame, SessionClosed
from dray.manager.untold_ends import UntoldEnds
from dray.model.classes import Acknowledge, MessageClass
from dray.model.limits import END_COUNTS_MAX, END_STREAMS_MAX, HOPS_MAX
from dray.model.message import Message
from dray.store.heap.heap import file_name
from dray.testing.keyed_manager import id_named
from dray.wire import message_frames, peer_frames, queue_frames
from dray.wire.stream import Frame
from tests.inspection import look_into
from tests.unit.manager.conftest import Caller
from tests.unit.manager.net import Net, address, peer

PAGE = Path(__file__).parents[4] / "docs/explanation/negative-ends.md"
DEAD = ("system$;deadxact", "system$;deadletter")
EXPIRED, PURGED = MessageClass.NACK_RECEIVE_TIMEOUT, MessageClass.NACK_Q_PURGED


class Row:
    """One run of a row: `a` sends to `d`, or to `d` by way of `b`, or to itself."""

    def __init__(self, path: Path, wish: bool | None, *, routed: bool = False) -> None:
        routes = {"a": {"d": "b"}} if routed else {}
        self.net = Net(path, "abd" if routed else "ad", routes)
        self.wish = wish
        self.here, self.there = self.net["a"].session(), self.net["d"].session()
        self.sent_to = address("d", "orders")

    def send(self, name: str = "", **more: object) -> int:
        self.sent_to = name or self.sent_to
        queue = self.here.open(self.sent_to)
        in_transaction = more.pop("transaction", 0)
        message = Message(body=b"body" * 50, use_dead_letter_queue=self.wish, **more)
        self.here.send(queue, message, transaction=in_transaction)
        return queue

    def arrive(self, **more: object) -> int:
        """Have a message in a queue at its destination; gives that queue."""
        queue = self.there.create("orders")
        self.send(**more)
        self.net.deliver()
        assert count(self.there, "orders") == 1
        return queue

    def stop_before_the_ack(self) -> None:
        """Send a message, and cut the line before its order ack."""
        self.there.create("orders")
        self.send(time_to_be_received=60.0)
        while not any(isinstance(head, peer_frames.Data) for _, _, head in self.net.said):
            self.net.step()
        self.net.block("a", "d")


def count(caller: Caller, queue: str) -> int:
    return caller.call(queue_frames.DescribeQueue(queue)).info.message_count


def expires_here(row: Row) -> None:
    row.net.block("a", "d")
    row.send(time_to_reach_queue=5.0)
    row.net.advance(6.0)
    row.net.advance(6.0)


def purged_here(row: Row) -> None:
    row.net.block("a", "d")
    row.here.call(queue_frames.PurgeQueue(row.send()))


def deleted_here(row: Row) -> None:
    row.net.block("a", "d")
    row.send()
    row.here.call(queue_frames.DeleteQueue(row.sent_to))


def expires_in_flight(row: Row) -> None:
    row.stop_before_the_ack()
    row.net.advance(70.0)
    row.net.advance(70.0)


def deleted_in_flight(row: Row) -> None:
    row.stop_before_the_ack()
    row.here.call(queue_frames.DeleteQueue(row.sent_to))


def discarded(row: Row) -> None:
    row.net.block("a", "d")
    queue = look_into(row.net["a"].manager).state.queues.numbered(row.send())
    queue.stream.divergence = (1, 1)
    row.here.call(queue_frames.ResolveOutgoing(row.sent_to, discard=True))


def damage(net: Net, host: str, queue: str) -> None:
    manager = look_into(net[host].manager)
    (packed,) = manager.state.queues.named(queue).index.available()
    entry = unpack(packed)
    (path,) = net[host].path.rglob(file_name(entry.file))
    data = bytearray(path.read_bytes())
    data[entry.offset + entry.length - 1] ^= 1
    path.write_bytes(data)


def damaged_here(row: Row) -> None:
    row.net.block("a", "d")
    row.send()
    damage(row.net, "a", row.sent_to)
    row.net.unblock("a", "d")
    row.there.create("orders")
    # Whether it is damaged is looked at once the peer has refused something.
    look_into(row.net["a"].manager).links._suspicious = True
    row.net.advance(60.0)


def refused_unknown(row: Row) -> None:
    row.send()
    row.net.deliver()


def refused_full(row: Row) -> None:
    row.there.create("orders", quota=10)
    refused_unknown(row)


def refused_system(row: Row) -> None:
    row.send(address("d", "system$;deadxact"))
    row.net.deliver()


def refused_kind(row: Row) -> None:
    """Of a message in a transaction nothing lies at the destination; of one outside it does."""
    row.there.create("orders", transactional=False)
    transaction = row.here.number_for()
    row.send(transaction=transaction)
    row.here.commit(transaction, 1)
    row.net.deliver()


def expires_there(row: Row) -> None:
    row.arrive(time_to_be_received=5.0)
    row.net.advance(6.0)
    row.net.advance(6.0)


def purged_there(row: Row) -> None:
    row.there.call(queue_frames.PurgeQueue(row.arrive()))
    row.net.deliver()


def deleted_there(row: Row) -> None:
    row.arrive()
    row.there.call(queue_frames.DeleteQueue("orders"))
    row.net.deliver()


def reject(caller: Caller, queue: int) -> None:
    transaction = caller.number_for()
    envelopes, _ = caller.receive(queue, transaction=transaction)
    caller.call(message_frames.Reject(queue, envelopes[0].lookup_id, transaction))
    caller.commit(transaction, 0)


def rejected_there(row: Row) -> None:
    reject(row.there, row.arrive())
    row.net.deliver()


def damaged_there(row: Row) -> None:
    queue = row.arrive()
    damage(row.net, "d", "orders")
    with pytest.raises(Exception, match="is damaged"):
        row.there.receive(queue)
    row.net.deliver()


def silent_there(row: Row) -> None:
    row.arrive(time_to_be_received=5.0)
    row.net.block("a", "d")
    row.net.advance(30.0)
    row.net.advance(30.0)


def forwarded(row: Row, **more: object) -> None:
    row.net.block("b", "d")
    row.send(**more)
    row.net.deliver()


def expires_on_the_way(row: Row) -> None:
    forwarded(row, time_to_reach_queue=5.0)
    row.net.advance(6.0)
    row.net.advance(6.0)


def purged_on_the_way(row: Row) -> None:
    forwarded(row)
    between = row.net["b"].session()
    between.call(queue_frames.PurgeQueue(between.open(row.sent_to)))
    row.net.deliver()


def deleted_on_the_way(row: Row) -> None:
    forwarded(row)
    row.net["b"].session().call(queue_frames.DeleteQueue(row.sent_to))
    row.net.deliver()


def own_queue(row: Row, **more: object) -> int:
    row.here.create("mine")
    return row.send("mine", **more)


def expires_in_own(row: Row) -> None:
    own_queue(row, time_to_be_received=5.0)
    row.net.advance(6.0)


def purged_in_own(row: Row) -> None:
    row.here.call(queue_frames.PurgeQueue(own_queue(row)))


def deleted_in_own(row: Row) -> None:
    own_queue(row)
    row.here.call(queue_frames.DeleteQueue("mine"))


def rejected_in_own(row: Row) -> None:
    reject(row.here, own_queue(row))


OUT, SENT = "outgoing queue, not sent", "outgoing queue, sent and not acknowledged"
ARRIVING, THERE = "arriving at its destination", "queue at its destination"
BETWEEN, OWN = "outgoing queue of a manager that forwards", "queue of its own manager"
EXPIRES, PURGE, DELETE = "it expires", "somebody purges the queue", "somebody deletes the queue"
REJECT, DAMAGE = "a receiver rejects it", "its bytes are damaged"
Drive = Callable[[Row], None]
DRIVERS: dict[tuple[str, str], Drive] = {
    (OUT, EXPIRES): expires_here,
    (OUT, PURGE): purged_here,
    (OUT, DELETE): deleted_here,
    (SENT, "it expires without a connection"): expires_in_flight,
    (SENT, DELETE): deleted_in_flight,
    ("outgoing queue that has diverged", "`dray outgoing discard`"): discarded,
    ("outgoing queue", DAMAGE): damaged_here,
    (ARRIVING, "there is no such queue"): refused_unknown,
    (ARRIVING, "the queue is full"): refused_full,
    (ARRIVING, "the queue belongs to the system"): refused_system,
    (ARRIVING, "the queue is of the wrong kind"): refused_kind,
    ("arriving at a manager on its way", "too many managers have forwarded it"): refused_unknown,
    (THERE, EXPIRES): expires_there,
    (THERE, PURGE): purged_there,
    (THERE, DELETE): deleted_there,
    (THERE, REJECT): rejected_there,
    (THERE, DAMAGE): damaged_there,
    (THERE, "it expires and no word comes"): silent_there,
    (BETWEEN, EXPIRES): expires_on_the_way,
    (BETWEEN, PURGE): purged_on_the_way,
    (BETWEEN, DELETE): deleted_on_the_way,
    (OWN, EXPIRES): expires_in_own,
    (OWN, PURGE): purged_in_own,
    (OWN, DELETE): deleted_in_own,
    (OWN, REJECT): rejected_in_own,
}
STREAM_REFUSED = {
    (ARRIVING, "there is no such queue"),
    (ARRIVING, "the queue belongs to the system"),
}
"""Ends of which the source is also told that its destination refuses the whole outgoing queue."""


def table() -> list[list[str]]:
    """The rows of the first table of the page."""
    lines = PAGE.read_text("utf-8").splitlines()
    begin = next(at for at, line in enumerate(lines) if line.startswith("| where"))
    rows = []
    for line in lines[begin + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def test_the_page_has_a_row_for_each_way_to_end_and_no_other() -> None:
    assert [(where, how) for where, how, *_ in table()] == list(DRIVERS)


@pytest.mark.parametrize("wish", [None, True, False], ids=str)
@pytest.mark.parametrize("row", table(), ids=lambda row: f"{row[0]}, {row[1]}")
def test_every_negative_end_warns_its_source_as_the_page_says(
    tmp_path: Path, row: list[str], wish: bool | None
) -> None:
    where, how, kind, *kept = row
    circle = where == "arriving at a manager on its way"
    run = Row(tmp_path, wish, routed=where == BETWEEN or circle)
    if circle:
        run = Row.__new__(Row)
        run.net = Net(tmp_path / "circle", "ab", {"a": {"d": "b"}, "b": {"d": "a"}})
        run.wish, run.here, run.there = wish, run.net["a"].session(), run.net["b"].session()
        run.sent_to = address("d", "orders")
    DRIVERS[where, how](run)
    dead = kept[[None, True, False].index(wish)]
    notices = run.net["a"].manager.notices()
    subject = "mine" if where == OWN else run.sent_to
    refuses_all = (where, how) in STREAM_REFUSED
    kinds = ["stream-refused"] * refuses_all + [kind.strip("`")] * (dead != "not known")
    assert [(each.kind, each.subject, each.times) for each in notices] == [
        (each, subject, 1) for each in kinds
    ]
    if dead == "not known":
        return
    notice = notices[-1]
    here, there = (sum(count(at, each) for each in DEAD) for at in (run.here, run.there))
    if dead == "at the last manager":
        assert here + there == 1
        return
    assert here == (dead == "yes"), dead
    assert ("dead letter in" in notice.sentence) == (dead == "yes")
    assert notice.sentence.endswith("; look at it there") == ((where, how) == (THERE, DAMAGE))
    if dead == "in quarantine":
        host = run.here if where.startswith("outgoing") else run.there
        assert count(host, "system$;quarantine") == 1


# ---------------------------------------------------------------------------- counts of a source


@pytest.fixture
def net(tmp_path: Path) -> Net:
    net = Net(tmp_path, "ad")
    net["d"].session().create("orders")
    return net


def purge_one(net: Net) -> None:
    """Have one more message purged at its destination, without carrying a frame."""
    sender, receiver = net["a"].session(), net["d"].session()
    sender.send(sender.open(address("d", "orders")), Message(body=b"x"))
    while count(receiver, "orders") == 0:
        assert net.step()
    while net.step():
        pass
    receiver.call(queue_frames.PurgeQueue(receiver.open("orders")))


def counts_said(net: Net) -> list[peer_frames.EndCounts]:
    return [head for _, _, head in net.said if isinstance(head, peer_frames.EndCounts)]


def warned(net: Net, host: str = "a") -> Counter[str]:
    found = Counter[str]()
    for each in net[host].manager.notices():
        found[each.kind] += each.times
    return found


def test_a_source_is_told_of_ends_in_one_frame_a_second_with_their_number(net: Net) -> None:
    for _ in range(5):
        purge_one(net)
    net.deliver()
    assert len(counts_said(net)) == 1
    net.advance(1.0)
    assert [each.counts[0].count for each in counts_said(net)] == [1, 4]
    assert warned(net) == {"ended-purged": 5}
    net.advance(1.0)
    assert len(counts_said(net)) == 2


def test_nothing_is_said_or_written_for_messages_that_are_received(net: Net) -> None:
    sender, receiver = net["a"].session(), net["d"].session()
    sender.send(sender.open(address("d", "orders")), Message(body=b"x"))
    net.deliver()
    receiver.receive(receiver.open("orders"))
    net.deliver()
    assert counts_said(net) == []
    assert look_into(net["d"].manager).untold_ends.deadline() is None


def test_a_source_that_was_away_is_told_when_it_opens_the_stream_again(net: Net) -> None:
    purge_one(net)
    net.deliver()
    purge_one(net)
    net.block("a", "d")
    net.advance(5.0)
    assert warned(net) == {"ended-purged": 1}
    net.unblock("a", "d")
    net.advance(60.0)
    assert warned(net) == {"ended-purged": 1}
    net.advance(1.0)
    assert warned(net) == {}


def test_an_end_is_told_only_after_the_sync_of_its_fact_and_a_crash_before_tells_nothing(
    net: Net,
) -> None:
    purge_one(net)
    (told,) = [
        each
        for each in net["d"].effects
        if isinstance(getattr(each, "head", None), peer_frames.EndCounts)
    ]
    assert told.held
    net.crash("d")
    net.advance(60.0)
    assert counts_said(net) == []


@pytest.mark.parametrize(
    "counts",
    [
        [peer_frames.EndCount(int(PURGED), 0)],
        [peer_frames.EndCount(int(PURGED), -1)],
        [peer_frames.EndCount(int(PURGED), 1 << 62)],
        [peer_frames.EndCount(int(PURGED), 1, "", HOPS_MAX)],
        [peer_frames.EndCount(int(PURGED), 1, "", -1)],
        [peer_frames.EndCount(0, 1)],
        [peer_frames.EndCount(0x8123, 1)],
        [peer_frames.EndCount(0x4000, 1)],
        [peer_frames.EndCount(int(MessageClass.NACK_BAD_DST_Q), 1)],
        [peer_frames.EndCount(0x100000 | PURGED, 1)],
        [peer_frames.EndCount(int(PURGED), 1)] * (END_COUNTS_MAX + 1),
    ],
    ids=lambda counts: str(counts[0]),
)
def test_counts_that_cannot_be_end_the_connection_and_warn_of_nothing(
    net: Net, counts: list[peer_frames.EndCount]
) -> None:
    purge_one(net)
    net.deliver()
    warned(net)
    stream = counts_said(net)[0].stream
    told = Frame(peer_frames.EndCounts(stream, counts), 0, memoryview(b""))
    net["a"].turn(LinkFrame(peer("d"), told))
    assert warned(net) == {}
    net.deliver()
    assert all(line != ("a", "d") for line in net.lines.values())


def test_as_many_counts_as_one_frame_may_have_are_heard(net: Net) -> None:
    purge_one(net)
    net.deliver()
    warned(net)
    counts = [peer_frames.EndCount(int(PURGED), 1)] * END_COUNTS_MAX
    said = peer_frames.EndCounts(counts_said(net)[0].stream, counts)
    net["a"].turn(LinkFrame(peer("d"), Frame(said, 0, memoryview(b""))))
    assert warned(net) == {"ended-purged": END_COUNTS_MAX}


@pytest.mark.parametrize("whose", ["nobody", "another manager", "a queue here"])
def test_counts_of_a_stream_that_is_not_its_own_are_ignored(net: Net, whose: str) -> None:
    purge_one(net)
    net.deliver()
    warned(net)
    caller = net["a"].session()
    stream = {
        "nobody": 10_000_000,
        "another manager": caller.open(address("x", "orders")),
        "a queue here": caller.create("mine"),
    }[whose]
    told = peer_frames.EndCounts(stream, [peer_frames.EndCount(int(PURGED), 3)])
    net["a"].turn(LinkFrame(peer("d"), Frame(told, 0, memoryview(b""))))
    assert warned(net) == {}
    net.deliver()
    assert ("a", "d") in net.lines.values()


def test_a_manager_that_forwards_passes_counts_on_to_the_origin(tmp_path: Path) -> None:
    net = Net(tmp_path, "abd", {"a": {"d": "b"}})
    net["d"].session().create("orders")
    purge_one(net)
    net.deliver()
    assert warned(net, "b") == {}
    assert warned(net, "a") == {"ended-purged": 1}


@pytest.mark.parametrize(("hops", "told_on"), [(HOPS_MAX - 2, True), (HOPS_MAX - 1, False)])
def test_counts_go_round_no_circle_of_managers_for_ever(
    tmp_path: Path, hops: int, told_on: bool
) -> None:
    net = Net(tmp_path, "abd", {"a": {"d": "b"}})
    net["d"].session().create("orders")
    purge_one(net)
    net.deliver()
    context = look_into(net["b"].manager)
    (told,) = [each for each in counts_said(net) if each.counts[0].origin]
    last = peer_frames.EndCount(int(PURGED), 1, told.counts[0].origin, hops)
    far = Frame(peer_frames.EndCounts(told.stream, [last]), 0, memoryview(b""))
    net["b"].turn(LinkFrame(peer("d"), far))
    assert (context.untold_ends.deadline() is not None) == told_on


def test_messages_that_a_hop_discards_are_told_to_the_operator_of_their_origin(
    tmp_path: Path,
) -> None:
    run = Row(tmp_path, wish=None, routed=True)
    forwarded(run)
    between = run.net["b"]
    look_into(between.manager).state.queues.named(run.sent_to).stream.divergence = (1, 1)
    between.session().call(queue_frames.ResolveOutgoing(run.sent_to, discard=True))
    run.net.advance(1.0)
    assert warned(run.net) == {"ended-in-doubt": 1}


def test_counts_that_wait_are_bounded_by_stream_and_kind() -> None:
    ends, keys = UntoldEnds(), [StreamKey("a", 1)]
    for source in "abcde":
        keys += [StreamKey(source, 2 + number) for number in range(END_STREAMS_MAX // 4 + 5)]
    for key in keys:
        ends.add(key, PURGED)
    for number in range(END_COUNTS_MAX + 5):
        ends.add(StreamKey("a", 1), PURGED, 1, f"{number:032x}")
    ends.add(StreamKey("a", 1), PURGED, 4)
    found = dict(ends.take(0.0, keys))
    assert Counter(key.source for key in found) == dict.fromkeys("abcd", END_STREAMS_MAX // 4)
    assert len(found[StreamKey("a", 1)]) == END_COUNTS_MAX
    assert found[StreamKey("a", 1)][0] == peer_frames.EndCount(PURGED, 5)


def test_nothing_more_is_told_of_a_stream_that_has_ended(net: Net) -> None:
    purge_one(net)
    net.deliver()
    purge_one(net)
    net["a"].session().call(queue_frames.DeleteQueue(address("d", "orders")))
    net.deliver()
    net.advance(2.0)
    assert len(counts_said(net)) == 1
    untold = look_into(net["d"].manager).untold_ends
    untold.opened(StreamKey(id_named("a"), counts_said(net)[0].stream))
    assert untold.deadline() is None


def test_an_end_of_which_its_sender_wants_no_acknowledgment_is_counted(net: Net) -> None:
    """The sender asked for other acknowledgments, so no confirmation says how it ended."""
    sender, receiver = net["a"].session(), net["d"].session()
    asked = Message(
        body=b"x", administration_queue="acks", acknowledge=Acknowledge.POSITIVE_RECEIVE
    )
    sender.create("acks")
    sender.send(sender.open(address("d", "orders")), asked)
    net.deliver()
    receiver.call(queue_frames.PurgeQueue(receiver.open("orders")))
    net.deliver()
    assert warned(net) == {"ended-purged": 1}


def test_a_session_that_ended_is_told_nothing(net: Net) -> None:
    purge_one(net)
    line = next(line for line, ends in net.lines.items() if ends == ("a", "d"))
    net["d"].turn(SessionClosed(line))
    assert look_into(net["d"].manager).untold_ends.take(1e12, {}) == []


def test_large_numbers_of_messages_that_are_deleted_are_counted_without_being_read(
    net: Net,
) -> None:
    sender, receiver = net["a"].session(), net["d"].session()
    for _ in range(4):
        sender.send(sender.open(address("d", "orders")), *[Message(body=b"x")] * 250)
    receiver.send(receiver.open("orders"), Message(body=b"own"))
    net.deliver()
    receiver.call(queue_frames.DeleteQueue("orders"))
    net.deliver()
    assert warned(net) == {"ended-deleted": 1000}
    assert warned(net, "d") == {"ended-deleted": 1}


def test_each_warning_names_the_queue_the_reason_and_where_the_message_is(net: Net) -> None:
    purge_one(net)
    net.deliver()
    (notice,) = net["a"].manager.notices()
    assert re.fullmatch(
        r"dray://d:7340/orders: a message was purged from its queue before it was received; it is"
        r" not kept as a dead letter",
        str(notice),
    )
