"""Worlds of two to four managers in which senders ask for everything, and everything goes wrong.

Besides the troubles of `world`: partitions, one-way too, which hold back what is under way without
a word; clocks that disagree and jump; messages that expire, are purged, rejected, moved aside,
sent to queues that are full, missing or of the other kind; transactions in two phases that another
client settles. Some managers reach others over one that forwards, some have a queue that is
deleted and made again under traffic, and some delete the outgoing queues that lead to one.
`message_ends` predicts what must become of every message.

    python -m tests.worlds.manager_world SEED [--swarm]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator

from dray.manager.events import Peer
from dray.manager.notices import Notice
from dray.model.names import DEFAULT_PORT
from dray.model.queue import QueueOptions
from dray.testing.promises import BrokenPromiseError
from dray.wire.peer_frames import Data, EndCount, OpenStream, Passed
from dray.wire.queue_frames import ListQueues, QueueList
from tests.worlds.bystanders import Auditor, Closer, Meddler, Remaker, Settler
from tests.worlds.manager_plan import Plan, large_plan, swarm_plan
from tests.worlds.manager_workload import ManagerProducer, Taker, Target
from tests.worlds.message_ends import MessageEnds
from tests.worlds.network import Endpoint, Faults, Link
from tests.worlds.simulated_client import Script, SimClient
from tests.worlds.simulated_daemon import SimDaemon
from tests.worlds.world import OF_COPIES, World

SMALL_QUOTA = 1200
SMALL_STEPS_MAX = 10_000
TAKEN = ("plain", "small", "passing", "leaving")
OWN_QUEUES = ("acks", "system$;deadxact", "system$;deadletter", "system$;journal")
"""What managers put messages into themselves; auditors read it."""


class ManagerWorld(World):
    """One world."""

    # What is to expire by a clock that was set back, and then read anew at a start, waits longer.
    limit_s = 4 * 3600.0
    # Which ends the worlds of a test meet hangs on every write.
    queue_files_every = 0

    def __init__(self, seed: int, plan: Plan | None = None) -> None:
        """Populate it after a plan; without one it is a large world, and draws its own."""
        self._given = plan
        self.run_with = " --swarm" if plan else ""
        super().__init__(seed)

    def populate(self) -> None:
        """Set up the machines and those who use them."""
        self.plan = plan = self._given or large_plan(self.rng, self.seed)
        self.message_ends = MessageEnds()
        self.message_ends.clocks_jump = plan.jumps > 0
        self.doubts = 0
        """Takers whose transaction may be prepared."""
        self.tight = False
        self.chances = plan.chances or self.chances
        self.client_troubles = plan.client_troubles or self.client_troubles
        # Confirmations lean on what TCP promises, unlike the streams they follow.
        unlike_tcp = {"loss": 0.0, "repetition": 0.0, "reordering": 0.0}
        self.link_troubles = plan.link_troubles or self.link_troubles._replace(**unlike_tcp)
        self.expendable = frozenset({Data, OpenStream, Passed})
        options = {"small": QueueOptions(quota=SMALL_QUOTA)}
        options["loose"] = QueueOptions(transactional=False)
        options["acks"] = QueueOptions(transactional=plan.acks_transactional)
        made = ("plain", *(each for each in ("small", "loose") if each in plan.queues), "acks")
        made += tuple(each for each in ("passing", "leaving") if each in plan.queues)
        self.queues = {each: options.get(each, QueueOptions()) for each in made}
        self._dammed: list[tuple[str, str]] = []
        self._ends: dict[Link, tuple[str, str]] = {}
        for name in plan.names:
            self.daemons[name] = SimDaemon(name, self)
            if plan.skews:
                self.daemons[name].skew_s = self.rng.choice([0.0, -3000.0, 86_400.0])
        self._send_clients_in()
        self._plan_troubles()

    def _send_clients_in(self) -> None:
        plan = self.plan
        self.producers = [
            SimClient(f"producer of {name}", name, self, self._producer(name, targets).script)
            for name in plan.senders
            for targets in (self._targets(name),)
            if any(each.queue != "loose" or each.manager != name for each in targets)
        ]
        self.consumers = [
            SimClient(f"taker of {name}/{queue}", name, self, taker.script)
            for name in plan.receivers
            for queue in self._taken()
            for taker in (Taker(self, f"{name}/{queue}", queue),)
        ]
        self.others = [
            SimClient(f"{what} of {name}", name, self, script)
            for name in plan.names
            for what, script in self._bystanders(name)
        ]

    def _taken(self) -> list[str]:
        """The queues that takers read, with their sub-queues if messages are moved."""
        there = [each for each in TAKEN if each in self.plan.queues]
        if not self.plan.moves:
            return there
        asides = {each: f"{each};aside" for each in there}
        usual = [name for each in there if each in TAKEN[:2] for name in (each, asides[each])]
        others = [each for each in there if each not in TAKEN[:2]]
        return [*usual, *others, *(asides[each] for each in others)]

    def _bystanders(self, name: str) -> Iterator[tuple[str, Callable[[SimClient], Script]]]:
        plan = self.plan
        at_work = name in plan.senders or name in plan.receivers
        if at_work and plan.prepares:
            yield "settler", Settler(self).script
        if at_work and (plan.pauses or plan.purges):
            yield "meddler", Meddler(self, name, self._plain_elsewhere(name)).script
        if plan.remade and name in plan.receivers:
            yield "remaker", Remaker(name, self).script
        if self._may_close(name):
            yield "closer", self._closer(name).script
        if plan.is_large:
            for queue in (OWN_QUEUES[0], "loose", *OWN_QUEUES[1:]):
                yield f"auditor of {queue}", Auditor(self, name, queue).script
        elif "loose" in plan.queues and name in plan.receivers:
            yield "auditor of loose", Auditor(self, name, "loose").script

    def routes_of(self, name: str) -> dict[Peer, Peer]:
        """Over the depot, if there is one."""
        if not self.plan.depot or name == self.plan.depot:
            return {}
        depot = Peer(self.plan.depot, DEFAULT_PORT)
        goals = (Peer(far, DEFAULT_PORT) for far in self.plan.far(name))
        return {goal: depot for goal in goals if goal != depot}

    @property
    def steps_max(self) -> int:
        """Fewer in a small world, of which the longest of a thousand took 3,400."""
        most = super().steps_max
        return most if self.plan.is_large else min(most, SMALL_STEPS_MAX)

    def administration_queue(self, manager: str, at: str) -> str:
        """The name at `manager` of the administration queue that is at another, or here."""
        return "acks" if at == manager else self._address(at, "acks")

    @property
    def settled(self) -> bool:
        """Whether nobody can have prepared anything that is not settled."""
        idle = all(producer.done for producer in self.producers) and not self.doubts
        return idle and not self.troubled

    def connect(self, dialler: Endpoint, listener: Endpoint, faults: Faults) -> Link:
        """Make a connection; in a partition not everything on it arrives."""
        link = super().connect(dialler, listener, faults)
        if isinstance(dialler, SimDaemon) and isinstance(listener, SimDaemon):
            self._ends = {each: ends for each, ends in self._ends.items() if each.open}
            self._ends[link] = (dialler.name, listener.name)
            self._dam(link)
        return link

    def told_of_ends(self, daemon: SimDaemon, counts: list[EndCount]) -> None:
        """Count what is said of messages that the manager's own clients sent."""
        own = ("", daemon.manager_id)
        for each in counts:
            if each.origin in own:
                self.message_ends.told_of(daemon.name, each.message_class, each.count)

    def noticed(self, daemon: SimDaemon, notices: list[Notice]) -> None:
        """Judge what a manager tells its operator: no store here was ever copied or lost."""
        for notice in notices:
            if notice.kind in OF_COPIES:
                raise BrokenPromiseError(f"{daemon.name} noticed: {notice}")

    def calm_down(self) -> None:
        """End the troubles, partitions too."""
        super().calm_down()
        while self._dammed:
            self._heal(self._dammed[0])

    def live(self) -> None:
        """Come to rest, then look into what managers put aside."""
        super().live()
        if not self.plan.is_large:
            self.others += [
                SimClient(f"auditor of {name}", name, self, self._audit(name))
                for name in self.plan.names
            ]
            super().live()

    def _audit(self, name: str) -> Callable[[SimClient], Script]:
        def script(client: SimClient) -> Script:
            yield from client.connect()
            reply = yield from client.call(ListQueues())
            assert isinstance(reply.head, QueueList)
            for queue in reply.head.queues:
                if queue.name in OWN_QUEUES and queue.message_count:
                    auditor = Auditor(self, name, queue.name)
                    yield from auditor.last_look(client, queue.message_count)

        return script

    def troubles(self) -> set[str]:
        """Which troubles struck, and what else there was to deal with."""
        plan = self.plan
        there = {
            "clocks that disagree": any(each.skew_s for each in self.daemons.values()),
            "a manager that forwards": bool(plan.depot),
            "a queue made again": plan.remade,
            "a deleted outgoing queue": bool(self.message_ends.abandoned),
            "two phases": plan.prepares,
        }
        return super().troubles() | {trouble for trouble, is_there in there.items() if is_there}

    def judge(self) -> None:
        """Hold what clients saw against what must become of messages."""
        self.message_ends.check()

    def _may_close(self, name: str) -> bool:
        """Whether a manager deletes outgoing queues: not one that forwards.

        Then word of what it has passed on never comes back, which only limits of time can end.
        """
        sends = name in self.plan.senders and bool(self._receivers_beside(name))
        return self.plan.closes and sends and name != self.plan.depot

    def _closer(self, name: str) -> Closer:
        far = self._receivers_beside(name)
        return Closer(self, name, [(self._address(each, "leaving"), each) for each in far])

    def _plain_elsewhere(self, name: str) -> list[str]:
        return [self._address(far, "plain") for far in self._receivers_beside(name)]

    def _receivers_beside(self, name: str) -> list[str]:
        return [each for each in self.plan.receivers if each != name]

    @staticmethod
    def _address(manager: str, queue: str) -> str:
        return f"dray://{manager}:{DEFAULT_PORT}/{queue}"

    def _targets(self, name: str) -> list[Target]:
        """What a manager's producer sends to: remote queues, and its own if it is a receiver."""
        plan, beside = self.plan, self._receivers_beside(name)
        near = [Target(queue, name, queue) for queue in ("plain", "small", "loose")]
        near.append(Target(self._address(name, "plain"), name, "plain"))
        far = [
            Target(self._address(other, queue), other, queue)
            for other in beside
            for queue in ("plain", "plain", "small", "loose", "missing")
        ]
        far += [
            Target(self._address(other, queue), other, queue)
            for queue in ("passing", "leaving")
            for other in beside
        ]
        there = [*near, *far] if name in plan.receivers else far
        return [each for each in there if each.queue in plan.queues]

    def _producer(self, name: str, targets: list[Target]) -> ManagerProducer:  # type: ignore[override]
        return ManagerProducer(self, name, targets, self.plan.transactions)

    # ------------------------------------------------------------------------------- troubles

    def _plan_troubles(self) -> None:
        rng, plan = self.rng, self.plan
        for _ in range(rng.randrange(plan.partitions + 1)):
            self.schedule.after(rng.uniform(0.0, plan.struck_within_s), self._part)
        for _ in range(plan.jumps):
            self.schedule.after(rng.uniform(0.0, plan.struck_within_s), self._jump)

    def _jump(self) -> None:
        daemon = self.daemons[self.rng.choice(self.plan.names)]
        if self.troubled:
            daemon.skew_s += self.rng.choice([-3600.0, -5.0, 5.0, 3600.0])
            self.schedule.happened("jump", daemon.name, daemon.skew_s)
            self.schedule.struck["clock jump"] += 1

    def _part(self) -> None:
        """Part two managers for a while, one way or both."""
        one, other = self.rng.sample(self.plan.names, 2)
        ways = [(one, other), (other, one)][: self.rng.randint(1, 2)]
        for way in ways:
            if self.troubled and way not in self._dammed:
                self.schedule.happened("part", way)
                self.schedule.struck["partition" if len(ways) > 1 else "one-way partition"] += 1
                self._dammed.append(way)
                self.schedule.after(
                    self.rng.uniform(0.5, 8.0),
                    lambda way=way: self._heal(way),  # type: ignore[misc]
                )
        for link in list(self._ends):
            self._dam(link)

    def _dam(self, link: Link) -> None:
        dialler, listener = self._ends[link]
        for to, way in ((1, (dialler, listener)), (0, (listener, dialler))):
            if way in self._dammed:
                link.dam(to)

    def _heal(self, way: tuple[str, str]) -> None:
        """Let through what was held back, unless a side has given the connection up."""
        if way not in self._dammed:
            return
        self.schedule.happened("heal", way)
        self._dammed.remove(way)
        for link, ends in list(self._ends.items()):
            if set(ends) == set(way):
                if self.rng.random() < 0.5:
                    link.cut()
                link.open_dams()
                self._dam(link)


def swarm_world(seed: int) -> ManagerWorld:
    """The world of the swarm that has this seed; some are large ones."""
    return ManagerWorld(seed, swarm_plan(seed))


def main() -> None:
    """Live one world."""
    parser = argparse.ArgumentParser(prog="python -m tests.worlds.manager_world")
    parser.add_argument("seed", type=int)
    parser.add_argument("--swarm", action="store_true", help="the world of the swarm, not a large")
    options = parser.parse_args()
    world = (swarm_world if options.swarm else ManagerWorld)(options.seed)
    sys.stdout.write(f"{world.run()}\n")


if __name__ == "__main__":
    main()
