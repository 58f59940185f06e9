"""Files between programs at different queue managers, of which only one can reach the other."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

import dray
from dray.client.files import steps
from dray.client.transfer import accepting
from dray.client.transfer.direct import connect
from dray.client.transfer.state import folder_of
from dray.daemon.config import ServeOptions
from dray.daemon.embedded import EmbeddedDaemon
from dray.model.limits import RELAY_WINDOW_BYTES, TRANSFER_SILENCE_S
from dray.model.transfer import TransferState
from dray.transfer import fetch
from dray.wire.frames import encode_frame
from dray.wire.transfer_frames import DirectOpening, Post, encode_message
from tests.integration.commands import until

pytestmark = pytest.mark.slow

WITHIN_S = 100
FRAGMENT = 64 << 10


@pytest.fixture
def stage(tmp_path, monkeypatch):
    """Two queue managers; the queue is at the second, and the first reaches it."""
    monkeypatch.setenv("DRAY_TRANSFERS", str(tmp_path / "transfers"))
    daemon = EmbeddedDaemon(
        tmp_path / "there", ServeOptions(data="", listen="127.0.0.1:0", open=True)
    )
    daemon.start()
    (address,) = daemon.addresses
    with dray.connect(address) as there, dray.open(tmp_path / "here") as here:
        there.create_queue("reports")
        yield Stage(tmp_path, here, there, f"{address}/reports")
    daemon.stop()


@pytest.fixture
def patient(monkeypatch):
    """A slow machine makes nobody ask twice.

    The first handshake may still come before the producer has its box, and is then lost: saying it
    again must fit into the time for which a consumer bears silence.
    """
    monkeypatch.setattr(fetch, "TRANSFER_RETRY_S", TRANSFER_SILENCE_S / 3)
    monkeypatch.setattr(fetch, "TRANSFER_RETRY_S_MAX", float(WITHIN_S))


class Stage:
    def __init__(self, path: Path, here, there, queue: str) -> None:
        self.path, self.here, self.there, self.queue = path, here, there, queue
        self.source = path / "source"
        self.source.write_bytes(os.urandom(200 * FRAGMENT - 3))

    def offer(self, **options):
        return self.here.offer_file(
            self.source, self.queue, fragment_size=FRAGMENT, window_size=100, **options
        )

    def accept(self):
        return self.there.accept_file("reports", WITHIN_S)

    def assert_same(self, target: Path) -> None:
        assert target.read_bytes() == self.source.read_bytes()


@pytest.mark.parametrize("listen", ["auto", None], ids=["direct", "relayed"])
def test_a_file_goes_from_a_program_at_one_manager_to_one_at_another(stage, patient, listen):
    offer = stage.offer(listen=listen)
    stage.assert_same(stage.accept().save_to(stage.path / "target"))
    status = offer.wait(WITHIN_S)
    assert (status.state, status.fragments_resent) == (TransferState.DONE, 0)
    for manager in (stage.here, stage.there):
        queues = [each for each in manager.queues() if each.message_count]
        assert queues == [], "nothing of a file is left in a queue"
        assert manager.info().bytes_used == 0


def test_an_offer_to_another_manager_can_be_cancelled(stage):
    """What went on its way there cannot be taken back; here nothing is in the way of the end."""
    offer = stage.offer()
    offer.cancel()
    with pytest.raises(dray.TransferCancelled):
        offer.wait(WITHIN_S)
    assert stage.here.unfinished_transfers() == []


def test_through_managers_little_is_under_way_whatever_the_window(stage, monkeypatch):
    offer = stage.offer(listen=None)
    most = 0
    engine = offer.awaited._engine

    def watch(step):
        nonlocal most
        if step == "piece-sent":
            (copy,) = engine.core.copies.values()
            most = max(most, copy.window.in_flight)

    monkeypatch.setattr(steps, "watch", watch)
    stage.accept().save_to(stage.path / "target")
    offer.wait(WITHIN_S)
    assert 1 < most <= RELAY_WINDOW_BYTES // FRAGMENT


def test_a_connection_that_breaks_is_gone_round(stage, monkeypatch):
    """The direct connection is cut in the middle, and no other can be made."""
    made = []

    def once(joined):
        if made:
            raise ConnectionRefusedError
        made.append(connect(joined))
        return made[0]

    stored = []

    def watch(step):
        if step == "piece-stored":
            stored.append(step)
            if len(stored) == 20:
                made[0].shutdown(socket.SHUT_RDWR)

    monkeypatch.setattr(accepting, "connect", once)
    monkeypatch.setattr(steps, "watch", watch)
    offer = stage.offer()
    stage.assert_same(stage.accept().save_to(stage.path / "target"))
    assert offer.wait(WITHIN_S).state is TransferState.DONE
    assert len(stored) == 200, "no fragment is stored twice"


def test_a_consumer_may_be_told_never_to_connect_to_its_producer(stage, monkeypatch):
    monkeypatch.delattr(accepting, "connect")
    offer = stage.offer()
    incoming = stage.there.accept_file("reports", WITHIN_S, direct=False)
    stage.assert_same(incoming.save_to(stage.path / "target"))
    assert offer.wait(WITHIN_S).state is TransferState.DONE


def test_what_was_unfinished_when_both_ended_goes_on_where_it_was(stage, monkeypatch):
    reached, stored = threading.Event(), []

    def watch(step):
        if step == "piece-stored":
            stored.append(step)
            if len(stored) == 50:
                incoming.awaited._engine._stopping = True
                reached.set()

    monkeypatch.setattr(steps, "watch", watch)
    offer, incoming = stage.offer(), stage.accept()
    with pytest.raises(dray.TransferTimeout, match="suspended here"):
        incoming.save_to(stage.path / "target")
    assert reached.is_set()
    offer.close()
    (out,) = stage.here.unfinished_transfers()
    (back,) = stage.there.unfinished_transfers()
    assert (out.direction, back.direction) == ("out", "in")
    assert back.bytes_done == 50 * FRAGMENT
    again = stage.here.resume_transfer(out.transfer_id)
    stage.assert_same(stage.there.resume_transfer(back.transfer_id).save_to())
    assert again.wait(WITHIN_S).state is TransferState.DONE
    assert len(stored) == 200, "it goes on at the next expected fragment"
    assert stage.here.unfinished_transfers() == stage.there.unfinished_transfers() == []


def test_r117_an_offer_that_is_taken_up_is_of_the_same_file(stage):
    offer = stage.offer()
    offer.close()
    before = stage.source.stat()
    data = bytearray(stage.source.read_bytes())
    data[0] ^= 1
    stage.source.write_bytes(data)
    os.utime(stage.source, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(dray.TransferSourceChanged):
        stage.offer()
    fresh = stage.offer()
    assert fresh.transfer_id != offer.transfer_id
    fresh.cancel()


@pytest.mark.parametrize("consumers", ["one", "many"])
def test_r117_who_has_taken_an_offer_hears_at_once_that_its_file_changed(stage, consumers):
    offer = stage.offer(consumers=consumers)
    incoming = stage.accept()
    offer.close()
    stage.source.write_bytes(b"another")
    with pytest.raises(dray.TransferSourceChanged):
        stage.offer(consumers=consumers)
    with pytest.raises(dray.TransferSourceChanged) as caught:
        incoming.save_to(stage.path / "target")
    assert caught.value.transfer_id == offer.transfer_id
    assert [each.unfinished_transfers() for each in (stage.here, stage.there)] == [[], []]


def test_one_transfer_is_not_run_twice(stage):
    offer = stage.offer()
    with pytest.raises(dray.Misuse, match="another program"):
        stage.here.resume_transfer(offer.transfer_id)
    offer.cancel()


def test_a_state_file_that_cannot_be_read_is_named(stage):
    folder = folder_of(stage.here.info().id)
    folder.mkdir(parents=True)
    (folder / "broken.out").write_bytes(b"{")
    with pytest.raises(dray.TargetUnwritable, match=r"broken\.out"):
        stage.here.unfinished_transfers()


def test_nobody_gets_in_without_a_token(stage):
    offer = stage.offer()
    direct = offer.awaited._engine._direct
    until(lambda: isinstance(direct._listener, socket.socket))
    address = direct._listener.getsockname()
    message = encode_message(DirectOpening("c", "0" * 32))
    for said in (
        b"GET / HTTP/1.1\r\nHost: elsewhere\r\n\r\n",
        encode_frame(Post("", message)),
        b"x" * 100,
    ):
        with socket.create_connection(address, timeout=WITHIN_S) as sock:
            sock.sendall(said)
            try:
                assert sock.recv(1) == b""
            except ConnectionResetError:
                continue
    stage.assert_same(stage.accept().save_to(stage.path / "target"))
    offer.wait(WITHIN_S)


def test_a_spoilt_file_is_fetched_anew_and_never_shown(stage, patient, monkeypatch):
    """The first copy is damaged on the consumer's disk, behind every checksum."""
    spoilt = []

    def watch(step):
        if step == "piece-stored" and not spoilt:
            partial = stage.path / "target.partial"
            with partial.open("r+b") as file:
                file.write(b"damage")
            spoilt.append(step)

    # The digest follows the writes: hold it until the damage is done.
    monkeypatch.setattr(steps, "watch", watch)
    from dray.client.transfer.target import TargetFile

    more = TargetFile._more

    def late(target):
        until(lambda: spoilt)
        return more(target)

    monkeypatch.setattr(TargetFile, "_more", late)
    offer = stage.offer()
    stage.assert_same(stage.accept().save_to(stage.path / "target"))
    status = offer.wait(WITHIN_S)
    assert status.state is TransferState.DONE
    assert status.fragments_resent == 200


def test_a_full_disk_is_told_and_what_came_is_kept(stage, monkeypatch):
    from dray.client.transfer.target import TargetFile

    write = TargetFile.write

    def full(target, number, piece):
        if number == 30:
            raise target._file.spoilt("No space left on device")
        write(target, number, piece)

    monkeypatch.setattr(TargetFile, "write", full)
    offer, incoming = stage.offer(), stage.accept()
    with pytest.raises(dray.TargetUnwritable, match="No space left"):
        incoming.save_to(stage.path / "target")
    monkeypatch.setattr(TargetFile, "write", write)
    (left,) = stage.there.unfinished_transfers()
    assert (left.bytes_done, left.state) == (30 * FRAGMENT, TransferState.SUSPENDED)
    assert incoming.status.error == "target-unwritable"
    stage.assert_same(incoming.save_to())
    assert offer.wait(WITHIN_S).state is TransferState.DONE


@pytest.mark.parametrize("hidden", [False, True], ids=["as it was", "a directory has its name"])
def test_a_transfer_that_goes_on_at_another_path_leaves_nothing_at_the_first(
    stage, monkeypatch, hidden
):
    first, second = stage.path / "first", stage.path / "second"
    offer, incoming = stage.offer(), stage.accept()

    def watch(step):
        if step == "piece-stored":
            incoming.awaited._engine._stopping = True

    with monkeypatch.context() as patched:
        patched.setattr(steps, "watch", watch)
        with pytest.raises(dray.TransferTimeout, match="suspended here"):
            incoming.save_to(first)
    assert first.with_name("first.partial").exists()
    if hidden:
        first.mkdir()
    stage.assert_same(stage.there.resume_transfer(offer.transfer_id).save_to(second))
    assert offer.wait(WITHIN_S).state is TransferState.DONE
    assert not first.with_name("first.partial").exists()
