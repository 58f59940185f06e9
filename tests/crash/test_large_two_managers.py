"""Large messages between two queue managers: each of four parties killed at each of its steps.

Sender and receiver, source and destination. A step is one thing that a party does: a queue manager
takes in one frame, from a client or from the other one; a client says one. It has a name, and the
page lists them. Whoever is killed comes again knowing only what was durable; the message is
delivered once, or its hole is told.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dray.errors import ReceiveTimeout
from dray.manager.events import Event, LinkFrame, LinkUp, Request, SessionClosed
from dray.model.classes import MessageClass
from dray.wire import queue_frames
from tests.crash.large_acts import BODY, Notes, committed, receive, send, upload
from tests.unit.manager.conftest import ManagerDriver
from tests.unit.manager.net import Net, address

HOSTS = {"source": "a", "destination": "d"}
CLIENTS = {"a": "sender", "d": "receiver"}
LINE_FIRST = 1000
"""Sessions from here on are of queue managers, see `Net`."""
KILLS = {
    "source": ["before its sync", "after its sync"],
    "destination": ["before its sync", "after its sync"],
    "sender": ["before it speaks", "before it hears"],
    "receiver": ["before it speaks", "before it hears"],
}


class KilledError(Exception):
    """Somebody has been killed: everything that was going on is over."""


@dataclass
class Plan:
    """Who is to be killed, where; and every step that was reached, by party."""

    party: str = ""
    at: int = 0
    moment: str = ""
    counting: bool = False
    steps: dict[str, list[str]] = field(default_factory=lambda: {party: [] for party in KILLS})

    def reached(self, party: str, step: str) -> bool:
        """Note a step; whether the party is to be killed at it."""
        self.steps[party].append(step)
        return party == self.party and len(self.steps[party]) == self.at


class PartyDriver(ManagerDriver):
    """A queue manager among others, who may be killed at one of its steps, or its client."""

    net: FourParties

    def turn(self, event: Event, *, sync: bool = True) -> list[object]:
        net = getattr(self, "net", None)
        if net is None or not net.plan.counting:
            return super().turn(event, sync=sync)
        host = next(host for host, driver in net.drivers.items() if driver is self)
        step = step_of(event)
        if step is None:
            return super().turn(event, sync=sync)
        manager = next(party for party, each in HOSTS.items() if each == host)
        client = isinstance(event, Request) and event.session < LINE_FIRST
        killed = net.plan.reached(manager, step)
        killed_client = client and net.plan.reached(CLIENTS[host], step)
        if not killed and not killed_client:
            return super().turn(event, sync=sync)
        net.plan.counting = False
        match net.plan.moment:
            case "before its sync":
                super().turn(event, sync=False)
                net.crash(host)
            case "after its sync":
                super().turn(event)
                net.crash(host)
            case "before it speaks":
                self.end_sessions()
            case "before it hears":
                super().turn(event)
                self.end_sessions()
        raise KilledError(step)

    def end_sessions(self) -> None:
        for number in range(1, self.sessions + 1):
            super().turn(SessionClosed(number))


def step_of(event: Event) -> str | None:
    """The name of what is done; None for what is no step."""
    match event:
        case Request(_, frame) | LinkFrame(_, frame):
            return type(frame.head).__name__
        case LinkUp():
            return "LinkUp"
        case _:
            return None


class FourParties(Net):
    """A source that sends to `heavy` at a destination."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "")
        self.plan = Plan()
        for host in HOSTS.values():
            self.drivers[host] = PartyDriver(path / host, host)
        for driver in self.drivers.values():
            driver.net = self
        for name in ("heavy", "statusq"):
            self["d"].session().create(name)
        self.notes = Notes(queue=address("d", "heavy"))

    def settle(self) -> None:
        """Carry what is said, and let the time pass after which it is tried again."""
        for _ in range(3):
            self.advance(60)

    def quota(self, size: int | None) -> None:
        counting, self.plan.counting = self.plan.counting, False
        self["d"].session().call(queue_frames.SetQuota("heavy", size, None))
        self.plan.counting = counting

    def close(self) -> None:
        for driver in self.drivers.values():
            driver.disk.close()

    def count(self, host: str, name: str) -> int:
        """How many messages a queue has."""
        queues = self[host].session().call(queue_frames.ListQueues()).queues
        return sum(each.message_count for each in queues if each.name == name)

    def dead_classes(self) -> list[MessageClass]:
        caller = self["a"].session()
        try:
            envelopes, _ = caller.receive(caller.open("system$;deadxact"), peek=True)
        except ReceiveTimeout:
            return []
        return sorted(MessageClass(each.message_class) for each in envelopes)


def through(act: Callable[[ManagerDriver, Notes], None]) -> Callable[[FourParties], None]:
    def play(net: FourParties) -> None:
        act(net["a"], net.notes)
        net.settle()
        receive(net["d"], net.notes)
        net.settle()

    return play


def with_a_hole(net: FourParties) -> None:
    """There is room for the header and one fragment."""
    net.quota(250)
    net.notes.kept = True
    send(net["a"], net.notes)
    net.settle()
    receive(net["d"], net.notes)
    net.settle()


def repaired(net: FourParties) -> None:
    """The same, and then there is room again."""
    if not net.notes.repair:
        net.quota(250)
    net.notes.kept = True
    send(net["a"], net.notes)
    net.settle()
    net.notes.repair = True
    net.quota(None)
    for _ in range(3):
        receive(net["d"], net.notes)
        net.settle()


SCENARIOS = {
    "send": through(send),
    "upload": through(upload),
    "hole": with_a_hole,
    "repair": repaired,
}


def run(path: Path, name: str, plan: Plan) -> tuple[FourParties, bool]:
    """Play a scenario with one kill, then again without; tells whether there was a kill."""
    net = FourParties(path)
    net.plan = plan
    plan.counting = True
    killed = False
    try:
        SCENARIOS[name](net)
    except KilledError:
        killed = True
        net.settle()
        SCENARIOS[name](net)
    plan.counting = False
    # What a killed source is to deliver it delivers by itself, and the receiver comes once more.
    net.settle()
    receive(net["d"], net.notes)
    net.settle()
    return net, killed


def check(net: FourParties, name: str, where: str, *, killed: bool) -> None:
    """Delivered once or the hole told; nothing is left, and nothing kept that nobody asked for."""
    notes = net.notes
    assert net.count("d", "heavy") == net.count("d", "statusq") == 0, where
    assert net.count("a", notes.queue) == 0, where
    assert net["d"].store.live_bytes == 0, where
    if name == "hole":
        assert len(set(notes.holes)) == 1, where
        assert len(notes.holes) <= 1 + killed, where
        assert not notes.delivered, where
        refused, rejected = MessageClass.NACK_Q_EXCEED_QUOTA, MessageClass.NACK_RECEIVE_REJECTED
        assert net.dead_classes() == [refused] * 3 + [rejected] * 2, where
        return
    assert committed(net["d"], notes.taken) == 1, where
    assert all(bodies == BODY for bodies in notes.delivered), where
    assert not notes.holes, where
    assert net.dead_classes() == [], where
    assert net["a"].store.live_bytes == 0, where


def dry_steps(path: Path, name: str) -> dict[str, list[str]]:
    net, killed = run(path, name, plan := Plan())
    check(net, name, name, killed=killed)
    net.close()
    return plan.steps


def kill_at_each(path: Path, name: str, *, party: str, every: int) -> int:
    """Kill one party at its steps, each time in a new world; how many kills it was."""
    kills = 0
    steps = dry_steps(path / "dry", name)[party]
    assert len(steps) > 4, "a scenario has steps"
    for moment in KILLS[party]:
        for at in range(1, len(steps) + 1, every):
            where = f"{name}: {party} killed {moment}, step {at}: {steps[at - 1]}"
            net, killed = run(path / f"{moment}-{at}", name, Plan(party, at, moment))
            assert killed, where
            check(net, name, where, killed=True)
            net.close()
            kills += 1
    return kills


@pytest.mark.parametrize(("name", "party"), [*itertools.product(SCENARIOS, KILLS)])
@pytest.mark.torture
def test_every_party_killed_at_every_step(tmp_path, name, party, went_through):
    went_through["simulated kills"] = kill_at_each(tmp_path, name, party=party, every=1)


@pytest.mark.parametrize("party", HOSTS)
def test_queue_managers_killed_at_some_of_their_steps(tmp_path, party, went_through):
    """What the whole matrix does, at a few steps of its longest scenario."""
    went_through["simulated kills"] = kill_at_each(tmp_path, "repair", party=party, every=12)


def test_the_page_lists_the_steps(tmp_path):
    page = Path(__file__).parents[2] / "docs" / "explanation" / "large-messages.md"
    text = page.read_text("utf-8")
    rows = []
    for name in SCENARIOS:
        for party, steps in dry_steps(tmp_path / name, name).items():
            rows.append(f"| {name} | {party} | {len(steps)} | {', '.join(dict.fromkeys(steps))} |")
    assert [row for row in rows if row not in text] == []


def test_the_alarm_is_heard_when_a_sender_does_not_ask(tmp_path, monkeypatch):
    """A sender that sends again without asking what became of its first try sends twice."""

    def forgetful(driver, notes):
        notes.sent = ""
        send(driver, notes)

    monkeypatch.setitem(SCENARIOS, "send", through(forgetful))
    steps = dry_steps(tmp_path / "dry", "send")["sender"]
    net, _ = run(tmp_path / "killed", "send", Plan("sender", len(steps), "before it hears"))
    assert len(net.notes.delivered) == 2
    net.close()
