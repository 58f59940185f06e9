"""The offered files that a handle was given, and those that it may be given."""

from __future__ import annotations

from collections.abc import Iterable

from dray.client.transfer.reference import Reference


class Given:
    """The files that a handle was given, and which calls may be given one that is for many.

    Each call of `accept_file` is a consumer of its own. Only what comes after the handle is done
    with a file (saved, given up, closed) is not given it again: a loop that takes file after file
    would get the same one for as long as it is offered.
    """

    def __init__(self) -> None:
        self._given: set[str] = set()
        self._calls = 0
        self._done: dict[str, int] = {}
        """The number of calls that had begun when the handle was done with one."""

    def __contains__(self, transfer_id: str) -> bool:
        return transfer_id in self._given

    def begin_call(self) -> int:
        """Give the number of a call that begins now."""
        self._calls += 1
        return self._calls

    def add(self, transfer_id: str) -> None:
        """Note what a call is given."""
        self._given.add(transfer_id)

    def note_done(self, transfer_ids: Iterable[str]) -> None:
        """Note what the handle is done with, before the next call begins."""
        for each in transfer_ids:
            self._done.setdefault(each, self._calls)

    def may_be_given(self, reference: Reference, call: int) -> bool:
        """Whether a call may have that file; what is for one consumer is given once."""
        if reference.consumers == "many":
            return call <= self._done.get(reference.transfer, call)
        return reference.transfer not in self._given
