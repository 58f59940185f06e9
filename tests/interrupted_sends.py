"""A send that stops in the middle: its body, what stops it, and what a receiver makes of it."""

from __future__ import annotations

import random

import pytest

BODY = random.Random(5).randbytes(50_500)


class StopError(Exception):
    """What a test interrupts a send with."""


def received(large):
    with large.receive(timeout=10) as message:
        return message.sequence_id, message.body()


class Interrupted:
    """The body as pieces that end with an exception."""

    def __init__(self, upto, body=BODY):
        self.upto, self.body = upto, body

    def __iter__(self):
        for at in range(0, len(self.body), 500):
            if at >= self.upto:
                raise StopError
            yield self.body[at : at + 500]


def interrupt(large, state, upto=37_000, **options):
    with pytest.raises(StopError):
        large.send(Interrupted(upto), resume=state, **options)
