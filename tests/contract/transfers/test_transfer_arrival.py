"""How an offered file arrives: whole, checked, or not at all."""

from __future__ import annotations

import hashlib
import os
import uuid

import pytest
from blake3 import blake3

import dray
from dray.model.transfer import TransferState
from tests.contract.transfers.parties import SOON_S, WAYS, Saving


@pytest.mark.parametrize("chosen_by", ["offer", "queue"])
def test_the_digest_is_a_choice_of_the_offer_and_of_the_queue(
    *, manager, source, offer_of, tmp_path, chosen_by
):
    """The offer has the last word."""
    chosen = {"digest": "sha256"}
    on_queue = chosen if chosen_by == "queue" else {"digest": "blake3"}
    reports = manager.create_queue(f"reports-{uuid.uuid4().hex}", **on_queue).name
    offer = offer_of(source, reports, **(chosen if chosen_by == "offer" else {}))
    incoming = manager.accept_file(source=reports, timeout=SOON_S)
    assert incoming.digest == offer.digest == hashlib.sha256(source.read_bytes()).digest()
    assert incoming.digest_kind == offer.digest_kind == "sha256"
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
    assert incoming.digest == offer.digest == blake3(source.read_bytes()).digest()
    assert incoming.digest_kind == offer.digest_kind == "blake3"
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


def test_a_target_that_cannot_be_written_is_named_and_another_may_be_given(
    *, manager, reports, source, offer_of, tmp_path
):
    offer = offer_of(source, reports)
    incoming = manager.accept_file(source=reports, timeout=SOON_S)
    with pytest.raises(dray.TargetUnwritable, match="nowhere"):
        incoming.save_to(tmp_path / "nowhere" / "out")
    incoming.save_to(tmp_path / "out")
    assert offer.wait(SOON_S).state is TransferState.DONE


def test_r117_a_file_that_changed_while_suspended_is_found_when_it_is_resumed(
    *, source, tmp_path, halfway
):
    held, offer, _, saving = halfway("piece-stored")
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


@WAYS
def test_r117_a_file_that_changes_while_it_is_sent_ends_the_offer(*, source, halfway, listen):
    held, offer, _, saving = halfway("piece-sent", listen=listen)
    source.write_bytes(b"another")
    held.opened.set()
    with pytest.raises(dray.TransferSourceChanged):
        saving.join()
    with pytest.raises(dray.TransferSourceChanged):
        offer.wait(SOON_S)


def test_another_place_may_be_given_after_one_that_cannot_be_written_in_any_run(
    *, source, tmp_path, halfway
):
    held, offer, incoming, saving = halfway("piece-sent")
    incoming.close()
    held.opened.set()
    with pytest.raises(dray.TransferTimeout, match="was suspended here"):
        saving.join()
    for _ in range(2):
        with pytest.raises(dray.TargetUnwritable, match="nowhere"):
            incoming.save_to(tmp_path / "nowhere" / "out")
    assert incoming.save_to(tmp_path / "out").read_bytes() == source.read_bytes()
    assert offer.wait(SOON_S).state is TransferState.DONE
