"""The key of a queue manager, and how it shows another one that it holds it.

A queue manager draws a private key when its store is made (X25519). Its id is the fingerprint of
the public key, so nobody else can show that the id is theirs.

    caller                                              answerer
    Hello(id, public key, number drawn once)      ->
                                                  <-    Welcome(the same, proof "welcome")
    OpenStream(..., proof of the whole frame)     ->    EndStream the same

Both compute one secret from their own private and the other's public key, and from it a secret of
the connection: over both public keys and both numbers. A proof is a keyed hash (HMAC-SHA256) with
that. It holds on this one connection only, and nobody can make it who holds neither key.
"""

from __future__ import annotations

import hmac
from functools import cached_property
from hashlib import sha256
from typing import Final

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

KEY_BYTES: Final = 32
ONCE_BYTES: Final = 16
"""Length of the number that a manager gives to one connection and to no other."""
_ID_BYTES: Final = 16


def id_of(public: bytes) -> str:
    """The id of the queue manager with a public key: 32 hexadecimal digits."""
    return sha256(b"dray manager " + public).digest()[:_ID_BYTES].hex()


class ManagerKey:
    """The private key of one queue manager."""

    def __init__(self, private: bytes) -> None:
        """Take a key of `KEY_BYTES`, drawn at random."""
        self.private = private

    @cached_property
    def public(self) -> bytes:
        """The public key."""
        return self._key.public_key().public_bytes_raw()

    @cached_property
    def id(self) -> str:
        """The id of the manager whose key it is."""
        return id_of(self.public)

    def once(self, incarnation: int, count: int) -> bytes:
        """The number for the `count`-th connection of an incarnation: nobody can foresee it."""
        said = b"connection" + incarnation.to_bytes(8, "little") + count.to_bytes(8, "little")
        return _keyed(self.private, said)[:ONCE_BYTES]

    def copy_proof(self, said: bytes) -> bytes:
        """Proof for those who hold the same key: a copy of the store said this."""
        return _keyed(self.private, b"copy" + said)

    def proves_copy(self, proof: bytes, said: bytes) -> bool:
        """Whether a holder of the same key said this."""
        return hmac.compare_digest(proof, self.copy_proof(said))

    def seal(self, said: bytes) -> bytes:
        """Proof for those who hold the same key: this store or a copy of it wrote a receipt."""
        return _keyed(self.private, b"receipt" + said)

    def calling(self, once: bytes, answerer: bytes, answerer_once: bytes) -> ConnectionKey | None:
        """The secret of a connection that this manager made; None if the other key is no key."""
        return self._with(answerer, self.public + answerer, once, answerer_once)

    def answering(self, once: bytes, caller: bytes, caller_once: bytes) -> ConnectionKey | None:
        """The secret of a connection that this manager accepted; None as in `calling`."""
        return self._with(caller, caller + self.public, caller_once, once)

    @cached_property
    def _key(self) -> X25519PrivateKey:
        return X25519PrivateKey.from_private_bytes(self.private)

    def _with(self, public: bytes, both: bytes, *once: bytes) -> ConnectionKey | None:
        if len(public) != KEY_BYTES or any(len(each) != ONCE_BYTES for each in once):
            return None
        try:
            shared = self._key.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError:
            # Some numbers give a secret that everybody knows.
            return None
        return ConnectionKey(_keyed(shared, both + b"".join(once)))


class ConnectionKey:
    """A secret that both ends of one connection know, and nobody else."""

    def __init__(self, secret: bytes) -> None:
        """Take what was computed of both keys."""
        self._secret = secret

    def proof(self, said: bytes) -> bytes:
        """Proof that one of the two said this on this connection."""
        return _keyed(self._secret, said)

    def proves(self, proof: bytes, said: bytes) -> bool:
        """Whether a proof is that of what was said."""
        return hmac.compare_digest(proof, self.proof(said))


def _keyed(secret: bytes, said: bytes) -> bytes:
    return hmac.digest(secret, said, "sha256")
