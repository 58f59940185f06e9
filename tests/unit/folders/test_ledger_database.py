"""The SQLite file of a ledger, as the receiver of a folder opens it."""

from __future__ import annotations

import pytest

from dray.errors import InvalidConfiguration, StoreLocked
from dray.folders.ledger_database import LedgerDatabase
from dray.folders.received_ledger import ReceivedLedger


def opened(file, **about):
    return LedgerDatabase(file, "", about, used="uses it", remedy="wait")


def test_a_second_opening_is_refused_until_the_first_is_closed(tmp_path):
    first = opened(tmp_path / "ledger")
    with pytest.raises(StoreLocked, match="another process uses it; end it, or wait"):
        opened(tmp_path / "ledger")
    first.close()
    opened(tmp_path / "ledger").close()


def test_the_notes_of_the_first_opening_stay(tmp_path):
    opened(tmp_path / "ledger", queue="first").close()
    again = opened(tmp_path / "ledger", queue="second")
    assert again.about == {"queue": "first"}
    again.close()


def test_a_transaction_that_fails_leaves_nothing(tmp_path):
    database = LedgerDatabase(
        tmp_path / "ledger", "CREATE TABLE t (n INTEGER);", {}, used="uses it", remedy="wait"
    )
    with pytest.raises(InvalidConfiguration), database.writing():
        insert_and_fail(database)
    assert database.execute("SELECT * FROM t").fetchall() == []
    database.close()


def insert_and_fail(database):
    database.execute("INSERT INTO t VALUES (?)", (1,))
    raise InvalidConfiguration("after the insert")


def test_two_receivers_of_one_folder_are_refused_and_so_is_a_ledger_of_garbage(tmp_path):
    file = tmp_path / "hidden" / "ledger"
    file.parent.mkdir()
    first = ReceivedLedger(file, sync=True)
    with pytest.raises(StoreLocked, match=f"another process receives into {tmp_path}"):
        ReceivedLedger(file, sync=False)
    first.close()
    file.write_bytes(b"no database at all" * 100)
    with pytest.raises(InvalidConfiguration, match="another directory to receive into"):
        ReceivedLedger(file, sync=True)
