"""`dray torture`: prove on this machine, on this disk, that nothing is lost.

Half of the time goes to simulated power failures of a whole queue manager, at every point of its
work and in every way that makes a difference. The other half kills a real queue manager on the real
disk again and again under traffic. A seed determines all choices; the command prints it when
something breaks. Exit status 0 means that everything held.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dray.cli.progress import progress, steps_text
from dray.cli.settings import Settings, takes_json
from dray.errors import DrayError, InvalidConfiguration
from dray.model.words import counted

if TYPE_CHECKING:
    from dray.testing.kills import KillTally
    from dray.testing.torture import Tally

SECONDS = 60.0
SEEDS = 1 << 32


@click.command()
@click.option("--seconds", type=float, default=SECONDS, show_default=True, help="Seconds to run.")
@click.option("--seed", type=int, help="Seed of all random choices  [default: a random one].")
@click.option(
    "--states",
    type=int,
    help=("Number of simulated failures  [default: as many as half the time allows]."),
)
@click.option(
    "--work", metavar="DIR", help=("Directory on the disk to test  [default: the current one].")
)
@takes_json
def command(
    settings: Settings,
    *,
    seconds: float,
    seed: int | None,
    states: int | None,
    work: str | None,
) -> int:
    """Prove that nothing is lost here: simulate power failures, then kill real processes."""
    if seconds <= 0 or (states is not None and states < 0):
        raise InvalidConfiguration("--seconds must be more than 0 and --states not less than 0")
    seed = secrets.randbelow(SEEDS) if seed is None else seed
    click.echo(f"seed {seed}", err=True)
    began = time.monotonic()
    simulated = _simulate(seed, states, began + seconds / 2)
    real = _kill(seed, Path(work or "."), began + seconds)
    figures = {"seed": seed, "holds": True}
    settings.tell_record(
        {**figures, "simulated": asdict(simulated), "real": asdict(real)},
        _told(seed, simulated, real),
    )
    return 0


def _simulate(seed: int, states: int | None, until: float) -> Tally:
    from dray.testing.torture import Tally, torture_seed

    tally = Tally()
    this = seed
    with progress("simulated power failures", states, steps_text) as bar:
        while _goes_on(tally.states, states, until):
            try:
                for _ in torture_seed(this, tally):
                    bar.update(tally.states)
                    if not _goes_on(tally.states, states, until):
                        break
            except Exception as error:
                raise _broken(error, this, "--states 1000000 --seconds 600") from error
            this += 1
    return tally


def _goes_on(done: int, wanted: int | None, until: float) -> bool:
    return time.monotonic() < until if wanted is None else done < wanted


def _kill(seed: int, work: Path, until: float) -> KillTally:
    from dray.testing.kills import KillLoop, KillTally
    from dray.testing.processes import ManagerProcess

    tally = KillTally()
    if not work.is_dir():
        raise InvalidConfiguration(f"{work} is not a directory; name one with --work")
    folder = Path(tempfile.mkdtemp(prefix="dray-torture-", dir=work))
    process = ManagerProcess("torture", folder)
    try:
        with progress("real kills", None, steps_text) as bar:
            loop = KillLoop(process, seed, tally)
            for _ in _until(loop.runs(), until):
                bar.update(tally.kills)
            loop.finish()
    except Exception as error:
        raise _broken(error, seed, "--states 0", f"; the data is kept in {folder}") from error
    finally:
        process.kill()
    shutil.rmtree(folder)
    return tally


def _until(runs: Iterator[None], until: float) -> Iterator[None]:
    """At least one run."""
    for run in runs:
        yield run
        if time.monotonic() >= until:
            return


def _broken(error: Exception, seed: int, options: str, where: str = "") -> DrayError:
    """The verdict when something does not hold: the fault, and how to reproduce it."""
    return DrayError(
        f"BROKEN: {type(error).__name__}: {error}{where}; see it again with:"
        f" dray torture --seed {seed} {options}"
    )


def _told(seed: int, simulated: Tally, real: KillTally) -> dict[str, str]:
    return {
        "verdict": "everything held",
        "seed": f"{seed}",
        "simulated failures": f"{simulated.states:,} in {counted(simulated.seeds, 'run')},"
        f" {simulated.second_states:,} of them in a second run",
        "real kills": f"{real.kills:,}, {real.in_doubt:,} of them during a commit",
        "checked": f"{counted(real.messages)}, {counted(real.large, 'large message')},"
        f" {counted(real.transactions, 'transaction')}",
    }
