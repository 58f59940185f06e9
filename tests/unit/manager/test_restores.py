"""Every state in which a test leaves a queue manager can be backed up and restored."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dray.errors import BackupDamaged
from dray.manager.requests import backup
from dray.model.message import Message
from tests.unit.manager.conftest import ManagerDriver
from tests.unit.manager.restores import EACH, check_restore


@pytest.mark.torture
@pytest.mark.timeout(1800)
def test_what_each_test_of_the_manager_leaves_can_be_restored() -> None:
    here = Path(__file__).parent
    asked = [sys.executable, "-m", "pytest", "-q", "-n", "2", str(here)]
    done = subprocess.run(
        asked, env=os.environ | {EACH: "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:]


def test_a_backup_that_lacks_a_message_is_noticed(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = driver.session()
    caller.send(caller.create("orders"), Message(body=b"a"))
    taken = backup._taken
    with monkeypatch.context() as patch:
        patch.setattr(backup, "_taken", lambda state: taken(state)._replace(entries=[]))
        with pytest.raises(BackupDamaged):
            check_restore(driver)
