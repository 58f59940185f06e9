"""The control socket: how another program of the same user steers a transfer that one runs.

Beside the state file of a transfer lies a Unix socket while it runs. A connection carries one order
and its answer, a line of JSON each (docs/formats/transfer.md). An order may take as long as reading
the file again, so each is obeyed in a short thread of its own, never in that of the transfer.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal

import msgspec

from dray.errors import ConnectionLost, DrayError, Misuse, from_code
from dray.forks import keep_from_children

Act = Literal["suspend", "resume", "cancel"]

_LINE_BYTES_MAX: Final = 4096
_ORDER_WITHIN_S: Final = 5.0
_ANSWERED_WITHIN_S: Final = 5.0
_AT_ONCE_MAX: Final = 8
"""Orders that are being obeyed; more are hung up on."""


class Order(msgspec.Struct, frozen=True):
    """An order to a transfer, for one of its consumers or, without a name, for all."""

    act: Act
    consumer: str = ""


class OrderAnswer(msgspec.Struct, frozen=True):
    """The result of an order; without a code it was obeyed."""

    code: str = ""
    sentence: str = ""


class ControlSocket:
    """The end that obeys. Where no socket can be made, the transfer runs without one."""

    def __init__(self, path: Path) -> None:
        """Be at `path` once it listens; whoever makes one holds the lock of the state file."""
        self._path = path
        self._listener: socket.socket | None = None
        self._obeying: list[threading.Thread] = []

    def listen(self) -> socket.socket | None:
        """Begin; give the socket to watch, or None where there can be none."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        keep_from_children(listener)
        fresh = self._path.with_name(f"{self._path.name}.new")
        try:
            with suppress(FileNotFoundError):
                fresh.unlink()
            with _short(fresh) as name:
                listener.bind(name)
            fresh.chmod(0o600)
            listener.listen(_AT_ONCE_MAX)
            listener.setblocking(False)
            # Programs that find it are heard; a file that a killed program has left is replaced.
            fresh.replace(self._path)
        except OSError:
            # A file system without sockets: only that others cannot steer it.
            listener.close()
            return None
        self._listener = listener
        return listener

    def accept(self, obey: Callable[[Order], object]) -> None:
        """Somebody has connected: have the order obeyed, in another thread."""
        listener = self._listener
        if listener is None:
            return
        try:
            sock, _ = listener.accept()
        except OSError:
            # Gone before it was accepted, or no descriptor left; it may come again.
            return
        keep_from_children(sock)
        self._obeying = [each for each in self._obeying if each.is_alive()]
        if len(self._obeying) >= _AT_ONCE_MAX:
            sock.close()
            return
        thread = threading.Thread(target=_obey, args=(sock, obey), name="dray-control", daemon=True)
        self._obeying.append(thread)
        thread.start()

    def close(self) -> None:
        """Take no more orders. Harmless when repeated."""
        listener, self._listener = self._listener, None
        if listener is None:
            return
        with suppress(FileNotFoundError):
            self._path.unlink()
        listener.close()

    def settle(self) -> None:
        """Let the last answers out; not for the thread that has to do what is asked."""
        for thread in self._obeying:
            thread.join(_ANSWERED_WITHIN_S)


def give_order(path: Path, order: Order) -> None:
    """Have the program that runs a transfer do something; raises what kept it from that.

    `Misuse` if no program takes orders there, `ConnectionLost` if it ended without an answer.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        try:
            with _short(path) as name:
                sock.connect(name)
        except OSError as error:
            raise Misuse(
                "the program that runs this file transfer does not answer:"
                f" {error.strerror or error}; look whether it still runs"
            ) from error
        try:
            sock.sendall(msgspec.json.encode(order) + b"\n")
            answer = msgspec.json.decode(_line(sock), type=OrderAnswer)
        except (OSError, msgspec.MsgspecError) as error:
            raise ConnectionLost(
                f"the program that runs this file transfer got the request to {order.act} it and"
                " did not answer in time; look at `dray transfer list`"
            ) from error
    if answer.code:
        raise from_code(answer.code, answer.sentence, {})


def _obey(sock: socket.socket, obey: Callable[[Order], object]) -> None:
    with sock:
        answer = OrderAnswer()
        try:
            sock.settimeout(_ORDER_WITHIN_S)
            obey(msgspec.json.decode(_line(sock), type=Order))
        except DrayError as error:
            answer = OrderAnswer(error.code, str(error))
        except msgspec.MsgspecError as error:
            answer = OrderAnswer(
                Misuse.code, f"an order to a file transfer cannot be read: {error}"
            )
        except OSError:
            # It hung up, or fell silent before it had said what it wants.
            return
        with suppress(OSError):
            # A consumer that has gone need not know.
            sock.sendall(msgspec.json.encode(answer) + b"\n")


def _line(sock: socket.socket) -> bytes:
    """The bytes up to the end of the line, or of the connection."""
    found = b""
    while b"\n" not in found and len(found) < _LINE_BYTES_MAX:
        more = sock.recv(_LINE_BYTES_MAX)
        if not more:
            break
        found += more
    return found


@contextmanager
def _short(path: Path) -> Iterator[str]:
    """A name that fits into a socket's address, of which 107 bytes are all there is."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
