"""A queue manager listens on TCP only where callers prove who they are."""

from __future__ import annotations

import pytest
import trustme

import dray
from dray.daemon.config import ServeOptions, read_options
from dray.daemon.embedded import EmbeddedDaemon
from dray.daemon.sockets.tcp_door import check_tcp_door
from dray.errors import InvalidConfiguration

LOOPBACK = ["127.0.0.1", "::1"]
NETWORK = ["10.0.0.2", "0.0.0.0", "::", "2001:db8::7"]  # noqa: S104 - nothing is bound to it


@pytest.mark.parametrize("host", [*LOOPBACK, *NETWORK])
@pytest.mark.parametrize("certificate", [{}, {"tls_cert": "shown.pem"}])
def test_an_address_where_nobody_proves_who_they_are_is_refused(host, certificate):
    options = ServeOptions(data="d", listen=f"{host}:7340", **certificate)
    with pytest.raises(InvalidConfiguration, match=r"set tls_cert and tls_client_ca.*--open"):
        check_tcp_door(options, (host, 7340), knows_tokens=False)


@pytest.mark.parametrize("host", [*LOOPBACK, *NETWORK])
def test_an_address_where_callers_show_certificates_is_allowed(host):
    options = ServeOptions(data="d", tls_cert="shown.pem", tls_client_ca="ca.pem")
    check_tcp_door(options, (host, 7340), knows_tokens=False)


@pytest.mark.parametrize("host", [*LOOPBACK, *NETWORK])
def test_open_allows_every_address(host):
    check_tcp_door(ServeOptions(data="d", open=True), (host, 7340), knows_tokens=False)


def test_a_manager_that_is_not_open_refuses_an_address_and_leaves_it_free(tmp_path):
    refused = pytest.raises(InvalidConfiguration, match=r"everyone who can connect to 127\.0\.0\.1")
    with refused:
        dray.open(tmp_path, listen="127.0.0.1:0")
    dray.open(tmp_path).close()


def test_an_open_manager_says_at_every_start_that_it_protects_nothing(tmp_path, caplog):
    for _ in range(2):
        caplog.clear()
        with dray.open(tmp_path, listen="127.0.0.1:0", open=True):
            assert "is open and protects nothing" in caplog.text
            assert "connect to dray://127.0.0.1:" in caplog.text
    caplog.clear()
    with dray.open(tmp_path, open=True):
        assert not caplog.text


def test_a_listening_manager_that_would_not_be_open_any_more_keeps_its_options(
    echo, caplog, wait_until
):
    closed = ServeOptions(data="", listen="127.0.0.1:0")
    assert echo.daemon._in_loop(echo.servers[-1].follow, lambda: closed)
    wait_until(lambda: "the old one holds: everyone who can connect" in caplog.text)


def test_a_socket_group_needs_a_path_that_the_group_can_reach():
    with pytest.raises(InvalidConfiguration, match="socket_group needs `socket`"):
        read_options(data="d", socket_group="staff")


def test_a_socket_group_that_does_not_exist_is_refused(tmp_path):
    options = read_options(data="", socket=str(tmp_path / "s"), socket_group="no such group")
    with pytest.raises(InvalidConfiguration, match="no group 'no such group'"):
        EmbeddedDaemon(tmp_path / "d", options).start()
    assert not (tmp_path / "s").exists()


def test_a_caller_with_a_certificate_may_only_do_what_a_rule_gives_it(tmp_path):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    for name in ("localhost", "alpha"):
        issued = authority.issue_cert(name).private_key_and_cert_chain_pem
        issued.write_to_path(tmp_path / f"{name}.pem")
    options = read_options(
        data="",
        listen="127.0.0.1:0",
        tls_cert=str(tmp_path / "localhost.pem"),
        tls_client_ca=str(tmp_path / "ca.pem"),
    )
    daemon = EmbeddedDaemon(tmp_path / "d", options)
    daemon.start()
    try:
        address = daemon.addresses[0].replace("127.0.0.1", "localhost")
        with pytest.raises(dray.AccessDenied, match="cert:alpha may not do anything here"):
            dray.connect(address, ca=tmp_path / "ca.pem", cert=tmp_path / "alpha.pem")
    finally:
        daemon.stop()
