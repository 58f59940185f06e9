"""Rights over real connections: two callers with certificates, rules, SIGHUP, and the commands."""

from __future__ import annotations

import grp
import logging
import os
import pwd
import re
import signal
import subprocess
import sys
from functools import partial

import msgspec
import pytest
import trustme

import dray
from dray.daemon.config import AccessOption, ServeOptions
from dray.daemon.embedded import EmbeddedDaemon
from dray.wire import frames
from tests.cost import instructions_in_loop
from tests.integration.commands import dray as dray_command
from tests.integration.commands import environment, started, until
from tests.unit.daemon.raw_client import connected
from tests.unit.manager.test_any_frame import Babbler

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


def test_sighup_during_a_start_ends_nothing_and_is_followed_when_it_is_done(files):
    program = (
        "import os, signal, sys\n"
        "from dray.daemon import process\n"
        "class Server(process.Server):\n"
        "    def __init__(self, loop, options):\n"
        "        os.kill(os.getpid(), signal.SIGHUP)\n"
        "        super().__init__(loop, options)\n"
        "process.Server = Server\n"
        "from dray.cli.program import run\n"
        f"sys.exit(run(['serve', '--config', {str(configuration(files, RULES))!r}]))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    try:
        assert b"ready" in process.stdout.readline()
        assert any(b"the configuration was read again" in line for line in process.stderr)
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()


def test_a_queue_manager_that_sighup_opens_says_that_it_protects_nothing(files):
    with started("serve", "--config", configuration(files, RULES)) as process:
        process.stdout.readline()
        file = configuration(files, RULES)
        file.write_text(file.read_text().replace("open = false", "open = true"))
        process.send_signal(signal.SIGHUP)
        said = []
        while not said or b"read again" not in said[-1]:
            said.append(process.stderr.readline())
    assert any(b"is open and protects nothing" in each for each in said)


def test_the_rights_of_an_account_are_explained_with_those_of_its_groups(files):
    account = pwd.getpwuid(os.geteuid())
    group = grp.getgrgid(account.pw_gid).gr_name
    rules = configuration(files, RULES.replace("cert:alpha", f"group:{group}"))
    for who, may in (
        (f"user:{account.pw_name}", True),
        (f"group:{group}", True),
        ("user:of another machine", False),
    ):
        told = dray_command("access", "explain", who, "orders", "--config", rules, "--json")
        (send,) = [each for each in told.assert_good().value if each["right"] == "send"]
        assert (send["rule"] is not None) is may, who


@pytest.mark.parametrize("queue", ["orders;journal", "orders;Journal", "system$;deadxact"])
def test_reading_a_journal_or_dead_letters_is_explained_by_the_right_to_keep(files, queue):
    """A queue manager refuses it to a caller that may receive from every queue."""
    rules = RULES.replace('"orders"', '"*"').replace('"send"', '"send", "receive"')

    def explained(text):
        file = configuration(files, text)
        told = dray_command("access", "explain", "cert:alpha", queue, "--config", file, "--json")
        return {each["right"] for each in told.assert_good().value if each["rule"] is not None}

    assert explained(rules) == {"see", "send"}
    assert explained(rules.replace('"receive"', '"keep"')) == {
        "see",
        "send",
        "peek",
        "receive",
        "keep",
    }


def test_commands_check_and_explain_the_rules(files):
    good = configuration(files, RULES)
    assert "1 access rule\n" in dray_command("config", "check", good).assert_good().out
    told = dray_command("access", "explain", "cert:alpha", "orders", "--config", good, "--json")
    rules = {each["right"]: each["rule"] for each in told.assert_good().value}
    given = 'who = ["cert:alpha"], queues = ["orders"], may = ["send"]'
    assert rules == dict.fromkeys(("peek", "receive", "manage", "deliver", "keep")) | {
        "see": given,
        "send": given,
    }
    told = dray_command("access", "explain", "cert:beta", "dray://depot/x", "--config", good)
    assert "forward to depot:7340" in told.assert_good().out
    typo = dray_command("access", "explain", "alpha", "orders", "--config", good)
    assert (typo.status, "write user:NAME, group:NAME, cert:NAME" in typo.err) == (2, True)
    bad = configuration(files, RULES.replace("send", "destroy"))
    said = dray_command("config", "check", bad).assert_error("invalid-configuration")
    assert "'destroy' is no right; choose of see, send" in said


@pytest.mark.parametrize(
    ("lacks", "option"),
    [("localhost.pem", ""), ("ca.pem", ""), ("roots.pem", ""), ("token", "peers: ")],
)
def test_a_check_of_the_configuration_reads_the_files_that_a_queue_manager_would(
    files, lacks, option
):
    """`dray serve` refuses to start with each of them, and SIGHUP to follow it."""
    (files / "roots.pem").write_bytes((files / "ca.pem").read_bytes())
    (files / "token").touch(0o600)
    (files / "token").write_text("secret")
    peer = f'[[peers]]\naddress = "drays://depot:7340"\ntoken_file = "{files}/token"\n'
    named = configuration(files, f'tls_ca = "{files}/roots.pem"\n{peer}')
    assert "is good" in dray_command("config", "check", named).assert_good().out
    (files / lacks).write_text("")
    said = dray_command("config", "check", named).assert_error("invalid-configuration")
    assert f"{named}: {option}{files}/{lacks} " in said


def test_what_callers_did_stands_in_the_access_log_and_a_changed_line_is_found_out(files):
    hush = "a-label-that-nobody-else-may-read"
    with started("serve", "--config", configuration(files, RULES)) as process:
        address = re.search(r"drays://\S+", process.stdout.readline().decode())[0]
        address = address.replace("127.0.0.1", "localhost")
        with dray.connect(f"dray+unix://{files}/dray.sock") as owner:
            owner.create_queue("orders", label=hush)
            with dray.connect(address, ca=files / "ca.pem", cert=files / "alpha.pem") as alpha:
                orders = alpha.queue("orders")
                orders.send(hush.encode(), label=hush)
                for _ in range(20):
                    with pytest.raises(dray.AccessDenied):
                        orders.receive(timeout=0)
            owner.queue("orders").purge()
            owner.delete_queue("orders")
            with pytest.raises(dray.ReceiveTimeout):
                owner.queue("system$;deadxact").peek(timeout=0.1)
        configuration(files, RULES.replace("send", "receive"))
        process.send_signal(signal.SIGHUP)
        for line in process.stderr:
            if b"read again" in line:
                break
        process.terminate()
        assert process.wait(60) == 0
    told = dray_command("access", "log", "--data", files / "data", "--json").assert_good().value
    lines = [(each["act"], each["caller"], each["frame"]) for each in told["list"]]
    owner = next(each["caller"] for each in told["list"] if each["act"] == "manage")
    assert lines == [
        ("rules", "owner", "start"),
        ("manage", owner, "CreateQueue"),
        ("refused", "cert:alpha", "Receive"),
        ("manage", owner, "PurgeQueue"),
        ("manage", owner, "DeleteQueue"),
        ("keep", owner, "Receive"),
        ("rules", "owner", "reload"),
        ("refused", "cert:alpha", "Receive"),
    ]
    assert [each["times"] for each in told["list"]] == [1] * 7 + [19]
    refused = told["list"][2]
    assert refused["address"].startswith("127.0.0.1:")
    assert refused["session"]
    assert refused["subject"] == "orders"
    path = files / "data/access.jsonl"
    assert path.stat().st_mode & 0o777 == 0o600
    assert hush.encode() not in path.read_bytes()
    table = dray_command("access", "log", "--data", files / "data", "--last", 2).assert_good().out
    assert "8 entries, the chain is whole" in table
    assert "DeleteQueue" not in table
    assert dray_command("check", "--data", files / "data").assert_good()
    path.write_bytes(path.read_bytes().replace(b"cert:alpha", b"cert:gamma", 1))
    broken = dray_command("access", "log", "--data", files / "data")
    assert broken.status == 42
    assert "access.jsonl, line 4" in broken.err
    assert "access.jsonl" in dray_command("check", "--data", files / "data").out


def test_the_last_acts_of_callers_outlive_a_restart(tmp_path):
    for name in ("first", "second"):
        with dray.open(tmp_path) as manager:
            manager.create_queue(name)
            acts = [(each.frame, each.subject) for each in manager.access().acts]
    assert acts == [("CreateQueue", "second"), ("CreateQueue", "first")]
    with dray.open(tmp_path) as manager:
        again = manager.access().acts
        assert [(each.frame, each.subject) for each in again] == acts
        assert abs(again[0].when - manager.info().now) < 3600


def test_without_an_audit_there_is_no_access_log(tmp_path):
    (tmp_path / "data").mkdir()
    said = dray_command("access", "log", "--data", tmp_path / "data").assert_error("store-error")
    assert "option `audit`" in said


def test_rights_take_at_most_three_percent_of_the_work_for_a_message(tmp_path):
    """By instructions, not by time: the rates of two queue managers differ by more from the disk.

    They took 13 % of the work for a message in a batch.
    """
    others = [
        AccessOption(who=(f"user:{number}",), queues=(f"queue-{number}",), may=("send",))
        for number in range(99)
    ]
    own = AccessOption(who=("token:bench",), queues=("small", "large"), may=("send", "receive"))
    socket = tmp_path / "s"
    options = ServeOptions(data="", socket=str(socket), access=(*others, own))
    daemon = EmbeddedDaemon(tmp_path / "data", options)
    daemon.start()
    try:
        with dray.connect(f"dray+unix://{socket}") as owner:
            owner.create_queue("small")
            owner.create_queue("large")
            token = owner.create_token("bench")
        with dray.connect(f"dray+unix://{socket}", token=token) as manager:
            queue = manager.queue("small")
            for act in (one_by_one, batch_in, batch_out, large_in, large_out):
                act(manager, queue)
                work = instructions_in_loop(daemon._server._loop, partial(act, manager, queue))
                rights = sum(many for file, many in work.items() if OF_RIGHTS.search(file))
                assert rights <= 0.03 * work.total(), (act, rights, work.total())
                assert rights, "the check was not found"
    finally:
        daemon.stop()


OF_RIGHTS = re.compile("/rights/|/model/(access|leases).py")
BATCH = [b"x" * 1024] * 100


def one_by_one(_manager, queue):
    for body in BATCH[:10]:
        queue.send(body)
        queue.receive(timeout=60)


def batch_in(manager, queue):
    with manager.transaction() as transaction:
        queue.send_many(BATCH, transaction=transaction)


def batch_out(manager, queue):
    with manager.transaction() as transaction:
        assert len(queue.receive_many(100, timeout=60, transaction=transaction)) == 100


def large_in(manager, _queue):
    dray.LargeMessageQueue(manager.queue("large")).send(b"x" * 8_000_000)


def large_out(manager, _queue):
    """The first of two that are there: the act runs twice."""
    with dray.LargeMessageQueue(manager.queue("large")).receive(timeout=60) as message:
        assert len(message.read()) == 8_000_000


MARK = "m4rked-by-the-sender"
PRIVATE = frozenset({"token", "label", "correlation_id", "traceparent", "text"})


class Indiscreet(Babbler):
    """Says frames of any kind with the mark in each field that nobody may read in a log."""

    def plain(self, kind: object) -> object:
        return MARK.encode() if kind is bytes else super().plain(kind)

    def struct(self, kind):
        said = super().struct(kind)
        marked = {
            name: MARK
            for name in PRIVATE.intersection(said.__struct_fields__)
            if isinstance(getattr(said, name), str)
        }
        return msgspec.structs.replace(said, **marked)


def test_no_payload_label_or_secret_comes_into_a_log(tmp_path, caplog):
    """Not by what is said rightly, nor by any frame that is refused, at the level `debug`."""
    socket = tmp_path / "s"
    own = AccessOption(who=("token:ada",), queues=("orders",), may=("send", "receive"))
    daemon = EmbeddedDaemon(
        tmp_path / "data", ServeOptions(data="", socket=str(socket), access=(own,))
    )
    url = f"dray+unix://{socket}"
    with caplog.at_level(logging.DEBUG, logger="dray"):
        daemon.start()
        try:
            with dray.connect(url) as owner:
                for name in ("orders", "secrets"):
                    owner.create_queue(name, label=MARK)
                secrets = [owner.create_token(name) for name in ("ada", "gone")]
                owner.revoke_token("gone")
                dead = owner.queue("orders")
                dead.send(MARK.encode(), label=MARK, time_to_be_received=0.0)
                dead.send(MARK.encode(), label=MARK, correlation_id=MARK)
                with pytest.raises(dray.MessageNotFound):
                    dead.receive_by_correlation_id(f"{MARK} not there", timeout=0)
            for token in (secrets[1], MARK):
                with pytest.raises(dray.DrayError), dray.connect(url, token=token) as refused:
                    refused.info()
            with dray.connect(url, token=secrets[0]) as ada, pytest.raises(dray.DrayError):
                ada.queue("secrets").send(MARK.encode(), label=MARK)
            for seed in range(6):
                _babble(connected(url), Indiscreet(seed), "" if seed % 2 else secrets[0])
        finally:
            daemon.stop()
    logged = caplog.text + (tmp_path / "data" / "access.jsonl").read_text("utf-8")
    assert "token:ada" in logged, "something was logged at all"
    for private in (MARK, *secrets):
        assert private not in logged


def _babble(client, babbler, token):
    try:
        with client:
            client.ask(frames.Hello("client", token=token))
            client.socket.settimeout(5.0)
            for head in babbler.heads(150):
                body = MARK.encode() * babbler.random.choice([0, 1, 20])
                client.socket.sendall(frames.encode_frame(head, 1, len(body)) + body)
    except (dray.DrayError, EOFError, OSError):
        return
