"""Moves of messages that go on through a lost connection: what was in doubt is found out first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dray.cli.doubt import PATIENCE_S, connect_again, was_committed
from dray.errors import InDoubt

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dray.cli.settings import Settings
    from dray.client.blocking.manager import Manager

Ids = Sequence[str] | None
"""Ids of messages, or None for all."""


def moved(
    settings: Settings,
    ids: Ids,
    act: Callable[[Manager, Ids], int],
    still_there: Callable[[Manager], Iterable[str]],
    *,
    note: str,
) -> int:
    """Move or drop messages; return how many, with those whose transaction was in doubt.

    `still_there` gives the ids that a queue holds, to go on with the rest. `note` tells a person
    who interrupts it where the messages are.
    """
    count = 0
    while True:
        try:
            with connect_again(settings.connect, PATIENCE_S if count else 0) as manager:
                return count + act(manager, ids)
        except KeyboardInterrupt as interrupt:
            interrupt.add_note(f"{note}; the same command goes on with the rest")
            raise
        except InDoubt as doubt:
            count += int(str(doubt.fields["done"]))
            if was_committed(settings.connect, doubt, PATIENCE_S):
                count += int(str(doubt.fields["count"]))
        if ids is None:
            continue
        with connect_again(settings.connect, PATIENCE_S) as manager:
            left = set(still_there(manager))
        ids = [each for each in ids if each in left]
        if not ids:
            return count
