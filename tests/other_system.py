"""The command line on a system that is not Linux, as far as Linux can play one.

    python -m tests.other_system send QUEUE FILE ...

Takes away, before anything of Dray is loaded, the names that only Linux has, and some that other
systems may lack.
"""

from __future__ import annotations

import os
import select
import socket
import sys

_LINUX_ONLY = {
    os: "copy_file_range eventfd fdatasync memfd_create pipe2 posix_fadvise posix_fallocate"
    " sendfile splice sched_getaffinity sched_setaffinity O_DIRECT O_NOATIME O_PATH O_TMPFILE",
    socket: "TCP_KEEPIDLE TCP_KEEPINTVL TCP_KEEPCNT TCP_USER_TIMEOUT TCP_INFO TCP_QUICKACK MSG_MORE"
    " SO_PEERCRED SO_BINDTODEVICE AF_VSOCK AF_NETLINK",
    select: "epoll",
}
NAME = "another system"


def leave_linux():
    """Take the names away, and the modules that use inotify or lock files."""
    sys.platform = NAME
    for module, names in _LINUX_ONLY.items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    for name in ("fcntl", "watchdog", "resource"):
        sys.modules[name] = None


if __name__ == "__main__":
    leave_linux()
    from dray.cli import main

    main()
