"""Promises about targets and sources that fsspec knows: each file is received once."""

from __future__ import annotations

import random
import subprocess
import sys
import uuid

import pytest

import dray
import dray.folders
from dray.folders.fsspec import file_system
from dray.folders.store_target import NOTES
from dray.testing.processes import ManagerProcess
from tests.integration.commands import COMMAND, environment, until
from tests.integration.commands import dray as run
from tests.s3_store import objects_at, s3_on_loopback

pytestmark = pytest.mark.slow
BODY = random.Random(3).randbytes(700_000)


@pytest.fixture(scope="module")
def s3():
    with s3_on_loopback("bucket"):
        yield "s3://bucket"


@pytest.fixture(params=["s3", "file", "memory"])
def url(request, tmp_path):
    name = f"prefix-{uuid.uuid4().hex}"
    if request.param == "s3":
        return f"{request.getfixturevalue('s3')}/{name}"
    return f"file://{tmp_path}/{name}" if request.param == "file" else f"memory://{name}"


def put(queue, path, body):
    file = dray.FileProperties(path, len(body), 1_700_000_000_000_000_000)
    dray.LargeMessageQueue(queue, fragment_size=100_000).send(body, label=path, file=file)


def test_a_tree_becomes_objects_and_nothing_else(queue, url):
    files = {"a": b"first", "b/c": b"", "b/d": BODY, "b/naïve": b"text"}
    for path, body in files.items():
        put(queue, path, body)
    assert dray.folders.receive(queue, url, follow=False) == (4, 700_009, 0)
    assert objects_at(url) == files


def test_without_a_tree_an_object_has_the_last_name_of_its_file(queue, url):
    put(queue, "below/a", b"x")
    dray.folders.receive(queue, url, tree=False, follow=False)
    assert objects_at(url) == {"a": b"x"}


@pytest.mark.parametrize(
    ("on_conflict", "expected"),
    [
        ("number", {"a": b"theirs", "a (2)": b"x"}),
        ("replace", {"a": b"x"}),
        ("skip", {"a": b"theirs"}),
        ("fail", {"a": b"theirs"}),
    ],
)
def test_an_object_that_is_there_is_numbered_around_replaced_kept_or_refused(
    queue, url, on_conflict, expected
):
    put(queue, "a", b"theirs")
    dray.folders.receive(queue, url, follow=False)
    put(queue, "a", b"x")
    received = dray.folders.receive(queue, url, follow=False, on_conflict=on_conflict, retries=0)
    assert objects_at(url) == expected
    assert received.failed == (on_conflict == "fail")


@pytest.mark.parametrize("step", ["note", "object", "complete"])
def test_a_message_that_comes_again_writes_its_own_object_again_or_finds_it(
    queue, url, monkeypatch, step
):
    """The receiver fails behind each of its steps; the next one ends them."""
    from dray.folders import store_target

    put(queue, "a", b"theirs")
    dray.folders.receive(queue, url, follow=False)
    put(queue, "a", BODY)
    write, write_object, failures = store_target._write, store_target._write_object, []

    def fail():
        if not failures:
            failures.append(step)
            raise ValueError(step)

    def noted(store, at, note):
        write(store, at, note)
        if step == ("complete" if note.complete else "note"):
            fail()

    def written(store, at, message):
        write_object(store, at, message)
        if step == "object":
            fail()

    monkeypatch.setattr("dray.folders.store_target._write", noted)
    monkeypatch.setattr("dray.folders.store_target._write_object", written)
    with pytest.raises(dray.TargetUnwritable, match=step):
        dray.folders.receive(queue, url, follow=False)
    dray.folders.receive(queue, url, follow=False)
    assert failures == [step]
    assert objects_at(url) == {"a": b"theirs", "a (2)": BODY}


def test_half_a_body_never_becomes_an_object_of_s3(queue, s3, monkeypatch):
    url = f"{s3}/{uuid.uuid4().hex}"
    put(queue, "a", BODY)
    real = dray.LargeMessage.__iter__

    def torn(self):
        pieces = real(self)
        yield next(pieces)
        raise ValueError("the line is dead")

    monkeypatch.setattr("dray.client.blocking.large_message.LargeMessage.__iter__", torn)
    with pytest.raises(dray.TargetUnwritable, match="the line is dead"):
        dray.folders.receive(queue, url, tree=False, follow=False)
    assert [each for each in objects_at(url) if NOTES not in each] == []


@pytest.mark.torture
def test_a_receiver_into_s3_killed_at_random_leaves_each_object_once_and_no_note(s3, tmp_path):
    url = f"{s3}/{uuid.uuid4().hex}"
    chance = random.Random(5)
    files = {f"folder/{number}": chance.randbytes(1 + number * 9_000) for number in range(12)}
    command = [*COMMAND, "receive", "files", "--large", "--to", url, "--tree", "--follow"]
    with ManagerProcess("one", tmp_path) as process, process.connect() as manager:
        manager.create_queue("statusq")
        queue = manager.create_queue("files")
        for path, body in files.items():
            put(queue, path, body)
        for _ in range(2):
            receiver = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, env=environment(process.url)
            )
            wanted = chance.randrange(1, 4)
            left = queue.info().message_count
            until(
                lambda left=left, wanted=wanted: (
                    queue.info().message_count <= max(0, left - 3 * wanted)
                )
            )
            receiver.kill()
            receiver.wait()
        received = dray.folders.receive(queue, url, follow=False, timeout=0)
        until(lambda: queue.info().message_count == 0)
        dray.folders.receive(queue, url, follow=False)
    assert received.failed == 0
    assert objects_at(url) == files


@pytest.mark.torture
def test_memory_stays_small_whatever_the_size_of_an_object(tmp_path, s3):
    """A receiver into S3 in a process of its own gets 300 MB and keeps below them."""
    url = f"{s3}/{uuid.uuid4().hex}"
    body = tmp_path / "body"
    with body.open("wb") as file:
        file.truncate(300_000_000)
    script = (
        "import resource, sys, dray, dray.folders\n"
        "manager = dray.connect()\n"
        f"dray.folders.receive(manager.queue('files'), {url!r}, tree=False, follow=False)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    with ManagerProcess("one", tmp_path) as process:
        with process.connect() as manager:
            manager.create_queue("statusq")
            dray.LargeMessageQueue(manager.create_queue("files")).send(body, label="body")
        done = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            check=True,
            text=True,
            env=environment(process.url),
        )
    assert int(done.stdout) < 200_000, "KiB of resident memory"
    store, root = file_system(f"{url}/body")
    assert store.size(root) == 300_000_000
    # The server keeps it in an open file until it goes.
    store.rm_file(root)


def test_a_url_that_nobody_knows_is_refused_in_a_sentence(queue):
    with pytest.raises(dray.InvalidConfiguration, match="nobody"):
        dray.folders.receive(queue, "nobody://bucket/prefix", tree=False, follow=False)
    with pytest.raises(dray.InvalidConfiguration, match="command"):
        dray.folders.receive(queue, "memory://x", command="true", follow=False)


def received_from(queue):
    """Every file in the queue."""
    large, found = dray.LargeMessageQueue(queue), {}
    while True:
        try:
            with large.receive(0) as message:
                assert message.file.path not in found
                found[message.file.path] = message.body()
        except dray.ReceiveTimeout:
            return found


def fill(url, files):
    store, root = file_system(url)
    for path, body in files.items():
        if not store.async_impl:
            store.makedirs(f"{root}/{path}".rpartition("/")[0], exist_ok=True)
        store.pipe_file(f"{root}/{path}", body)


def test_objects_are_sent_and_the_same_call_again_sends_only_what_is_new_or_changed(
    queue, url, tmp_path
):
    files = {"a": b"first", "b/c": b"", "b/d": BODY, "b/left out.tmp": b"x"}
    fill(url, files)
    state = tmp_path / "state"
    send = dray.folders.send
    assert send(url, queue, state=state, exclude=["*.tmp"]).files == 3
    assert send(url, queue, state=state, exclude=["*.tmp"]).files == 0
    del files["b/left out.tmp"]
    assert received_from(queue) == files
    fill(url, {"a": b"changed", "new": b"new"})
    assert send(url, queue, state=state, exclude=["*.tmp"]).files == 2
    assert received_from(queue) == {"a": b"changed", "new": b"new"}


def test_objects_go_from_one_store_to_another(queue, s3):
    fill(f"{s3}/from", {"a/b": BODY, "c": b"c"})
    dray.folders.send(f"{s3}/from", queue)
    dray.folders.receive(queue, "memory://to", follow=False)
    assert objects_at("memory://to") == {"a/b": BODY, "c": b"c"}


def test_the_commands_send_and_receive_objects(tmp_path):
    (tmp_path / "from" / "a").mkdir(parents=True)
    (tmp_path / "from" / "a" / "b").write_bytes(BODY)
    with ManagerProcess("one", tmp_path) as process:
        with process.connect() as manager:
            manager.create_queue("files")
        source, target = f"file://{tmp_path}/from", f"file://{tmp_path}/to"
        run("send", "files", source, "--large", url=process.url).assert_good()
        said = run(
            "receive", "files", "--large", "--tree", "--to", target, url=process.url
        ).assert_good()
    assert said.out.startswith(f"received {target}/a/b (")
    assert objects_at(target) == {"a/b": BODY}


def test_nothing_is_removed_from_a_store_that_is_sent(queue, url):
    fill(url, {"a": b"x"})
    with pytest.raises(dray.InvalidConfiguration, match="after"):
        dray.folders.send(url, queue, after="delete")
