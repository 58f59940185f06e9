"""A certificate for one offer: known beforehand, and no other one will do."""

from __future__ import annotations

import socket
import ssl
from concurrent.futures import ThreadPoolExecutor

import pytest

from dray.client.transfer.direct import showing_itself, trusting_only

WITHIN_S = 30


def shake(shown, trusted):
    """Shake hands; what the caller sees of it."""
    near, far = socket.socketpair()
    near.settimeout(WITHIN_S)
    far.settimeout(WITHIN_S)
    with ThreadPoolExecutor(1) as pool, near, far:
        answering = pool.submit(shown.wrap_socket, far, server_side=True)
        try:
            with trusted.wrap_socket(near) as called, answering.result() as answered:
                answered.sendall(b"hello")
                return called.version(), called.recv(5)
        except ssl.SSLError:
            answering.exception()
            raise


def test_who_was_told_of_it_makes_sure_of_it():
    shown, certificate = showing_itself()
    assert shake(shown, trusting_only(certificate)) == ("TLSv1.3", b"hello")


def test_another_one_is_refused():
    shown, _ = showing_itself()
    _, other = showing_itself()
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(shown, trusting_only(other))


def test_each_is_a_new_one():
    assert showing_itself()[1] != showing_itself()[1]


def test_what_is_no_certificate_is_refused():
    with pytest.raises(ssl.SSLError):
        trusting_only(b"no certificate")
