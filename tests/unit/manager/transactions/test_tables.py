"""The table of a transaction's states says what the manager does: no more, no less."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

from dray import errors
from dray.manager.events import SessionClosed
from dray.manager.transactions.tables import TRANSACTION
from dray.model.message import Message
from dray.wire import message_frames
from tests import steps
from tests.inspection import look_into
from tests.unit.manager.conftest import ManagerDriver

WALKS, STEPS, SEED = 250, 7, 7
EVENTS = sorted({row.event for row in TRANSACTION})


class Walk:
    """One transaction at a driver."""

    def __init__(self, driver: ManagerDriver) -> None:
        self.driver = driver
        self.caller = driver.session()
        self.queue = self.caller.create("orders")
        self.plain = self.caller.create("plain", transactional=False)
        self.begin()

    def begin(self) -> None:
        self.transaction, self.sends = self.caller.number_for(), 0

    def state(self) -> str:
        inside = look_into(self.driver.manager)
        if self.transaction in inside.state.prepared:
            return "prepared"
        transaction = inside.transactions.get(self.transaction)
        if transaction is None:
            return "none"
        return "open" if transaction.doomed is None else "doomed"

    def settle(self, *, commit: bool) -> None:
        name = f"{self.driver.manager_id}\\{self.transaction}"
        self.caller.call(message_frames.SettlePrepared(name, commit=commit))

    def happen(self, event: str) -> None:
        caller, transaction = self.caller, self.transaction
        match event:
            case "send":
                self.sends += 1
                caller.send(self.queue, Message(), transaction=transaction)
            case "refused send":
                self.sends += 1
                send = message_frames.Send(self.plain, transaction, [], [])
                caller.ask(send)
            case "receive":
                caller.receive(self.queue, transaction=transaction, max_messages=1)
            case "prepare":
                caller.call(message_frames.Prepare(transaction, self.sends))
            case "commit":
                caller.commit(transaction, self.sends)
            case "abort":
                caller.call(message_frames.Abort(transaction))
            case "settle by commit" | "settle by abort":
                self.settle(commit=event == "settle by commit")
            case "idle for too long":
                self.driver.advance(4000.0)
            case "session lost":
                self.driver.turn(SessionClosed(caller.number))
                self.caller = self.driver.session()
            case "crash":
                self.driver.crash()
                self.caller = self.driver.session()

    def ran(self, event: str) -> frozenset[object]:
        """Let something happen; the functions of the table that ran."""
        if event == "receive":
            self.caller.send(self.queue, Message())

        def act() -> None:
            with contextlib.suppress(errors.DrayError):
                self.happen(event)

        return steps.ran_while(TRANSACTION, act)


def applies(state: str, event: str) -> bool:
    """Whether an event means anything in a state: a client does not go on with what is prepared."""
    return any((row.state, row.event) == (state, event) for row in TRANSACTION)


def test_every_step_of_a_transaction_is_in_the_table_and_all_of_the_table_happens(
    tmp_path: Path,
) -> None:
    seen: set[steps.Ran] = set()
    rng, walk = random.Random(SEED), Walk(ManagerDriver(tmp_path / "data"))
    for _ in range(WALKS):
        walk.begin()
        for _ in range(STEPS):
            before = walk.state()
            event = rng.choice([each for each in EVENTS if applies(before, each)])
            ran = walk.ran(event)
            seen.add((before, event, ran, walk.state()))
            if walk.state() == "none":
                break
        if walk.state() == "prepared":
            walk.settle(commit=False)
        else:
            walk.happen("abort")
    table = steps.as_seen(TRANSACTION)
    assert seen - table == set()
    assert table - seen == set()
    assert steps.surviving(TRANSACTION, seen) == []
