"""Examples of state tables: each line of a table in each of its states, and each cell of it.

An example is a line of a text file: what happens, word by word, and the outcome of the last word.
A world plays the words on a real core with a given table. An example proves its lines: with any
other value in any one cell of them, the outcome of some example differs, or the table does not
compile. `write` finds examples at random and keeps those that prove something new; whoever changes
a table runs it and reads the difference.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol

from dray.machine import Machine, Transition
from dray.transfer.events import Heard

EXAMPLES_KEPT = 400
WIDER = ", states: also "
SAME = "# no difference: "
"""Before the name of a change of which no walk showed a difference."""
Line = tuple[int, str]
"""The place of a line in its table, and the state that the core was in."""


class World(Protocol):
    """A core with what it needs, driven by words."""

    core: Machine

    def words(self, rng: random.Random) -> str:
        """One word that makes sense now, at random."""

    def play(self, word: str) -> object:
        """Do what a word says; the effects."""

    def observe(self) -> dict[str, object]:
        """All that can be seen of the core."""


Maker = Callable[[type[Machine]], World]


class Example(NamedTuple):
    script: tuple[str, ...]
    outcome: str


def read(path: Path) -> list[Example]:
    """The examples of a file."""
    lines = [line for line in path.read_text("utf-8").splitlines() if line[:1] not in ("", "#")]
    pairs = [line.split(" => ") for line in lines]
    return [Example(tuple(script.split("; ")), outcome) for script, outcome in pairs]


def wider(path: Path) -> set[str]:
    """States that a line could name as well: no walk is in them when its condition holds."""
    lines = path.read_text("utf-8").splitlines()
    return {line.removeprefix(SAME) for line in lines if line.startswith(SAME)}


def outcome(make: Maker, kind: type[Machine], script: tuple[str, ...]) -> str:
    """Play a script; say what its last word did and changed."""
    world = make(kind)
    for word in script[:-1]:
        world.play(word)
    before = world.observe()
    effects = world.play(script[-1])
    return _said(effects, before, world)


def shown(effects: Iterable[object]) -> list[str]:
    """Effects in few words: messages without what they leave out."""
    return [re.sub(r", \w+=(None|b''|'')", "", str(each)) for each in effects]


def with_table(kind: type[Machine], table: tuple[Transition, ...]) -> type[Machine]:
    """The same core with another table."""
    return type(kind.__name__, (kind,), {"table": table})


def traced(kind: type[Machine]) -> type[Machine]:
    """The same core, noting in `fired` which lines it runs, and in which states."""

    class Traced(kind):
        fired: ClassVar[list[Line]] = []

        def handle(self, event, now):
            stage = self.stage
            event_ = event.message if isinstance(event, Heard) else event
            for place, line in enumerate(self.table):
                if (
                    stage in line.states
                    and line.event is type(event_)
                    and getattr(type(self), line.when.__name__, line.when)(self, event_, now)
                ):
                    self.fired.append((place, stage.name))
                    break
            return super().handle(event, now)

    return Traced


def fired(make: Maker, kind: type[Machine], script: tuple[str, ...]) -> set[Line]:
    """The lines that the last word of a script runs."""
    watched = traced(kind)
    world = make(watched)
    for word in script[:-1]:
        world.play(word)
    watched.fired.clear()
    world.play(script[-1])
    return set(watched.fired)


def every_line(table: tuple[Transition, ...]) -> set[Line]:
    """Each line in each of its states."""
    return {(place, state.name) for place, line in enumerate(table) for state in line.states}


def mutants(table: tuple[Transition, ...]) -> Iterator[tuple[str, tuple[Transition, ...], int]]:
    """The table with one cell changed, in every way; a name, the table, and the line."""
    states = tuple(type(table[0].states[0]))
    values = {
        "event": dict.fromkeys(line.event for line in table),
        "when": dict.fromkeys(line.when for line in table),
        "does": dict.fromkeys(line.does for line in table),
        "next": dict.fromkeys((None, *states)),
    }
    for place, line in enumerate(table):
        others = {
            "states": (
                [(state,) for state in states]
                if len(line.states) == 1
                else [tuple(s for s in line.states if s is not each) for each in line.states]
            ),
            **values,
        }
        for column, choices in others.items():
            for value in choices:
                changed = line._replace(**{column: value})
                if _effective(changed) != _effective(line):
                    name = (
                        f"line {place}, {column}: {_name(value)} for {_name(getattr(line, column))}"
                    )
                    yield name, (*table[:place], changed, *table[place + 1 :]), place
        for state in states:
            if state not in line.states:
                changed = line._replace(states=(*line.states, state))
                name = f"line {place}{WIDER}{state.name}"
                yield name, (*table[:place], changed, *table[place + 1 :]), place


def _effective(line: Transition) -> tuple[object, ...]:
    """What a line says: to keep the only state and to go to it are one."""
    goals = [line.next or state for state in line.states]
    return line.states, line.event, line.when, line.does, goals


def _name(value: object) -> str:
    if isinstance(value, tuple):
        return "/".join(each.name for each in value)
    return getattr(value, "__name__", None) or getattr(value, "name", str(value))


def survives(
    make: Maker, kind: type[Machine], table: tuple[Transition, ...], examples: list[Example]
) -> bool:
    """Whether no example notices that a table is wrong."""
    try:
        mutant = with_table(kind, table)
    except AssertionError:
        return False
    return all(_is_as_before(make, mutant, each) for each in examples)


def _is_as_before(make: Maker, kind: type[Machine], example: Example) -> bool:
    try:
        return outcome(make, kind, example.script) == example.outcome
    except Exception:  # noqa: BLE001 - a wrong cell may fail in any way
        return False


def survivors(make: Maker, kind: type[Machine], examples: list[Example]) -> set[str]:
    """The changes of one cell that no example of the changed line's event notices."""
    by_event: dict[type, dict[Example, None]] = {}
    for each in examples:
        for place, _ in fired(make, kind, each.script):
            by_event.setdefault(kind.table[place].event, {})[each] = None
    return {
        name
        for name, table, place in mutants(kind.table)
        if survives(make, kind, table, list(by_event.get(kind.table[place].event, ())))
    }


def write(
    path: Path,
    make: Maker,
    kind: type[Machine],
    *,
    walks: int,
    steps: int,
    more: tuple[str, ...] = (),
) -> None:
    """Find short examples of every line, and those that notice every change of a cell.

    The file names the changes of which no walk shows a difference, where a line covers one more
    state; any other such change is printed: say in the test why it means the same.

    `more` are scripts that walks at random do not find.
    """
    pool = _walked(make, kind, walks, steps)
    unnoticed: list[str] = []
    chosen: dict[Example, None] = {}
    found: set[Line] = set()
    for text in more:
        script = tuple(text.split("; "))
        chosen[Example(script, outcome(make, kind, script))] = None
        found |= fired(make, kind, script)
    for line in sorted(every_line(kind.table)):
        if line in pool:
            chosen[pool[line][0]] = None
        elif line not in found:
            print("no example of", line)
    by_event: dict[type, dict[Example, None]] = {}
    for each in chosen:
        for place, _ in fired(make, kind, each.script):
            by_event.setdefault(kind.table[place].event, {})[each] = None
    for (place, _), examples in sorted(pool.items()):
        by_event.setdefault(kind.table[place].event, {}).update(dict.fromkeys(examples))
    for event, examples in by_event.items():
        ordered = sorted(examples, key=lambda each: (len(each.script), each))
        by_event[event] = dict.fromkeys(ordered)
    for name, table, place in mutants(kind.table):
        known = by_event.get(kind.table[place].event, {})
        # Those that are chosen first, then the short ones.
        for each in (*filter(chosen.__contains__, known), *known):
            if not survives(make, kind, table, [each]):
                chosen[each] = None
                break
        else:
            unnoticed.append(name)
    print(*(f"no example notices {name}" for name in unnoticed if WIDER not in name), sep="\n")
    ordered = sorted(chosen, key=lambda each: (min(fired(make, kind, each.script)), each))
    text = "".join(f"{'; '.join(each.script)} => {each.outcome}\n" for each in ordered)
    text += "".join(f"{SAME}{name}\n" for name in unnoticed if WIDER in name)
    path.write_text(text, encoding="utf-8")


def _walked(make: Maker, kind: type[Machine], walks: int, steps: int) -> dict[Line, list[Example]]:
    """Examples of each line, the shortest first, from walks at random."""
    pool: dict[Line, dict[tuple[str, ...], Example]] = {}
    watched = traced(kind)
    for seed in range(walks):
        rng, world, script = random.Random(seed), make(watched), ()
        for _ in range(2 + seed * steps // walks):
            before, word = world.observe(), world.words(rng)
            watched.fired.clear()
            effects = world.play(word)
            script = (*script, word)
            for line in watched.fired:
                known = pool.setdefault(line, {})
                known.setdefault(script, Example(script, _said(effects, before, world)))
                if len(known) > EXAMPLES_KEPT:
                    known.pop(rng.choice(list(known)))
    return {
        line: sorted(found.values(), key=lambda each: (len(each.script), each))
        for line, found in pool.items()
    }


def _said(effects: object, before: dict[str, object], world: World) -> str:
    after = world.observe()
    changes = [f"{name} {value}" for name, value in after.items() if value != before[name]]
    return f"{effects} | {', '.join(changes)}"
