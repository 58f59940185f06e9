"""Seeded worlds: whole queue managers, a bad network, bad disks, and clients that come and go.

Two real managers over real stores on disks that forget what was not synced; between them a network
that loses, repeats, reorders and breaks; producers and consumers that abort and vanish; machines
that lose their power or their process at any point of a turn. Everything is drawn from one seed and
happens in simulated time, so a failing world fails again:

    python -m tests.worlds.world SEED

When the producers are done the troubles end, and everything must come to rest with every promise
kept (`shadow`), nothing left behind in queue or heap, and the same state after one more restart.
"""

from __future__ import annotations

import random
import sys

from dray.manager.events import ManagerConfig, Peer
from dray.manager.notices import Notice, NoticeKind
from dray.manager.turn import QueueManager
from dray.model.names import DEFAULT_PORT
from dray.model.queue import QueueOptions
from dray.testing.promises import BrokenPromiseError
from dray.wire.peer_frames import EndCount
from tests.inspection import look_into
from tests.worlds.network import EXPENDABLE, Endpoint, Faults, Link, Schedule, chance_of
from tests.worlds.shadow import Shadow
from tests.worlds.simulated_client import SimClient
from tests.worlds.simulated_daemon import Canary, Chances, SimDaemon, opened_store
from tests.worlds.workload import Consumer, Producer

START = 1_700_000_000.0
TROUBLED_S_MAX = 20.0
LIMIT_S = 900.0
STEPS_MAX = 200_000
MANAGERS = ("a", "b")
CALM = Faults(delay_s=0.001)
TRANSACTIONS_PER_PRODUCER = 4
"""Small worlds: many of them reach further than few large ones in the same time."""
TIGHT = 0.3
"""Quotas of the queues in that share of the worlds: less than a frame or a transaction."""


OF_COPIES = frozenset(
    {
        NoticeKind.DIVERGED,
        NoticeKind.OLDER_COPY,
        NoticeKind.OTHER_COPY,
        NoticeKind.OTHER_MANAGER,
    }
)
"""Notices of a store that is an older copy of itself, or of two of them."""


class World:
    """One world."""

    limit_s = LIMIT_S
    run_with = ""
    """What the command that runs it again says besides the seed."""
    expendable = EXPENDABLE
    queue_files_every = 4
    """One world in so many keeps a file of each queue, as a daemon does; 0 is none."""

    def __init__(self, seed: int, canary: Canary | None = None) -> None:
        """Draw its troubles and populate it."""
        self.seed = seed
        self.queue_files = self.queue_files_every > 0 and seed % self.queue_files_every == 0
        self.canary = canary or Canary()
        self.rng = rng = random.Random(seed)
        self.schedule = Schedule(START)
        self.shadow = Shadow()
        self.troubled = True
        self.interrupted = False
        """Whether a consumer lost a connection on which it waited for an answer."""
        self.chances = Chances(
            kill=rng.choice([0, 0.003, 0.01]),
            power=rng.choice([0.0, 0.5, 1.0]),
            bad_sync=rng.choice([0, 0, 0.002]),
        )
        self.link_troubles = Faults(
            loss=rng.choice([0, 0, 0.05]),
            repetition=rng.choice([0, 0, 0.1]),
            reordering=rng.choice([0, 0, 0.1]),
            disconnection=rng.choice([0, 0.02]),
            stall=rng.choice([0, 0.02]),
            delay_s=rng.choice([0.001, 0.02]),
        )
        self.client_troubles = Faults(
            disconnection=rng.choice([0, 0.01, 0.03]), stall=rng.choice([0, 0.05]), delay_s=0.001
        )
        self.tight = rng.random() < TIGHT
        self.links: list[Link] = []
        self.daemons: dict[str, SimDaemon] = {}
        self.queues = {"plain": QueueOptions(), "large": QueueOptions()}
        self.populate()

    def populate(self) -> None:
        """Set up the machines and those who use them."""
        for name in MANAGERS:
            self.daemons[name] = SimDaemon(name, self)
        self.producers = [
            SimClient(f"producer {n} of {name}", name, self, self._producer(name).script)
            for n, name in enumerate(("a", "a", "b"), 1)
        ]
        self.consumers = [
            SimClient(f"consumer of {name}/{queue}", name, self, self._consumer(name, queue).script)
            for name in MANAGERS
            for queue in ("plain", "large")
        ]

    def _producer(self, name: str) -> Producer:
        """Send to both queues here and both there, over there more often."""
        other = MANAGERS[name == MANAGERS[0]]
        targets = [
            (queue, f"{name}/{queue}", queue == "large") for queue in ("plain", "large")
        ] + 2 * [
            (f"dray://{other}:{DEFAULT_PORT}/{queue}", f"{other}/{queue}", queue == "large")
            for queue in ("plain", "large")
        ]
        return Producer(self.shadow, targets, TRANSACTIONS_PER_PRODUCER)

    def _consumer(self, name: str, queue: str) -> Consumer:
        return Consumer(self.shadow, queue, f"{name}/{queue}", large=queue == "large")

    # ---------------------------------------------------------------- what its inhabitants ask

    @property
    def link_faults(self) -> Faults:
        """The faults of a new link between managers."""
        return self.link_troubles if self.troubled else CALM

    @property
    def client_faults(self) -> Faults:
        """The faults of a new link of a client."""
        return self.client_troubles if self.troubled else CALM

    @property
    def steps_max(self) -> int:
        """After so many steps it will not come to rest."""
        return STEPS_MAX

    def unlucky(self, chance: float) -> bool:
        """Whether a trouble strikes now."""
        return self.troubled and chance_of(self.rng, chance)

    def routes_of(self, name: str) -> dict[Peer, Peer]:  # noqa: ARG002 - worlds with hops look
        """Over which managers one sends what is for others."""
        return {}

    def impostor(self, caller: SimDaemon, peer: Peer) -> Link | None:  # noqa: ARG002 - see ForgedWorld
        """Have somebody answer at the address of a manager that is down."""
        return None

    def connect(self, dialler: Endpoint, listener: Endpoint, faults: Faults) -> Link:
        """Make a connection."""
        ends, expendable = (dialler, listener), self.expendable
        link = Link(ends, self.schedule, self.rng, faults, expendable=expendable)
        self.links = [each for each in self.links if each.open]
        self.links.append(link)
        return link

    def told_of_ends(self, daemon: SimDaemon, counts: list[EndCount]) -> None:
        """Hear how many messages a destination says have ended."""

    def noticed(self, daemon: SimDaemon, notices: list[Notice]) -> None:
        """Judge what a manager tells its operator: no store here was ever copied or lost.

        A crash between log and file leaves a queue's file missing or old (docs/formats/lqs.md). A
        power failure in a sync leaves its group in doubt (docs/explanation/recovery.md). Receivers
        of this world reject large messages with a hole, and the source is warned of each.
        """
        overtaking = self.link_troubles.reordering or self.link_troubles.repetition
        for notice in notices:
            if notice.kind == NoticeKind.QUEUE_FILE and daemon.restarts:
                continue
            if notice.kind == NoticeKind.AT_START and "in doubt" in notice.sentence:
                continue
            if notice.kind == NoticeKind.ENDED_REJECTED:
                continue
            if notice.kind in OF_COPIES or not overtaking:
                raise BrokenPromiseError(f"{daemon.name} noticed: {notice}")

    def troubles(self) -> set[str]:
        """Which troubles struck."""
        return set(self.schedule.struck)

    # ---------------------------------------------------------------------------- its life

    def run(self) -> str:
        """Live through the troubles and come to rest. Gives the digest."""
        try:
            self.live()
            self.judge()
            for daemon in self.daemons.values():
                self._inspect(daemon)
        except Exception as error:
            module = sys.modules[type(self).__module__].__spec__
            name = module.name if module else type(self).__module__
            error.add_note(f"run it again: python -m {name} {self.seed}{self.run_with}")
            raise
        return self.schedule.digest()

    def judge(self) -> None:
        """Hold what clients saw against what they were promised."""
        self.shadow.check(holes_may_be_lost=self.interrupted)

    def live(self) -> None:
        """Go on until nothing is left to happen; the troubles end with the last producer."""
        at_work, schedule = list(self.producers), self.schedule
        calm_at, end = START + TROUBLED_S_MAX, START + self.limit_s
        for _ in range(self.steps_max):
            if self.troubled:
                while at_work and at_work[-1].done:
                    at_work.pop()
                if not at_work or schedule.now > calm_at:
                    self.calm_down()
            if not schedule.step():
                return
            if schedule.now > end:
                break
        raise BrokenPromiseError("the world does not come to rest")

    def calm_down(self) -> None:
        """End the troubles."""
        self.troubled = False
        self.schedule.happened("calm")
        for link in self.links:
            link.faults = CALM

    def _inspect(self, daemon: SimDaemon) -> None:
        """Nothing is left behind, and a restart finds the same state."""
        state = look_into(daemon.manager).state
        left = {queue.name: len(queue.index) for queue in state.queues if len(queue.index)}
        counted = {**state.ledger.stored, **state.ledger.staged}
        if left or any(state.ledger.stored.values()) or any(state.ledger.staged.values()):
            raise BrokenPromiseError(f"{daemon.name} keeps {left}, counted as {counted}")
        if len(state.stream_ends) or state.arrival_routes.any_going:
            raise BrokenPromiseError(
                f"{daemon.name} waits for more of {state.arrival_routes.going_state()}, and for"
                f" {len(state.stream_ends)} to hear of an end"
            )
        daemon.store.sync()
        if daemon.store.live_bytes:
            raise BrokenPromiseError(f"{daemon.name} leaks {daemon.store.live_bytes} heap bytes")
        before = daemon.manager.snapshot()
        store = opened_store(daemon.disk.kill(), self)
        config = ManagerConfig(manager_id="")
        after = QueueManager.load(store, config, daemon.now).snapshot()
        # The visits of peers, which are counted with the incoming streams, are not durable.
        if b"".join(before.state) != b"".join(after.state):
            raise BrokenPromiseError(f"{daemon.name} is not the same after a restart")


if __name__ == "__main__":
    sys.stdout.write(f"{World(int(sys.argv[1])).run()}\n")
