"""The link in the account's runtime directory to the socket of a queue manager.

The link is made if no queue manager that runs has it, and taken away with the manager. A manager
that cannot have it runs without: programs then need its address.
"""

from __future__ import annotations

import logging
import os
import socket
from pathlib import Path

_log = logging.getLogger(__name__)
_OWNER_ONLY = 0o700


class RuntimeLink:
    """One link; `remove` takes it away if it is still ours."""

    def __init__(self, link: Path, target: Path) -> None:
        """Link to `target`, unless another manager answers there or the directory refuses."""
        self._link, self._target = link, target
        try:
            link.parent.mkdir(mode=_OWNER_ONLY, parents=True, exist_ok=True)
            if link.is_symlink() and not _answers(link):
                link.unlink(missing_ok=True)
            link.symlink_to(target)
        except OSError as error:
            if link.is_symlink():
                _log.info("%s leads to another queue manager and stays", link)
                return
            _log.warning("%s cannot be linked to %s: %s", link, target, error.strerror)

    def remove(self) -> None:
        """Take the link away, unless it has come to lead elsewhere."""
        try:
            if self._link.readlink() == self._target:
                self._link.unlink()
        except OSError as error:
            _log.debug("%s is not ours to remove: %s", self._link, error.strerror)


def _answers(link: Path) -> bool:
    """Whether a process listens behind a link."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(os.fspath(link))
        except BlockingIOError:
            return True  # Someone is there, with a full backlog.
        except OSError:
            return False
    return True
