"""Bad input, through the real command: one clear line, its code, nothing lost, no traceback."""

import json
import os
import socket
import stat
import subprocess
import threading

import pytest

from dray.errors import InvalidQueueName
from dray.model.limits import MESSAGE_BYTES_MAX
from dray.model.names import parse_queue_address
from dray.testing.processes import ManagerProcess
from dray.wire.record import HEADER_BYTES
from tests.integration.commands import COMMAND, dray, environment, finish, started
from tests.integration.small_disk import may_mount, on_small_disk

pytestmark = pytest.mark.slow


@pytest.fixture
def manager(tmp_path):
    with ManagerProcess("manager", tmp_path) as process:
        with process.connect() as connected:
            for name in ("orders", "large", "statusq"):
                connected.create_queue(name)
        yield process


def count(manager, queue):
    with manager.connect() as connected:
        return connected.queue(queue).info().message_count


@pytest.mark.parametrize("large", [[], ["--large"]])
def test_a_missing_file_sends_nothing_of_the_others(manager, tmp_path, large):
    (tmp_path / "good").write_bytes(b"good")
    queue = "large" if large else "orders"
    said = dray("send", queue, tmp_path / "good", tmp_path / "bad", *large, url=manager.url)
    assert str(tmp_path / "bad") in said.assert_error("source-unreadable")
    assert count(manager, queue) == 0


@pytest.mark.parametrize("large", [[], ["--large"]])
def test_a_file_that_cannot_be_read_is_named(manager, tmp_path, large):
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "good").write_bytes(b"good")
    said = dray("send", "orders", tmp_path / "good", folder, *large, url=manager.url)
    assert str(folder) in said.assert_error("source-unreadable")


def test_a_plain_receive_of_large_messages_says_how_to_receive_them(manager, tmp_path):
    (tmp_path / "load").write_bytes(b"load")
    dray("send", "large", tmp_path / "load", "--large", url=manager.url).assert_good()
    said = dray("receive", "large", "--timeout", "0", url=manager.url)
    assert "receive with --large --to DIR" in said.assert_error("large-message-mixing")
    assert count(manager, "large") == 3


def test_a_plain_send_to_a_large_queue_says_how_to_send_there(manager, tmp_path):
    (tmp_path / "load").write_bytes(b"load")
    dray("send", "large", tmp_path / "load", "--large", url=manager.url).assert_good()
    said = dray("send", "large", tmp_path / "load", url=manager.url)
    assert "send with --large" in said.assert_error("large-message-mixing")
    assert count(manager, "large") == 3


@pytest.mark.parametrize("size", [MESSAGE_BYTES_MAX - HEADER_BYTES, MESSAGE_BYTES_MAX + 1])
def test_what_is_too_long_with_its_label_or_by_itself_is_to_be_sent_as_large(
    manager, tmp_path, size
):
    (tmp_path / "load").write_bytes(bytes(size))
    said = dray("send", "orders", tmp_path / "load", url=manager.url)
    assert "send it with --large" in said.assert_error("message-too-large")
    assert count(manager, "orders") == 0


def test_a_label_that_is_too_long_is_refused_in_words_for_people(manager):
    said = dray("send", "orders", "-", "--label", "x" * 300, url=manager.url, stdin=b"load")
    line = said.assert_error("invalid-argument")
    assert "label is" in line
    assert "$" not in line
    assert count(manager, "orders") == 0


def test_a_name_that_is_no_utf_8_is_taken_or_refused_in_words(manager, tmp_path, monkeypatch):
    name = os.fsdecode(b"odd\xff")
    (tmp_path / name).write_bytes(b"x")
    monkeypatch.setenv("PYTHONIOENCODING", "utf-8:strict")
    with manager.connect() as connected:
        connected.create_queue("odd")
    for more in ([], ["--large"]):
        queue = "odd" if more else "orders"
        dray("send", queue, name, *more, url=manager.url, cwd=tmp_path).assert_good()
        with manager.connect() as connected:
            assert connected.queue(queue).messages().__next__().label in ("odd\\xff", "")
            connected.queue(queue).purge()
    offered = dray("transfer", "offer", name, "odd", url=manager.url, cwd=tmp_path)
    assert "is not in UTF-8" in offered.assert_error("invalid-argument")
    dray("backup", name, url=manager.url, cwd=tmp_path).assert_good()
    refused = dray("backup", ".", url=manager.url, cwd=tmp_path).assert_error("target-unwritable")
    assert "is a directory; name a file" in refused
    os.mkfifo(tmp_path / "device")
    refused = dray("backup", "device", url=manager.url, cwd=tmp_path)
    assert "is no regular file; name a file" in refused.assert_error("target-unwritable")
    assert stat.S_ISFIFO((tmp_path / "device").stat().st_mode)
    dray("restore", name, "data", cwd=tmp_path).assert_good()
    moved = dray("storage", "move", "--data", "data", f"{name}.d", cwd=tmp_path)
    assert "need paths in UTF-8" in moved.assert_error("store-error")
    assert not (tmp_path / f"{name}.d").exists()


@pytest.mark.parametrize("size", ["5MB", "much"])
def test_a_size_that_no_fragment_can_have_is_wrong_usage(manager, tmp_path, size):
    (tmp_path / "load").write_bytes(b"load")
    options = ("--large", "--fragment-size", size)
    said = dray("send", "large", tmp_path / "load", *options, url=manager.url)
    assert said.status == 2
    assert size in said.err
    assert "Traceback" not in said.err
    assert count(manager, "large") == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read every file")
def test_a_file_without_permission_is_named(manager, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    secret.chmod(0)
    said = dray("send", "orders", secret, url=manager.url)
    assert str(secret) in said.assert_error("source-unreadable")


def test_a_file_that_changes_while_it_is_sent_is_not_sent(manager, tmp_path):
    growing = tmp_path / "growing"
    growing.write_bytes(os.urandom(64 << 20))
    stop = threading.Event()

    def grow():
        with growing.open("ab") as file:
            while not stop.wait(0.005):
                file.write(b"more")
                file.flush()

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        said = dray("send", "large", growing, "--large", url=manager.url)
    finally:
        stop.set()
        writer.join()
    assert str(growing) in said.assert_error("source-changed")
    assert count(manager, "large") == 0


def test_a_plain_message_over_the_limit_is_told_of_large_ones(manager, tmp_path):
    (tmp_path / "big").write_bytes(bytes(5 << 20))
    said = dray("send", "orders", tmp_path / "big", url=manager.url)
    assert "--large" in said.assert_error("message-too-large")
    assert count(manager, "orders") == 0


@pytest.mark.parametrize(
    "arguments", [["send", "nowhere", "-"], ["receive", "nowhere"], ["peek", "nowhere"]]
)
def test_an_unknown_queue_is_named(manager, arguments):
    assert "nowhere" in dray(*arguments, url=manager.url).assert_error("queue-not-found")


def test_a_name_that_cannot_be_is_explained(manager):
    said = dray("queue", "create", "a+b", url=manager.url)
    assert "a+b" in said.assert_error("invalid-queue-name")


def test_nobody_listening_is_told_with_the_address():
    said = dray("queue", "list", url="dray://127.0.0.1:1")
    assert "127.0.0.1:1" in said.assert_error("connection-lost")


def test_an_address_that_cannot_be_is_explained():
    dray("queue", "list", url="http://127.0.0.1:1").assert_error("invalid-configuration")


def test_a_port_in_use_is_told_and_the_first_goes_on(manager, tmp_path):
    other = tmp_path / "other"
    said = dray("serve", "--data", other, "--open", "--listen", f"127.0.0.1:{manager.port}")
    assert str(manager.port) in said.assert_error("address-in-use")
    assert count(manager, "orders") == 0


def test_a_data_directory_of_a_live_process_is_told_and_the_first_goes_on(manager):
    dray("send", "orders", "-", url=manager.url, stdin=b"kept").assert_good()
    said = dray("serve", "--data", manager.data, "--open", "--listen", "127.0.0.1:0")
    assert str(manager.data) in said.assert_error("store-locked")
    assert dray("receive", "orders", url=manager.url).assert_good().out == "kept"


def test_a_wrong_magic_ends_that_connection_only(manager):
    with manager.connect() as connected:
        with socket.create_connection(("127.0.0.1", manager.port), timeout=100) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = bytearray()
            while piece := stranger.recv(4096):
                answer += piece
        assert b"protocol-error" in answer
        connected.queue("orders").send(b"still here")
    assert dray("receive", "orders", url=manager.url).assert_good().out == "still here"


def test_a_server_that_does_not_speak_dray_is_told():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with started("queue", "list", url=f"dray://127.0.0.1:{port}") as process:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                said = finish(process)
    said.assert_error("protocol-error")


@pytest.mark.parametrize("left", [0, 512, 4096, 20_000])
def test_a_truncated_log_refuses_to_start_and_leaves_everything_as_it_is(manager, left):
    dray("send", "orders", "-", url=manager.url, stdin=os.urandom(3 << 20)).assert_good()
    dray("send", "orders", "-", url=manager.url, stdin=b"kept").assert_good()
    manager.kill()
    log = next(manager.data.rglob("QMLog"))
    whole = log.read_bytes()
    log.write_bytes(whole[:left])
    before = _contents(manager.data)
    said = _serve_until_it_says(manager.data)
    if said is not None:
        assert "QMLog" in said.assert_error("store-corrupt")
        assert _contents(manager.data) == before
        log.write_bytes(whole)
    with manager:
        received = dray("peek", "orders", "--json", url=manager.url).assert_good().out
    assert [json.loads(line)["size"] for line in received.splitlines()] == [3 << 20, 4]


def _serve_until_it_says(data):
    """How a queue manager ended on a data directory, or None if it began to serve."""
    with started("serve", "--data", data, "--open", "--listen", "127.0.0.1:0") as process:
        first = process.stdout.readline()
        if first:
            process.terminate()
        said = finish(process)
    return None if first else said


@pytest.mark.parametrize("line", ["port = 1", 'quota = "much"', "not toml at all"])
def test_a_file_of_options_that_cannot_be_is_explained(tmp_path, line):
    config = tmp_path / "dray.toml"
    config.write_text(line)
    said = dray("serve", "--data", tmp_path / "data", "--config", config)
    assert str(config) in said.assert_error("invalid-configuration")


@pytest.mark.skipif(not may_mount(), reason="no mount namespaces here: no small disk to fill")
def test_a_full_disk_refuses_the_message_and_loses_nothing(tmp_path):
    with on_small_disk(tmp_path) as disk:
        _fill_and_check(disk.url, tmp_path)


def _fill_and_check(url, tmp_path):
    for name in ("orders", "large", "statusq"):
        dray("queue", "create", name, url=url).assert_good()
    dray("send", "orders", "-", url=url, stdin=b"before").assert_good()
    payload = tmp_path / "payload"
    payload.write_bytes(os.urandom(90 << 20))
    dray("send", "large", payload, "--large", url=url).assert_error("store-full")
    shown = dray("queue", "show", "large", "--json", url=url).assert_good().value
    assert shown["message_count"] == 0
    assert dray("receive", "orders", url=url).assert_good().out == "before"
    payload.write_bytes(os.urandom(8 << 20))
    dray("send", "large", payload, "--large", url=url).assert_good()
    dray("receive", "large", "--large", "--to", tmp_path / "out", url=url).assert_good()
    assert (tmp_path / "out" / "payload").read_bytes() == payload.read_bytes()


def test_a_receiver_whose_disk_is_full_leaves_the_message_in_its_queue(manager, tmp_path):
    """A limit on the size of files is the full disk that every user can make."""
    dray(
        "send", "orders", "-", "--label", "big", url=manager.url, stdin=bytes(1 << 20)
    ).assert_good()
    limited = 'ulimit -f 8; exec "$@"'
    done = subprocess.run(
        ["bash", "-c", limited, "bash", *COMMAND, "receive", "orders", "--to", tmp_path / "out"],
        capture_output=True,
        check=False,
        # Under this limit Python would leave modules compiled by half behind, for everybody.
        env={**environment(manager.url), "PYTHONDONTWRITEBYTECODE": "1"},
        timeout=200,
    )
    assert done.stderr.decode().startswith("dray: target-unwritable: "), done
    assert done.returncode == 25
    assert count(manager, "orders") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("how", [[], ["--large"]], ids=["plain", "large"])
def test_a_receive_that_fails_leaves_no_directory_that_it_made(manager, tmp_path, how):
    made = tmp_path / "made" / "below"
    missing = dray("receive", "no-such-queue", "--to", made, *how, url=manager.url)
    missing.assert_error("queue-not-found")
    dray("queue", "create", "nothing-in-it", url=manager.url).assert_good()
    nothing = ("receive", "nothing-in-it", "--timeout", 0, "--to", made, *how)
    dray(*nothing, url=manager.url).assert_error("receive-timeout")
    dray(*nothing, url="dray://127.0.0.1:1").assert_error("connection-lost")
    assert not made.parent.exists()
    made.mkdir(parents=True)
    dray(*nothing, url=manager.url).assert_error("receive-timeout")
    assert made.is_dir()


def _contents(folder):
    """Everything but what every start writes: the lock, and the manifest of who ran when."""
    return {
        path.relative_to(folder): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in {"lock", "manifest.json"}
    }


@pytest.mark.parametrize(
    ("words", "named"),
    [
        *[(("transaction", each), "transaction") for each in ("outcome", "commit", "abort")],
        (("show", "orders"), "message"),
    ],
)
def test_a_malformed_id_is_a_usage_error_that_says_where_to_find_the_id(words, named):
    said = dray(*words, "1\\2")
    assert said.status == 2
    assert f"copy it from the output that named the {named}" in said.err


@pytest.mark.parametrize(
    "url",
    [
        "dray://s3cret@127.0.0.1:7340",
        "drays://user:s3cret@depot:1",
        "drays://depot:1/?token=s3cret",
        "dray://depot:1#s3cret",
        "dray+unix:///tmp/sock?token=s3cret",
        "dray://s3cret@depot:99999",
    ],
)
def test_a_token_that_somebody_puts_into_an_address_is_not_repeated(url):
    said = dray("queue", "list", url=url)
    assert "s3cret" not in said.assert_error("invalid-configuration")
    if "99999" not in url:
        assert "put a token into DRAY_TOKEN or a file" in said.err
    for name in (f"{url}/orders", url):
        with pytest.raises(InvalidQueueName) as caught:
            parse_queue_address(name)
        assert "s3cret" not in str(caught.value)
