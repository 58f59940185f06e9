"""Interrupts while processes are being started and ended: none may leave a process behind."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interrupted_once() -> Iterator[None]:
    """Let the first of ^C, SIGTERM and SIGHUP unwind, and no second one disturb the cleaning up."""
    interrupted = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        del number, frame
        if not interrupted:
            interrupted = True
            raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in INTERRUPTS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold interrupts back until the end of the block.

    Between the birth of a process and the moment at which somebody knows its id, an interrupt would
    leave it without anyone to end it. The process itself begins with the default handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        # Interrupts only ever reach the main thread.
        yield
        return
    held: list[int] = []

    def hold(number: int, frame: FrameType | None) -> None:
        del frame
        held.append(number)

    before = {number: signal.signal(number, hold) for number in INTERRUPTS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for late in held:
            os.kill(os.getpid(), late)
