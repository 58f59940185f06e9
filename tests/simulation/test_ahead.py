"""Large messages travel ahead of their commits in worlds, which notice what is done wrong."""

from __future__ import annotations

from collections import Counter

import pytest

from dray.manager.incoming.ahead import KeptAhead
from tests.simulation.defences import enough_notice
from tests.worlds.world import World

WORLDS = 40


def run(seed: int) -> None:
    World(seed).run()


@pytest.mark.slow
def test_pieces_are_kept_admitted_given_up_and_missed_in_the_worlds(monkeypatch):
    seen = Counter[str]()

    def noting(name):
        original = getattr(KeptAhead, name)

        def noted(self, *rest):
            found = original(self, *rest)
            seen[name] += name != "drop_stream" or self.has_some(rest[0])
            return found

        monkeypatch.setattr(KeptAhead, name, noted)

    for name in ("add", "leave", "drop_transaction", "forget", "drop_stream"):
        noting(name)
    for seed in range(WORLDS):
        run(seed)
    assert min(seen[name] for name in ("add", "leave", "drop_transaction", "forget")) > 0
    assert seen["add"] >= WORLDS // 2


@pytest.mark.slow
def test_a_destination_that_gives_no_piece_up_is_found_out(monkeypatch):
    for name in ("forget", "drop_transaction", "drop_stream", "drop_old"):
        monkeypatch.setattr(KeptAhead, name, lambda *_: None)
    assert enough_notice(run, WORLDS, 2)


@pytest.mark.slow
def test_a_destination_that_takes_another_piece_than_the_named_one_is_found_out(monkeypatch):
    leave = KeptAhead.leave

    def leave_another(self, session, key):
        found = [each for each in self._keys(session) if each[:2] == key[:2]]
        return leave(self, session, found[-1] if found else key)

    monkeypatch.setattr(KeptAhead, "leave", leave_another)
    # So that several pieces of a transaction are there: as on a line that is known to be quick.
    monkeypatch.setattr("dray.delivery.ahead.PIECES_AT_FIRST", 8)
    assert enough_notice(run, 4 * WORLDS, 2)


@pytest.mark.slow
def test_pieces_that_vanish_cost_a_second_transfer_and_nothing_else(monkeypatch):
    add, count = KeptAhead.add, Counter[str]()

    def forget_some(self, session, key, *rest):
        add(self, session, key, *rest)
        count["kept"] += 1
        if count["kept"] % 3 == 0:
            self.drop(session, key)

    monkeypatch.setattr(KeptAhead, "add", forget_some)
    for seed in range(WORLDS):
        run(seed)
    assert count["kept"] >= WORLDS // 2
