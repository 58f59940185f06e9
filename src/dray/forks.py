"""Processes made by fork: what a child must leave to its parent.

A child of `os.fork` begins with a copy of every object and shares every descriptor with its parent,
but it has none of its parent's threads. So three things happen in a child before it goes on:

* /dev/null takes the place of each descriptor that was given to `keep_from_children`: whatever runs
  in the child, also its garbage collection, nothing of it reaches a socket, a lock or a file of the
  parent. The parent's own descriptors stay as they are;
* objects that asked with `tell_of_forks` drop what belongs to the parent, and make new the locks
  that a thread of the parent may have held;
* `this_process` gives another object than before, so that what was made in the parent can tell.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Protocol
from weakref import WeakSet

from dray.errors import WrongProcess


class Process:
    """One process. A child has another one, also where the system gives an id once more."""

    __slots__ = ("id",)

    def __init__(self) -> None:
        """Take the id of the process that runs."""
        self.id = os.getpid()


class HasDescriptor(Protocol):
    """An owner of a descriptor, such as a socket."""

    def fileno(self) -> int:
        """Give the descriptor; below 0, or a `ValueError`, once it is closed."""
        ...


class Inherits(Protocol):
    """An object that a child process has to put in order."""

    def after_fork(self, parent: Process) -> None:
        """Drop what belongs to the parent; the only thread of the child calls."""
        ...


_this = Process()
_kept: WeakSet[HasDescriptor] = WeakSet()
_told: WeakSet[Inherits] = WeakSet()


def this_process() -> Process:
    """Give the process that runs."""
    if _this.id != os.getpid():
        # Somebody else's hook comes before ours and uses what we have to put in order.
        _begin_anew()
    return _this


def is_here(made_in: Process) -> bool:
    """Whether something was made in the process that runs."""
    return made_in is this_process()


def check_process(made_in: Process, what: str, remedy: str) -> None:
    """Raise `WrongProcess` unless something was made in the process that runs."""
    if made_in is not this_process():
        raise wrong_process(made_in, what, remedy)


def wrong_process(made_in: Process, what: str, remedy: str) -> WrongProcess:
    """Say that something belongs to the process it was made in; `remedy` ends the sentence."""
    return WrongProcess(
        f"{what} belongs to process {made_in.id}, from which this process was forked; {remedy}",
        process=made_in.id,
    )


def not_sent(what: str) -> WrongProcess:
    """Say that something cannot be sent to another process, such as to a worker."""
    return WrongProcess(
        f"{what} belongs to process {os.getpid()} and cannot be sent to another one; send the"
        " address of its queue manager, and use dray.connect() there",
        process=os.getpid(),
    )


def keep_from_children(owner: HasDescriptor) -> None:
    """Have children begin with /dev/null in the place of a descriptor."""
    _kept.add(owner)


def tell_of_forks(thing: Inherits) -> None:
    """Have `after_fork` called in each child that begins while the object lives."""
    _told.add(thing)


def _begin_anew() -> None:
    """Put in order what a child has inherited, once."""
    global _this
    if _this.id == os.getpid():
        return
    parent, _this = _this, Process()
    _cut_off()
    for each in list(_told):
        each.after_fork(parent)


def _cut_off() -> None:
    inherited: list[int] = []
    for owner in _kept:
        with suppress(ValueError):
            inherited.append(owner.fileno())
    _kept.clear()
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for descriptor in inherited:
        if descriptor >= 0:
            # Not closed: its owner would then close, or use, whatever gets the number next.
            os.dup2(nothing, descriptor, inheritable=False)
    os.close(nothing)


os.register_at_fork(after_in_child=_begin_anew)
