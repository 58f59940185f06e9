"""File transfer between two live programs, as both faces and every door promise it."""

from __future__ import annotations

import hashlib
import os
import threading
import time
import uuid

import pytest
from blake3 import blake3

import dray
from dray.client import steps
from dray.model.transfer import TransferState
from tests.contract.faces import AwaitedFace, BlockingFace

SOON_S = 30
FRAGMENT = 1_000
WINDOW = 4


@pytest.fixture(
    scope="module",
    params=[(BlockingFace, "embedded"), (AwaitedFace, "tcp"), (BlockingFace, "unix")],
    ids=["blocking-embedded", "awaited-tcp", "blocking-unix"],
)
def corner(request):
    """A face and a door; a transfer is a thread with sockets of its own behind all of them."""
    face = request.param[0]()
    yield face, request.param[1]
    face.close()


@pytest.fixture
def face(corner):
    return corner[0]


@pytest.fixture(scope="module")
def manager(corner, tmp_path_factory, addresses):
    face, door = corner
    if door == "embedded":
        opened = face.open(tmp_path_factory.mktemp("embedded") / "data")
    else:
        opened = face.connect(addresses[door])
    with opened as manager:
        yield manager


@pytest.fixture(autouse=True)
def kept(tmp_path, monkeypatch):
    """Where this test's transfers are kept."""
    monkeypatch.setenv("DRAY_TRANSFERS", str(tmp_path / "transfers"))
    return tmp_path / "transfers"


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "report.bin"
    path.write_bytes(os.urandom(40 * FRAGMENT + 7))
    return path


@pytest.fixture
def reports(make_queue):
    return make_queue().name


@pytest.fixture
def offer_of(manager):
    """Offers a file in small fragments; ends what a test leaves running."""
    offers = []

    def offer(path, to, **options):
        options = {"fragment_size": FRAGMENT, "window_size": WINDOW, **options}
        offers.append(manager.offer_file(path, to, **options))
        return offers[-1]

    yield offer
    for each in offers:
        each.close()


class Gate:
    """Holds a transfer at the n-th time of a step until it is opened."""

    def __init__(self, step: str, count: int) -> None:
        self._step, self._left = step, count
        self.reached, self.opened = threading.Event(), threading.Event()

    def __call__(self, step: str) -> None:
        if step == self._step:
            self._left -= 1
            if self._left == 0:
                self.reached.set()
                assert self.opened.wait(SOON_S)


@pytest.fixture
def gate(monkeypatch):
    """Makes the one gate of a test."""
    gates = []

    def make(step: str, count: int = 1) -> Gate:
        gates.append(Gate(step, count))
        monkeypatch.setattr(steps, "watch", gates[-1])
        return gates[-1]

    yield make
    for each in gates:
        each.opened.set()


class Saving:
    """A `save_to` in a thread."""

    def __init__(self, incoming, *arguments) -> None:
        self.error: BaseException | None = None
        self.path = None
        self._thread = threading.Thread(target=self._save, args=(incoming, *arguments))
        self._thread.start()

    def _save(self, incoming, *arguments) -> None:
        try:
            self.path = incoming.save_to(*arguments)
        except dray.DrayError as error:
            self.error = error

    def join(self):
        self._thread.join(SOON_S)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error
        return self.path


def until(condition) -> None:
    deadline = time.monotonic() + SOON_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


WAYS = pytest.mark.parametrize("listen", ["auto", None], ids=["direct", "relayed"])


def test_an_offer_may_choose_the_faster_digest(*, manager, reports, source, offer_of, tmp_path):
    offer = offer_of(source, reports, digest="blake3")
    incoming = manager.accept_file(source=reports, timeout=SOON_S)
    assert incoming.digest == offer.digest == blake3(source.read_bytes()).digest()
    assert incoming.digest_kind == offer.digest_kind == "blake3"
    target = incoming.save_to(tmp_path / "out.bin")
    assert target.read_bytes() == source.read_bytes()
    assert offer.wait(SOON_S).state is TransferState.DONE


@WAYS
def test_a_file_arrives_whole_and_what_it_is_is_known_before(
    *, manager, reports, source, offer_of, tmp_path, listen
):
    offer = offer_of(source, reports, listen=listen)
    incoming = manager.accept_file(source=reports, timeout=SOON_S)
    assert (incoming.label, incoming.size) == (source.name, source.stat().st_size)
    assert incoming.digest == offer.digest == hashlib.sha256(source.read_bytes()).digest()
    assert incoming.digest_kind == offer.digest_kind == "sha256"
    assert offer.status.state is TransferState.DISCOVERING
    heard = []
    target = incoming.save_to(tmp_path / "out.bin", lambda done, total: heard.append((done, total)))
    assert target.read_bytes() == source.read_bytes()
    assert heard[-1] == (incoming.size, incoming.size)
    status = offer.wait(SOON_S)
    assert (status.state, status.bytes_done) == (TransferState.DONE, incoming.size)
    assert status.bytes_left == 0
    assert manager.unfinished_transfers() == []
    assert not list(tmp_path.glob("*.partial"))


def test_an_empty_file_arrives(manager, reports, offer_of, tmp_path):
    (tmp_path / "empty").touch()
    offer = offer_of(tmp_path / "empty", reports)
    manager.accept_file(source=reports, timeout=SOON_S).save_to(tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b""
    assert offer.wait(SOON_S).percent == 100


def test_a_directory_is_saved_to_under_the_name_of_the_file(
    *, manager, reports, source, offer_of, tmp_path
):
    offer_of(source, reports)
    (tmp_path / "in").mkdir()
    incoming = manager.accept_file(source=reports, timeout=SOON_S)
    assert incoming.save_to(tmp_path / "in") == tmp_path / "in" / source.name


def test_iterating_over_an_offer_tells_how_it_goes_to_its_end(
    *, manager, reports, source, offer_of, tmp_path
):
    offer = offer_of(source, reports)
    saving = Saving(manager.accept_file(source=reports, timeout=SOON_S), tmp_path / "out")
    states = [status.state for status in offer]
    assert states[-1] is TransferState.DONE
    saving.join()


def test_r110_an_offer_for_which_nobody_asks_times_out(manager, reports, source, offer_of):
    offer = offer_of(source, reports, request_timeout=0.2)
    with pytest.raises(dray.TransferTimeout, match="nobody asked"):
        offer.wait(SOON_S)
    assert offer.status.state is TransferState.TIMED_OUT
    assert offer.status.bytes_done == 0
    assert manager.unfinished_transfers() == []
    with pytest.raises(dray.ReceiveTimeout):
        manager.accept_file(source=reports, timeout=0)


@pytest.mark.parametrize("life", ["first", "second"])
def test_an_offer_without_a_limit_waits_for_whoever_comes(
    *, manager, reports, source, offer_of, tmp_path, life
):
    offer = offer_of(source, reports, request_timeout=None)
    (reference,) = manager.queue(reports).messages()
    assert reference.time_to_be_received is None
    if life == "second":
        offer.close()
        offer = offer_of(source, reports, request_timeout=None)
        assert len(list(manager.queue(reports).messages())) == 1
    incoming = manager.accept_file(source=reports, timeout=SOON_S)
    assert incoming.save_to(tmp_path / "out").read_bytes() == source.read_bytes()
    assert offer.wait(SOON_S).state is TransferState.DONE


def test_waiting_for_an_offer_ends_with_its_patience(reports, source, offer_of):
    offer = offer_of(source, reports)
    with pytest.raises(dray.TransferTimeout, match="goes on"):
        offer.wait(0)
    assert not offer.status.state.final


def test_a_plain_message_is_no_offer_and_stays(manager, reports, source, offer_of):
    manager.queue(reports).send(b"plain")
    with pytest.raises(dray.ReceiveTimeout):
        manager.accept_file(source=reports, timeout=0)
    offer_of(source, reports)
    incoming = manager.accept_file(source=reports, timeout=SOON_S)
    assert incoming.label == source.name
    incoming.close()
    assert bytes(manager.queue(reports).receive(timeout=0).body) == b"plain"


def test_r111_one_consumer_gets_the_reference(manager, reports, source, offer_of):
    offer_of(source, reports)
    incoming = manager.accept_file(source=reports, timeout=SOON_S)
    with pytest.raises(dray.ReceiveTimeout):
        manager.accept_file(source=reports, timeout=0)
    incoming.close()


def test_r111_many_get_it_each_with_an_id_of_its_own(
    *, corner, reports, source, offer_of, tmp_path, addresses
):
    face, door = corner
    if door == "embedded":
        pytest.skip("each consumer wants a handle of its own")
    offer = offer_of(source, reports, consumers="many", request_timeout=SOON_S)
    savings, others = [], [face.connect(addresses[door]) for _ in range(3)]
    for number, other in enumerate(others):
        incoming = other.accept_file(source=reports, timeout=SOON_S)
        savings.append(Saving(incoming, tmp_path / f"out-{number}"))
    for saving in savings:
        assert saving.join().read_bytes() == source.read_bytes()
    until(lambda: len(offer.consumers) == 3)
    until(lambda: {each.state for each in offer.consumers} == {TransferState.DONE})
    assert len({each.consumer_id for each in offer.consumers}) == 3
    with pytest.raises(dray.ReceiveTimeout):
        others[0].accept_file(source=reports, timeout=0)
    offer.cancel()
    for other in others:
        other.close()


@WAYS
def test_r115_suspended_by_the_producer_nothing_moves_until_it_resumes(
    *, manager, reports, source, offer_of, tmp_path, gate, listen
):
    held = gate("piece-stored", 10)
    offer = offer_of(source, reports, listen=listen)
    incoming = manager.accept_file(source=reports, timeout=SOON_S)
    saving = Saving(incoming, tmp_path / "out")
    assert held.reached.wait(SOON_S)
    offer.suspend()
    assert offer.status.state is TransferState.SUSPENDED or offer.consumers
    held.opened.set()
    until(lambda: incoming.status.state is TransferState.SUSPENDED)
    assert 0 < incoming.status.bytes_done < incoming.size
    assert not (tmp_path / "out").exists()
    offer.resume()
    assert saving.join().read_bytes() == source.read_bytes()
    assert offer.wait(SOON_S).state is TransferState.DONE


def test_r115_suspended_by_the_consumer_it_goes_on_when_it_resumes(
    *, manager, reports, source, offer_of, tmp_path, gate
):
    held = gate("piece-sent", 10)
    offer = offer_of(source, reports)
    incoming = manager.accept_file(source=reports, timeout=SOON_S)
    saving = Saving(incoming, tmp_path / "out")
    assert held.reached.wait(SOON_S)
    incoming.suspend()
    held.opened.set()
    until(lambda: offer.status.state is TransferState.SUSPENDED)
    incoming.resume()
    assert saving.join().read_bytes() == source.read_bytes()
    assert offer.wait(SOON_S).state is TransferState.DONE


@WAYS
def test_r115_cancelled_by_the_producer_nothing_is_left(
    *, manager, reports, source, offer_of, tmp_path, gate, listen
):
    held = gate("piece-stored", 10)
    offer = offer_of(source, reports, listen=listen)
    saving = Saving(manager.accept_file(source=reports, timeout=SOON_S), tmp_path / "out")
    assert held.reached.wait(SOON_S)
    offer.cancel()
    held.opened.set()
    with pytest.raises(dray.TransferCancelled):
        saving.join()
    with pytest.raises(dray.TransferCancelled):
        offer.wait(SOON_S)
    assert not list(tmp_path.glob("out*"))
    assert manager.unfinished_transfers() == []


@pytest.mark.parametrize("consumers", ["one", "many"])
def test_an_offer_cancelled_before_anyone_took_it_takes_its_reference_back(
    *, manager, reports, source, offer_of, consumers
):
    manager.queue(reports).send(b"of somebody else", correlation_id="f" * 32)
    offer = offer_of(source, reports, consumers=consumers)
    offer.cancel()
    assert [bytes(each.body) for each in manager.queue(reports).messages()] == [b"of somebody else"]
    with pytest.raises(dray.ReceiveTimeout):
        manager.accept_file(source=reports, timeout=0)
    with pytest.raises(dray.TransferCancelled):
        offer.wait(SOON_S)
    assert manager.unfinished_transfers() == []


def test_an_unfinished_offer_that_is_cancelled_takes_its_reference_back(
    *, manager, reports, source, offer_of
):
    offer = offer_of(source, reports)
    offer.close()
    manager.resume_transfer(offer.transfer_id).cancel()
    assert list(manager.queue(reports).messages()) == []


def test_an_offer_can_be_cancelled_when_its_queue_is_gone(*, manager, reports, source, offer_of):
    offer = offer_of(source, reports)
    manager.delete_queue(reports)
    offer.cancel()
    with pytest.raises(dray.TransferCancelled):
        offer.wait(SOON_S)


def test_r115_cancelled_by_the_consumer_nothing_is_left(
    *, manager, reports, source, offer_of, tmp_path, gate
):
    held = gate("piece-sent", 10)
    offer = offer_of(source, reports)
    incoming = manager.accept_file(source=reports, timeout=SOON_S)
    saving = Saving(incoming, tmp_path / "out")
    assert held.reached.wait(SOON_S)
    incoming.cancel()
    held.opened.set()
    with pytest.raises(dray.TransferCancelled):
        saving.join()
    with pytest.raises(dray.TransferCancelled):
        offer.wait(SOON_S)
    assert not list(tmp_path.glob("out*"))
    assert manager.unfinished_transfers() == []


def test_one_consumer_is_cancelled_by_its_id(*, manager, reports, source, offer_of, tmp_path, gate):
    held = gate("piece-stored", 10)
    offer = offer_of(source, reports)
    saving = Saving(manager.accept_file(source=reports, timeout=SOON_S), tmp_path / "out")
    assert held.reached.wait(SOON_S)
    until(lambda: offer.consumers)
    with pytest.raises(dray.Misuse, match="no consumer 'x'"):
        offer.cancel_consumer("x")
    offer.cancel_consumer(offer.consumers[0].consumer_id)
    held.opened.set()
    with pytest.raises(dray.TransferCancelled):
        saving.join()


def test_a_file_that_is_accepted_and_not_wanted_is_given_up(manager, reports, source, offer_of):
    offer_of(source, reports)
    incoming = manager.accept_file(source=reports, timeout=SOON_S)
    incoming.cancel()
    assert [each.direction for each in manager.unfinished_transfers()] == ["out"]
    with pytest.raises(dray.TransferCancelled):
        incoming.save_to("anywhere")


def test_r117_a_file_that_changed_while_suspended_is_found_when_it_is_resumed(
    *, manager, reports, source, offer_of, tmp_path, gate
):
    held = gate("piece-stored", 10)
    offer = offer_of(source, reports)
    saving = Saving(manager.accept_file(source=reports, timeout=SOON_S), tmp_path / "out")
    assert held.reached.wait(SOON_S)
    offer.suspend()
    held.opened.set()
    before = source.stat()
    data = bytearray(source.read_bytes())
    data[-1] ^= 1
    source.write_bytes(data)
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(dray.TransferSourceChanged):
        offer.resume()
    with pytest.raises(dray.TransferSourceChanged):
        saving.join()
    with pytest.raises(dray.TransferSourceChanged):
        offer.wait(SOON_S)
    assert not list(tmp_path.glob("out*"))


def test_r117_a_file_that_changes_while_it_is_sent_ends_the_offer(
    *, manager, reports, source, offer_of, tmp_path, gate
):
    held = gate("piece-sent", 10)
    offer = offer_of(source, reports)
    saving = Saving(manager.accept_file(source=reports, timeout=SOON_S), tmp_path / "out")
    assert held.reached.wait(SOON_S)
    source.write_bytes(b"another")
    held.opened.set()
    with pytest.raises(dray.TransferSourceChanged):
        saving.join()
    with pytest.raises(dray.TransferSourceChanged):
        offer.wait(SOON_S)


def test_a_target_that_cannot_be_written_is_named_and_another_may_be_given(
    *, manager, reports, source, offer_of, tmp_path
):
    offer = offer_of(source, reports)
    incoming = manager.accept_file(source=reports, timeout=SOON_S)
    with pytest.raises(dray.TargetUnwritable, match="nowhere"):
        incoming.save_to(tmp_path / "nowhere" / "out")
    incoming.save_to(tmp_path / "out")
    assert offer.wait(SOON_S).state is TransferState.DONE


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"fragment_size": 0}, "fragment has 1 to"),
        ({"fragment_size": 5 << 20}, "fragment has 1 to"),
        ({"window_size": 0}, "window has 1 to"),
        ({"consumers": "few"}, "few"),
        ({"fragment_size": "1MiB"}, "fragment_size is a whole number"),
        ({"window_size": 1.5}, "window_size is a whole number"),
        ({"request_timeout": 0}, "request_timeout"),
        ({"request_timeout": "5"}, "request_timeout is a number of seconds"),
        ({"request_timeout": float("inf")}, "request_timeout"),
        ({"response_timeout": "5"}, "response_timeout"),
        ({"response_timeout": -1}, "response_timeout"),
    ],
)
def test_terms_out_of_bounds_are_refused(*, manager, reports, source, offer_of, options, said):
    with pytest.raises(dray.Misuse, match=said):
        offer_of(source, reports, **options)
    # Nothing was kept either that would be in the way of the next.
    assert manager.unfinished_transfers() == []
    assert offer_of(source, reports).status.state is TransferState.DISCOVERING


def test_accepting_with_a_timeout_that_is_none_is_refused(manager, reports):
    with pytest.raises(dray.Misuse, match="response_timeout"):
        manager.accept_file(reports, timeout=0, response_timeout=None)


def test_what_is_no_file_cannot_be_offered(manager, reports, tmp_path):
    with pytest.raises(dray.SourceUnreadable):
        manager.offer_file(tmp_path / "missing", reports)
    with pytest.raises(dray.SourceUnreadable):
        manager.offer_file(tmp_path, reports)


def test_a_missing_queue_is_named_and_nothing_is_left(manager, source):
    with pytest.raises(dray.QueueNotFound):
        manager.offer_file(source, f"q-{uuid.uuid4().hex}")
    assert [each.state for each in manager.unfinished_transfers()] == []


def test_nothing_unfinished_of_that_id_is_an_error(manager):
    with pytest.raises(dray.Misuse, match="not unfinished"):
        manager.resume_transfer("0" * 32)
