"""Seeded worlds of one offered file: both cores under loss, repetition, disorder, delay and kills.

The world is the shell: it keeps what the cores want kept, carries what they say, and takes their
memory away when it kills them. Beside them stands a shadow: what each consumer's file must be. It
judges every step (fragments in order, never more than the window under way, nothing before a
handshake, nothing lost by a kill) and after a last quiet phase that everyone has everything.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from dray.machine import Tick
from dray.model.transfer import TransferState
from dray.transfer.consumer import Consumer
from dray.transfer.discovery import Discovery
from dray.transfer.events import (
    Begin,
    Cancel,
    Check,
    Checked,
    CheckSource,
    ConsumerEvent,
    Disconnected,
    FragmentCame,
    Heard,
    ProducerEffect,
    ProducerEvent,
    Resume,
    Room,
    SendFragment,
    SourceChecked,
    StartOver,
    Suspend,
    Tell,
    Terms,
    WriteFragment,
)
from dray.transfer.producer import Producer
from dray.wire.transfer_frames import AnyMessage, Cancelled, Fragment, Handshake
from tests.worlds.network import chance_of

_STEPS_MAX = 60_000
_QUIET_S = 200.0
"""Longer than silence and every retry: whoever can finish has finished by then."""


class Faults(NamedTuple):
    """How bad the line is, and how often somebody dies, in each second."""

    lose: float
    repeat: float
    damage: float
    delay_s: float
    kill: float
    interfere: float
    spoil: float


def draw_faults(rng: random.Random) -> Faults:
    """Draw how bad a world is; one in five has a perfect line."""
    if chance_of(rng, 0.2):
        return Faults(0, 0, 0, 0.01, 0, 0, 0)
    return Faults(
        lose=rng.choice((0, 0.01, 0.1, 0.3)),
        repeat=rng.choice((0, 0.05, 0.3)),
        damage=rng.choice((0, 0, 0.05)),
        delay_s=rng.choice((0.001, 0.05, 0.5)),
        kill=rng.choice((0, 0.02, 0.1)),
        interfere=rng.choice((0, 0.05)),
        spoil=rng.choice((0, 0, 0.3)),
    )


class End:
    """A consumer and its disk: a file and the little that is kept beside it."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.core: Consumer | None = None
        self.file: list[int] = []
        self.published = False
        self.spoilt = False
        self.cancelled = False
        self.refused = False
        self.handshakes = 0


class TransferWorld:
    """One offer, its consumers, and the line between them."""

    def __init__(self, seed: int) -> None:
        """Draw everything from the seed."""
        self.rng = random.Random(seed)
        self.now = 1_000.0
        self.faults = draw_faults(self.rng)
        fragments = self.rng.choice((0, 1, 2, 7, 40))
        window = self.rng.choice((1, 2, 5, 50))
        self.terms = Terms(max(0, fragments * 10 - 3), 10, window)
        self.many = chance_of(self.rng, 0.5)
        self.digest = hashlib.sha256()
        self.peak = 0
        self.kills = self.resent = 0
        self._quiet = False
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._kept: dict[str, tuple[str, int, TransferState]] = {}
        self._discovery_until = self.now + 5.0
        self._discovered = False
        self.producer: Producer | None = None
        count = self.rng.randint(1, 4) if self.many else self.rng.randint(1, 2)
        self.ends = {key: End(key) for key in (f"c{number}" for number in range(count))}

    def run(self) -> None:
        """Run it to its end, judge it."""
        self._start_producer()
        for end in self.ends.values():
            self._after(self.rng.uniform(0, 4), partial(self._start_consumer, end))
        self._after(1.0, self._mischief)
        quiet_from = self.now + self.rng.uniform(5, 60)
        self._until(quiet_from)
        self._calm()
        self._until(self.now + _QUIET_S)
        self._calm()
        self._until(self.now + _QUIET_S)
        self._judge()

    # ----------------------------------------------------------------------------------- time

    def _after(self, delay: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self.now + delay, next(self._order), act))

    def _until(self, end: float) -> None:
        for _ in range(_STEPS_MAX):
            at = self._due[0][0] if self._due else end
            timers = [at, *self._deadlines()]
            at = min(timers)
            if at >= end:
                self.now = end
                return
            self.now = max(self.now, at)
            if self._due and self._due[0][0] <= self.now:
                heapq.heappop(self._due)[2]()
            else:
                self._tick()
        raise AssertionError("the world does not come to rest")

    def _deadlines(self) -> list[float]:
        cores = [self.producer, *(end.core for end in self.ends.values())]
        found = [core.deadline() for core in cores if core is not None]
        return [at for at in found if at is not None]

    def _tick(self) -> None:
        if self.producer is not None:
            at = self.producer.deadline()
            if at is not None and at <= self.now:
                self._give_producer(Tick())
        for end in self.ends.values():
            at = end.core.deadline() if end.core is not None else None
            if at is not None and at <= self.now:
                self._give_consumer(end, Tick())

    # ----------------------------------------------------------------------------------- runs

    def _start_producer(self) -> None:
        discovery = Discovery(many=self.many, until=self._discovery_until)
        self.producer = Producer(self.terms, discovery)
        for key, (consumer_id, start, state) in self._kept.items():
            self.producer.restore(key, consumer_id, start, state)

    def _start_consumer(self, end: End) -> None:
        if end.cancelled or end.refused:
            return
        end.core = Consumer(
            end.key, "t", self.terms, expected=len(end.file), verified=end.published
        )
        self._give_consumer(end, Begin())

    def _mischief(self) -> None:
        if self._quiet:
            return
        faults, rng = self.faults, self.rng
        if chance_of(rng, faults.kill) and self.producer is not None:
            self.kills += 1
            self.producer = None
            self._after(rng.uniform(0.1, 5), self._start_producer)
        for end in self.ends.values():
            if end.core is None:
                continue
            if chance_of(rng, faults.kill):
                self.kills += 1
                end.core = None
                self._after(rng.uniform(0.1, 5), partial(self._start_consumer, end))
            elif chance_of(rng, faults.interfere):
                self._interfere(end)
        self._after(1.0, self._mischief)

    def _interfere(self, end: End) -> None:
        what = self.rng.choice(("suspend", "resume", "there", "back", "lost", "cancel"))
        if what == "suspend":
            self._give_consumer(end, Suspend())
        elif what == "resume":
            self._give_consumer(end, Resume())
        elif what == "there":
            self._give_producer(Suspend(self.rng.choice(("", end.key))))
        elif what == "back":
            self._give_producer(Resume(self.rng.choice(("", end.key))))
        elif what == "lost":
            self._give_producer(Disconnected(end.key))
            self._give_consumer(end, Disconnected(""))
        elif chance_of(self.rng, 0.2) and not end.published:
            end.cancelled = True
            self._give_consumer(end, Cancel())

    def _calm(self) -> None:
        """A perfect line and no more mischief; whoever was killed or held goes on."""
        self._quiet = True
        self.faults = Faults(0, 0, 0, 0.01, 0, 0, 0)
        if self.producer is None:
            self._start_producer()
        self._give_producer(Resume())
        for end in self.ends.values():
            core = end.core
            if core is None or core.state is TransferState.TIMED_OUT or self._unheard(core):
                self._start_consumer(end)
            else:
                self._give_consumer(end, Resume())

    def _unheard(self, core: Consumer) -> bool:
        """Whether a file is there and its producer may not know."""
        return core.state is TransferState.DONE and not core.farewell

    # ---------------------------------------------------------------------------------- the line

    def _carry(self, act: Callable[[], None]) -> None:
        if chance_of(self.rng, self.faults.lose):
            return
        copies = 2 if chance_of(self.rng, self.faults.repeat) else 1
        for _ in range(copies):
            self._after(self.rng.expovariate(1 / self.faults.delay_s), act)

    def _give_producer(self, event: ProducerEvent) -> None:
        producer = self.producer
        if producer is None:
            return
        self._act_producer(producer, producer.handle(event, self.now))
        for key, copy in producer.copies.items():
            self.peak = max(self.peak, copy.window.peak)
            assert copy.window.peak <= self.terms.window_size
            if copy.state is TransferState.SENDING:
                self._after(0.0, partial(self._give_producer, Room(key)))

    def _act_producer(self, producer: Producer, effects: Sequence[ProducerEffect]) -> None:
        for effect in effects:
            self._note(effect)
            match effect:
                case Tell(message):
                    self._carry(partial(self._to_consumer, message))
                case SendFragment(key, number):
                    assert self.ends[key].handshakes, "a fragment before any handshake"
                    intact = not chance_of(self.rng, self.faults.damage)
                    piece = Fragment(key, number, int(intact))
                    self._carry(partial(self._to_consumer, piece))
                case CheckSource(key):
                    self._after(0.5, partial(self._give_producer, SourceChecked(key)))
                case _:
                    self._kept = {
                        key: (copy.consumer_id, copy.window.base, copy.state)
                        for key, copy in producer.copies.items()
                    }

    def _to_consumer(self, message: AnyMessage) -> None:
        end = self.ends[message.key]
        if isinstance(message, Fragment):
            size = self.terms.length(message.number)
            self._give_consumer(end, FragmentCame(message.number, size, bool(message.crc)))
        else:
            self._give_consumer(end, Heard(message))

    def _give_consumer(self, end: End, event: ConsumerEvent) -> None:
        if end.core is None:
            return
        for effect in end.core.handle(event, self.now):
            self._note(effect)
            match effect:
                case Tell(message):
                    if isinstance(message, Handshake):
                        end.handshakes += 1
                        assert message.expected == len(end.file), "a kill cost what was there"
                    # That it was cancelled is said on a way that is there, or nobody hears it.
                    carry = self._at_once if isinstance(message, Cancelled) else self._carry
                    carry(partial(self._give_producer, Heard(message)))
                case WriteFragment(number):
                    assert number == len(end.file), "fragments are written in order"
                    end.file.append(number)
                case StartOver():
                    end.file.clear()
                    end.spoilt = False
                case Check():
                    self._after(0.3, partial(self._check, end, end.core))
                case _:
                    end.refused = end.core.state is TransferState.FAILED

    def _at_once(self, act: Callable[[], None]) -> None:
        self._after(0.0, act)

    def _check(self, end: End, core: Consumer) -> None:
        if end.core is not core:
            return
        end.spoilt = chance_of(self.rng, self.faults.spoil)
        end.published = end.published or not end.spoilt
        self._give_consumer(end, Checked(not end.spoilt))

    def _note(self, effect: object) -> None:
        self.digest.update(f"{self.now:.6f} {effect}".encode())

    # ---------------------------------------------------------------------------------- judging

    def _judge(self) -> None:
        assert self.producer is not None
        wanted = list(range(self.terms.fragment_count))
        done = 0
        for key, end in self.ends.items():
            copy = self.producer.copies.get(key)
            if end.refused or end.cancelled:
                assert not end.published or not end.refused
                continue
            if copy is None:
                assert end.core is None or end.core.state is not TransferState.DONE
                continue
            done += 1
            assert end.published, (
                f"{key} never finished: {end.core and (end.core.stage, end.core.state)}"
            )
            assert end.file == wanted
            assert copy.state is TransferState.DONE, f"{key} is {copy.state} at the producer"
        if not self.many:
            assert done <= 1, "more than one consumer"
        self.resent = sum(copy.window.resent for copy in self.producer.copies.values())
        if done and not any(end.cancelled or end.refused for end in self.ends.values()):
            assert self.producer.state is TransferState.DONE
