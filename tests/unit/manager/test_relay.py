"""What is posted to a box gets there through managers, or is dropped; it never piles up."""

from __future__ import annotations

import pytest

from dray.errors import InvalidArgument, Misuse
from dray.machine import Tick
from dray.manager.events import Answer, LinkSend, SessionClosed
from dray.manager.relay import Meter
from dray.model.limits import BOX_CHARACTERS_MAX, MIB, RELAYED_BYTES_MAX
from dray.wire.frames import Done
from dray.wire.transfer_frames import AttachBox, Credit, Post
from tests.inspection import look_into
from tests.unit.manager.conftest import Caller
from tests.unit.manager.net import Net, address


class Posts(Net):
    """Managers with programs whose boxes are looked into."""

    def __init__(self, path, hosts, routes=None):
        super().__init__(path, hosts, routes)
        self.got: dict[tuple[str, int], list[tuple[Post, bytes]]] = {}

    def client(self, host: str) -> Caller:
        return self[host].session()

    def _carry(self, host):
        driver = self[host]
        for effect in driver.effects:
            if isinstance(effect, Answer) and isinstance(effect.head, Post):
                found = self.got.setdefault((host, effect.session), [])
                if effect.session not in self.lines:
                    found.append((effect.head, driver.body_of(effect)))
        return super()._carry(host)

    def of(self, caller: Caller, host: str) -> list[tuple[bytes, bytes]]:
        """What came to a program since it was last asked."""
        self.deliver()
        found = self.got.pop((host, caller.number), [])
        return [(head.message, body) for head, body in found]


def attach(net: Posts, caller: Caller, box: str, queue: str) -> None:
    assert caller.call(AttachBox(box, queue)) == Done()
    for driver in net.drivers.values():
        driver.turn(Tick())
    net.deliver()


def test_a_post_comes_to_whoever_has_the_box(tmp_path):
    net = Posts(tmp_path, "a")
    one, other = net.client("a"), net.client("a")
    attach(net, one, "t", "reports")
    other.ask(Post("t", b"hello"), b"bytes")
    assert net.of(one, "a") == [(b"hello", b"bytes")]
    assert net.of(other, "a") == []


def test_a_post_is_not_held_back_by_a_sync(tmp_path):
    net = Posts(tmp_path, "a")
    one, other = net.client("a"), net.client("a")
    attach(net, one, "t", "reports")
    other.ask(Post("t", b"hello"))
    (post,) = [each for each in net["a"].effects if isinstance(each.head, Post)]
    assert not post.held


def test_a_post_to_a_box_that_nobody_has_is_dropped(tmp_path):
    net = Posts(tmp_path, "a")
    one = net.client("a")
    one.ask(Post("nobody", b"hello"))
    attach(net, one, "t", "reports")
    one.call(AttachBox("t", "reports", attached=False))
    one.ask(Post("t", b"hello"))
    assert net.of(one, "a") == []


def test_the_last_to_attach_a_box_has_it(tmp_path):
    net = Posts(tmp_path, "a")
    before, after = net.client("a"), net.client("a")
    attach(net, before, "t", "reports")
    attach(net, after, "t", "reports")
    before.ask(Post("t", b"hello"))
    before.call(AttachBox("t", "reports", attached=False))
    before.ask(Post("t", b"still"))
    assert net.of(after, "a") == [(b"hello", b""), (b"still", b"")]


def test_posts_go_both_ways_over_the_one_link_that_there_is(tmp_path):
    net = Posts(tmp_path, "ab")
    producer, consumer = net.client("a"), net.client("b")
    attach(net, producer, "t", address("b", "reports"))
    attach(net, consumer, "t/c", "reports")
    producer.ask(Post("t/c", b"piece", address("b", "reports")), b"bytes")
    assert net.of(consumer, "b") == [(b"piece", b"bytes")]
    consumer.ask(Post("t", b"ack", "reports"))
    assert net.of(producer, "a") == [(b"ack", b"")]
    assert all(line == ("a", "b") for line in net.lines.values())


def test_a_link_carries_on_as_long_as_what_came_is_taken(tmp_path):
    net = Posts(tmp_path, "ab")
    producer, consumer = net.client("a"), net.client("b")
    attach(net, producer, "t", address("b", "reports"))
    attach(net, consumer, "t/c", "reports")
    size = RELAYED_BYTES_MAX // 4
    for _ in range(6):
        producer.ask(Post("t/c", b"piece", address("b", "reports")), bytes(size))
        assert len(net.of(consumer, "b")) == 1
        consumer.ask(Credit(2 * size))
        consumer.ask(Post("t", b"ack", "reports"), bytes(size))
        assert len(net.of(producer, "a")) == 1
        producer.ask(Credit(2 * size))


def test_a_box_that_is_attached_while_the_link_is_up_is_told_at_once_and_once(tmp_path):
    net = Posts(tmp_path, "ab")
    producer, consumer = net.client("a"), net.client("b")
    for box in ("t", "u"):
        attach(net, producer, box, address("b", "reports"))
        consumer.ask(Post(box, b"ack", "reports"))
        assert net.of(producer, "a") == [(b"ack", b"")]
    told = [head.box for _, _, head in net.said if isinstance(head, AttachBox)]
    assert told == ["t", "u"]


def test_posts_go_through_a_manager_in_the_middle(tmp_path):
    net = Posts(tmp_path, "abc", routes={"a": {"c": "b"}})
    producer, consumer = net.client("a"), net.client("c")
    attach(net, producer, "t", address("c", "reports"))
    attach(net, consumer, "t/c", "reports")
    producer.ask(Post("t/c", b"piece", address("c", "reports")))
    assert net.of(consumer, "c") == [(b"piece", b"")]
    consumer.ask(Post("t", b"ack", "reports"))
    assert net.of(producer, "a") == [(b"ack", b"")]


def test_a_box_is_attached_again_when_its_link_comes_back(tmp_path):
    net = Posts(tmp_path, "ab")
    producer, consumer = net.client("a"), net.client("b")
    attach(net, producer, "t", address("b", "reports"))
    net.cut("a", "b")
    consumer.ask(Post("t", b"lost"))
    producer.ask(Post("t/c", b"lost", address("b", "reports")))
    sent = [each.head for each in net["a"].effects if isinstance(each, LinkSend)]
    assert not [each for each in sent if isinstance(each, Post)]
    net.advance(60)
    net.advance(60)
    consumer.ask(Post("t", b"ack"))
    assert net.of(producer, "a") == [(b"ack", b"")]


def test_the_boxes_of_a_program_go_with_it_also_further_on(tmp_path):
    net = Posts(tmp_path, "ab")
    producer = net.client("a")
    attach(net, producer, "t", address("b", "reports"))
    session = look_into(net["a"].manager).sessions[producer.number]
    assert session.boxes == {"t"}
    net["b"].session().ask(Post("t", b"ack"))
    assert net.of(producer, "a") == [(b"ack", b"")]
    net["a"].turn(SessionClosed(producer.number))
    net.deliver()
    for host in "ab":
        relay = look_into(net[host].manager).relay
        assert (relay._owners, relay.wanted()) == ({}, [])
        assert producer.number not in relay._sessions


def test_a_box_that_another_program_takes_over_stays_attached_further_on(tmp_path):
    net = Posts(tmp_path, "ab")
    before, after = net.client("a"), net.client("a")
    attach(net, before, "t", address("b", "reports"))
    attach(net, after, "t", address("b", "reports"))
    told = [head.attached for _, _, head in net.said if isinstance(head, AttachBox)]
    assert told == [True, True]


def test_a_program_that_takes_nothing_costs_a_bounded_memory(tmp_path):
    net = Posts(tmp_path, "a")
    slow, fast = net.client("a"), net.client("a")
    attach(net, slow, "t", "reports")
    for _ in range(40):
        fast.ask(Post("t", b"piece"), bytes(MIB))
    taken = net.of(slow, "a")
    assert 0 < len(taken) < RELAYED_BYTES_MAX // MIB + 1
    slow.ask(Credit(RELAYED_BYTES_MAX))
    fast.ask(Post("t", b"piece"), bytes(MIB))
    assert len(net.of(slow, "a")) == 1


def test_a_peer_that_takes_nothing_costs_a_bounded_memory(tmp_path):
    net = Posts(tmp_path, "ab")
    producer, consumer = net.client("a"), net.client("b")
    attach(net, producer, "t", address("b", "reports"))
    attach(net, consumer, "t/c", "reports")
    before = len(net["a"].effects)
    for _ in range(40):
        producer.ask(Post("t/c", b"piece", address("b", "reports")), bytes(MIB))
    assert len(net["a"].effects) - before <= RELAYED_BYTES_MAX // MIB
    assert net.of(consumer, "b")
    producer.ask(Post("t/c", b"piece", address("b", "reports")), b"bytes")
    consumer.ask(Credit(RELAYED_BYTES_MAX))
    producer.ask(Post("t/c", b"more", address("b", "reports")), bytes(MIB))
    assert (b"more", bytes(MIB)) in net.of(consumer, "b"), "the peer says what it has taken"


@pytest.mark.parametrize("box", ["", "x" * (BOX_CHARACTERS_MAX + 1)])
def test_the_name_of_a_box_is_bounded(tmp_path, box):
    net = Posts(tmp_path, "a")
    with pytest.raises(Misuse, match="box"):
        net.client("a").call(AttachBox(box, "reports"))


def test_the_number_of_boxes_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("dray.manager.relay.BOXES_MAX", 2)
    net = Posts(tmp_path, "a")
    caller = net.client("a")
    for box in "ab":
        caller.call(AttachBox(box, "reports"))
    with pytest.raises(Misuse, match="at most 2"):
        caller.call(AttachBox("c", "reports"))
    assert caller.call(AttachBox("b", "reports")) == Done()


def test_a_negative_credit_is_refused_and_none_at_all_is_not(tmp_path):
    net = Posts(tmp_path, "a")
    caller = net.client("a")
    with pytest.raises(InvalidArgument):
        caller.call(Credit(-1))
    assert caller.answers(caller.ask(Credit(0))) == []


def test_a_meter_lets_one_frame_of_any_size_go_and_others_up_to_its_bound():
    meter = Meter()
    assert meter.spend(RELAYED_BYTES_MAX + 5)
    assert not meter.spend(0)
    meter.gain(6)
    assert meter.spend(1), "up to the bound itself"
    assert not meter.spend(1)
    meter.gain(RELAYED_BYTES_MAX + 100)
    assert meter.under_way == 0, "what was never spent is not gained"
