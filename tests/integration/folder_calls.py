"""A call of `dray.folders` in a thread of its own, and the error of its ledger on a full disk."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing, contextmanager

import pytest


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


def error_of_full_disk():
    """The error that SQLite raises if a file has no room to grow."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("PRAGMA max_page_count=1")
        with pytest.raises(sqlite3.OperationalError, match="disk is full") as raised:
            database.execute("CREATE TABLE rows (row INTEGER)")
    return raised.value
