"""After the first failure nothing is written any more."""

from __future__ import annotations

from random import Random

import pytest

from dray.errors import StoreError, StoreFull, StorePoisoned
from dray.store.guard import GuardedDisk, Health
from dray.testing.disk import SimDisk, SimFile


@pytest.fixture
def sim():
    return SimDisk(Random(1))


@pytest.fixture
def guarded(sim):
    return GuardedDisk(sim, Health())


@pytest.mark.parametrize("failing", ["write", "sync", "names"])
def test_one_failure_is_the_answer_to_everything_after(sim, guarded, failing):
    file, other = guarded.open("f", size=10), guarded.open("g")
    fail = {
        "write": (sim.fail_write, lambda: file.write(b"abc", 0)),
        "sync": (sim.fail_sync, file.sync),
        "names": (sim.fail_sync, guarded.sync_directory),
    }
    arm, act = fail[failing]
    arm()
    with pytest.raises(StorePoisoned) as first:
        act()
    syncs = sim.syncs
    for later in (
        other.sync,
        guarded.sync_directory,
        lambda: other.write(b"x", 0),
        lambda: other.truncate(0),
        lambda: guarded.open("h"),
        lambda: guarded.rename("f", "g"),
        lambda: guarded.remove("f"),
    ):
        with pytest.raises(StorePoisoned) as second:
            later()
        assert str(second.value) == str(first.value)
    assert sim.syncs == syncs
    assert file.read_into(memoryview(bytearray(4)), 0) == 4


def refusing(self, name, *, size=0):
    raise StoreError(f"could not open {name}: Permission denied.", file=name)


def test_a_file_that_may_not_be_opened_at_a_start_is_told_as_it_is(sim, guarded, monkeypatch):
    monkeypatch.setattr(SimDisk, "open", refusing)
    with pytest.raises(StoreError) as raised:
        guarded.open("f")
    monkeypatch.undo()
    assert type(raised.value) is StoreError
    guarded.open("f").write(b"x", 0)


def test_a_file_that_may_not_be_opened_while_the_store_serves_ends_it(sim, monkeypatch):
    health = Health()
    guarded = GuardedDisk(sim, health)
    file = guarded.open("f", size=10)
    health.serving = True
    monkeypatch.setattr(SimDisk, "open", refusing)
    with pytest.raises(StorePoisoned, match=r"^could not open g: Permission denied"):
        guarded.open("g")
    with pytest.raises(StorePoisoned, match=r"^could not open g: Permission denied"):
        file.sync()


def test_a_file_that_finds_no_room_while_the_store_serves_harms_nothing(sim, monkeypatch):
    health = Health()
    guarded = GuardedDisk(sim, health)
    file = guarded.open("f", size=10)
    health.serving = True
    sim.full_after(0)
    with pytest.raises(StoreFull):
        guarded.open("g", size=10)
    file.sync()


def test_after_a_failure_the_disk_begins_with_nothing_more(sim, guarded, monkeypatch):
    begun = []
    monkeypatch.setattr(SimFile, "begin_writing", lambda self: begun.append(self.name))
    file = guarded.open("f", size=10)
    file.begin_writing()
    sim.fail_sync()
    with pytest.raises(StorePoisoned):
        file.sync()
    file.begin_writing()
    assert begun == ["f"]


def test_the_first_cause_is_kept():
    health = Health()
    health.poison(StorePoisoned("the cause"))
    health.poison(StorePoisoned("a consequence"))
    with pytest.raises(StorePoisoned, match="the cause"):
        health.check()


def test_a_healthy_disk_is_passed_through(sim, guarded):
    file = guarded.open("f")
    file.write(b"abc", 0)
    file.truncate(2)
    file.sync()
    assert file.size() == 2
    guarded.rename("f", "g")
    assert guarded.names() == ["g"]
    assert guarded.exists("g")
    guarded.remove("g")
    guarded.sync_directory()
    assert guarded.free_bytes() == sim.free_bytes()
    with pytest.raises(NotImplementedError):
        file.descriptor()
    with pytest.raises(NotImplementedError):
        guarded.open_to_read("f")
    guarded.lock()
    file.close()
    guarded.close()
    guarded.lock()
