"""Sockets that listen for HTTP."""

from __future__ import annotations

import socket

from dray.net.listening import listening_socket


def test_an_answer_in_two_pieces_does_not_wait_for_word_of_the_first():
    with (
        listening_socket(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
