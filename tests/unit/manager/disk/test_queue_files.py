"""Files of queues that follow the facts: what an operator hears when they cannot."""

from __future__ import annotations

from random import Random

from dray.errors import StoreFull
from dray.manager.disk import FollowedFiles
from dray.manager.facts import ManagerNamed
from dray.manager.notices import NoticeKind, Notices
from dray.manager.queue import QueueTable
from dray.store.lqs import QueueFiles
from dray.testing.disk import SimDisk
from tests.unit.store.test_lqs import ORDERS


def test_files_that_wait_for_room_are_told_once_and_again_when_they_wait_again():
    disk, notices = SimDisk(Random(1)), Notices()
    files = QueueFiles(disk)
    followed = FollowedFiles(files, QueueTable(), notices)

    def told(room: int) -> list[str]:
        disk.full_after(room)
        files.write("a", ORDERS)
        files.flush(files.captured)
        assert (files.refused is None) == (room > len(str(ORDERS)))
        followed.follow(ManagerNamed("a", "anyone"))
        followed.follow(ManagerNamed("a", "anyone"))
        return [each.kind for each in notices.take()]

    assert told(10) == [], "facts are not followed yet"
    followed.begin()
    assert told(10) == [NoticeKind.QUEUE_FILES_WAIT]
    assert isinstance(files.refused, StoreFull)
    assert told(10) == []
    assert told(10_000) == []
    assert told(10) == [NoticeKind.QUEUE_FILES_WAIT]
