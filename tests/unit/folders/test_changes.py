"""The kernel tells of changes in a folder, until it is told to stop."""

import inspect
import logging

from watchdog.observers import inotify

from dray.folders import changes


def test_a_change_that_comes_while_the_observer_stops_is_no_error(caplog):
    assert f'logger.error("{changes._ENDED}")' in inspect.getsource(inotify), "it says so no more"
    inotify.logger.error(changes._ENDED)
    assert not caplog.records
    inotify.logger.error("another word of the library")
    assert [each.levelno for each in caplog.records] == [logging.ERROR]
