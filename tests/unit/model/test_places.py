"""What callers hold is counted for each, and the oldest thing of each is known."""

from __future__ import annotations

from dray.model.places import Amounts, Places


def test_each_caller_has_a_count_and_an_oldest_of_its_own():
    places: Places[int] = Places()
    for held, place in ((1, "a"), (2, "b"), (3, "a")):
        places.add(held, place)
    assert (len(places), places.count("a"), places.count("nobody")) == (3, 2, 0)
    assert (places.oldest(), places.oldest("b"), places.oldest("nobody")) == (1, 2, None)
    places.discard(1)
    places.discard(1)
    assert (list(places), places.oldest("a"), 1 in places, 3 in places) == ([2, 3], 3, False, True)


def test_the_oldest_thing_of_each_caller_is_found():
    places: Places[int] = Places()
    for held, place in ((1, "a"), (2, "b"), (3, "a")):
        places.add(held, place)
    assert dict(places.firsts()) == {"a": 1, "b": 2}
    places.discard(1)
    assert dict(places.firsts()) == {"a": 3, "b": 2}


def test_who_holds_the_most_loses_its_oldest_thing():
    places: Places[int] = Places()
    for held, place in ((1, "a"), (2, "b"), (3, "b"), (4, "a"), (5, "a")):
        places.add(held, place)
    assert (places.oldest_of_most(), places.place_of(1), places.place_of(6)) == (1, "a", None)
    places.discard(1)
    # Of two that hold as many, the later name.
    assert places.oldest_of_most() == 2


def test_nothing_is_kept_of_callers_that_hold_nothing():
    places: Places[int] = Places()
    for held in range(1_000):
        places.add(held, f"caller {held}")
        places.discard(held)
    assert (len(places), places._held) == (0, {})


def test_amounts_are_counted_up_and_down_and_a_holder_that_has_none_is_forgotten():
    amounts: Amounts[str] = Amounts()
    for holder, more in (("a", 3), ("b", 2), ("a", -2), ("b", -2), ("c", 0)):
        amounts.add(holder, more)
    assert (dict(amounts), amounts["b"]) == ({"a": 1}, 0)
