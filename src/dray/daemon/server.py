"""One queue manager at work: its store, its turns, its callers and its links, in one loop.

The loop's thread drives the server. `serve` (`process.py`) starts one in a process of its own,
`EmbeddedDaemon` in a thread of another program.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import partial
from typing import Any, assert_never

from dray.daemon.access_record import AccessRecord, last_acts
from dray.daemon.config import ServeOptions
from dray.daemon.direct.session import DirectSession, Take
from dray.daemon.limits import HELLO_S, SESSIONS_OF_EMBEDDED_MIN, SESSIONS_SHARE, STOP_S
from dray.daemon.notice_log import NoticeLog
from dray.daemon.pacing.backlog import DiskBacklog
from dray.daemon.sockets.addresses import own_addresses
from dray.daemon.sockets.callers import caller_of
from dray.daemon.sockets.certificate_ends import CertificateEnds
from dray.daemon.sockets.connection import FrameConnection
from dray.daemon.sockets.descriptors import sessions_max
from dray.daemon.sockets.handshakes import Handshakes
from dray.daemon.sockets.links import DialledLinks
from dray.daemon.sockets.listener import Listener, listen_tcp, listen_unix
from dray.daemon.sockets.outbox import unpin_all
from dray.daemon.sockets.surroundings import Surroundings
from dray.daemon.sockets.tcp_door import check_tcp_door, what_open_means
from dray.daemon.timekeeper import Timekeeper, new_incarnation, new_manager_key
from dray.daemon.turns import Turns
from dray.daemon.watcher import AuditedDisk, open_disk_of, recorded_in
from dray.errors import DrayError, ProtocolError
from dray.machine import Tick
from dray.manager.dispatch import FROM_CALLERS
from dray.manager.events import (
    AccessChanged,
    Answer,
    CallerAct,
    CallerProven,
    CloseSession,
    Dial,
    Effect,
    HangUp,
    LinkSend,
    ManagerConfig,
    Peer,
    Reachable,
    Request,
    SessionClosed,
    SessionOpened,
)
from dray.manager.notices import NoticeKind
from dray.manager.turn import QueueManager
from dray.model.callers import ANYONE, NOBODY, OWNER, Caller
from dray.model.places import Places
from dray.net.listening import listen_address
from dray.net.tls import presenting, trusting
from dray.net.tunnels import Tunnels
from dray.store.disk import Disk
from dray.store.heap.heap import Extent
from dray.store.store import Store
from dray.wire.frames import failure
from dray.wire.stream import Frame

_log = logging.getLogger(__name__)


_request_of: Callable[[tuple[int, Frame]], Request] = partial(tuple.__new__, Request)
Load = Callable[[Store, ManagerConfig, float], QueueManager]
Connection = FrameConnection | DirectSession
"""A caller's end of a session: one by a socket, or one of this program."""


class Server:
    """Everything of one data directory that is open while a daemon runs."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        options: ServeOptions,
        *,
        load: Load = QueueManager.load,
        open_disk: Callable[[str], Disk] | None = None,
        caller_says: AbstractSet[int] | None = FROM_CALLERS,
    ) -> None:
        """Lock and recover the data directory, then listen for callers.

        They say Hello and then frames of the codes in `caller_says`. Raises whatever stands in the
        way: `StoreLocked`, `StoreCorrupt`, `AddressInUse`...
        """
        self._loop = loop
        self._caller_says = caller_says
        self._sessions: dict[int, Connection] = {}
        self._numbers: dict[Connection, int] = {}
        self._silent: dict[Connection, asyncio.TimerHandle] = {}
        self._next_session = 1
        self._stopping = False
        self._all_gone = asyncio.Event()
        self._listeners: list[Listener] = []
        self._tunnels = Tunnels()
        self._handshakes: Handshakes | None = None
        self._held: Places[Connection] = Places()
        self._unheard: Places[Connection] = Places()
        """Connections on which nothing was said yet."""
        self._own: frozenset[Peer] = frozenset()
        self._tcp_address: tuple[str, int] | None = None
        self._unproven = ANYONE if options.open else NOBODY
        self.ended: asyncio.Future[Exception] = loop.create_future()
        """Done when the daemon cannot go on, with the reason."""
        clock = Timekeeper()
        self._notices = NoticeLog(loop, clock)
        self._certificate_ends = CertificateEnds(loop, clock, self._notices)
        disk = (open_disk or partial(open_disk_of, options))(options.data)
        self._store = Store(
            disk, log_bytes=options.log_size, queue_files=True, express_bytes=options.express_bytes
        )
        try:
            config = options.manager_config(new_manager_key(), new_incarnation())
            config.acts = last_acts(recorded_in(disk))
            self._manager = load(self._store, config, clock.now())
            if isinstance(disk, AuditedDisk):
                disk.store_is_there()
            self._listen(options)
            self._record = AccessRecord(loop, clock, recorded_in(disk), self._notices)
            self._record.rules(config.access, "start")
        except BaseException:
            self._close_listeners()
            self._store.close()
            raise
        backlog = _backlog_of(self._store, loop)
        self._around = Surroundings(loop, self._store, backlog, self._notices)
        self.turns = Turns(
            loop, self._store, self._manager, clock=clock, performer=self, backlog=backlog
        )
        self.reads, self.has_read = self.turns.more_comes, self.turns.nothing_more
        """Called before and after the input of a connection is passed on."""
        self._links = DialledLinks(
            self._around,
            self._manager.hello,
            self.turns,
            tunnels=self._tunnels,
            trusted=_trusted_by(options),
        )
        loop.set_exception_handler(self._unforeseen)
        self.turns.deliver(Reachable(self._own))
        self.turns.deliver(Tick())

    @property
    def addresses(self) -> list[str]:
        """The addresses at which it listens."""
        return [listener.address for listener in self._listeners]

    @property
    def overfull(self) -> bool:
        """Whether nothing should be read from sessions now."""
        return self._stopping or self.turns.overfull

    def follow(self, again: Callable[[], ServeOptions]) -> bool:
        """Use the access rules and certificates of other options; not if they make no sense."""
        try:
            options = again()
            access, peer_tokens = options.access_rules(), options.peer_tokens()
            if self._tcp_address is not None:
                knows = self._manager.knows_tokens
                check_tcp_door(options, self._tcp_address, knows_tokens=knows)
            trusted = _trusted_by(options)
            if options.tls_ca is not None or options.tls_cert is not None:
                trusted()  # Each link reads the files again.
            if self._handshakes is not None and options.tls_cert is not None:
                self._handshakes.present(
                    presenting(options.tls_cert, options.tls_key, options.tls_client_ca)
                )
            self._warn_of(options)
            self._links.trust(trusted)
            self._unproven = ANYONE if options.open else NOBODY
            self.turns.deliver(AccessChanged(access, peer_tokens))
            self._record.rules(access, "reload")
        except DrayError as error:
            _log.error("the configuration was not read again, and the old one holds: %s", error)
            return False
        _log.warning("the configuration was read again: access and certificates follow it")
        return True

    def describe(self) -> str:
        """The line that says who is ready where."""
        where = f" at {' '.join(self.addresses)}" if self._listeners else ""
        return f'dray: manager "{self._manager.name}" ({self._manager.id}) ready{where}'

    def _accept(self, sock: socket.socket, address: object) -> None:
        """Serve a connection that came from `address`."""
        self.adopt(sock, caller_of(sock, address, unproven=self._unproven))

    def adopt(self, sock: socket.socket, caller: Caller) -> None:
        """Serve a connection from `caller`."""
        if not self._has_room(caller):
            sock.close()
            return
        self._open_session(
            FrameConnection(self._around, sock, self, caller, caller_says=self._caller_says), caller
        )

    def adopt_direct(self, take: Take, hung_up: Callable[[], None]) -> DirectSession | None:
        """Serve a part of this program that calls; None if it may not come in."""
        if self._stopping or not self._has_room(OWNER):
            return None
        session = DirectSession(self._around, self, take, hung_up)
        self._open_session(session, OWNER)
        return session

    def _has_room(self, caller: Caller) -> bool:
        most = max(sessions_max(), SESSIONS_OF_EMBEDDED_MIN)
        if not self._stopping and self._makes_room(caller, most):
            return True
        told = f"a connection from {caller} was refused: {len(self._sessions)} are open"
        self._notices.say(NoticeKind.CONNECTION_REFUSED, caller.place, told)
        return False

    def _open_session(self, connection: Connection, caller: Caller) -> None:
        number = self._next_session
        self._next_session += 1
        self._sessions[number] = connection
        self._numbers[connection] = number
        self._held.add(connection, caller.place)
        _log.debug("session %d of %s is open", number, caller)
        self.turns.deliver(SessionOpened(number, caller))
        connection.start()
        self._silent[connection] = self._loop.call_later(
            HELLO_S, connection.abort, f"nothing was said for {HELLO_S:.0f} s"
        )
        self._unheard.add(connection, caller.place)

    def _makes_room(self, caller: Caller, most: int) -> bool:
        """Whether a caller may come in; if too many are here, one that never spoke makes room."""
        share = most if caller.owner else max(most // SESSIONS_SHARE, SESSIONS_OF_EMBEDDED_MIN)
        if self._held.count(caller.place) >= min(share, most):
            silent = self._unheard.oldest(caller.place)
        elif len(self._sessions) >= most:
            silent = self._unheard.oldest()
        else:
            return True
        if silent is not None:
            silent.abort("it said nothing while others came")
        return silent is not None

    def _heard(self, connection: Connection) -> None:
        self._unheard.discard(connection)
        timer = self._silent.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def frame_came(self, connection: Connection, frame: Frame) -> None:
        """Pass on a request."""
        if connection in self._silent:
            self._heard(connection)
        number = self._numbers.get(connection)
        if number is not None:
            self.turns.deliver(_request_of((number, frame)))

    def frame_refused(self, connection: Connection, error: ProtocolError) -> None:
        """Say what was wrong after all that was decided before, then end the session."""
        number = self._numbers.get(connection)
        if number is not None:
            self.turns.follow(Answer(number, 0, failure(error)), CloseSession(number))

    def connection_closed(self, connection: Connection, reason: str) -> None:
        """Forget a session."""
        self._heard(connection)
        self._held.discard(connection)
        number = self._numbers.pop(connection)
        del self._sessions[number]
        _log.debug("session %d of %s is over: %s", number, connection.caller, reason)
        self.turns.deliver(SessionClosed(number))
        if self._stopping and not self._sessions:
            self._all_gone.set()

    def perform(self, effects: Iterable[Effect]) -> None:
        """Do what the manager decided; its extents are pinned."""
        touched: dict[Connection, None] = {}
        peers: dict[Peer, None] = {}
        for effect in effects:
            match effect:
                case Answer(session):
                    connection = self._sessions.get(session)
                    if connection is None:
                        unpin_all(self._store, effect.body)
                    else:
                        self._answer(connection, effect)
                        touched[connection] = None
                case CloseSession() | CallerProven():
                    self._change_session(effect)
                case Dial(peer):
                    self._links.dial(peer)
                case HangUp(peer):
                    self._links.hang_up(peer)
                case LinkSend(peer, head, body):
                    self._links.send(peer, head, body)
                    peers[peer] = None
                case CallerAct():
                    self._record.note(effect)
                case _:
                    assert_never(effect)
        for connection in touched:
            connection.flush()
        for peer in peers:
            self._links.flush(peer)

    def _change_session(self, effect: CloseSession | CallerProven) -> None:
        """End a session, or count it for the caller that has shown who it is."""
        connection = self._sessions.get(effect.session)
        if connection is None:
            return
        if isinstance(effect, CloseSession):
            connection.finish()
            return
        _log.debug("session of %s is that of %s", connection.caller, effect.caller)
        connection.caller = effect.caller
        self._held.discard(connection)
        self._held.add(connection, effect.caller.place)

    def reconsider(self) -> None:
        """Stop reading everywhere, or go on, as `overfull` now says."""
        for connection in list(self._numbers):
            connection.reconsider()
        self._links.reconsider()

    def described(self, session: int) -> str:
        """The caller of a session, for the log."""
        connection = self._sessions.get(session)
        return "a caller that has left" if connection is None else str(connection.caller)

    def failed(self, error: Exception) -> None:
        """Remember why the daemon has to end; whoever started it ends it."""
        if not self.ended.done():
            self.ended.set_result(error)

    async def stop(self) -> None:
        """Finish what was begun, in bounded time, and close the data directory.

        Raises `StoreError` if that does not succeed; everything answered for is safe all the same.
        """
        self._stopping = True
        self._close_listeners()
        self.reconsider()
        with suppress(TimeoutError):
            await asyncio.wait_for(self.turns.drain(), STOP_S)
        for connection in list(self._numbers):
            connection.finish(linger=False)
        if self._sessions:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._all_gone.wait(), STOP_S)
        for connection in list(self._numbers):
            connection.abort("the daemon stops")
        self._links.close()
        if self._handshakes is not None:
            self._handshakes.cancel()
        await self._tunnels.close()
        self._certificate_ends.stop()
        self._notices.stop()
        self._around.intake.close()
        self._around.run_delay.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._around.copier.idle(), STOP_S)
            self._around.copier.stop()
        try:
            await self.turns.stop()
        finally:
            await self._record.stop()

    def _unforeseen(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Something of ours failed outside any request: better to end than to leave all waiting."""
        error = context.get("exception")
        _log.error("%s", context["message"], exc_info=error)
        if error is not None:
            self.turns.fail(error)

    def _answer(self, connection: Connection, answer: Answer) -> None:
        # Bytes that may leave their queue with this answer are copied; see docs/decisions/0011.
        in_kernel = not answer.held
        if answer.into is not None:
            (extent,) = answer.body
            assert isinstance(extent, Extent), "what is copied into files lies in a heap file"
            connection.copy(answer.head, answer.request_id, extent, answer.into)
            return
        try:
            connection.send(answer.head, answer.request_id, answer.body, in_kernel=in_kernel)
        except ProtocolError as error:
            caller = connection.caller
            assert caller is not None, "a session was accepted"
            told = f"an answer to {caller} could not be sent: {error}"
            self._notices.say(NoticeKind.ANSWER_UNSENT, caller.place, told)
            unpin_all(self._store, answer.body)
            connection.send(failure(error), answer.request_id)

    def _listen(self, options: ServeOptions) -> None:
        if options.listen is not None:
            host, port = listen_address(options.listen)
            if options.tls_cert is not None:
                self._handshakes = Handshakes(
                    self._tunnels,
                    presenting(options.tls_cert, options.tls_key, options.tls_client_ca),
                    accepted=self._accept,
                    notices=self._notices,
                )
            sock, address = listen_tcp(host, port)
            self._tcp_address = sock.getsockname()
            self._own = own_addresses(host, sock, options.addresses)
            accepted = self._accept
            if self._handshakes is not None:
                address = address.replace("dray://", "drays://", 1)
                accepted = self._handshakes.begin
            self._listeners.append(
                Listener(self._loop, sock, address, accepted=accepted, notices=self._notices)
            )
            # Nothing is accepted before the loop's next pass.
            knows = self._manager.knows_tokens
            check_tcp_door(options, self._tcp_address, knows_tokens=knows)
        if options.socket is not None:
            sock, address = listen_unix(options.socket, options.socket_group)
            self._listeners.append(
                Listener(self._loop, sock, address, accepted=self._accept, notices=self._notices)
            )
        self._warn_of(options)

    def _warn_of(self, options: ServeOptions) -> None:
        if options.open and self._listeners:
            where = " and ".join(self.addresses)
            self._notices.say(NoticeKind.OPEN, where, what_open_means(where))
        self._certificate_ends.watch([options.tls_cert, options.tls_client_ca])

    def _close_listeners(self) -> None:
        while self._listeners:
            self._listeners.pop().close()


def _trusted_by(options: ServeOptions) -> Callable[[], ssl.SSLContext]:
    """Give whom links trust and what they present, from files that each link reads again."""
    return partial(trusting, options.tls_ca, options.tls_cert, options.tls_key)


def _backlog_of(store: Store, loop: asyncio.AbstractEventLoop) -> DiskBacklog:
    return DiskBacklog(
        lambda: store.unsynced_bytes, loop.call_soon, lambda: store.queue_files_unwritten
    )
