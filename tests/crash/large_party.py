"""A client of large messages in a process of its own, which kills itself where it is told to.

    python -m tests.crash.large_party send|upload|receive '{"url": ..., "path": ..., ...}'

Prints a JSON line with what it got to know.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import dray
from dray.client.awaited import upload as uploading
from dray.client.files import steps
from tests.crash.kill_at import KillAt

FRAGMENT = 300_000
"""Worth being lent."""


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
        steps.watch = KillAt(told["step"], told["count"])
    act = {"send": send, "upload": upload, "receive": receive}[sys.argv[1]]
    with dray.connect(told["url"]) as connected:
        queue = connected.queue(told["queue"])
        print(json.dumps(act(dray.LargeMessageQueue(queue, fragment_size=FRAGMENT), told)))
