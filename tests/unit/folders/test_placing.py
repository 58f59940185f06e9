"""Received files are there whole or not at all, once, and never in place of another."""

import errno
import os
from pathlib import Path

import pytest

from dray.client.files.partial_file import open_locked
from dray.errors import InvalidConfiguration, LargeMessageCorrupt, TargetUnwritable
from dray.folders import placing
from dray.folders.notes import PlacedNote
from dray.folders.placing import Item, TargetFolder, directory, write_new
from dray.model.classes import TransactionStatus

MANAGER = "a" * 32
BODY = b"whole"


def item(number=1, label="report.txt", *, body=BODY, transaction=7, write=None, resumed=False):
    return Item(
        f"{MANAGER}\\{number}",
        label,
        "other",
        f"{MANAGER}\\{transaction}" if transaction else "",
        write or (lambda at: write_new(at, body, sync=False)),
        lambda at: at.read_bytes() == body,
        resumed,
    )


def receive(folder, given, *, committed=True, outcome=None):
    with TargetFolder(str(folder), sync=False) as target:
        placed = target.place(given)
        placed.close(committed=committed)
        target.clear(outcome or always(TransactionStatus.ABORTED))
    return placed.path


def always(status):
    return lambda _: status


def hidden(folder):
    return folder / f".dray-{os.geteuid()}"


def names(folder):
    return sorted(each.name for each in folder.iterdir())


def test_a_file_gets_its_name_only_when_it_is_whole(tmp_path):
    def write(at):
        at.write_bytes(b"half")
        assert names(tmp_path) == [hidden(tmp_path).name]
        at.write_bytes(b"whole")

    placed = receive(tmp_path, item(write=write))
    assert placed == tmp_path / "report.txt"
    assert placed.read_bytes() == b"whole"
    assert names(tmp_path) == ["report.txt"]


@pytest.mark.parametrize("sync", [True, False])
def test_file_note_and_names_are_synced_unless_nobody_wants_to_wait(tmp_path, monkeypatch, sync):
    synced = []
    out = tmp_path / "out"
    with TargetFolder(str(out), sync=sync) as target:
        target.place(item(2)).close(committed=True)
        monkeypatch.setattr(os, "fsync", lambda at: synced.append(os.fstat(at).st_ino))
        placed = target.place(item(write=lambda at: write_new(at, BODY, sync=sync)))
        wanted = [placed.path.stat().st_ino, hidden(out).stat().st_ino, out.stat().st_ino]
        placed.close(committed=True)
    assert synced == (wanted if sync else [])


def test_the_name_of_a_directory_that_is_made_is_synced(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(placing, "sync_folder", synced.append)
    with TargetFolder(str(tmp_path / "a" / "b")):
        assert synced == [tmp_path, tmp_path / "a"]


def test_a_name_that_is_taken_is_left_alone(tmp_path):
    (tmp_path / "report.txt").write_bytes(b"mine")
    assert receive(tmp_path, item()).name == "report (2).txt"
    assert (tmp_path / "report.txt").read_bytes() == b"mine"


def test_a_label_cannot_choose_another_directory(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    assert receive(inside, item(label="../../escaped")).parent == inside


def test_nothing_is_left_behind_when_writing_fails(tmp_path):
    def write(at):
        at.write_bytes(b"half")
        raise LargeMessageCorrupt("the digest does not fit", sequence_id="x")

    with pytest.raises(LargeMessageCorrupt):
        receive(tmp_path / "out", item(write=write))
    assert names(tmp_path) == []


def test_nothing_is_left_behind_when_a_file_cannot_be_named(tmp_path, monkeypatch):
    def link(*_, **__):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(TargetUnwritable, match="Operation not permitted"):
        receive(tmp_path / "out", item())
    assert names(tmp_path) == []


def test_a_full_disk_is_an_error_with_a_name(tmp_path):
    def write(at):
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(TargetUnwritable, match="No space left on device; free room"):
        receive(tmp_path, item(write=write))


def test_a_directory_that_cannot_be_is_an_error_with_a_name(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InvalidConfiguration, match="cannot be used as a directory"):
        directory(str(tmp_path / "file" / "below"))
    with pytest.raises(InvalidConfiguration, match="cannot be used as a directory"):
        directory(str(tmp_path / "file"))
    assert names(tmp_path) == ["file"]


def test_a_directory_that_is_removed_before_the_first_message_is_an_error_with_a_name(tmp_path):
    with TargetFolder(str(tmp_path / "to")) as folder:
        (tmp_path / "to").rmdir()
        with pytest.raises(InvalidConfiguration, match="was removed or replaced"):
            folder.place(item())


def test_a_directory_that_was_made_for_nothing_is_removed(tmp_path):
    with TargetFolder(str(tmp_path / "a" / "b")):
        assert (tmp_path / "a" / "b").is_dir()
    assert names(tmp_path) == []


def test_a_directory_that_somebody_else_uses_meanwhile_stays(tmp_path):
    with TargetFolder(str(tmp_path / "a" / "b")):
        (tmp_path / "a" / "theirs").write_bytes(b"")
    assert names(tmp_path / "a") == ["theirs"]


def test_a_message_that_comes_again_keeps_the_file_that_it_has(tmp_path):
    first = receive(tmp_path, item(), committed=False)
    assert receive(tmp_path, item(transaction=8)) == first
    assert names(tmp_path) == ["report.txt"]


def test_its_file_is_known_under_the_name_that_somebody_gave_it(tmp_path):
    receive(tmp_path, item(), committed=False).rename(tmp_path / "renamed")
    assert receive(tmp_path, item(transaction=8)) == tmp_path / "renamed"
    assert names(tmp_path) == ["renamed"]


@pytest.mark.parametrize("change", [b"edited", None], ids=["edited", "removed"])
def test_a_file_that_is_not_there_any_more_as_it_was_sent_is_placed_anew(tmp_path, change):
    first = receive(tmp_path, item(), committed=False)
    if change is None:
        first.unlink()
    else:
        first.write_bytes(change)
    assert receive(tmp_path, item(transaction=8)).read_bytes() == BODY
    assert names(tmp_path) == (
        ["report.txt"] if change is None else ["report (2).txt", "report.txt"]
    )


def test_another_message_of_the_same_content_has_a_file_of_its_own(tmp_path):
    receive(tmp_path, item(), committed=False)
    receive(tmp_path, item(2))
    receive(tmp_path, item(transaction=8))
    assert names(tmp_path) == ["report (2).txt", "report.txt"]


def test_a_message_outside_transactions_leaves_no_note(tmp_path):
    receive(tmp_path, item(transaction=0), committed=False)
    assert names(tmp_path) == ["report.txt"]


@pytest.mark.parametrize("status", TransactionStatus)
def test_the_note_of_a_killed_receiver_goes_when_its_commit_is_certain(tmp_path, status):
    receive(tmp_path, item(), committed=False)
    with TargetFolder(str(tmp_path)) as target:
        target.clear(always(status))
    done = status is TransactionStatus.COMMITTED
    assert names(tmp_path) == ([] if done else [hidden(tmp_path).name]) + ["report.txt"]


def test_a_note_of_an_older_try_goes_with_the_one_that_committed(tmp_path):
    receive(tmp_path, item(), committed=False)
    inode = (tmp_path / "report.txt").stat().st_ino
    newer = PlacedNote(f"{MANAGER}-1", inode, f"{MANAGER}\\8")
    (hidden(tmp_path) / newer.name).touch()
    with TargetFolder(str(tmp_path)) as target:
        target.clear(
            lambda transaction_id: (
                TransactionStatus.COMMITTED
                if transaction_id == newer.transaction_id
                else TransactionStatus.ABORTED
            )
        )
    assert names(tmp_path) == ["report.txt"]


def test_what_dead_receivers_left_is_removed(tmp_path):
    """But not what was kept to go on with, nor what is of others."""
    place = hidden(tmp_path)
    place.mkdir()
    key = f"{MANAGER}-5"
    for ending in ("lock", "part", "part.partial", "kept", "kept.partial"):
        (place / f"{key}.{ending}").write_bytes(b"left")
    (place / PlacedNote(key, 1, f"{MANAGER}\\9").name).touch()
    (place / "theirs").write_bytes(b"")
    with TargetFolder(str(tmp_path)) as target:
        target.clear(always(TransactionStatus.ABORTED))
    assert names(place) == [f"{key}.kept", f"{key}.kept.partial", "lock", "theirs"]


def test_nothing_is_cleared_while_another_receives_into_the_directory(tmp_path):
    with TargetFolder(str(tmp_path)) as first:
        placed = first.place(item())
        left = hidden(tmp_path) / f"{MANAGER}-5.part"
        left.write_bytes(b"left")
        with TargetFolder(str(tmp_path)) as second:
            second.clear(always(TransactionStatus.COMMITTED))
            second.place(item(2)).close(committed=True)
            second.clear(always(TransactionStatus.COMMITTED))
        assert left.exists()
        placed.close(committed=True)
        first.clear(always(TransactionStatus.ABORTED))
    assert names(tmp_path) == ["report (2).txt", "report.txt"]


def test_where_there_are_no_locks_nothing_is_cleared_and_nothing_comes_twice(tmp_path, monkeypatch):
    def without(path, **options):
        return open_locked(path, **options)[0], False

    monkeypatch.setattr(placing, "open_locked", without)
    first = receive(tmp_path, item(), committed=False)
    assert receive(tmp_path, item(transaction=8)) == first
    assert names(tmp_path) == [hidden(tmp_path).name, "report.txt"]


def test_two_receivers_of_one_message_do_not_place_it_both(tmp_path, monkeypatch):
    """The transaction of the first was ended, and it does not know yet."""
    monkeypatch.setattr(placing, "_WAIT_S", 0.0)
    with TargetFolder(str(tmp_path)) as first, TargetFolder(str(tmp_path)) as second:
        placed = first.place(item())
        with pytest.raises(TargetUnwritable, match="another receiver is receiving"):
            second.place(item(transaction=8))
        placed.close(committed=False)
        again = second.place(item(transaction=8))
        again.close(committed=True)
    assert again.path == placed.path
    assert names(tmp_path) == ["report.txt"]


def test_a_whole_file_that_was_kept_is_gone_on_with(tmp_path):
    place = hidden(tmp_path)
    place.mkdir()
    kept = place / f"{MANAGER}-1.kept"
    kept.write_bytes(BODY)

    def write(at):
        assert at == kept
        assert not at.exists()
        at.with_name(at.name + ".partial").rename(at)

    assert receive(tmp_path, item(write=write, resumed=True)).read_bytes() == BODY
    assert names(tmp_path) == ["report.txt"]


def test_a_planted_link_is_not_followed_to_another_directory(tmp_path):
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    out.mkdir()
    elsewhere.mkdir()
    hidden(out).symlink_to(elsewhere)
    with pytest.raises(TargetUnwritable, match="is no directory, remove it"):
        receive(out, item())
    assert names(elsewhere) == []


@pytest.mark.parametrize("name", ["lock", f"{MANAGER}-1.lock"])
def test_a_planted_link_is_not_followed_to_a_file(tmp_path, name):
    out, victim = tmp_path / "out", tmp_path / "victim"
    victim.write_bytes(b"precious")
    hidden(out).mkdir(parents=True)
    (hidden(out) / name).symlink_to(victim)
    with pytest.raises(TargetUnwritable, match="is a symbolic link, remove it"):
        receive(out, item())
    assert victim.read_bytes() == b"precious"


def test_a_link_planted_in_place_of_the_body_is_replaced_and_not_followed(tmp_path):
    out, victim = tmp_path / "out", tmp_path / "victim"
    victim.write_bytes(b"precious")
    hidden(out).mkdir(parents=True)
    (hidden(out) / f"{MANAGER}-1.part").symlink_to(victim)
    (out / "report.txt").symlink_to(victim)
    placed = receive(out, item())
    assert (placed.name, placed.is_symlink()) == ("report (2).txt", False)
    assert victim.read_bytes() == b"precious"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_a_hidden_folder_of_another_user_is_refused(tmp_path):
    hidden(tmp_path).mkdir()
    os.chown(hidden(tmp_path), 12345, 12345)
    with pytest.raises(TargetUnwritable, match="belongs to another user"):
        receive(tmp_path, item())
    assert names(hidden(tmp_path)) == []


def test_a_hidden_folder_to_which_a_server_gives_another_owner_is_used(tmp_path, monkeypatch):
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    assert receive(tmp_path, item()) == Path(tmp_path / "report.txt")
