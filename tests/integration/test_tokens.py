"""Tokens: callers that show one are who it says, at every address that nobody else can read."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess

import pytest
import trustme

import dray
import dray.aio
from dray.model.transfer import TransferState
from tests.integration.commands import COMMAND, environment, started, until
from tests.integration.commands import dray as command

pytestmark = pytest.mark.slow

RULES = """
[[access]]
who = ["token:till"]
queues = ["orders"]
may = ["send", "deliver"]

[[access]]
who = ["token:driver"]
queues = ["orders"]
may = ["receive"]
"""


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.delenv("DRAY_TOKEN", raising=False)
    (tmp_path / "dray.toml").write_text(
        f'data = "{tmp_path}/data"\nlisten = "127.0.0.1:0"\n'
        f'socket = "{tmp_path}/data/dray.sock"\n{RULES}'
    )
    return tmp_path


def create(files, name, *more):
    return command("token", "create", name, "--data", files / "data", *more).assert_good().out


def tcp(process):
    return re.search(r"drays?://\S+", process.stdout.readline().decode())[0]


def test_a_door_on_loopback_needs_a_token_and_lets_in_its_holder_alone(files):
    refused = command("serve", "--config", files / "dray.toml")
    assert "dray token create NAME" in refused.assert_error("invalid-configuration")
    token = create(files, "till").strip()
    assert len(token) == 43
    assert not any(
        token.encode() in each.read_bytes() for each in files.rglob("*") if each.is_file()
    )
    with started("serve", "--config", files / "dray.toml") as process:
        address = tcp(process)
        with pytest.raises(dray.AccessDenied, match="has not named itself"):
            dray.connect(address)
        with pytest.raises(dray.AccessDenied, match="does not know the token"):
            dray.connect(address, token=token[::-1])
        with dray.connect(f"dray+unix://{files}/data/dray.sock") as owner:
            owner.create_queue("orders")
        with dray.connect(address, token=token) as till:
            till.queue("orders").send(b"1")
            with pytest.raises(dray.AccessDenied, match="token:till may not receive"):
                till.queue("orders").receive(timeout=0)
            with pytest.raises(dray.AccessDenied, match="token:till may not use tokens"):
                till.create_token("more")


def test_a_token_is_the_caller_on_the_owners_socket_too(files):
    token = create(files, "till").strip()
    with started("serve", "--config", files / "dray.toml") as process:
        tcp(process)
        address = f"dray+unix://{files}/data/dray.sock"
        with (
            dray.connect(address, token=token) as till,
            pytest.raises(dray.AccessDenied, match="token:till may not create the queue"),
        ):
            till.create_queue("orders")


def test_a_token_comes_from_the_environment_or_a_file_that_only_its_owner_can_open(files):
    token = create(files, "till").strip()
    kept = files / "token"
    kept.write_text(f"{token}\n")
    kept.chmod(0o600)
    with started("serve", "--config", files / "dray.toml") as process:
        address = tcp(process)
        with dray.connect(f"dray+unix://{files}/data/dray.sock") as owner:
            owner.create_queue("orders")
        with dray.connect(address, token=kept) as till:
            till.queue("orders").send(b"1")
        sent = command("--token-file", kept, "--url", address, "send", "orders", kept)
        sent.assert_good()
        own = environment(address) | {"DRAY_TOKEN": token}
        subprocess.run([*COMMAND, "send", "orders", str(kept)], env=own, check=True, timeout=100)
        kept.chmod(0o640)
        with pytest.raises(dray.InvalidConfiguration, match="can be opened by others"):
            dray.connect(address, token_file=kept)
        with pytest.raises(dray.InvalidConfiguration, match="two tokens"):
            dray.connect(address, token_file=kept, token=token)


def test_a_file_goes_from_the_holder_of_one_token_to_that_of_another(files, monkeypatch):
    monkeypatch.setenv("DRAY_TRANSFERS", str(files / "transfers"))
    till, driver = (create(files, name).strip() for name in ("till", "driver"))
    source, target = files / "source", files / "target"
    source.write_bytes(bytes(range(256)) * 10_000)
    with started("serve", "--config", files / "dray.toml") as process:
        address = tcp(process)
        with dray.connect(f"dray+unix://{files}/data/dray.sock") as owner:
            owner.create_queue("orders")
        with (
            dray.connect(address, token=till) as offering,
            dray.connect(address, token=driver) as accepting,
        ):
            with pytest.raises(dray.AccessDenied, match="token:driver may not send"):
                accepting.offer_file(source, "orders")
            offer = offering.offer_file(source, "orders")
            with pytest.raises(dray.AccessDenied, match="token:till may not peek"):
                offering.accept_file("orders", timeout=0)
            accepting.accept_file("orders", timeout=60).save_to(target)
            assert offer.wait(60).state is TransferState.DONE
    assert target.read_bytes() == source.read_bytes()


def test_the_awaited_face_shows_a_token_too(files):
    async def use(address, token):
        async with dray.aio.connect(address, token=token) as till:
            await till.queue("orders").send(b"1")

    with dray.open(files / "data", listen="127.0.0.1:0", open=True) as owner:
        token = owner.create_token("till")
        address = owner.awaited._link.dialer._daemon.addresses[0]
        owner.create_queue("orders")
        asyncio.run(use(address, token))
        owner.revoke_token("till")
        with pytest.raises(dray.AccessDenied):
            asyncio.run(use(address, token))


def test_the_doctor_speaks_to_a_caller_that_sees_one_queue_only(files):
    token = create(files, "driver").strip()
    with started("serve", "--config", files / "dray.toml") as process:
        address = tcp(process)
        with dray.connect(f"dray+unix://{files}/data/dray.sock") as owner:
            owner.create_queue("orders", quota=100)
            owner.create_queue("late").send(
                b"dead", time_to_be_received=0.001, use_dead_letter_queue=True
            )
            until(owner.dead_letters)
        with dray.connect(address, token=token) as driver:
            assert driver.doctor() == []
            assert driver.doctor("orders") == []


def test_revoking_ends_live_sessions_and_nothing_of_theirs_goes_on(files):
    create(files, "other")
    with started("serve", "--config", files / "dray.toml") as process:
        address = tcp(process)
        # A running manager takes a token as soon as it exists.
        tokens = {name: create(files, name).strip() for name in ("till", "driver")}
        with dray.connect(f"dray+unix://{files}/data/dray.sock") as owner:
            orders = owner.create_queue("orders")
            till = dray.connect(address, token=tokens["till"])
            driver = dray.connect(address, token=tokens["driver"])
            till.queue("orders").send(b"before")
            assert driver.queue("orders").receive(timeout=0).body == b"before"
            command("token", "revoke", "till", "--data", files / "data").assert_good()
            with pytest.raises(dray.AccessDenied, match="does not know the token"):
                until(lambda: till.queue("orders").send(b"after") and None)
            assert orders.info().message_count == 0
            assert driver.info().id == owner.info().id
            till.close()
            driver.close()
            listed = command("token", "list", "--data", files / "data", "--json")
            assert [each["name"] for each in listed.assert_good().value] == ["driver", "other"]
            again = command("token", "revoke", "till", "--data", files / "data")
            again.assert_error("misuse")


def test_a_token_file_that_is_written_anew_is_waited_for_by_a_program_that_was_connected(files):
    file = files / "token"
    file.touch(0o600)
    file.write_text(create(files, "till"))
    with started("serve", "--config", files / "dray.toml") as process:
        address = tcp(process)
        with (
            dray.connect(f"dray+unix://{files}/data/dray.sock") as owner,
            dray.connect(address, token_file=file) as till,
        ):
            orders = owner.create_queue("orders")
            file.write_text("")
            owner.revoke_token("till")

            def why():
                with pytest.raises(dray.ConnectionLost) as caught:
                    till.queue("orders").info()
                assert caught.value.retryable
                return "token is empty" in str(caught.value)

            until(why)
            with pytest.raises(dray.InvalidConfiguration, match="token is empty"):
                dray.connect(address, token_file=file)
            file.write_text(owner.create_token("till"))
            till.queue("orders").send(b"1")
            assert orders.receive(timeout=0).body == b"1"


def test_a_token_of_a_manager_that_listens_elsewhere_is_asked_for_there(files):
    with dray.open(files / "data"):
        refused = command("token", "create", "till", "--data", files / "data")
    assert "with --url dray+unix://PATH" in refused.assert_error("store-locked")


def test_a_mistyped_data_directory_is_not_made_by_a_question_and_said_by_the_first_token(tmp_path):
    data = tmp_path / "typo"
    for words in (["list"], ["revoke", "till"]):
        refused = command("token", *words, "--data", data)
        assert "is not a data directory" in refused.assert_error("store-error")
    assert not data.exists()
    for said in (f"dray: {data} is a new data directory\n", ""):
        assert command("token", "create", f"a{len(said)}", "--data", data).err == said


def test_a_token_survives_a_restart_and_a_checkpoint(files):
    token = create(files, "till", "--expires", "90d").strip()
    for _ in range(2):
        with started("serve", "--config", files / "dray.toml") as process:
            address = tcp(process)
            with dray.connect(address, token=token):
                pass
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def test_a_token_is_never_shown_where_others_can_read_it(files, monkeypatch):
    with pytest.raises(dray.InvalidConfiguration, match="could read the token"):
        dray.connect("dray://192.0.2.1:7340", token="a")  # noqa: S106 - no token
    monkeypatch.setenv("DRAY_TOKEN", "a")
    with pytest.raises(dray.InvalidConfiguration, match="unset DRAY_TOKEN"):
        dray.connect("dray://192.0.2.1:7340")
    with pytest.raises(dray.InvalidConfiguration):
        dray.connect("dray://a@127.0.0.1:7340")


def test_a_token_goes_through_tls_to_a_listener_without_a_client_authority(files):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(files / "ca.pem")
    shown = authority.issue_cert("localhost").private_key_and_cert_chain_pem
    shown.write_to_path(files / "shown.pem")
    with (files / "dray.toml").open() as read:
        text = read.read()
    (files / "dray.toml").write_text(f'tls_cert = "{files}/shown.pem"\n{text}')
    token = create(files, "till").strip()
    with started("serve", "--config", files / "dray.toml") as process:
        address = tcp(process).replace("127.0.0.1", "localhost")
        with dray.connect(address, ca=files / "ca.pem", token=token) as till:
            assert till.info().id
        with pytest.raises(dray.AccessDenied, match="has not named itself"):
            dray.connect(address, ca=files / "ca.pem")


def test_a_manager_shows_a_token_to_its_peer_and_delivers(files, tmp_path):
    token = create(files, "till").strip()
    kept = tmp_path / "token"
    kept.write_text(token)
    kept.chmod(0o600)
    with started("serve", "--config", files / "dray.toml") as process:
        address = tcp(process)
        peers = [{"address": address, "token_file": str(kept)}]
        with (
            dray.connect(f"dray+unix://{files}/data/dray.sock") as owner,
            dray.open(tmp_path / "source", peers=peers) as source,
        ):
            orders = owner.create_queue("orders")
            source.queue(f"{address}/orders").send(b"with a token")
            assert orders.receive(timeout=60).body == b"with a token"


def test_a_manager_without_its_token_delivers_nothing(files, tmp_path):
    create(files, "till")
    with started("serve", "--config", files / "dray.toml") as process:
        address = tcp(process)
        with dray.open(tmp_path / "source") as source:
            queue = source.queue(f"{address}/orders")
            queue.send(b"waits")
            until(lambda: "has not named itself" in json.dumps(_attempts(queue)))


def _attempts(queue):
    return [each.reason for each in queue.info().delivery.history]


def test_a_token_to_a_peer_goes_through_tls_only(tmp_path):
    with pytest.raises(dray.InvalidConfiguration, match="through TLS only"):
        dray.open(tmp_path, peers=[{"address": "192.0.2.1:7340", "token_file": "none"}])


@pytest.mark.parametrize("time", ["90", "0d", "-1d", "d", "1y"])
def test_a_malformed_time_is_a_usage_error(files, time):
    said = command("token", "create", "till", "--expires", time, "--data", files / "data")
    assert said.status == 2
