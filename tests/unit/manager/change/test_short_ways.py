"""A fact of which parts are empty is built without them, and so is the end of a turn.

Both ways must give the same: each story here is told to two managers of the same name and history,
of which one builds everything.
"""

from __future__ import annotations

import random
from itertools import repeat

import pytest

from dray.errors import DrayError
from dray.manager.change import commit_fact, departures, sub_queues
from dray.manager.change.commit_fact import CommitFact
from dray.manager.state import queue_contents
from dray.manager.state.state import State
from dray.manager.transactions.aborted_transactions import AbortedTransactions
from dray.manager.turn import QueueManager
from dray.model.classes import Acknowledge
from dray.model.message import Message
from dray.wire import message_frames, queue_frames
from tests.unit.manager import conftest
from tests.unit.manager.conftest import ManagerDriver

STEPS = 60
HERE = ("plain", "untransactional", "journaled", "plain;sub")
FAR = "dray://other:1/far"


class Told:
    """A manager with two callers, and everything that it states and wants done."""

    def __init__(self, path):
        self.driver = ManagerDriver(path)
        self.facts = []
        append = self.driver.store.append

        def noted(fact):
            self.facts.append(bytes(fact))
            append(fact)

        self.driver.store.append = noted
        self.callers = [self.driver.session() for _ in range(2)]
        first = self.callers[0]
        first.create("plain")
        first.create("untransactional", transactional=False)
        first.create("journaled", journal=True)
        self.queues = [first.open(name) for name in (*HERE, FAR)]
        self.errors = []

    def tell(self, seed):
        chance = random.Random(seed)
        for _ in range(STEPS):
            try:
                self.step(chance, chance.choice(self.callers), chance.choice(self.queues))
            except DrayError as error:
                self.errors.append((error.code, str(error)))

    def step(self, chance, caller, queue):
        act = chance.choice(
            ("send",) * 4 + ("claim",) * 3 + ("transaction", "abort", "time", "purge")
        )
        number = caller.number_for()
        if act == "send":
            caller.send(queue, *(message(chance) for _ in range(chance.choice((1, 1, 1, 3)))))
        elif act == "claim":
            many = chance.choice((1, 2))
            caller.receive(queue, transaction=number, claim=True, max_messages=many)
            caller.commit(number, 0)
        elif act == "transaction":
            caller.receive(queue, transaction=number, max_messages=1)
            caller.send(queue, message(chance), transaction=number)
            caller.commit(number, 1)
        elif act == "abort":
            caller.receive(queue, transaction=number, max_messages=1)
            caller.call(message_frames.Abort(number))
        elif act == "time":
            self.driver.advance(chance.choice((0.1, 5.0)))
        else:
            caller.call(queue_frames.PurgeQueue(queue))


def message(chance):
    return Message(
        bytes(chance.randrange(200)),
        recoverable=chance.random() < 0.8,
        use_journal_queue=chance.random() < 0.2,
        use_dead_letter_queue=chance.random() < 0.2,
        time_to_be_received=chance.choice((None, None, None, 3.0)),
        **chance.choice(({}, {}, {}, ASKING)),
    )


ASKING = {
    "acknowledge": Acknowledge.FULL_RECEIVE | Acknowledge.FULL_REACH_QUEUE,
    "administration_queue": "untransactional",
}


def build_everything(monkeypatch):
    """Take the guards out."""
    begin = CommitFact.__init__

    def whole(self, context, transaction=0):
        begin(self, context, transaction)
        assert self.departures is not None

    def follow_up(self):
        context, subjects = self._context, self._subjects
        self._serve()
        if context.room.wanted:
            self._tell_of_disk()
        for key in context.follow_up.to_tell:
            subjects.sources.tell(key)
        context.follow_up.to_tell.clear()
        subjects.sources.tell_of_ends()
        subjects.streams.tell_of_room()
        subjects.streams.tell_of_new_queues()
        subjects.links.say_ends()
        sub_queues.drop_unused_queues(context)
        subjects.holes.ask(subjects.sources)

    def apply_all(self, fact):
        self.identity.apply(fact)
        self.uploads.apply(fact, self.released)
        applier = self._APPLIERS.get(type(fact))
        if applier is not None:
            applier(self, fact)
        self.sequences.apply(fact)

    monkeypatch.setattr(State, "apply", apply_all)
    monkeypatch.setattr(CommitFact, "__init__", whole)
    monkeypatch.setattr(commit_fact, "may_follow", lambda *_: True)
    monkeypatch.setattr(departures, "any_asks_in", lambda _: True)
    monkeypatch.setattr(QueueManager, "_concerns_others", lambda _: True)
    monkeypatch.setattr(QueueManager, "_follow_up", follow_up)
    monkeypatch.setattr(queue_contents, "expires_us_of", lambda _: 1)
    monkeypatch.setattr(AbortedTransactions, "__bool__", lambda _: True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_both_ways_give_the_same_facts_effects_and_answers(tmp_path, monkeypatch, seed):
    monkeypatch.setattr(conftest, "STARTS", repeat(1))
    short = Told(tmp_path / "short")
    short.tell(seed)
    build_everything(monkeypatch)
    whole = Told(tmp_path / "whole")
    whole.tell(seed)
    assert len(short.facts) > STEPS // 2
    assert short.facts == whole.facts
    assert short.errors == whole.errors
    assert short.driver.effects == whole.driver.effects
    assert short.driver.manager.deadline() == whole.driver.manager.deadline()
