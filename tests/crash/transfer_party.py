"""One end of a file transfer in a process of its own, which kills itself where it is told to.

    python -m tests.crash.transfer_party offer|accept '{"url": ..., "queue": ..., ...}'

Prints a JSON line with how much was there when it began, and one with how it ended.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path

import dray
from dray.client.files import partial_file, steps
from dray.client.transfer import target
from tests.crash.kill_at import KillAt

FRAGMENT, WINDOW = 16 << 10, 8
SYNCED = 10 * FRAGMENT
"""So much is synced, and noted, at a time: a small file gets to feel it."""
ASK_AGAIN_S = 0.2
SILENCE_S = 60.0


def kept() -> list[Path]:
    """What consumers have kept of their transfers."""
    return list(Path(os.environ["DRAY_TRANSFERS"]).rglob("*.in"))


def tell(**said: object) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


def offer(manager: dray.Manager, told: dict[str, object]) -> None:
    offered = manager.offer_file(
        told["path"],
        told["queue"],
        fragment_size=FRAGMENT,
        window_size=WINDOW,
        request_timeout=SILENCE_S,
        response_timeout=SILENCE_S,
        listen=None if told["relayed"] else "auto",
    )
    tell(began=offered.transfer_id)
    status = offered.wait(SILENCE_S)
    tell(state=str(status.state), resent=status.fragments_resent)


def accept(manager: dray.Manager, told: dict[str, object]) -> None:
    if told["only_tells"]:
        # Everything was there before, and what is left is to tell so: nothing is kept after it.
        while kept():
            with suppress(dray.ReceiveTimeout):
                manager.accept_file(told["queue"], ASK_AGAIN_S)
                raise AssertionError("a file was offered that was there")
        tell(state="nothing")
        return
    incoming = manager.accept_file(told["queue"], told["patience"], response_timeout=SILENCE_S)
    tell(began=incoming.transfer_id, there=incoming.status.bytes_done)
    incoming.save_to(told["path"])
    tell(state="done")


if __name__ == "__main__":
    told = json.loads(sys.argv[2])
    if told["step"]:
        steps.watch = KillAt(told["step"], told["count"])
    partial_file._SYNC_BYTES = target.NOTE_EVERY_BYTES = SYNCED
    with dray.connect(told["url"]) as connected:
        {"offer": offer, "accept": accept}[sys.argv[1]](connected, told)
