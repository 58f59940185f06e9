"""A folder sent to another machine's: many small files, and one large file as a folder's only one.

The small files go from a folder through two queue managers into another folder; each file is synced
before its message leaves the queue. Beside them rclone and rsync copy the same folder on this
machine and sync nothing, rsync syncs each file, and threads copy it and sync each file, which is
the least that can be done. The large file is sent as a file and as the only one of a folder, by
turns. The bar is met if it is met against rclone or against rsync.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benches.limits import make_payload
from benches.results import Result
from dray.fsync import sync_folder
from dray.testing.processes import ManagerProcess

FILES = int(os.environ.get("DRAY_BENCH_FILES", "100000"))
FILE_BYTES = 10 << 10
IN_A_FOLDER = 1_000
BATCH, WORKERS, THREADS = 100, 2, 8
COPIES: Mapping[str, Sequence[str]] = {
    "rclone copy": ("rclone", "copy"),
    "rsync -a": ("rsync", "-a"),
    "rsync -a --fsync": ("rsync", "-a", "--fsync"),
}
"""Commands that copy a folder; the last one syncs each file, as Dray does."""
COPY_RATIO = 5.0
"""Files a second against theirs, if they sync nothing."""
SEND_RATIO = 0.9
"""A large file of a folder against the same file by `dray send`."""


def run(folder: Path, size: int, rounds: int) -> list[Result]:
    """Measure; `size` bytes in the large file. DRAY_BENCH_FILES sets the number of small ones."""
    source = folder / "source"
    _make_files(source)
    ours: list[float] = []
    theirs = _installed()
    synced: list[float] = []
    with ManagerProcess("there", folder) as there, ManagerProcess("here", folder) as here:
        with there.connect() as manager:
            manager.create_queue("files")
        for turn in range(rounds):
            ours.append(FILES / _through_dray(here, there, source, folder / f"dray-{turn}"))
            for name, rates in theirs.items():
                rates.append(FILES / _by_command(COPIES[name], source, folder / f"copy-{turn}"))
                shutil.rmtree(folder / f"copy-{turn}")
            synced.append(FILES / _by_synced_copies(source, folder / f"synced-{turn}"))
            _check_same(source, folder / f"dray-{turn}")
            for each in ("dray", "synced"):
                shutil.rmtree(folder / f"{each}-{turn}")
    shutil.rmtree(source)
    what = f"{FILES} files of 10 KiB, two queue managers"
    return [
        *(
            Result(what, "files/s", ours, name, rates, None if "--fsync" in name else COPY_RATIO)
            for name, rates in theirs.items()
        ),
        Result(what, "files/s", ours, "copies synced one by one", synced),
        _large(folder, size, rounds),
    ]


def _make_files(source: Path) -> None:
    content = os.urandom(FILE_BYTES)
    for number in range(FILES):
        inside = source / f"{number // IN_A_FOLDER:04}"
        if number % IN_A_FOLDER == 0:
            inside.mkdir(parents=True)
        (inside / f"{number:07}").write_bytes(number.to_bytes(8, "little") + content[8:])
    os.sync()


def _dray(*arguments: object, url: str, out: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "dray.cli", *map(str, arguments), "--url", url]
    return subprocess.Popen(command, stdout=out)


def _finished(process: subprocess.Popen[bytes]) -> None:
    if process.wait():
        raise subprocess.CalledProcessError(process.returncode, process.args)


def _through_dray(here: ManagerProcess, there: ManagerProcess, source: Path, to: Path) -> float:
    """Seconds from the start of both commands until the last file is in place."""
    queue = f"dray://127.0.0.1:{there.port}/files"
    follow = ["receive", "files", "--large", "--to", to, "--tree", "--follow", "--json"]
    began = time.monotonic()
    receiver = _dray(*follow, "--workers", WORKERS, url=there.url, out=subprocess.PIPE)
    sender = _dray("send", queue, source, "--large", "--batch", BATCH, url=here.url)
    assert receiver.stdout is not None
    for _ in range(FILES):
        if not receiver.stdout.readline():
            break
    seconds = time.monotonic() - began
    receiver.terminate()
    with receiver.stdout:
        _finished(receiver)
    _finished(sender)
    return seconds


def _installed() -> dict[str, list[float]]:
    """The commands to compare with, without rates yet; says which are missing."""
    found: dict[str, list[float]] = {}
    for name, (program, *_) in COPIES.items():
        if shutil.which(program) is None:
            print(f"  LEFT OUT: {name}; {program} is not installed: make peers", flush=True)
        else:
            found[name] = []
    return found


def _by_command(command: Sequence[str], source: Path, to: Path) -> float:
    began = time.monotonic()
    _run([*command, f"{source}/", f"{to}/"])
    return time.monotonic() - began


def _by_synced_copies(source: Path, to: Path) -> float:
    """Seconds to copy each file, sync it, give it its name and sync the folder."""

    def copy(path: Path) -> None:
        at = to / path.relative_to(source)
        at.parent.mkdir(parents=True, exist_ok=True)
        part = at.with_name(f".{at.name}.part")
        with part.open("wb") as file:
            file.write(path.read_bytes())
            file.flush()
            os.fdatasync(file.fileno())
        part.rename(at)
        sync_folder(at.parent)

    began = time.monotonic()
    with ThreadPoolExecutor(THREADS) as threads:
        for _ in threads.map(copy, (each for each in source.rglob("*") if each.is_file())):
            pass
    return time.monotonic() - began


def _run(command: Sequence[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _check_same(one: Path, other: Path) -> None:
    """Raise unless both trees are equal."""
    _run(["diff", "-r", "--exclude=.dray*", str(one), str(other)])


def _large(folder: Path, size: int, rounds: int) -> Result:
    alone = folder / "alone"
    alone.mkdir()
    payload = make_payload(alone / "payload", size)
    rates: dict[str, list[float]] = {"folder": [], "file": []}
    with ManagerProcess("large", folder) as manager:
        for name in rates:
            with manager.connect() as connected:
                connected.create_queue(name)
        # The first message makes the heap files that later ones use again.
        _send(manager, "file", payload)
        for turn in range(rounds):
            for name in (*rates,) if turn % 2 else (*reversed(rates),):
                seconds = _send(manager, name, alone if name == "folder" else payload)
                rates[name].append(size / 1e6 / seconds)
    what = "one large file, its folder sent"
    return Result(what, "MB/s", rates["folder"], "dray send FILE", rates["file"], SEND_RATIO)


def _send(manager: ManagerProcess, queue: str, what: Path) -> float:
    began = time.monotonic()
    _finished(_dray("send", queue, what, "--large", url=manager.url))
    seconds = time.monotonic() - began
    with manager.connect() as connected:
        connected.queue(queue).purge()
    return seconds
