"""The files of a table, behind a link, so that many of them change at once.

    table -> _dray/table-000002     what readers read
    _dray/table-000001              before the last compaction; kept until the next one
    _dray/table-000003.partial      a compaction at work, or one that was killed
    _dray/commit.lock               held for each commit, and while a compaction changes the link

A reader that follows the link once (`os.path.realpath`) reads one generation from its first file to
its last. A Delta table is a directory without a link; its commits take the same lock.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dray.errors import InvalidConfiguration, StoreLocked
from dray.fsync import sync_folder

_PREFIX, _PARTIAL = "table-", ".partial"
_HOME = "_dray"


def make_table(table: Path) -> None:
    """Make an empty first generation, and the link, if they are missing."""
    if table.exists():
        return
    home = _home_of(table)
    newest = home / f"{_PREFIX}{max(1, _newest_number(home)):06}"
    newest.mkdir(exist_ok=True)
    sync_folder(home)
    _point(table, newest)


def begin_generation(table: Path) -> Path:
    """A directory for the next generation, which nobody reads yet; removes all but the present one.

    Raises `InvalidConfiguration` if the table is no link, such as a copy of one.
    """
    home = _home_of(table)
    if not table.is_symlink():
        # A copy that followed the link has the generation behind it, too, which is older by now.
        free = home / f"{_PREFIX}{_newest_number(home) + 1:06}"
        raise InvalidConfiguration(
            f"{table} is no link into {_HOME}, as a landing makes it; move the directory to {free},"
            " and the next landing makes the link"
        )
    number = _number(table.resolve())
    for path in home.glob(f"{_PREFIX}*"):
        if path.name.endswith(_PARTIAL) or _number(path) != number:
            shutil.rmtree(path)
    begun = home / f"{_PREFIX}{number + 1:06}{_PARTIAL}"
    begun.mkdir()
    return begun


def publish(table: Path, begun: Path) -> None:
    """Let readers read a generation from now on; it is complete, and its files are synced."""
    home, complete = begun.parent, begun.with_name(begun.name.removesuffix(_PARTIAL))
    sync_folder(begun)
    begun.rename(complete)
    sync_folder(home)
    _point(table, complete)


@contextmanager
def working_alone(table: Path, lock: str, refusal: str) -> Iterator[None]:
    """Keep others with the same `lock` out of a table; the kernel lets go when this process dies.

    Raises `StoreLocked` with the refusal if somebody has it.
    """
    with (_home_of(table) / lock).open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StoreLocked(refusal) from error
        yield


@contextmanager
def commits_locked(table: Path) -> Iterator[None]:
    """Keep every other commit out of a table; the kernel lets go when this process dies."""
    with (_home_of(table) / "commit.lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _point(table: Path, generation: Path) -> None:
    """Change the link in one step, durably."""
    link = generation.with_name(f"{table.name}.link")
    link.unlink(missing_ok=True)
    # The link lies in the directory above that in which it is made.
    link.symlink_to(Path(_HOME) / generation.name)
    link.replace(table)
    sync_folder(table.parent)


def _home_of(table: Path) -> Path:
    home = table.parent / _HOME
    home.mkdir(parents=True, exist_ok=True)
    return home


def _newest_number(home: Path) -> int:
    """The number of the newest generation that is complete; 0 if there is none."""
    complete = [each for each in home.glob(f"{_PREFIX}*") if not each.name.endswith(_PARTIAL)]
    return max(map(_number, complete), default=0)


def _number(generation: Path) -> int:
    return int(generation.name.removeprefix(_PREFIX).removesuffix(_PARTIAL))
