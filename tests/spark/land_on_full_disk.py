"""Lands onto a disk that somebody else fills before each landing; run with a mount of its own.

land_on_full_disk.py URL FOLDER PAGES..., where FOLDER is a file system for this program alone. For
each number of free pages it lands a queue of its own, makes room, lands again, and has the judge
look. It prints a JSON line each time: the pages, the error of the first landing, and the judge's
complaints.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

import dray
from dray.errors import DrayError
from dray.spark import land, spark_session
from tests.spark.judged import JudgedQueue


def fill(folder: Path, pages: int) -> Path:
    """Leave so many pages free."""
    status = os.statvfs(folder)
    filler = folder / "filler"
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, (status.f_bavail - pages) * status.f_frsize)
    return filler


def land_with(url: str, folder: Path, pages: int, session) -> dict[str, object]:
    name, out, error = f"parcels-{pages}", folder / str(pages), ""
    with dray.connect(url) as manager, tempfile.TemporaryDirectory() as elsewhere:
        manager.create_queue(name)
        judged = JudgedQueue(manager, name, Path(elsewhere) / "sent", seed=3)
        judged.send(5)
        filler = fill(folder, pages)
        try:
            land(url, name, out, session=session)
        except DrayError as failed:
            error = f"{failed.code}: {failed}"
        filler.unlink()
        if error:
            land(url, name, out, session=session)
        return {"pages": pages, "error": error, "wrong": judged.judge(out)}


def main(url, folder, *pages):
    with spark_session() as session:
        for each in pages:
            print(json.dumps(land_with(url, Path(folder), int(each), session)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
