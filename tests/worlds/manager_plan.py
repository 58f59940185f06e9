"""What a world of managers is made of, drawn apart from what then happens in it.

Two mixes of worlds. In a *large* one everybody sends to everybody and everything may go wrong: its
plan is drawn from the world's own chance, as it always was, so that a seed stays the world it was
kept for. In the *swarm* (Groce et al., Swarm Testing, 2012) each world leaves most things out: it
has a few messages, and each trouble or not, by a chance of its own. Such a world costs a fifth, and
what it has is not hidden behind what it has not. Some of the swarm are large ones all the same.
How often each trouble is drawn and strikes: docs/decisions/0137-a-swarm-of-small-worlds.md.
"""

from __future__ import annotations

from random import Random
from typing import Final, NamedTuple

from tests.worlds.network import Faults
from tests.worlds.simulated_daemon import Chances
from tests.worlds.world import TROUBLED_S_MAX

NAMES: Final = ("a", "b", "c", "d")
SMALLEST: Final = 2
CLOSING: Final = 5
"""One large world in so many deletes outgoing queues; not drawn, so that the others stay."""
LARGE_SHARE: Final = 0.04
"""Share of large worlds in the swarm."""
TRANSACTIONS: Final = 5
ORDINARY: Final = ("plain", "small", "loose", "missing")
_SIZES: Final = (2, 2, 2, 2, 3, 3, 3, 4, 4)
_STRUCK_WITHIN_S: Final = 2.0
_PACE: Final = 0.3
_LIFE_S_MAX: Final = 3.0


class Plan(NamedTuple):
    """What there is in a world. What is left out here is as in a large one."""

    names: tuple[str, ...]
    """Its managers."""
    depot: str
    """The manager over which all others reach each other, if it is not directly."""
    queues: tuple[str, ...]
    """Those that are sent to, by last name; `missing` is nowhere, `plain` always there."""
    acks_transactional: bool
    purges: bool
    jumps: int
    """How often a clock jumps."""
    senders: tuple[str, ...]
    receivers: tuple[str, ...]
    transactions: int = TRANSACTIONS
    """Of each sender."""
    pauses: bool = True
    moves: bool = True
    rejects: bool = True
    timed: float = 0.3
    """Share of messages with a limit of time, of either kind."""
    life_s_max: float = 12.0
    prepares: bool = True
    skews: bool = True
    partitions: int = 3
    """No more than so many."""
    struck_within_s: float = TROUBLED_S_MAX / 2
    """When partitions and jumps come at the latest."""
    pace: float = 1.0
    """How long bystanders wait, of what they wait in a large world."""
    linger_s: float = 0.0
    """How long a sender stays when it has sent everything, so that the troubles go on."""
    is_large: bool = True
    """Whether everybody opens all queues, and auditors are there from the beginning."""
    chances: Chances | None = None
    link_troubles: Faults | None = None
    client_troubles: Faults | None = None
    """Drawn by the world if not here."""

    @property
    def remade(self) -> bool:
        """Whether a queue is deleted and made again under traffic."""
        return "passing" in self.queues

    @property
    def closes(self) -> bool:
        """Whether outgoing queues are deleted while they carry something."""
        return "leaving" in self.queues

    def far(self, name: str) -> list[str]:
        """The other managers."""
        return [each for each in self.names if each != name]


def large_plan(rng: Random, seed: int) -> Plan:
    """Draw the plan of a large world from its own chance."""
    names = NAMES[: rng.randint(SMALLEST, len(NAMES))]
    purges = rng.random() < 0.3
    jumps = rng.random() < 0.3
    depot = rng.choice([*names, "", ""]) if len(names) > SMALLEST else ""
    remade = rng.random() < 0.3
    closes = seed % CLOSING == CLOSING - 1
    return Plan(
        names=names,
        depot=depot,
        queues=(*ORDINARY, *["passing"] * remade, *["leaving"] * closes),
        acks_transactional=rng.random() < 0.5,
        purges=purges,
        jumps=2 * jumps,
        senders=names,
        receivers=names,
    )


def swarm_plan(seed: int) -> Plan | None:
    """Draw the plan of a world of the swarm from a chance beside its own; None is a large one."""
    rng = Random(f"the plan of {seed}")

    def has(share: float) -> bool:
        return rng.random() < share

    if has(LARGE_SHARE):
        return None
    names = NAMES[: rng.choice(_SIZES)]
    depot = rng.choice(names) if len(names) > SMALLEST and has(0.4) else ""
    queues = ["plain"] if has(0.8) else []
    queues += [
        queue
        for queue, share in (
            ("small", 0.35), ("loose", 0.35), ("missing", 0.25), ("passing", 0.25), ("leaving", 0.2)
        )
        if has(share)
    ]  # fmt: skip
    first, second = rng.sample(names, 2)
    senders = tuple(each for each in names if each == first or has(0.3))
    receivers = tuple(each for each in names if each == second or has(0.25))
    jumps = has(0.3)
    return Plan(
        names=names,
        depot=depot,
        queues=tuple(queues or ["plain"]),
        acks_transactional=has(0.5),
        purges=has(0.2),
        jumps=rng.randint(1, 2) * jumps,
        senders=senders,
        receivers=receivers,
        transactions=rng.choice((1, 2, 3, 4)),
        pauses=has(0.25),
        moves=has(0.25),
        rejects=has(0.4),
        timed=0.5 if has(0.6) else 0.0,
        life_s_max=_LIFE_S_MAX,
        prepares=has(0.35),
        skews=has(0.4),
        partitions=rng.choice((0, 1, 2)),
        struck_within_s=_STRUCK_WITHIN_S,
        pace=_PACE,
        linger_s=rng.choice((0.0, 0.0, 1.0, 4.0)),
        is_large=False,
        chances=Chances(
            kill=rng.choice((0, 0, 0.003, 0.01, 0.03)),
            power=rng.choice((0.0, 0.5, 1.0)),
            bad_sync=rng.choice((0, 0, 0.01)),
        ),
        link_troubles=Faults(
            loss=rng.choice((0, 0, 0.2)),
            repetition=rng.choice((0, 0, 0.2)),
            reordering=rng.choice((0, 0, 0.2)),
            disconnection=rng.choice((0, 0, 0.02, 0.1)),
            stall=rng.choice((0, 0, 0.05)),
            delay_s=rng.choice((0.001, 0.02)),
        ),
        client_troubles=Faults(
            disconnection=rng.choice((0, 0, 0.02)), stall=rng.choice((0, 0, 0.05)), delay_s=0.001
        ),
    )
