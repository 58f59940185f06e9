"""A call of `dray.folders` in a thread of its own."""

from __future__ import annotations

import threading
from contextlib import contextmanager


@contextmanager
def in_a_thread(call, *arguments, **options):
    """A call that goes on until it is told to stop; gives the list of what it told.

    Raises what the call raised.
    """
    told, raised, stop = [], [], threading.Event()

    def run():
        try:
            call(*arguments, stop=stop, tell=told.append, **options)
        except BaseException as error:  # noqa: BLE001 - raised below
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield told
    finally:
        stop.set()
        thread.join()
    if raised:
        raise raised[0]
