"""A queue manager that a test speaks for, frame by frame, with a key of its own."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from dray.delivery.keys import KEY_BYTES, ONCE_BYTES, ConnectionKey, ManagerKey
from dray.manager.peers import with_proof
from dray.wire.frames import Hello, Welcome
from dray.wire.peer_frames import EndStream, OpenStream

ONCE = b"1" * ONCE_BYTES


def key_named(letter: str) -> bytes:
    """The private key that a test calls by a letter."""
    return letter.encode() * KEY_BYTES


@lru_cache
def id_named(letter: str) -> str:
    """The id of the queue manager with that key."""
    return ManagerKey(key_named(letter)).id


class KeyedManager:
    """One that calls a queue manager, or is called by it."""

    def __init__(self, letter: str) -> None:
        """Take the key of that letter."""
        self._own = ManagerKey(key_named(letter))
        self._name = letter
        self._connection: ConnectionKey | None = None
        self.id = self._own.id

    def hello(self, **said: object) -> Hello:
        """Its first frame on a connection that it makes."""
        hello = Hello("manager", self.id, self._name, public=self._own.public, once=ONCE)
        return msgspec.structs.replace(hello, **said)

    def welcomed(self, welcome: Welcome) -> None:
        """Take the answer; frames of streams can be proven now."""
        self._connection = self._own.calling(ONCE, welcome.public, welcome.once)

    def proven(self, head: OpenStream | EndStream) -> OpenStream | EndStream:
        """A frame with its proof."""
        assert self._connection is not None, "it has been welcomed"
        return with_proof(self._connection, head)

    def welcome(self, hello: Hello) -> Welcome:
        """The answer to a manager that calls it."""
        connection = self._own.answering(ONCE, hello.public, hello.once)
        assert connection is not None, "a queue manager says its key"
        proof = connection.proof(b"welcome")
        welcome = Welcome(self.id, self._name, "", 1, public=self._own.public, once=ONCE)
        return msgspec.structs.replace(welcome, proof=proof)
