"""Suspending, resuming and cancelling, at either end (R115)."""

from __future__ import annotations

import pytest

import dray
from dray.client.awaited import transfers
from dray.client.transfer import offering
from dray.client.transfer.state import kept_offers
from dray.model.transfer import TransferState
from tests.contract.transfers.parties import SOON_S, WAYS, Saving, until


@WAYS
def test_r115_suspended_by_the_producer_nothing_moves_until_it_resumes(
    *, source, tmp_path, halfway, listen
):
    held, offer, incoming, saving = halfway("piece-stored", listen=listen)
    offer.suspend()
    assert offer.status.state is TransferState.SUSPENDED or offer.consumers
    held.opened.set()
    until(lambda: incoming.status.state is TransferState.SUSPENDED)
    assert 0 < incoming.status.bytes_done < incoming.size
    assert not (tmp_path / "out").exists()
    offer.resume()
    assert saving.join().read_bytes() == source.read_bytes()
    assert offer.wait(SOON_S).state is TransferState.DONE


def test_r115_suspended_by_the_consumer_it_goes_on_when_it_resumes(*, source, halfway):
    held, offer, incoming, saving = halfway("piece-sent")
    incoming.suspend()
    held.opened.set()
    until(lambda: offer.status.state is TransferState.SUSPENDED)
    incoming.resume()
    assert saving.join().read_bytes() == source.read_bytes()
    assert offer.wait(SOON_S).state is TransferState.DONE


def nothing_is_left_of(held, offer, saving, tmp_path):
    held.opened.set()
    with pytest.raises(dray.TransferCancelled):
        saving.join()
    with pytest.raises(dray.TransferCancelled):
        offer.wait(SOON_S)
    assert not list(tmp_path.glob("out*"))


@WAYS
def test_r115_cancelled_by_the_producer_nothing_is_left(*, manager, tmp_path, halfway, listen):
    held, offer, _, saving = halfway("piece-stored", listen=listen)
    offer.cancel()
    nothing_is_left_of(held, offer, saving, tmp_path)
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


def test_r115_cancelled_by_the_consumer_nothing_is_left(*, manager, tmp_path, halfway):
    held, offer, incoming, saving = halfway("piece-sent")
    incoming.cancel()
    nothing_is_left_of(held, offer, saving, tmp_path)
    assert manager.unfinished_transfers() == []


def test_one_consumer_is_cancelled_by_its_id(*, halfway):
    held, offer, _, saving = halfway("piece-stored")
    until(lambda: offer.consumers)
    with pytest.raises(dray.Misuse, match="no consumer 'x'"):
        offer.cancel_consumer("x")
    offer.cancel_consumer(offer.consumers[0].consumer_id)
    held.opened.set()
    with pytest.raises(dray.TransferCancelled):
        saving.join()


def test_a_file_that_is_accepted_and_not_wanted_is_given_up(manager, reports, source, offer_of):
    offer = offer_of(source, reports, request_timeout=None)
    incoming = manager.accept_file(source=reports, timeout=SOON_S)
    incoming.cancel()
    with pytest.raises(dray.TransferCancelled):
        offer.wait(SOON_S)
    assert manager.unfinished_transfers() == []
    with pytest.raises(dray.TransferCancelled):
        incoming.save_to("anywhere")


def test_nothing_unfinished_of_that_id_is_an_error(manager):
    with pytest.raises(dray.Misuse, match="no unfinished file transfer"):
        manager.resume_transfer("0" * 32)


def test_who_took_an_offer_before_it_was_cancelled_is_refused_at_once(
    *, manager, reports, source, offer_of, tmp_path
):
    offer = offer_of(source, reports)
    incoming = manager.accept_file(source=reports, timeout=SOON_S)
    offer.cancel()
    assert offer.status.state is TransferState.CANCELLED
    with pytest.raises(dray.TransferCancelled):
        offer.wait(0)
    with pytest.raises(dray.TransferRefused, match="the offer is over"):
        incoming.save_to(tmp_path / "out")


def test_an_offer_that_is_stopped_here_is_not_cancelled_by_its_handle(
    *, manager, reports, source, offer_of
):
    offer = offer_of(source, reports)
    offer.close()
    with pytest.raises(dray.Misuse, match="cancel it by its id"):
        offer.cancel()
    assert len(list(manager.queue(reports).messages())) == 1


@pytest.mark.parametrize("run", ["first", "second"])
def test_r117_the_reference_to_a_file_that_changed_is_taken_back(
    *, manager, reports, source, offer_of, run
):
    offer = offer_of(source, reports)
    if run == "second":
        offer.close()
    source.write_bytes(b"another")
    with pytest.raises(dray.TransferSourceChanged):
        offer.resume() if run == "first" else manager.resume_transfer(offer.transfer_id)
    if run == "first":
        with pytest.raises(dray.TransferSourceChanged):
            offer.wait(SOON_S)
    assert list(manager.queue(reports).messages()) == []
    assert manager.unfinished_transfers() == []


def test_r117_a_change_while_it_is_sent_to_many_takes_the_reference_back(
    *, manager, reports, source, halfway
):
    held, offer, _, saving = halfway("piece-sent", consumers="many", request_timeout=None)
    source.write_bytes(b"another")
    held.opened.set()
    for ended in (saving.join, lambda: offer.wait(SOON_S)):
        with pytest.raises(dray.TransferSourceChanged):
            ended()
    assert list(manager.queue(reports).messages()) == []


def test_r117_who_has_the_reference_hears_that_the_file_changed_while_nobody_served_it(
    *, manager, reports, source, offer_of, tmp_path
):
    offer = offer_of(source, reports)
    incoming = manager.accept_file(source=reports, timeout=SOON_S)
    offer.close()
    source.write_bytes(b"another")
    with pytest.raises(dray.TransferSourceChanged):
        manager.resume_transfer(offer.transfer_id)
    assert manager.unfinished_transfers() == [incoming.status]
    with pytest.raises(dray.TransferSourceChanged) as caught:
        incoming.save_to(tmp_path / "out")
    assert caught.value.transfer_id == offer.transfer_id
    assert manager.unfinished_transfers() == []


def test_r117_a_consumer_of_an_earlier_run_hears_that_the_file_changed(
    *, manager, source, halfway, monkeypatch
):
    # It is told as soon as the offer is taken up, and says nothing more: nobody need stay for it.
    monkeypatch.setattr(offering, "_LINGER_TAKEN_S", 1.0)
    held, offer, _, saving = halfway("piece-stored")
    offer.close()
    source.write_bytes(b"another")
    with pytest.raises(dray.TransferSourceChanged):
        manager.resume_transfer(offer.transfer_id)
    held.opened.set()
    with pytest.raises(dray.TransferSourceChanged):
        saving.join()
    manager.linger(SOON_S)


def test_an_offer_that_is_cancelled_by_its_id_serves_nobody_before_it_is(
    *, manager, reports, source, offer_of, tmp_path, monkeypatch, kept
):
    offer = offer_of(source, reports)
    incoming = manager.accept_file(source=reports, timeout=SOON_S)
    offer.close()
    (folder,) = kept.iterdir()
    savings, meanwhile = [], []
    withdraw = transfers.withdraw

    def late(*arguments):
        savings.append(Saving(incoming, tmp_path / "out"))
        until(lambda: any(each.consumers for each in kept_offers(folder)))
        until(lambda: incoming.status.state is not TransferState.DISCOVERING)
        meanwhile.append(incoming.status.state)
        return withdraw(*arguments)

    monkeypatch.setattr(transfers, "withdraw", late)
    manager.cancel_transfer(offer.transfer_id)
    with pytest.raises(dray.TransferCancelled):
        savings[0].join()
    assert meanwhile == [TransferState.SUSPENDED]
