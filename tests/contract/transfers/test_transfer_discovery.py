"""Who gets an offered file, within which time, and what cannot be offered at all."""

from __future__ import annotations

import uuid
from contextlib import ExitStack

import pytest

import dray
from dray.model.transfer import TransferState
from tests.contract.transfers.parties import SOON_S, Saving, until


def test_r110_an_offer_for_which_nobody_asks_times_out(manager, reports, source, offer_of):
    offer = offer_of(source, reports, request_timeout=0.2)
    with pytest.raises(dray.TransferTimeout, match="no consumer asked"):
        offer.wait(SOON_S)
    assert offer.status.state is TransferState.TIMED_OUT
    assert offer.status.bytes_done == 0
    assert manager.unfinished_transfers() == []
    with pytest.raises(dray.ReceiveTimeout):
        manager.accept_file(source=reports, timeout=0)


@pytest.mark.parametrize("run", ["first", "second"])
def test_an_offer_without_a_limit_waits_for_whoever_comes(
    *, manager, reports, source, offer_of, tmp_path, run
):
    offer = offer_of(source, reports, request_timeout=None)
    (reference,) = manager.queue(reports).messages()
    assert reference.time_to_be_received is None
    if run == "second":
        offer.close()
        offer = offer_of(source, reports, request_timeout=None)
        assert len(list(manager.queue(reports).messages())) == 1
    incoming = manager.accept_file(source=reports, timeout=SOON_S)
    assert incoming.save_to(tmp_path / "out").read_bytes() == source.read_bytes()
    assert offer.wait(SOON_S).state is TransferState.DONE


def test_waiting_for_an_offer_ends_with_its_patience(reports, source, offer_of):
    offer = offer_of(source, reports)
    with pytest.raises(dray.TransferTimeout, match="it continues"):
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


def test_r111_each_call_of_one_handle_is_a_consumer_of_its_own(
    *, manager, reports, source, offer_of, tmp_path
):
    offer = offer_of(source, reports, consumers="many", request_timeout=SOON_S)
    accepted = [manager.accept_file(source=reports, timeout=SOON_S) for _ in range(2)]
    savings = [Saving(each, tmp_path / f"out-{at}") for at, each in enumerate(accepted)]
    for saving in savings:
        assert saving.join().read_bytes() == source.read_bytes()
    until(lambda: len({each.consumer_id for each in offer.consumers}) == 2)
    # Whoever asks again when the file is here is not given it once more.
    with pytest.raises(dray.ReceiveTimeout):
        manager.accept_file(source=reports, timeout=0)
    offer.cancel()


@pytest.fixture
def another_program(corner, addresses):
    """Connects as a program that begins later does."""
    face, door = corner
    if door == "embedded":
        pytest.skip("each program wants a handle of its own")
    with ExitStack() as programs:
        yield lambda: programs.enter_context(face.connect(addresses[door]))


def left_by_its_producer(manager, offer, tmp_path):
    """Accept an offer whose producer ends then, and hear nothing of it."""
    incoming = manager.accept_file(offer.status.queue, SOON_S, response_timeout=0.05)
    offer.close()
    with pytest.raises(dray.TransferTimeout):
        incoming.save_to(tmp_path / "left")
    return incoming.transfer_id


def test_an_offer_that_is_there_comes_before_one_whose_producer_was_silent(
    *, another_program, reports, source, offer_of, tmp_path
):
    (tmp_path / "other").write_bytes(b"other")
    left = left_by_its_producer(another_program(), offer_of(source, reports), tmp_path)
    offer_of(tmp_path / "other", reports, request_timeout=SOON_S)
    later = another_program().accept_file(reports, timeout=SOON_S)
    assert later.save_to(tmp_path / "out").read_bytes() == b"other"
    assert another_program().accept_file(reports, timeout=SOON_S).transfer_id == left


def test_a_consumer_of_a_file_for_many_whose_producer_was_silent_stays_one_consumer(
    *, another_program, reports, source, offer_of, tmp_path
):
    terms = {"consumers": "many", "request_timeout": None}
    left = left_by_its_producer(another_program(), offer_of(source, reports, **terms), tmp_path)
    offer = offer_of(source, reports, **terms)
    incoming = another_program().accept_file(reports, timeout=SOON_S)
    assert (incoming.transfer_id, incoming.path) == (left, tmp_path / "left")
    assert incoming.save_to().read_bytes() == source.read_bytes()
    until(lambda: [each.state for each in offer.consumers] == [TransferState.DONE])
    offer.cancel()


@pytest.mark.parametrize("end", ["cancel", "close"])
def test_what_a_handle_has_given_up_it_is_not_given_again(
    *, manager, reports, source, offer_of, end
):
    offer = offer_of(source, reports, consumers="many", request_timeout=SOON_S)
    getattr(manager.accept_file(source=reports, timeout=SOON_S), end)()
    with pytest.raises(dray.ReceiveTimeout):
        manager.accept_file(source=reports, timeout=0)
    offer.cancel()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"fragment_size": 0}, "fragment_size is a number of bytes from 1 to 4194304, not 0"),
        ({"fragment_size": 5 << 20}, "fragment_size is a number of bytes from 1 to"),
        ({"window_size": 0}, "window_size is a number of fragments from 1 to 65536, not 0"),
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
    with pytest.raises(dray.InvalidArgument, match=said) as refused:
        offer_of(source, reports, **options)
    assert refused.value.argument == next(iter(options))
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
