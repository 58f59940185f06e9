"""Makes the golden backup: a small manager with something of everything, at a fixed time.

    python -m tests.formats.make_backup

Only a new version of the format, or of the state in it, is a reason to make another one, beside
the old ones, which every later version must still restore.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from dray.model.message import Message
from dray.offline.backup import back_up_stopped
from tests.unit.manager.conftest import ManagerDriver
from tests.unit.manager.requests.test_large_messages import send_large

GOLDEN = Path(__file__).with_name("golden") / "backup-1.dray"
MOMENT = 1_700_000_000.0


def make(path: Path) -> None:
    """Write a backup of the golden manager to `path`."""
    with tempfile.TemporaryDirectory() as folder:
        driver = ManagerDriver(Path(folder) / "data")
        caller = driver.session()
        orders = caller.create("orders", label="golden", quota=1 << 20, journal=True)
        transaction, sending = caller.number_for(), caller.number_for()
        first = Message(body=b"first", label="one", correlation_id="c-1", app_specific=-7)
        caller.send(orders, first, transaction=transaction)
        caller.send(orders, Message(body=b"second"), transaction=transaction)
        caller.commit(transaction, 2)
        caller.receive(orders, max_messages=1)
        send_large(caller, caller.create("large"), 3, sending)
        caller.commit(sending, 3)
        far = caller.open("dray://127.0.0.1:7340/far")
        caller.send(far, Message(body=b"to be delivered"))
        driver.store.close(driver.manager.snapshot())
        path.parent.mkdir(exist_ok=True)
        with path.open("wb") as file:
            back_up_stopped(driver.path, file.write, lambda *_: None, now=MOMENT, version="0.1.0")


if __name__ == "__main__":
    make(GOLDEN)
