"""A transfer that runs is steered from elsewhere; one that does not is given up (R115)."""

from __future__ import annotations

import pytest

import dray
from dray.model.transfer import TransferState
from tests.contract.transfers.parties import SOON_S, until


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """From here on it is as on the machine of the other end."""
    return lambda: monkeypatch.setenv("DRAY_TRANSFERS", str(tmp_path / "elsewhere"))


def test_a_running_offer_is_suspended_and_resumed_from_elsewhere(*, manager, source, halfway):
    held, offer, incoming, saving = halfway("piece-stored")
    running = manager.running_transfer(offer.transfer_id)
    assert (running.status.direction, running.status.label) == ("out", source.name)
    running.suspend()
    assert offer.status.state is TransferState.SUSPENDED
    held.opened.set()
    until(lambda: incoming.status.state is TransferState.SUSPENDED)
    running.resume()
    assert saving.join().read_bytes() == source.read_bytes()
    assert offer.wait(SOON_S).state is TransferState.DONE
    with pytest.raises(dray.Misuse, match="does not answer"):
        running.suspend()


def test_a_running_consumer_is_suspended_and_resumed_from_elsewhere(
    *, manager, source, halfway, elsewhere
):
    held, offer, _, saving = halfway("piece-sent", between=elsewhere)
    running = manager.running_transfer(offer.transfer_id)
    assert running.status.direction == "in"
    running.suspend()
    held.opened.set()
    until(lambda: offer.status.state is TransferState.SUSPENDED)
    running.resume()
    assert saving.join().read_bytes() == source.read_bytes()
    assert offer.wait(SOON_S).state is TransferState.DONE


def test_one_consumer_of_a_running_offer_is_cancelled_from_elsewhere(*, manager, halfway):
    held, offer, _, saving = halfway("piece-stored")
    running = manager.running_transfer(offer.transfer_id)
    until(lambda: offer.consumers)
    for steer in (running.suspend, running.resume, running.cancel):
        with pytest.raises(dray.Misuse, match="no consumer 'x'"):
            steer("x")
    manager.cancel_transfer(offer.transfer_id, offer.consumers[0].consumer_id)
    held.opened.set()
    with pytest.raises(dray.TransferCancelled):
        saving.join()


def test_a_running_offer_is_cancelled_from_elsewhere(*, manager, tmp_path, halfway):
    held, offer, _, saving = halfway("piece-stored")
    manager.cancel_transfer(offer.transfer_id)
    assert offer.status.state is TransferState.CANCELLED
    held.opened.set()
    for ended in (saving.join, lambda: offer.wait(SOON_S)):
        with pytest.raises(dray.TransferCancelled):
            ended()
    assert not list(tmp_path.glob("out*"))
    assert manager.running_transfer(offer.transfer_id) is None


def test_r117_a_changed_file_is_told_to_who_resumes_it_from_elsewhere(
    *, manager, reports, source, offer_of
):
    offer = offer_of(source, reports)
    running = manager.running_transfer(offer.transfer_id)
    running.suspend()
    source.write_bytes(b"another")
    with pytest.raises(dray.TransferSourceChanged):
        running.resume()
    with pytest.raises(dray.TransferSourceChanged):
        offer.wait(SOON_S)


def test_what_nobody_runs_is_given_up_though_its_file_is_gone(
    *, manager, reports, source, offer_of
):
    offer = offer_of(source, reports)
    offer.close()
    assert manager.running_transfer(offer.transfer_id) is None
    with pytest.raises(dray.Misuse, match="no program runs"):
        manager.cancel_transfer(offer.transfer_id, "1")
    source.unlink()
    manager.cancel_transfer(offer.transfer_id)
    assert manager.unfinished_transfers() == []
    assert list(manager.queue(reports).messages()) == []
    with pytest.raises(dray.Misuse, match="no unfinished file transfer"):
        manager.cancel_transfer(offer.transfer_id)


def test_a_producer_is_told_that_its_killed_consumer_was_given_up(
    *, manager, tmp_path, halfway, elsewhere
):
    held, offer, incoming, saving = halfway("piece-sent", between=elsewhere)
    incoming.close()
    held.opened.set()
    with pytest.raises(dray.TransferTimeout, match="was suspended here"):
        saving.join()
    manager.cancel_transfer(offer.transfer_id)
    assert not list(tmp_path.glob("out*"))
    with pytest.raises(dray.TransferCancelled):
        offer.wait(SOON_S)


def test_a_consumer_is_told_that_its_killed_producer_was_given_up(*, manager, tmp_path, halfway):
    held, offer, _, saving = halfway("piece-stored")
    offer.close()
    held.opened.set()
    manager.cancel_transfer(offer.transfer_id)
    with pytest.raises(dray.TransferCancelled):
        saving.join()
    assert not list(tmp_path.glob("out*"))


def test_a_file_whose_place_is_gone_can_be_given_up(*, manager, tmp_path, halfway, elsewhere):
    (tmp_path / "in").mkdir()
    held, offer, incoming, saving = halfway(
        "piece-sent", target=tmp_path / "in" / "out", between=elsewhere
    )
    incoming.close()
    held.opened.set()
    with pytest.raises(dray.TransferTimeout, match="was suspended here"):
        saving.join()
    (tmp_path / "in" / "out.partial").unlink()
    (tmp_path / "in").rmdir()
    manager.cancel_transfer(offer.transfer_id)
    assert manager.unfinished_transfers() == []
    with pytest.raises(dray.TransferCancelled):
        offer.wait(SOON_S)
