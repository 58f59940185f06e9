"""Large messages: every party killed at every step; delivered once, or the hole told once (R91).

The matrix is `SCENARIOS` x `KILLS` x every turn of the scenario: a dry run counts the turns and
names them by the frame that causes each. A scenario is written as its client would be: after any
kill it is run again, by a client that knows only what the killed one could have written down.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from dray.manager.events import Event, Request, SessionClosed
from dray.wire import queue_frames, selections
from tests.crash.large_acts import BODY, Notes, committed, receive, send, upload
from tests.unit.manager.conftest import ManagerDriver


class KilledError(Exception):
    """Raised into the client whose manager, or who itself, has been killed."""


class FragileDriver(ManagerDriver):
    """A manager that somebody kills, or whose client is killed, at one of its turns."""

    def __init__(self, path: Path) -> None:
        self.steps: list[str] = []
        self.kill_at, self.moment, self.counting = 0, "", False
        super().__init__(path)

    def turn(self, event: Event, *, sync: bool = True) -> list[object]:
        if not (isinstance(event, Request) and self.counting):
            return super().turn(event, sync=sync)
        self.steps.append(type(event.frame.head).__name__)
        if len(self.steps) != self.kill_at:
            return super().turn(event, sync=sync)
        self.counting = False
        match self.moment:
            case "manager before its sync":
                super().turn(event, sync=False)
                self.crash()
            case "manager after its sync":
                super().turn(event)
                self.crash()
            case "client before it speaks":
                self.end_sessions()
            case "client before it hears":
                super().turn(event)
                self.end_sessions()
        raise KilledError(self.steps[-1])

    def end_sessions(self) -> None:
        for number in range(1, self.sessions + 1):
            super().turn(SessionClosed(number))


KILLS = [
    "manager before its sync",
    "manager after its sync",
    "client before it speaks",
    "client before it hears",
]


def lose_a_fragment(driver: ManagerDriver, _notes: Notes) -> None:
    """Somebody takes the second fragment by itself."""
    caller = driver.session()
    heavy = caller.open("heavy")
    envelopes, _ = caller.receive(heavy, peek=True, guarded=False)
    select = selections.SelectAt(envelopes[2].lookup_id)
    caller.receive(heavy, select=select, guarded=False)


SCENARIOS = {
    "send": (send, [], [receive]),
    "upload": (upload, [], [receive]),
    "receive": (receive, [send], []),
    "hole": (receive, [send, lose_a_fragment], []),
}
"""What is interrupted; what happened before it; what happens after it was run again."""


def prepared_driver(path, before, notes: Notes) -> FragileDriver:
    driver = FragileDriver(path)
    caller = driver.session()
    caller.create("heavy")
    caller.create("statusq")
    for act in before:
        act(driver, notes)
    return driver


def run(path, name: str, kill_at: int, moment: str) -> tuple[FragileDriver, Notes, bool]:
    """Run a scenario with one kill, then again without; tells whether there was a kill."""
    act, before, after = SCENARIOS[name]
    notes = Notes()
    driver = prepared_driver(path, before, notes)
    driver.kill_at, driver.moment, driver.counting = kill_at, moment, True
    try:
        act(driver, notes)
        killed = False
    except KilledError:
        killed = True
        act(driver, notes)
    driver.counting = False
    for each in after:
        each(driver, notes)
    return driver, notes, killed


@pytest.mark.parametrize("moment", KILLS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_party_killed_at_every_step(tmp_path, name, moment):
    for kill_at in itertools.count(1):
        driver, notes, killed = run(tmp_path / str(kill_at), name, kill_at, moment)
        where = f"{name}, {moment}, step {kill_at}: {driver.steps[kill_at - 1 : kill_at]}"
        queues = {
            each.name: each for each in driver.session().call(queue_frames.ListQueues()).queues
        }
        assert queues["heavy"].message_count == 0, where
        assert queues["statusq"].message_count == 0, where
        if name == "hole":
            # Told once, and once more only to who comes for a receiver that died.
            assert 1 <= len(notes.holes) <= 1 + killed, where
            assert not notes.delivered, where
        else:
            assert committed(driver, notes.taken) == 1, where
            assert all(bodies == BODY for bodies in notes.delivered), where
        assert driver.store.live_bytes == 0, where
        driver.disk.close()
        if not killed:
            break
    assert kill_at > 4, "a scenario has steps"


def test_the_matrix_on_the_page_is_this_one(tmp_path):
    page = Path(__file__).parents[2] / "docs" / "explanation" / "large-messages.md"
    rows = []
    for name in SCENARIOS:
        driver, _, _ = run(tmp_path / name, name, 0, "")
        driver.disk.close()
        rows.append(f"| {name} | {len(driver.steps)} | {', '.join(dict.fromkeys(driver.steps))} |")
    assert [row for row in rows if row not in page.read_text("utf-8")] == []


def test_the_alarm_is_heard_when_a_sender_does_not_ask(tmp_path, monkeypatch):
    """A sender that sends again without asking what became of its first try sends twice."""

    def forgetful(driver, notes):
        notes.sent = ""
        send(driver, notes)

    monkeypatch.setitem(SCENARIOS, "send", (forgetful, [], [receive]))
    steps = len(run_and_close(tmp_path / "dry", 0, "")[0])
    delivered = [
        run_and_close(tmp_path / str(at), at, "client before it hears")[1]
        for at in (steps - 1, steps)
    ]
    assert delivered == [1, 2]


def run_and_close(path, kill_at, moment):
    driver, notes, _ = run(path, "send", kill_at, moment)
    driver.disk.close()
    return driver.steps, len(notes.delivered)
