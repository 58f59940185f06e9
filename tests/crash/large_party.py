"""A client of large messages in a process of its own, which kills itself where it is told to.

    python large_party.py send|upload|receive '{"url": ..., "path": ..., "step": ..., "count": ...}'

Prints a JSON line with what it got to know.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import dray
from dray.client import large_steps
from dray.client.awaited import upload as uploading

FRAGMENT = 300_000
"""Worth being lent."""


class KillAt:
    """Ends the process, with no chance to finish anything, at the n-th time of a step."""

    def __init__(self, step: str, count: int) -> None:
        self._step, self._left = step, count

    def __call__(self, step: str) -> None:
        if step == self._step:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def send(large: dray.LargeMessageQueue, told: dict[str, str]) -> str:
    return large.send(Path(told["path"]))


def upload(large: dray.LargeMessageQueue, told: dict[str, str]) -> str:
    return large.send(Path(told["path"]), resume=told["state"])


def receive(large: dray.LargeMessageQueue, told: dict[str, str]) -> str:
    try:
        with large.receive(timeout=0) as message:
            message.save_to(told["out"], resume=bool(told["resume"]))
    except dray.ReceiveTimeout:
        return "nothing"
    except dray.LargeMessageHole:
        return "a hole"
    return "saved"


if __name__ == "__main__":
    told = json.loads(sys.argv[2])
    uploading.UPLOAD_MARK_BYTES = 2 * FRAGMENT
    if told["step"]:
        large_steps.watch = KillAt(told["step"], told["count"])
    act = {"send": send, "upload": upload, "receive": receive}[sys.argv[1]]
    with dray.connect(told["url"]) as connected:
        queue = connected.queue(told["queue"])
        print(json.dumps(act(dray.LargeMessageQueue(queue, fragment_size=FRAGMENT), told)))
