"""All file transfers of one manager's handle: how they begin, and which are unfinished."""

from __future__ import annotations

import secrets
import socket
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from dray.client.awaited.offers import (
    ID_BYTES,
    OfferRequest,
    offered_file,
    refer,
    source_of,
    withdraw,
)
from dray.client.awaited.queue import Queue
from dray.client.awaited.transfer import Incoming, Offer, RunningTransfer
from dray.client.connections.link import Link, QueueHandle
from dray.client.files.steps import reached
from dray.client.transfer.board import Told
from dray.client.transfer.direct import listen_at
from dray.client.transfer.given import Given
from dray.client.transfer.kept import (
    kept_in,
    taken_and_at_rest,
    unfinished,
)
from dray.client.transfer.offering import Offering
from dray.client.transfer.reference import (
    Reference,
    check_terms,
    read_reference,
)
from dray.client.transfer.source import SourceFile
from dray.client.transfer.state import (
    IN,
    OUT,
    KeptIncoming,
    Offered,
    StateFile,
    check_noted,
    folder_of,
    is_run,
    kept_incoming,
    kept_offers,
)
from dray.errors import (
    AccessDenied,
    MessageNotFound,
    Misuse,
    ReceiveTimeout,
    TransferSourceChanged,
)
from dray.forks import Process, tell_of_forks
from dray.model.limits import TRANSFER_SILENCE_S
from dray.model.message import Message
from dray.model.names import parse_queue_address
from dray.model.transfer import AUTOMATIC, TransferState, TransferStatus
from dray.transfer.events import ProducerEvent, SourceBroke, Suspend


class Manner(NamedTuple):
    """The options of an end that the other one is not told: `listen` and `told` of an offer."""

    listen: str | None = AUTOMATIC
    silence_s: float = TRANSFER_SILENCE_S
    told: Told | None = None
    direct: bool | None = None
    """Whether a consumer may connect to its producer; None: unless that is less safe than here."""


class Transfers:
    """The transfers of one link."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._running: list[Offer | Incoming] = []
        self._given_here = Given()
        tell_of_forks(self)

    def after_fork(self, _parent: Process) -> None:
        """In a child: leave those that run to the parent, which has the threads that run them."""
        self._running = []
        self._given_here = Given()

    async def offer(self, asked: OfferRequest, manner: Manner) -> Offer:
        """Offer a file, or go on with the unfinished offer of that file to that queue."""
        check_terms(0, asked.fragment_size, asked.window_size)
        folder = await self._folder()
        asked = asked._replace(path=await self._link.runtime.offload(asked.path.absolute))
        check_noted(asked.path)
        for kept in await self._link.runtime.offload(kept_offers, folder):
            if (kept.path, kept.queue) == (str(asked.path), asked.queue):
                state = await self._lock_free(folder, kept.reference.transfer, OUT)
                if state is not None:
                    return await self._take_up(kept, state, manner)
        source = await self._link.runtime.offload(SourceFile, asked.path)
        try:
            kind = asked.digest_kind or await QueueHandle(self._link, asked.queue).digest_kind()
            kept = await self._link.runtime.offload(offered_file, asked, source, kind)
            reached("offer-scanned")
            state = await self._link.runtime.offload(
                StateFile, folder, kept.reference.transfer, OUT
            )
            return await self._begin(kept, state, source, manner)
        except BaseException:
            source.close()
            raise

    async def accept(self, source: str, timeout: float | None, manner: Manner) -> Incoming:
        """Return an unfinished transfer from that queue, or wait for a reference in it.

        A transfer whose producer was silent comes after the offers that are there: that producer
        may be gone for good.
        """
        name = str(parse_queue_address(source))
        self._let_go_of_what_is_over()
        call = self._given_here.begin_call()
        left = [
            each
            for each in await self._link.runtime.offload(kept_incoming, await self._folder())
            if each.queue == name and each.reference.transfer not in self._given_here
        ]
        silent = [each for each in left if each.state is TransferState.TIMED_OUT]
        resumed = await self._resumed([each for each in left if each not in silent], manner)
        if resumed is not None:
            return resumed
        queue = Queue(self._link, name)
        until = None if timeout is None else time.monotonic() + timeout
        position = 0
        while True:
            left_s = None if until is None else max(0.0, until - time.monotonic())
            try:
                message = await queue.next_after(position, 0 if silent else left_s)
            except ReceiveTimeout as error:
                if silent:
                    resumed = await self._resumed(silent, manner)
                    if resumed is not None:
                        return resumed
                    silent = []
                    continue
                raise ReceiveTimeout(
                    f"no file was offered in {name!r} within {timeout:g} s"
                ) from error
            position = message.lookup_id or 0
            reference = read_reference(message.extension, message.body)
            if reference is None or not self._given_here.may_be_given(reference, call):
                continue
            if reference.transfer in {each.reference.transfer for each in silent}:
                continue
            accepted = await self._accepted(queue, message, reference, manner)
            if accepted is not None:
                return accepted

    async def resume(self, transfer_id: str, manner: Manner) -> Offer | Incoming:
        """Resume an unfinished transfer; raises `Misuse` if there is none with that id."""
        folder = await self._folder()
        runtime = self._link.runtime
        running = False
        for offered in await runtime.offload(kept_offers, folder):
            if offered.reference.transfer == transfer_id:
                out = await self._lock_free(folder, transfer_id, OUT)
                if out is not None:
                    return await self._take_up(offered, out, manner)
                running = True
        for kept in await runtime.offload(kept_incoming, folder):
            if kept.reference.transfer == transfer_id:
                state = await self._lock_free(folder, kept.key, IN)
                if state is not None:
                    await self._clear_reference(kept)
                    return self._given(kept, state, manner)
                running = True
        if running:
            raise Misuse(
                f"another program runs file transfer {transfer_id!r}; suspend it there first"
            )
        raise _not_unfinished(transfer_id)

    async def unfinished(self) -> list[TransferStatus]:
        """The unfinished transfers; those that run in this handle with their current state."""
        folder = await self._folder()
        statuses = [each.status for each in self._running]
        live = {(each.transfer_id, each.direction): each for each in statuses}
        found = await self._link.runtime.offload(unfinished, folder)
        now = [live.get((each.transfer_id, each.direction), each) for each in found]
        return [each for each in now if each.state not in _OVER]

    async def cancel(self, transfer_id: str, consumer_id: str) -> None:
        """Cancel an unfinished transfer, here or where it runs. The offered file may be missing."""
        runtime, folder = self._link.runtime, await self._folder()
        for status, name in await runtime.offload(kept_in, folder):
            if status.transfer_id != transfer_id:
                continue
            state = await self._lock_free(folder, name, status.direction)
            if state is None:
                await RunningTransfer(runtime, folder, name, status).cancel(consumer_id)
            elif consumer_id:
                state.release()
                raise Misuse(
                    f"no program runs file transfer {transfer_id}; resume it, or cancel all of it"
                )
            else:
                await self._cancel_here(folder, name, state)
            return
        raise _not_unfinished(transfer_id)

    async def running(self, transfer_id: str) -> RunningTransfer | None:
        """The transfer that a program runs now, an offer first; None if none runs."""
        runtime, folder = self._link.runtime, await self._folder()
        for status, name in await runtime.offload(kept_in, folder):
            if status.transfer_id == transfer_id and await runtime.offload(
                is_run, folder, name, status.direction
            ):
                return RunningTransfer(runtime, folder, name, status)
        return None

    async def linger(self, seconds: float) -> None:
        """Have offers that ended undone here tell those who have taken them, for so long."""
        until = time.monotonic() + seconds
        folder = await self._folder()
        at_rest = await self._link.runtime.offload(taken_and_at_rest, folder)
        for each in list(self._running):
            if isinstance(each, Offer) and each.transfer_id not in at_rest:
                await each.linger(max(0.0, until - time.monotonic()))

    async def close(self) -> None:
        """Stop all transfers here; unfinished ones can be resumed."""
        running, self._running = self._running, []
        for each in running:
            await each.close()

    # -------------------------------------------------------------------------------- offering

    async def _take_up(self, kept: Offered, state: StateFile, manner: Manner) -> Offer:
        """Go on with an offer of an earlier run of a program; the file must be what it was."""
        runtime = self._link.runtime
        try:
            source = await runtime.offload(source_of, kept)
        except TransferSourceChanged as error:
            await self._give_up(kept, state, error)
            raise
        except BaseException:
            state.release()
            raise
        try:
            return await self._begin(kept, state, source, manner)
        except BaseException:
            source.close()
            raise

    async def _give_up(self, kept: Offered, state: StateFile, error: TransferSourceChanged) -> None:
        """End an offer of what there is no more, and tell whoever has its reference."""
        runtime = self._link.runtime
        try:
            was_there = await runtime.offload(withdraw, self._link.dialer, kept)
            if was_there and kept.reference.consumers == "one":
                await runtime.offload(state.remove)
                return
        except BaseException:
            state.release()
            raise
        offer = self._served(kept, state, Manner(listen=None), first=SourceBroke(error))
        with suppress(TransferSourceChanged):
            await offer.wait()

    async def _begin(
        self, kept: Offered, state: StateFile, source: SourceFile, manner: Manner
    ) -> Offer:
        runtime = self._link.runtime
        listener: socket.socket | str | None = manner.listen
        try:
            if listener is not None and listener != AUTOMATIC:
                listener = await runtime.offload(listen_at, manner.listen)
            await refer(self._link, kept, state)
        except BaseException as error:
            if isinstance(listener, socket.socket):
                listener.close()
            if isinstance(error, AccessDenied):
                # Nothing was sent. Kept, it would bind the next offer of the file to this caller.
                await runtime.offload(state.remove)
            else:
                state.release()
            raise
        return self._served(kept, state, manner, source=source, listener=listener)

    def _served(
        self,
        kept: Offered,
        state: StateFile,
        manner: Manner,
        *,
        source: SourceFile | None = None,
        listener: socket.socket | str | None = None,
        first: ProducerEvent | None = None,
    ) -> Offer:
        """Run an offer; without its source, `first` keeps it from being served to anybody."""
        engine = Offering(
            self._link.dialer,
            kept,
            state=state,
            source=source,
            listener=listener,
            silence_s=manner.silence_s,
            withdraw=partial(withdraw, self._link.dialer, kept),
            told=manner.told,
        )
        if first is not None and not engine.core.state.final:
            engine.ask(first)
        engine.start()
        offer = Offer(self._link, engine)
        self._let_go_of_what_is_over()
        self._running.append(offer)
        return offer

    async def _cancel_here(self, folder: Path, name: str, state: StateFile) -> None:
        """Cancel what no program runs: take it up for as long as it takes to say so."""
        runtime = self._link.runtime
        given: Offer | Incoming | None = None
        for offered in await runtime.offload(kept_offers, folder):
            if offered.reference.transfer == name:
                given = self._served(offered, state, Manner(listen=None), first=Suspend())
        for kept in await runtime.offload(kept_incoming, folder):
            if kept.key == name:
                given = self._given(kept, state, Manner())
        if given is None:
            # It has ended since it was looked for.
            state.release()
            return
        await given.cancel()

    # ------------------------------------------------------------------------------- accepting

    async def _resumed(self, unfinished: list[KeptIncoming], manner: Manner) -> Incoming | None:
        """The first of these that no program runs and that is not saved yet."""
        for kept in unfinished:
            state = await self._lock_free(await self._folder(), kept.key, IN)
            if state is not None:
                await self._clear_reference(kept)
                incoming = self._given(kept, state, manner)
                if not kept.verified:
                    return incoming
                # The file is there; what is left is to tell its producer, beside what follows.
                await incoming.begin()
        return None

    async def _accepted(
        self, queue: Queue, message: Message, reference: Reference, manner: Manner
    ) -> Incoming | None:
        """Take a message that is a reference; None if another consumer was first."""
        folder = await self._folder()
        kept = KeptIncoming(reference=reference, queue=queue.name, key=secrets.token_hex(ID_BYTES))
        state = await self._link.runtime.offload(StateFile, folder, kept.key, IN)
        try:
            # Kept before it is received: a kill in between leaves both, never neither.
            await self._link.runtime.offload(state.write, kept)
            reached("accept-kept")
            if reference.consumers == "one":
                await queue.receive_by_lookup_id(message.lookup_id or 0)
            kept.received = True
        except MessageNotFound:
            state.remove()
            return None
        except BaseException:
            state.release()
            raise
        reached("accept-received")
        return self._given(kept, state, manner)

    async def _clear_reference(self, kept: KeptIncoming) -> None:
        """Receive what a kill has left between keeping a reference and receiving it."""
        if kept.received or kept.reference.consumers == "many":
            return
        queue = Queue(self._link, kept.queue)
        try:
            await queue.receive_by_correlation_id(kept.reference.transfer)
        except MessageNotFound:
            # It was received, or another consumer has it: the handshake will tell.
            return

    def _given(self, kept: KeptIncoming, state: StateFile, manner: Manner) -> Incoming:
        self._given_here.add(kept.reference.transfer)
        silence_s, direct = manner.silence_s, manner.direct
        incoming = Incoming(self._link, kept, state, silence_s=silence_s, direct=direct)
        self._let_go_of_what_is_over()
        self._running.append(incoming)
        return incoming

    def _let_go_of_what_is_over(self) -> None:
        self._given_here.note_done(
            each.transfer_id
            for each in self._running
            if isinstance(each, Incoming) and (each.done_with or each.at_rest)
        )
        self._running = [each for each in self._running if not each.at_rest]

    async def _lock_free(self, folder: Path, name: str, direction: str) -> StateFile | None:
        """The state file, locked; None if somebody runs the transfer."""
        try:
            return await self._link.runtime.offload(StateFile, folder, name, direction)
        except Misuse:
            return None

    async def _folder(self) -> Path:
        connection = await self._link.connection()
        return await self._link.runtime.offload(folder_of, connection.manager_id)


_OVER = (TransferState.DONE, TransferState.CANCELLED, TransferState.FAILED)


def _not_unfinished(transfer_id: str) -> Misuse:
    return Misuse(f"there is no unfinished file transfer {transfer_id!r}; see `dray transfer list`")
