"""`dray verify`: compare a directory with the manifest of the run that sent its files."""

from __future__ import annotations

from pathlib import Path

import click

from dray.cli.output import printable_path
from dray.cli.settings import Settings, takes_json

EXIT_DIFFERENT = 1


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.argument("manifest", type=click.Path(path_type=Path))
@takes_json
def command(settings: Settings, directory: Path, manifest: Path) -> int:
    """Compare the files of DIRECTORY with MANIFEST, which `dray send --manifest` has sent.

    Names each file that is missing, has another size or other contents, and then ends with status
    1. Files that the manifest does not name are of no interest.
    """
    from dray.folders import verify

    found = [(printable_path(path), reason) for path, reason in verify(directory, manifest)]
    lines = [f"{path}: {reason}" for path, reason in found]
    settings.tell(
        [{"path": path, "reason": reason} for path, reason in found],
        *(lines or [f"{directory}: every file is as it was sent"]),
    )
    return EXIT_DIFFERENT if found else 0
