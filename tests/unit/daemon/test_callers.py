"""The caller of a connection comes from the kernel or from TLS, never from a frame."""

from __future__ import annotations

import grp
import os
import pwd
import socket

import pytest
import trustme

import dray
from dray.daemon.config import read_options
from dray.daemon.embedded import EmbeddedDaemon
from dray.daemon.sockets.callers import caller_of
from dray.manager.events import SessionOpened
from dray.model.callers import ANYONE, NOBODY, OWNER, Caller
from dray.net.tls import TunnelEnd
from dray.wire import frames, queue_frames
from tests.children import Child


def test_the_caller_on_a_unix_socket_is_the_account_of_its_process():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        caller = caller_of(ours, "", unproven=ANYONE)
    assert caller.name == f"user:{pwd.getpwuid(os.geteuid()).pw_name}"
    assert f"group:{grp.getgrgid(os.getegid()).gr_name}" in caller.groups
    assert caller.address == f"process {os.getpid()}"
    assert caller.owner


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another account")
def test_another_account_is_named_with_its_groups_and_does_not_own_the_manager(tmp_path):
    nobody = pwd.getpwnam("nobody")

    def connect() -> None:
        caller = socket.socket(socket.AF_UNIX)
        os.chdir(tmp_path)  # The directories above stay closed to the other account.
        os.setgroups([1])
        os.setgid(nobody.pw_gid)
        os.setuid(nobody.pw_uid)
        caller.connect("door")

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "door"))
        (tmp_path / "door").chmod(0o666)
        tmp_path.chmod(0o711)
        listener.listen()
        Child(connect).result()
        sock, address = listener.accept()
        with sock:
            caller = caller_of(sock, address, unproven=ANYONE)
    assert caller.name == "user:nobody"
    assert caller.groups == (
        f"group:{grp.getgrgid(nobody.pw_gid).gr_name}",
        f"group:{grp.getgrgid(1).gr_name}",
    )
    assert not caller.owner


def test_the_caller_on_a_tcp_connection_is_what_the_door_calls_it():
    with socket.socket() as sock:
        found = caller_of(sock, ("10.0.0.1", 4000), unproven=NOBODY)
        assert found == Caller("nobody", address="10.0.0.1:4000")
        found = caller_of(sock, ("fe80::1", 4000, 0, 0), unproven=ANYONE)
        assert found == Caller("anyone", address="[fe80::1]:4000")


def test_the_caller_behind_a_certificate_is_its_first_name():
    with TunnelEnd() as end:
        end.outer_address = ("10.0.0.1", 4000)
        assert caller_of(end, None, unproven=ANYONE).name == "anyone"
        end.names = ("alpha", "alpha.example")
        assert caller_of(end, None, unproven=ANYONE) == Caller(
            "cert:alpha", address="10.0.0.1:4000", is_private=True
        )


def test_a_certificate_without_a_name_is_nobodys():
    with TunnelEnd() as end:
        end.names = ()
        assert caller_of(end, None, unproven=ANYONE).name == "nobody"


def test_a_session_is_opened_with_its_caller_whatever_its_hello_says(echo):
    with echo.client() as embedded, echo.tcp_client() as other:
        for client in (embedded, other):
            client.say(frames.Hello("client", "owner", "owner"))
            client.ask(queue_frames.Describe(), 1)
    opened = [each.caller for each in echo.manager.events if isinstance(each, SessionOpened)]
    assert opened[0] == OWNER
    assert (opened[1].name, opened[1].host) == ("anyone", "127.0.0.1")


def test_log_lines_about_a_connection_name_caller_and_address(tmp_path, caplog):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    for name in ("localhost", "alpha.example"):
        issued = authority.issue_cert(name).private_key_and_cert_chain_pem
        issued.write_to_path(tmp_path / name)
    options = read_options(
        data="",
        listen="127.0.0.1:0",
        open=True,
        tls_cert=str(tmp_path / "localhost"),
        tls_client_ca=str(tmp_path / "ca.pem"),
    )
    daemon = EmbeddedDaemon(tmp_path / "data", options)
    daemon.start()
    caplog.set_level("DEBUG", "dray.daemon")
    try:
        address = daemon.addresses[0].replace("127.0.0.1", "localhost")
        files = {"ca": tmp_path / "ca.pem", "cert": tmp_path / "alpha.example"}
        with dray.connect(address, **files) as manager:
            manager.queues()
    finally:
        daemon.stop()
    lines = [each.getMessage() for each in caplog.records if "session 1 " in each.getMessage()]
    assert lines
    assert all("cert:alpha.example (127.0.0.1:" in each for each in lines)
