"""The blocking face of `awaited.transaction`."""

from __future__ import annotations

from typing import Self

from dray.client.awaited.transaction import Transaction as AwaitedTransaction
from dray.client.blocking.face import Face, blocking
from dray.client.calls.public_calls import public
from dray.client.connections.threads import run
from dray.model.classes import TransactionStatus
from dray.model.ids import TransactionId


@public(made_by="Manager.transaction")
class Transaction(Face[AwaitedTransaction]):
    """A transaction. As a context manager it commits on normal exit and aborts on an exception."""

    @property
    def id(self) -> TransactionId:
        """Id, for `Manager.outcome`."""
        return self.awaited.id

    @property
    def status(self) -> TransactionStatus:
        """PENDING, PREPARED, COMMITTED, ABORTED or IN_DOUBT."""
        return self.awaited.status

    commit = blocking(AwaitedTransaction.commit)
    prepare = blocking(AwaitedTransaction.prepare)
    abort = blocking(AwaitedTransaction.abort)
    join = blocking(AwaitedTransaction.join)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        run(self.awaited.__aexit__(kind, *rest))
