"""Signal handlers wait until a decision is over.

Python runs a program's signal handlers in its main thread, between any two instructions. Handlers
may raise: that of Ctrl-C raises KeyboardInterrupt, others raise SystemExit or a timeout. In the
middle of a decision such an exception would leave half of it in memory. So while the main thread
decides, a handler of ours notes each signal, and the program's handler runs when the decision is
over. Other threads run no handlers and hold nothing back.
"""

from __future__ import annotations

# The functions of `signal` turn each number into an enum, which takes longer than a decision's
# share of the processor allows: 12 us against 1.
import _signal  # type: ignore[import-not-found]  # has no stubs
import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType
from typing import Any, Final

from dray.forks import Process, tell_of_forks

HELD: Final = tuple(
    int(each)
    for each in (
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGQUIT,
        signal.SIGALRM,
        signal.SIGVTALRM,
        signal.SIGPROF,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGCHLD,
        signal.SIGCONT,
        signal.SIGWINCH,
        signal.SIGIO,
    )
)
"""Signals for which programs have handlers; those of others, such as SIGSEGV, end the program."""

_Handler = Callable[[int, FrameType | None], Any]


class HeldSignals:
    """A block in which no handler of the program runs; they run when it is over.

    A handler may come just before the block holds it, or just after, and begin a block of its own.
    """

    def __init__(self) -> None:
        """Begin outside of the block."""
        self._main = threading.main_thread().ident
        self._blocks: list[_Block] = []
        tell_of_forks(self)

    def hold(self) -> None:
        """Begin the block; only in the main thread it has any effect."""
        if threading.get_ident() == self._main:
            self._blocks.append(_Block())

    def let_go(self) -> None:
        """End the block; raises what the handlers raise."""
        if threading.get_ident() == self._main:
            self._blocks.pop().end()

    def after_fork(self, parent: Process) -> None:
        """In a child, whose only thread may not be the one that was in the block."""
        del parent
        self._main = threading.main_thread().ident
        while self._blocks:
            self._blocks.pop().restore()


class _Block:
    """The handlers that one block has replaced, and the signals that came in it."""

    __slots__ = ("_came", "_replaced")

    def __init__(self) -> None:
        self._replaced: list[tuple[int, _Handler]] = []
        self._came: list[tuple[int, FrameType | None]] = []
        try:
            for number, handler in zip(HELD, map(_signal.getsignal, HELD), strict=True):
                # Else it is one of two numbers, or None: the program runs nothing.
                if handler and handler != signal.SIG_IGN:
                    self._replaced.append((number, handler))
                    _signal.signal(number, self._note)
        except BaseException:
            self.restore()
            raise

    def end(self) -> None:
        handlers = dict(self._replaced)
        try:
            self.restore()
        finally:
            # All of them run, also if one raises.
            if self._came:
                with ExitStack() as stack:
                    for number, frame in reversed(self._came):
                        stack.callback(handlers[number], number, frame)

    def restore(self) -> None:
        try:
            while self._replaced:
                _signal.signal(*self._replaced[-1])
                self._replaced.pop()
        except BaseException:
            # A handler that is back has raised: the others must come back all the same.
            self.restore()
            raise

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came.append((number, frame))
