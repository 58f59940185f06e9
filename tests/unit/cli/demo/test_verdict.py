"""The verdict finds every way in which a promise may be broken: one bad world for each."""

import hashlib
from pathlib import Path

import pytest

from dray.cli.commands.demo.loss import Hole, plan, ranges
from dray.cli.commands.demo.sending import DemoFile, SentFile
from dray.cli.commands.demo.spark_job import AuditTold
from dray.cli.commands.demo.verdict import DemoVerdict, judge, judge_audit


class World:
    """Three files in two transactions, landed as they were sent."""

    def __init__(self, folder):
        self.out = folder / "out"
        (self.out / "payload").mkdir(parents=True)
        self.sent, self.rows, self.holes = [], [], []
        for index, transaction in enumerate(["t1", "t1", "t2"]):
            self.add(folder, index, transaction)

    def add(self, folder, index, transaction):
        body = f"body {index}".encode()
        path = folder / f"file-{index}"
        path.write_bytes(body)
        origin = DemoFile(path, path.name, len(body))
        self.sent.append(SentFile(origin, f"id-{index}", transaction, index % 2))
        (self.out / "payload" / f"landed-{index}").write_bytes(body)
        self.rows.append(
            {
                "state": "landed",
                "sequence_id": f"id-{index}",
                "first_lookup_id": index * 3 + 1,
                "label": path.name,
                "size": len(body),
                "digest": hashlib.sha256(body).hexdigest(),
                "digest_kind": "sha256",
                "transaction_id": transaction,
                "position_in_transaction": index % 2 + 1,
                "payload": f"landed-{index}",
                "missing": [],
            }
        )

    def drop(self, index, *missing):
        """Have fragments dropped and reported."""
        row = self.rows[index]
        row.update(state="hole", payload=None, missing=list(missing))
        self.holes.append(Hole(row["sequence_id"], row["label"], ((2, 3),)))

    def judge(self):
        return judge(self.sent, self.holes, self.rows, out=self.out, checked=lambda _: None)


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def test_a_good_world_holds(world):
    verdict = world.judge()
    assert verdict.holds
    assert (verdict.files, verdict.identical, verdict.duplicates, verdict.out_of_order) == (
        3,
        3,
        0,
        0,
    )


def test_a_file_that_came_twice_is_found(world):
    world.rows.append(dict(world.rows[2]))
    verdict = world.judge()
    assert verdict.duplicates == 1
    assert not verdict.holds


def test_a_file_sent_again_under_another_id_is_found(world):
    world.rows.append(world.rows[2] | {"sequence_id": "id-9"})
    verdict = world.judge()
    assert verdict.duplicates == 1
    assert not verdict.holds


def test_a_file_that_is_not_there_is_named(world):
    del world.rows[1]
    assert world.judge().wrong[0] == "file-1 was sent and is not there"


def test_files_in_another_order_are_found(world):
    world.rows.reverse()
    verdict = world.judge()
    assert verdict.out_of_order == 2
    assert not verdict.holds


@pytest.mark.parametrize("change", [{"transaction_id": "t9"}, {"position_in_transaction": 7}])
def test_a_file_in_another_transaction_or_place_is_found(world, change):
    world.rows[0].update(change)
    assert world.judge().out_of_order == 1


def test_a_byte_that_changed_is_found(world):
    (world.out / "payload" / "landed-0").write_bytes(b"bodY 0")
    verdict = world.judge()
    assert verdict.identical == 2
    assert not verdict.holds


@pytest.mark.parametrize("change", [{"digest": "0"}, {"size": 1}, {"label": "other"}])
def test_a_row_that_says_something_else_is_found(world, change):
    world.rows[0].update(change)
    assert not world.judge().holds


def test_the_hole_that_was_made_may_be_reported(world):
    world.drop(1, "2-3")
    verdict = world.judge()
    assert verdict.holds
    assert (verdict.files, [hole.text for hole in verdict.holes]) == (2, ["2-3"])


def test_a_hole_in_other_fragments_is_found(world):
    world.drop(1, "2", "4")
    assert "reported as 2, 4, not 2-3" in world.judge().wrong[0]


def test_a_hole_that_nobody_made_is_found(world):
    world.drop(1, "2-3")
    world.holes.clear()
    assert any("that is none" in sentence for sentence in world.judge().wrong)


def test_a_hole_that_was_not_reported_is_found(world):
    world.drop(1, "2-3")
    del world.rows[1]
    assert "was not reported" in world.judge().wrong[0]


def test_a_message_with_a_hole_that_landed_all_the_same_is_found(world):
    world.holes.append(Hole("id-1", "file-1", ((2, 3),)))
    assert any("landed although" in sentence for sentence in world.judge().wrong)


def test_runs_of_numbers_are_named_by_their_ends():
    assert ranges([3, 2, 7]) == ((2, 3), (7, 7))
    assert ranges([]) == ()


def test_fragments_to_lose_are_of_the_largest_files_and_in_three_places():
    sent = [
        SentFile(DemoFile(Path(), str(size), size * 4_000_000), f"id-{size}", "t", 0)
        for size in (1, 9, 4, 6)
    ]
    chosen = [(file.sequence_id, numbers) for file, numbers in plan(sent)]
    assert chosen == [("id-9", [4, 5]), ("id-6", [6]), ("id-4", [1])]


def test_files_of_one_fragment_lose_that_one():
    sent = [SentFile(DemoFile(Path(), str(n), n), f"id-{n}", "t", 0) for n in (0, 5)]
    assert [(file.sequence_id, numbers) for file, numbers in plan(sent)] == [("id-5", [1])]


def test_a_finding_of_the_audit_that_nothing_explains_is_wrong():
    verdict = DemoVerdict()
    judge_audit(verdict, AuditTold(3, ("hole in id-1: 3 missing",)), 3)
    assert (verdict.holds, verdict.audited, len(verdict.explained)) == (True, 3, 1)
    judge_audit(verdict, AuditTold(2, (), ("gap in parcels: 1 position",)), 3)
    assert verdict.wrong == [
        "the audit found gap in parcels: 1 position", "the audit saw 2 rows, not 3",
    ]  # fmt: skip
