"""A queue manager on a small file system of its own, which others can fill."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.integration.commands import environment, until

_SCRIPT = """
set -e
mkdir -p "$1"
mount -t tmpfs -o size=128m none "$1"
exec "$2" -m dray.cli serve --data "$1/data" --config "$3" --open --listen 127.0.0.1:0
"""


def may_mount():
    """Whether this user can have a mount namespace of his own."""
    if shutil.which("unshare") is None:
        return False
    tried = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"],
        capture_output=True,
        check=False,
    )
    return tried.returncode == 0


class SmallDisk:
    """Where the queue manager is, and its disk of 128 MiB as seen from here."""

    def __init__(self, url, root):
        self.url = url
        self.folder = root
        self._filler = root / "filler"

    @property
    def free(self):
        status = os.statvfs(self._filler.parent)
        return status.f_bavail * status.f_frsize

    def fill(self, leave=0):
        """Somebody else writes a file that leaves so many bytes free."""
        for _ in range(100):
            if self.free <= leave:
                return
            # The queue manager may have taken some of it meanwhile.
            with self._filler.open("ab") as file, suppress(OSError):
                os.posix_fallocate(file.fileno(), file.tell(), self.free - leave)
        raise AssertionError(f"{self.free} bytes stay free")

    def make_room(self):
        """And deletes it."""
        self._filler.unlink()


@contextmanager
def on_small_disk(tmp_path, options="", *, log_bytes=1 << 20):
    """Serve with `options` in the language of its configuration; ended with the block."""
    config, said, root = tmp_path / "dray.toml", tmp_path / "said", tmp_path / "disk"
    config.write_text(f"log_bytes = {log_bytes}\n{options}")
    shell = ["unshare", "--map-root-user", "--mount", "sh", "-c", _SCRIPT, "sh"]
    with said.open("wb") as log:
        process = subprocess.Popen(
            [*shell, str(root), sys.executable, str(config)],
            stdout=log,
            stderr=log,
            env=environment(),
        )
    try:
        url = until(lambda: _address(said))
        yield SmallDisk(url, Path(f"/proc/{process.pid}/root{root}"))
        assert process.poll() is None, said.read_text()
    finally:
        process.terminate()
        process.wait(100)
    assert "Traceback" not in said.read_text()


def _address(said):
    """The address in the line that says that it is ready."""
    found = [word for word in said.read_text().split() if word.startswith("dray://")]
    return found[0] if found else None
