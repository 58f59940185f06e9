"""Worlds of two to four managers in which senders ask for everything, and everything goes wrong.

Besides the troubles of `world`: partitions, one-way too, which hold back what is under way without
a word; clocks that disagree and jump; messages that expire, are purged, rejected, moved aside,
sent to queues that are full, missing or of the other kind; transactions in two phases that another
client settles. Some managers reach others over one that forwards, some have a queue that is
deleted and made again under traffic, and some delete the outgoing queues that lead to one.
`fates` predicts what must become of every message.

    python -m dray.testing.fate_world SEED
"""

from __future__ import annotations

import sys

from dray.manager.events import Peer
from dray.model.names import DEFAULT_PORT
from dray.model.queue import QueueOptions
from dray.testing.fate_bystanders import Auditor, Closer, Meddler, Remaker, Settler
from dray.testing.fate_workload import FateProducer, Taker, Target
from dray.testing.fates import Fates
from dray.testing.network import Endpoint, Faults, Link
from dray.testing.shadow import BrokenPromiseError
from dray.testing.simulated_client import SimClient
from dray.testing.simulated_daemon import SimDaemon
from dray.testing.world import TROUBLED_S_MAX, World

NAMES = ("a", "b", "c", "d")
TRANSACTIONS = 5
SMALL_QUOTA = 1200
SMALLEST = 2
TAKEN = ("plain", "plain;aside", "small", "small;aside")
PARTITIONS, JUMPS = 3, 2
CLOSING = 5
"""One world in so many; not drawn, so that the others stay what they were."""
AUDITED = ("acks", "loose", "system$;deadxact", "system$;deadletter", "system$;journal")


class FateWorld(World):
    """One world."""

    # What is to expire by a clock that was set back, and then read anew at a start, waits longer.
    limit_s = 4 * 3600.0
    # Which ends the worlds of a test meet hangs on every write.
    queue_files_every = 0

    def populate(self) -> None:
        """Set up the machines and those who use them."""
        rng = self.rng
        self.fates = Fates()
        self.doubts = 0
        """Takers whose transaction may be prepared."""
        self.names = NAMES[: rng.randint(2, len(NAMES))]
        self.purges = rng.random() < 0.3  # noqa: PLR2004 - a share
        self.fates.clocks_jump = rng.random() < 0.3  # noqa: PLR2004 - a share
        self.tight = False
        self.depot = rng.choice([*self.names, "", ""]) if len(self.names) > SMALLEST else ""
        """The manager over which all others reach each other, if it is not directly."""
        self.remade = rng.random() < 0.3  # noqa: PLR2004 - a share
        self.closes = self.seed % CLOSING == CLOSING - 1
        """Whether outgoing queues are deleted while they carry something."""
        # Confirmations lean on what TCP promises, unlike the streams they follow.
        self.link_troubles = self.link_troubles._replace(loss=0, repetition=0, reordering=0)
        self.queues = {
            "plain": QueueOptions(),
            "small": QueueOptions(quota=SMALL_QUOTA),
            "loose": QueueOptions(transactional=False),
            "acks": QueueOptions(transactional=rng.random() < 0.5),  # noqa: PLR2004 - a share
        }
        if self.remade:
            self.queues["passing"] = QueueOptions()
        if self.closes:
            self.queues["leaving"] = QueueOptions()
        taken = [*TAKEN, *(each for each in ("passing", "leaving") if each in self.queues)]
        self._dammed: list[tuple[str, str]] = []
        self._ends: dict[Link, tuple[str, str]] = {}
        for name in self.names:
            self.daemons[name] = SimDaemon(name, self)
            self.daemons[name].skew_s = rng.choice([0.0, -3000.0, 86_400.0])
        self.producers = [
            SimClient(f"producer of {name}", name, self, self._producer(name).script)
            for name in self.names
        ]
        self.consumers = [
            SimClient(f"taker of {name}/{queue}", name, self, taker.script)
            for name in self.names
            for queue in (*taken, *(f"{each};aside" for each in taken[len(TAKEN) :]))
            for taker in (Taker(self, f"{name}/{queue}", queue),)
        ]
        self.others = [
            SimClient(f"{what} of {name}", name, self, script)
            for name in self.names
            for what, script in (
                ("settler", Settler(self).script),
                ("meddler", Meddler(self, name, self._plain_elsewhere(name)).script),
                *((("remaker", Remaker(name, self).script),) if self.remade else ()),
                *((("closer", self._closer(name).script),) if self._may_close(name) else ()),
                *((f"auditor of {queue}", Auditor(self, name, queue).script) for queue in AUDITED),
            )
        ]
        self._plan_troubles()

    def routes_of(self, name: str) -> dict[Peer, Peer]:
        """Over the depot, if there is one."""
        if not self.depot or name == self.depot:
            return {}
        depot = Peer(self.depot, DEFAULT_PORT)
        goals = (Peer(far, DEFAULT_PORT) for far in self._far(name))
        return {goal: depot for goal in goals if goal != depot}

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

    def noticed(self, daemon: SimDaemon, notices: list[str]) -> None:
        """Judge what a manager tells its operator: no store here was ever copied or lost."""
        for notice in notices:
            if "Diverged" in notice:
                raise BrokenPromiseError(f"{daemon.name} noticed: {notice}")

    def calm_down(self) -> None:
        """End the troubles, partitions too."""
        super().calm_down()
        while self._dammed:
            self._heal(self._dammed[0])

    def judge(self) -> None:
        """Hold what clients saw against what must become of messages."""
        self.fates.check()

    def _far(self, name: str) -> list[str]:
        return [each for each in self.names if each != name]

    def _may_close(self, name: str) -> bool:
        """Whether a manager deletes outgoing queues: not one that forwards.

        Then word of what it has passed on never comes back, which only limits of time can end.
        """
        return self.closes and name != self.depot

    def _closer(self, name: str) -> Closer:
        return Closer(self, name, [(self._address(far, "leaving"), far) for far in self._far(name)])

    def _plain_elsewhere(self, name: str) -> list[str]:
        return [self._address(far, "plain") for far in self._far(name)]

    @staticmethod
    def _address(manager: str, queue: str) -> str:
        return f"dray://{manager}:{DEFAULT_PORT}/{queue}"

    def _producer(self, name: str) -> FateProducer:  # type: ignore[override]
        near = [Target(queue, name, queue) for queue in ("plain", "small", "loose")]
        near.append(Target(self._address(name, "plain"), name, "plain"))
        far = [
            Target(self._address(other, queue), other, queue)
            for other in self._far(name)
            for queue in ("plain", "plain", "small", "loose", "missing")
        ]
        far += [
            Target(self._address(other, queue), other, queue)
            for queue in ("passing", "leaving")
            if queue in self.queues
            for other in self._far(name)
        ]
        return FateProducer(self, name, near + far, TRANSACTIONS)

    # ------------------------------------------------------------------------------- troubles

    def _plan_troubles(self) -> None:
        rng = self.rng
        for _ in range(rng.randrange(PARTITIONS + 1)):
            self.schedule.after(rng.uniform(0.0, TROUBLED_S_MAX / 2), self._part)
        if self.fates.clocks_jump:
            for _ in range(JUMPS):
                self.schedule.after(rng.uniform(0.0, TROUBLED_S_MAX / 2), self._jump)

    def _jump(self) -> None:
        daemon = self.daemons[self.rng.choice(self.names)]
        if self.troubled:
            daemon.skew_s += self.rng.choice([-3600.0, -5.0, 5.0, 3600.0])
            self.schedule.happened("jump", daemon.name, daemon.skew_s)

    def _part(self) -> None:
        """Part two managers for a while, one way or both."""
        one, other = self.rng.sample(self.names, 2)
        ways = [(one, other), (other, one)][: self.rng.randint(1, 2)]
        for way in ways:
            if self.troubled and way not in self._dammed:
                self.schedule.happened("part", way)
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
                if self.rng.random() < 0.5:  # noqa: PLR2004 - a share
                    link.cut()
                link.open_dams()
                self._dam(link)


if __name__ == "__main__":
    sys.stdout.write(f"{FateWorld(int(sys.argv[1])).run()}\n")
