"""Addresses: taken, stale, impossible."""

from __future__ import annotations

import asyncio
import errno
import socket
import stat

import pytest

from dray.daemon.notice_log import NoticeLog
from dray.daemon.sockets.listener import Listener, listen_tcp, listen_unix
from dray.daemon.timekeeper import Timekeeper
from dray.errors import AddressInUse, InvalidConfiguration


def test_a_port_in_use_is_named_with_what_to_do():
    sock, address = listen_tcp("127.0.0.1", 0)
    with sock:
        port = int(address.rpartition(":")[2])
        with pytest.raises(
            AddressInUse, match=rf"127\.0\.0\.1:{port}; stop it or choose"
        ) as caught:
            listen_tcp("127.0.0.1", port)
    assert caught.value.address == f"127.0.0.1:{port}"


@pytest.mark.parametrize("host", ["no such host", "192.0.2.1", "x" * 300])
def test_a_host_that_is_not_this_machine_is_refused(host):
    with pytest.raises(InvalidConfiguration, match="cannot listen on"):
        listen_tcp(host, 0)


def test_version_six_addresses_are_written_with_brackets():
    try:
        sock, address = listen_tcp("::1", 0)
    except InvalidConfiguration:
        pytest.skip("this machine has no IPv6")
    with sock:
        assert address.startswith("dray://[::1]:")


def test_a_socket_file_is_for_its_owner_only(tmp_path):
    path = tmp_path / "dray.sock"
    sock, address = listen_unix(str(path))
    with sock:
        assert address == f"dray+unix://{path}"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_socket_file_that_nobody_answers_on_is_replaced(tmp_path):
    path = tmp_path / "dray.sock"
    listen_unix(str(path))[0].close()
    assert path.exists()
    sock, _ = listen_unix(str(path))
    with sock, socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(path))


def test_a_socket_file_that_somebody_answers_on_is_left(tmp_path):
    path = str(tmp_path / "dray.sock")
    sock, _ = listen_unix(path)
    with sock:
        with pytest.raises(AddressInUse, match="another process listens on"):
            listen_unix(path)
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(path)


def test_a_file_that_is_no_socket_is_left(tmp_path):
    path = tmp_path / "precious"
    path.write_text("data")
    with pytest.raises(AddressInUse, match="is not a socket"):
        listen_unix(str(path))
    assert path.read_text() == "data"


def test_impossible_socket_paths_are_refused(tmp_path):
    with pytest.raises(InvalidConfiguration, match="too long"):
        listen_unix(str(tmp_path / ("x" * 120)))
    with pytest.raises(InvalidConfiguration, match="cannot listen"):
        listen_unix(str(tmp_path / "none" / "s"))


def test_closing_takes_away_our_socket_file_but_not_a_successors(tmp_path):
    path = tmp_path / "dray.sock"

    async def main() -> None:
        loop = asyncio.get_running_loop()
        notices = NoticeLog(loop, Timekeeper())
        first = Listener(
            loop, *listen_unix(str(path)), accepted=socket.socket.close, notices=notices
        )
        path.unlink()
        second = Listener(
            loop, *listen_unix(str(path)), accepted=socket.socket.close, notices=notices
        )
        first.close()
        assert path.exists()
        second.close()
        assert not path.exists()

    asyncio.run(main())


def test_running_out_of_descriptors_delays_callers_and_loses_none(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("dray.daemon.sockets.listener.ACCEPT_RETRY_S", 0.01)

    class Exhausted:
        """A listening socket that has no descriptor to give the first time."""

        def __init__(self, sock: socket.socket) -> None:
            self.sock, self.failures = sock, 1
            self.family = sock.family

        def __getattr__(self, name: str):
            return getattr(self.sock, name)

        def accept(self):
            if self.failures:
                self.failures -= 1
                raise OSError(errno.EMFILE, "Too many open files")
            return self.sock.accept()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        accepted = loop.create_future()
        sock, address = listen_unix(str(tmp_path / "s"))
        notices = NoticeLog(loop, Timekeeper())
        listener = Listener(
            loop,
            Exhausted(sock),
            address,
            accepted=lambda sock, _: accepted.set_result(sock),
            notices=notices,
        )
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(str(tmp_path / "s"))
            (await asyncio.wait_for(accepted, 20)).close()
        listener.close()
        notices.stop()

    asyncio.run(main())
    assert "has to wait" in caplog.text
