"""Rights over real connections: two callers with certificates, rules, SIGHUP, and the commands."""

from __future__ import annotations

import re
import signal

import pytest
import trustme

import dray
from tests.integration.commands import dray as dray_command
from tests.integration.commands import started, until

pytestmark = pytest.mark.slow

RULES = """
[[access]]
who = ["cert:alpha"]
queues = ["orders"]
may = ["send"]
"""


@pytest.fixture
def files(tmp_path):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    for name in ("localhost", "alpha", "beta"):
        issued = authority.issue_cert(name).private_key_and_cert_chain_pem
        issued.write_to_path(tmp_path / f"{name}.pem")
    return tmp_path


def configuration(files, rules):
    (files / "dray.toml").write_text(
        f'data = "{files}/data"\nlisten = "127.0.0.1:0"\nsocket = "{files}/dray.sock"\n'
        f'tls_cert = "{files}/localhost.pem"\ntls_client_ca = "{files}/ca.pem"\nopen = false\n'
        f"{rules}"
    )
    return files / "dray.toml"


def test_callers_do_what_rules_give_them_and_sighup_brings_other_rules(files):
    with started("serve", "--config", configuration(files, RULES)) as process:
        address = re.search(r"drays://\S+", process.stdout.readline().decode())[0]
        address = address.replace("127.0.0.1", "localhost")

        def connect(name):
            return dray.connect(address, ca=files / "ca.pem", cert=files / f"{name}.pem")

        with dray.connect(f"dray+unix://{files}/dray.sock") as owner:
            owner.create_queue("orders")
            owner.create_queue("secrets")
            with connect("alpha") as alpha:
                alpha.queue("orders").send(b"1")
                with pytest.raises(dray.AccessDenied, match="cert:alpha may not receive at"):
                    alpha.queue("orders").receive(timeout=0)
                with pytest.raises(dray.QueueNotFound):
                    alpha.queue("secrets").send(b"2")
                assert [each.name for each in alpha.queues()] == ["orders"]
                with pytest.raises(dray.AccessDenied, match="cert:beta may not do anything here"):
                    connect("beta")

                configuration(files, RULES.replace("send", "receive").replace("alpha", "*"))
                process.send_signal(signal.SIGHUP)
                assert until(lambda: _received(connect)) == b"1"
                with pytest.raises(dray.AccessDenied, match="cert:alpha may not send"):
                    alpha.queue("orders").send(b"3")

            configuration(files, RULES.replace("send", "destroy"))
            process.send_signal(signal.SIGHUP)
            for line in process.stderr:
                if b"the old one holds" in line:
                    break
            assert b"'destroy' is no right" in line
            with connect("beta") as beta:
                assert [each.name for each in beta.queues()] == ["orders"]


def _received(connect):
    try:
        with connect("beta") as beta:
            return bytes(beta.queue("orders").receive(timeout=0).body)
    except dray.AccessDenied:
        return None


def test_commands_check_and_explain_the_rules(files):
    good = configuration(files, RULES)
    assert "1 access rules" in dray_command("config", "check", good).assert_good().out
    told = dray_command("access", "explain", "cert:alpha", "orders", "--config", good, "--json")
    rules = {each["right"]: each["rule"] for each in told.assert_good().value}
    given = 'who = ["cert:alpha"], queues = ["orders"], may = ["send"]'
    assert rules == dict.fromkeys(("peek", "receive", "manage", "deliver", "keep")) | {
        "see": given,
        "send": given,
    }
    told = dray_command("access", "explain", "cert:beta", "dray://depot/x", "--config", good)
    assert "forward to depot:7340" in told.assert_good().out
    bad = configuration(files, RULES.replace("send", "destroy"))
    said = dray_command("config", "check", bad).assert_error("invalid-configuration")
    assert "'destroy' is no right; choose of see, send" in said
