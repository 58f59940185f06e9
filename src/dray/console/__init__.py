"""The console: a page in a browser for everything that is stuck, and the sample's application.

It is a client of one queue manager like any other, in a process of its own.

    program.py   listens and serves until a signal ends it
    door.py      who may come in: Host, Origin, session, rights
    app.py       gathers the routes of the rooms
    console.py   the object that each room works with
    sample/      the test application of the sample, at /sample
    pages/       doctor, queues, messages, dead letters, deliveries, access
    v1/          HTTP for programs
"""

from __future__ import annotations

import msgspec

from dray.errors import InvalidConfiguration

__all__ = ["run"]


def run(options: dict[str, object]) -> int:
    """Run a console until a signal ends it; `options` are those of `ConsoleOptions`.

    Raises `InvalidConfiguration` where the extra `console` is missing.
    """
    try:
        from dray.console import program
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("dray"):
            raise
        raise InvalidConfiguration(
            f"the console needs the package {error.name}; install dray[console]"
        ) from error
    return program.run(msgspec.convert(options, program.ConsoleOptions))
