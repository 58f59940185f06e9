"""TLS handshakes with callers: a bounded number at once, each in bounded time."""

from __future__ import annotations

import socket
import ssl

from dray.daemon.notice_log import NoticeLog
from dray.daemon.sockets.callers import shown_address
from dray.daemon.sockets.listener import Accepted
from dray.daemon.sockets.plain_callers import begins_plainly, turn_away
from dray.manager.notices import NoticeKind
from dray.model.callers import NOBODY, Caller
from dray.net.handshakes import BoundedHandshakes
from dray.net.tunnels import Tunnels


class Handshakes:
    """The handshakes of a listener with a certificate."""

    def __init__(
        self,
        tunnels: Tunnels,
        shown: ssl.SSLContext,
        *,
        accepted: Accepted,
        notices: NoticeLog,
    ) -> None:
        """Show callers the certificate of `shown`; pass those that agree to `accepted`."""
        self._tunnels = tunnels
        self._shown = shown
        self._accepted = accepted
        self._notices = notices
        self._under_way = BoundedHandshakes()

    def present(self, shown: ssl.SSLContext) -> None:
        """Show later callers another certificate."""
        self._shown = shown

    def begin(self, sock: socket.socket, address: object) -> None:
        """Shake hands before serving; in bounded time, and with a bounded number at once."""
        place = Caller(NOBODY, address=shown_address(address)).place
        self._under_way.begin(place, self._shake_hands(sock, address), sock.close)

    async def _shake_hands(self, sock: socket.socket, address: object) -> None:
        stranger = Caller(NOBODY, address=shown_address(address))
        try:
            if await begins_plainly(sock):
                await turn_away(sock, str(stranger))
                return
            inner = await self._tunnels.answer(sock, self._shown)
        except OSError as error:
            why = str(error) or "it hung up, or does not trust the certificate that it was shown"
            told = f"a TLS handshake with {stranger} failed: {why}"
            self._notices.say(NoticeKind.TLS_FAILED, stranger.place, told)
        else:
            self._accepted(inner, address)

    def cancel(self) -> None:
        """End them all."""
        self._under_way.cancel()
