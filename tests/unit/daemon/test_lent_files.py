"""Files that clients lend: what is taken from them, what is written to them, who closes them."""

from __future__ import annotations

import errno
import fcntl
import os
import select
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from dray.daemon.files import copy_threads, copying, unclaimed
from dray.daemon.limits import FILES_LENT_MANY, FILES_PER_SESSION, FILES_UNCLAIMED_MAX
from dray.errors import ProtocolError, StoreCorrupt, StoreFull, TargetUnwritable
from dray.store.heap.heap import file_name
from dray.wire import file_frames, frames, message_frames, queue_frames

BODY = bytes(range(256)) * 40


@pytest.fixture
def opened(tmp_path):
    """Opens files; closes them at the end of the test."""
    with ExitStack() as stack:

        def open_file(name, flags=os.O_RDWR | os.O_CREAT, content=b""):
            descriptor = os.open(tmp_path / name, flags, 0o600)
            stack.callback(os.close, descriptor)
            if content:
                os.pwrite(descriptor, content, 0)
            return descriptor

        yield open_file


def send_file(size=1000, offset=0):
    return file_frames.SendFile(1, 0, size, 0, offset)


def copy_part(offset=0, length=1000, at=0, record=0):
    return file_frames.CopyPart(1, record, offset, length, at)


def failure_of(frame):
    assert isinstance(frame.head, frames.Failed), frame.head
    return frame.head


def placed(echo):
    return [echo.manager.store.read(extent) for extent in echo.manager.records]


def test_what_is_placed_is_the_head_that_was_said_and_the_range_that_was_lent(echo, opened):
    source = opened("source", content=BODY)
    with echo.client() as client:
        client.lend(send_file(4 + 1000, offset=300), source, body=b"head")
        assert client.hear_head(frames.Done).count == 1004
    assert placed(echo) == [b"head" + BODY[300:1300]]


def test_frames_behind_a_lent_file_wait_for_it(echo, opened, monkeypatch):
    held_up, go_on = threading.Event(), threading.Event()
    read = os.preadv

    def preadv(*arguments):
        held_up.set()
        assert go_on.wait(20)
        return read(*arguments)

    with echo.client() as client, echo.client() as other:
        monkeypatch.setattr(copying, "preadv", preadv)
        client.lend(send_file(), opened("source", content=BODY), request_id=1)
        assert held_up.wait(20)
        client.say(queue_frames.Describe(), 2)
        # A file system that does not answer holds up nobody else.
        assert isinstance(other.ask(queue_frames.Describe()).head, frames.Done)
        go_on.set()
        assert [client.hear().request_id for _ in range(2)] == [1, 2]


def test_many_files_come_through_in_the_order_in_which_they_were_lent(echo, opened):
    source = opened("source", content=BODY)
    with echo.client() as client:
        for number in range(1, 31):
            client.lend(send_file(100, offset=number), source, request_id=number)
        assert [client.hear().request_id for _ in range(30)] == list(range(1, 31))
    assert placed(echo) == [BODY[number : number + 100] for number in range(1, 31)]


def test_a_range_is_copied_into_the_file_and_what_is_before_it_answered(echo, opened, tmp_path):
    target = opened("target", content=b"x" * 20)
    with echo.client() as client:
        client.say(message_frames.Send(1, 1, [], []), 0, BODY)
        client.lend(copy_part(offset=100, length=1000, at=10), target)
        frame = client.hear()
    assert isinstance(frame.head, file_frames.Copied)
    assert bytes(frame.body) == BODY[:100]
    assert (tmp_path / "target").read_bytes() == b"x" * 10 + BODY[100:1100]


@pytest.fixture(params=["in the kernel", "through memory"])
def way(request, monkeypatch):
    """How bytes are copied into a client's file."""
    if request.param == "through memory":
        monkeypatch.setattr(copying, "copy_file_range", not_here(errno.ENOSYS))


def not_here(why):
    def copy_file_range(*_):
        raise OSError(why, os.strerror(why))

    return copy_file_range


@pytest.mark.parametrize("why", [errno.ENOSYS, errno.EXDEV])
def test_where_the_kernel_does_not_copy_the_bytes_go_through_memory(echo, opened, monkeypatch, why):
    monkeypatch.setattr(copying, "copy_file_range", not_here(why))
    with echo.client() as client:
        client.say(message_frames.Send(1, 1, [], []), 0, BODY)
        client.lend(copy_part(length=5000, at=3), target := opened("target"))
        assert isinstance(client.hear().head, file_frames.Copied)
    assert os.pread(target, 9000, 0) == bytes(3) + BODY[:5000]


def test_a_file_of_another_file_system_is_written_too(echo):
    target = os.memfd_create("target")
    try:
        with echo.client() as client:
            client.say(message_frames.Send(1, 1, [], []), 0, BODY)
            client.lend(copy_part(length=5000), target)
            assert isinstance(client.hear().head, file_frames.Copied)
        assert os.pread(target, 9000, 0) == BODY[:5000]
    finally:
        os.close(target)


@pytest.mark.parametrize("kind", ["pipe", "write only", "path only", "too short", "behind its end"])
def test_a_file_that_cannot_be_read_gives_a_record_without_its_body(echo, opened, tmp_path, kind):
    (tmp_path / "source").write_bytes(BODY)
    reader, writer = os.pipe()
    source = {
        "pipe": lambda: reader,
        "write only": lambda: opened("source", os.O_WRONLY),
        "path only": lambda: opened("source", os.O_PATH),
        "too short": lambda: opened("source", os.O_RDONLY),
        "behind its end": lambda: opened("source", os.O_RDONLY),
    }[kind]()
    size, offset = {"too short": (len(BODY) + 1, 0)}.get(kind, (100, 0))
    if kind == "behind its end":
        offset = 1 << 40
    with echo.client() as client:
        client.lend(send_file(size, offset), source)
        assert client.hear_head(frames.Done).count == 0
        assert isinstance(client.ask(queue_frames.Describe()).head, frames.Done)
    os.close(reader)
    os.close(writer)


def sealed():
    descriptor = os.memfd_create("sealed", os.MFD_ALLOW_SEALING)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW)
    return descriptor


@pytest.mark.parametrize("kind", ["device", "read only", "appending", "sealed"])
def test_a_file_that_cannot_be_written_is_the_clients_error_and_hurts_nobody(
    echo, tmp_path, kind, way
):
    (tmp_path / "target").touch()
    target = {
        "device": lambda: os.open("/dev/null", os.O_RDWR),
        "read only": lambda: os.open(tmp_path / "target", os.O_RDONLY),
        "appending": lambda: os.open(tmp_path / "target", os.O_WRONLY | os.O_APPEND),
        "sealed": sealed,
    }[kind]()
    try:
        with echo.client() as client:
            client.say(message_frames.Send(1, 1, [], []), 0, BODY)
            client.lend(copy_part(), target)
            failed = failure_of(client.hear())
            assert failed.error == TargetUnwritable.code
            assert failed.fields["reason"]
            assert isinstance(client.ask(message_frames.Commit(1, 1)).head, frames.Done)
        assert not (tmp_path / "target").stat().st_size
    finally:
        os.close(target)


def test_a_heap_file_that_is_gone_is_the_stores_error_and_hurts_nobody_else(echo, opened, tmp_path):
    target = opened("target")
    with echo.client() as client:
        client.say(message_frames.Send(1, 1, [], []), 0, BODY)
        assert isinstance(client.ask(queue_frames.Describe()).head, frames.Done)
        (heap_file,) = {extent.file for extent in echo.manager.records}
        (path,) = tmp_path.rglob(file_name(heap_file))
        path.rename(path.with_name("elsewhere"))
        for _ in range(2):
            client.lend(copy_part(), target)
            failed = failure_of(client.hear())
            assert (failed.error, failed.fields["file"]) == (StoreCorrupt.code, path.name)
        path.with_name("elsewhere").rename(path)
        client.lend(copy_part(), target)
        assert isinstance(client.hear().head, file_frames.Copied)
    assert os.pread(target, 1000, 0) == BODY[:1000]


@pytest.mark.usefixtures("way")
def test_a_record_that_ends_too_early_is_the_stores_error(echo, opened):
    with echo.client() as client:
        client.say(message_frames.Send(1, 1, [], []), 0, BODY)
        assert isinstance(client.ask(queue_frames.Describe()).head, frames.Done)
        extent = echo.manager.records[0]
        os.ftruncate(echo.manager.store.descriptor(extent.file), extent.offset + 50)
        for offset in (0, 40, 100):
            client.lend(copy_part(offset=offset), opened("target"))
            assert failure_of(client.hear()).error == StoreCorrupt.code


def test_a_refused_request_gives_its_file_back(echo, opened):
    with echo.client() as client:
        for _ in range(10):
            client.lend(copy_part(offset=-1), opened("target"))
            assert failure_of(client.hear()).error == StoreFull.code


def wrong_ways(opened):
    source = opened("source", content=BODY)
    return {
        "a file frame without its file": lambda client: client.say(send_file()),
        "a copy without its file": lambda client: client.say(copy_part()),
        "two files with one frame": lambda client: client.lend(send_file(), source, source),
        "files with frames that need none": lambda client: [
            client.lend(queue_frames.Describe(), source, request_id=number) for number in (1, 2)
        ],
        "no number to answer": lambda client: client.lend(copy_part(), source, request_id=0),
        "a negative offset": lambda client: client.lend(send_file(offset=-1), source),
        "an offset beyond all": lambda client: client.lend(send_file(offset=(1 << 63) - 5), source),
        "a record too long": lambda client: client.lend(send_file((4 << 20) + 1), source),
        "a head longer than its record": lambda client: client.lend(
            send_file(3), source, body=b"head"
        ),
    }


@pytest.mark.parametrize("way", range(9))
def test_files_lent_in_a_wrong_way_end_that_session_only(echo, opened, way):
    says = list(wrong_ways(opened).values())[way]
    with echo.client() as other, echo.client() as client:
        says(client)
        answers = []
        while not answers or not isinstance(answers[-1].head, frames.Failed):
            answers.append(client.hear())
        assert answers[-1].head.error == ProtocolError.code
        assert client.is_hung_up()
        assert isinstance(other.ask(queue_frames.Describe()).head, frames.Done)


def test_no_file_can_come_along_over_tcp(echo):
    with echo.tcp_client() as client:
        assert failure_of(client.ask(send_file())).error == ProtocolError.code
        assert client.is_hung_up()


@pytest.mark.parametrize("cut", [0, 1, 30])
def test_a_session_that_ends_leaves_no_file_open(echo, opened, wait_until, cut):
    """The plugin that looks for what a test left open sees the daemon's descriptors too."""
    source = opened("source", content=BODY)
    mine = os.fstat(source).st_ino

    def held():
        return [each.name for each in Path("/proc/self/fd").iterdir() if inode(each) == mine]

    def inode(each):
        try:
            return each.stat().st_ino
        except OSError:
            return None

    for head in (send_file(), copy_part()):
        with echo.client() as client:
            client.say(message_frames.Send(1, 1, [], []), 0, BODY)
            client.lend(head, source, cut=cut)
        wait_until(lambda: held() == [str(source)])


def test_a_session_that_ends_in_the_midst_of_a_copy_leaves_nothing_pinned(
    echo, opened, monkeypatch, wait_until
):
    held_up, go_on = threading.Event(), threading.Event()
    copy = os.copy_file_range

    def copy_file_range(*arguments):
        held_up.set()
        assert go_on.wait(20)
        return copy(*arguments)

    monkeypatch.setattr(copying, "copy_file_range", copy_file_range)
    with echo.client() as client:
        client.say(message_frames.Send(1, 1, [], []), 0, BODY)
        client.lend(copy_part(), opened("target"))
        assert held_up.wait(20)
    wait_until(lambda: echo.manager.open_sessions == 0)
    heap = echo.manager.store._heap
    assert sum(each.readers for each in heap._files.values()) == 1
    go_on.set()
    wait_until(lambda: not sum(each.readers for each in heap._files.values()))


@pytest.fixture
def go_on(monkeypatch):
    """No file is read before this is set."""
    go_on = threading.Event()
    read = os.preadv

    def preadv(*arguments):
        assert go_on.wait(20)
        return read(*arguments)

    monkeypatch.setattr(copying, "preadv", preadv)
    return go_on


def test_one_session_lends_only_a_few_files_at_a_time(echo, opened, go_on, wait_until):
    source = opened("source", content=BODY)
    with echo.client() as client:
        for number in range(1, 13):
            client.lend(send_file(100), source, request_id=number)
        copier = echo.servers[-1]._around.copier
        wait_until(lambda: copier.files_lent == FILES_PER_SESSION)
        go_on.set()
        for _ in range(12):
            client.hear_head(frames.Done)
            assert copier.files_lent <= FILES_PER_SESSION
        wait_until(lambda: copier.files_lent == 0)


def test_what_waits_behind_a_file_is_not_added_to(echo, opened, go_on):
    """A file system that hangs must not make us keep in memory what its owner goes on to send."""
    body = bytes(1 << 20)
    with echo.client() as client:
        client.lend(send_file(100), opened("source", content=BODY), request_id=1)
        client.socket.setblocking(False)
        poll = select.poll()
        poll.register(client.socket, select.POLLOUT)
        taken = 0
        data = frames.encode_frame(message_frames.Send(1, 1, [], []), 0, len(body)) + body
        # A daemon that is slow to read passes all the same; one that reads on does not.
        while taken < 64 << 20 and poll.poll(500):
            taken += client.socket.send(memoryview(data)[taken % len(data) :])
        assert taken < 16 << 20
        client.socket.settimeout(20)
        go_on.set()
        client.socket.sendall(memoryview(data)[taken % len(data) :])
        assert client.hear_head(frames.Done).count == 100
        assert isinstance(client.ask(queue_frames.Describe()).head, frames.Done)


def test_descriptors_are_closed_with_programs_that_are_started(echo, opened, monkeypatch):
    """They are received with the flag that closes them on exec."""
    flags = []
    read = os.preadv

    def preadv(descriptor, *arguments):
        flags.append(fcntl.fcntl(descriptor, fcntl.F_GETFD))
        return read(descriptor, *arguments)

    monkeypatch.setattr(copying, "preadv", preadv)
    with echo.client() as client:
        client.lend(send_file(100), opened("source", content=BODY))
        client.hear_head(frames.Done)
    assert flags == [fcntl.FD_CLOEXEC]


@pytest.fixture(params=["preadv", "copy_file_range"])
def hanging(request, monkeypatch):
    """A file system that does not answer the first call; and a daemon that is soon impatient."""
    go_on, once = threading.Event(), [True]
    function = getattr(copying, request.param)

    def hang(*arguments):
        if once:
            once.clear()
            assert go_on.wait(60)
        return function(*arguments)

    monkeypatch.setattr(copying, request.param, hang)
    # A thousand times what a healthy file takes, also on a busy machine.
    monkeypatch.setattr(copy_threads, "COPY_S", 1.0)
    yield request.param, go_on
    go_on.set()


def test_a_file_system_that_hangs_holds_up_only_its_own_file(echo, opened, hanging, wait_until):
    call, go_on = hanging
    heap = echo.manager.store._heap
    with echo.client() as client, echo.client() as other:
        client.say(message_frames.Send(1, 1, [], []), 0, BODY)
        pins = sum(each.readers for each in heap._files.values())

        def lend(caller):
            if call == "preadv":
                caller.lend(send_file(100), opened("source", content=BODY))
            else:
                caller.lend(copy_part(), opened("target"))
            return caller.hear().head

        refused = lend(client)
        if call == "preadv":
            # What of it was read: nothing. The manager tells the client so.
            assert refused == frames.Done(0)
        else:
            assert refused.error == TargetUnwritable.code
            assert "did not answer within 1 s" in refused.fields["reason"]
            # Its bytes stay where they are as long as the kernel may still read them.
            assert sum(each.readers for each in heap._files.values()) == pins + 1
        for caller in (other, client):
            done = lend(caller)
            assert isinstance(done, frames.Done | file_frames.Copied)
        go_on.set()
        wait_until(lambda: sum(each.readers for each in heap._files.values()) == pins)
        wait_until(lambda: echo.servers[-1]._around.copier._threads.stuck == 0)
        assert echo.servers[-1]._around.copier.files_lent == 0


def lent_files(echo):
    return echo.servers[-1]._around.copier.files_lent


def test_one_who_lends_files_without_frames_and_hangs_up_leaves_no_descriptor(
    echo, opened, wait_until
):
    """From 64 such files on no further connection was read, and none was seen to hang up."""
    source = opened("source", content=BODY)
    callers = [echo.client() for _ in range(FILES_LENT_MANY + 6)]
    for caller in callers:
        caller.lend(send_file(), source, cut=1)
    wait_until(lambda: lent_files(echo) >= FILES_UNCLAIMED_MAX)
    for caller in callers:
        caller.socket.close()
    wait_until(lambda: lent_files(echo) == 0)
    with echo.client() as honest:
        honest.lend(send_file(), source)
        honest.hear_head(frames.Done)


def test_a_file_whose_frame_does_not_come_is_closed_in_time(echo, opened, monkeypatch, wait_until):
    monkeypatch.setattr(unclaimed, "CLAIM_S", 0.05)
    with echo.client() as silent:
        silent.lend(send_file(), opened("source", content=BODY), cut=1)
        assert silent.is_hung_up()
        wait_until(lambda: lent_files(echo) == 0)


def test_of_too_many_files_without_frames_the_oldest_goes_first(echo, opened, monkeypatch):
    monkeypatch.setattr(unclaimed, "FILES_UNCLAIMED_MAX", 1)
    source = opened("source", content=BODY)
    with echo.client() as first, echo.client() as second:
        data = frames.encode_frame(send_file(), 1)
        first.lend(send_file(), source, cut=1)
        second.lend(send_file(), source, cut=1)
        assert first.is_hung_up()
        second.socket.sendall(data[-1:])
        second.hear_head(frames.Done)


def test_a_caller_lends_its_share_of_files_and_others_lend_theirs(
    echo, opened, monkeypatch, wait_until
):
    monkeypatch.setattr("dray.daemon.files.lent_files.FILES_PER_CALLER_MAX", 3)
    source = opened("source", content=BODY)
    lenders = [echo.session_of("user:ada") for _ in range(3)]
    for number, each in enumerate(lenders, 1):
        each.lend(send_file(), source, cut=1)
        wait_until(lambda number=number: lent_files(echo) == number)
    with echo.session_of("user:ada") as more:
        more.lend(send_file(), source)
        assert "at most 3 files" in failure_of(more.hear()).sentence
    with echo.session_of("user:bob") as bob:
        bob.lend(send_file(), source)
        bob.hear_head(frames.Done)
    for each in lenders:
        each.socket.close()
    wait_until(lambda: lent_files(echo) == 0)
    with echo.session_of("user:ada") as again:
        again.lend(send_file(), source)
        again.hear_head(frames.Done)
    wait_until(lambda: not echo.servers[0]._around.copier.lent_by)
