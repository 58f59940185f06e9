"""One end of a file transfer in a process of its own, which kills itself where it is told to.

    python transfer_party.py offer|accept '{"url": ..., "queue": ..., "path": ..., "step": ...}'

Prints a JSON line with how much was there when it began, and one with how it ended.
"""

from __future__ import annotations

import json
import os
import signal
import sys

import dray
from dray.client.transfer import steps

FRAGMENT, WINDOW = 16 << 10, 8
SILENCE_S = 60.0


class KillAt:
    """Ends the process, with no chance to finish anything, at the n-th time of a step."""

    def __init__(self, step: str, count: int) -> None:
        self._step, self._left = step, count

    def __call__(self, step: str) -> None:
        if step == self._step:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


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
    try:
        incoming = manager.accept_file(told["queue"], told["patience"], response_timeout=SILENCE_S)
    except dray.ReceiveTimeout:
        # Everything was there before; what was left was to tell so.
        tell(state="nothing")
        return
    tell(began=incoming.transfer_id, there=incoming.status.bytes_done)
    incoming.save_to(told["path"])
    tell(state="done")


if __name__ == "__main__":
    told = json.loads(sys.argv[2])
    if told["step"]:
        steps.watch = KillAt(told["step"], told["count"])
    with dray.connect(told["url"]) as connected:
        {"offer": offer, "accept": accept}[sys.argv[1]](connected, told)
