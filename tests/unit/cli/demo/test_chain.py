"""The verdict on the chain notices each way of being wrong."""

import hashlib
import json

import pytest

from dray.cli.commands.demo.loss import Hole
from dray.cli.commands.demo.sending import DemoFile, SentFile
from dray.cli.commands.demo.verdict import DemoVerdict, judge_chain
from dray.model.message import Message


@pytest.fixture
def sent(tmp_path):
    files = []
    for number in range(3):
        path = tmp_path / str(number)
        path.write_bytes(bytes(number))
        origin = DemoFile(path, f"file {number}", number)
        files.append(SentFile(origin, f"{number:032x}\\1", "t", number))
    return files


def row(file, **changes):
    told = {"size": file.origin.size, "sha256": hashlib.sha256(bytes(file.origin.size)).hexdigest()}
    return Message(
        body=json.dumps({**told, **changes}).encode(),
        label=file.origin.label,
        correlation_id=file.sequence_id,
    )


def judged(sent, results, holes=()):
    verdict = DemoVerdict()
    judge_chain(verdict, sent, holes, results)
    return verdict


def test_a_right_row_for_each_whole_file_holds(sent):
    verdict = judged(sent, [row(file) for file in sent])
    assert (verdict.holds, verdict.results) == (True, 3)
    hole = Hole(sent[0].sequence_id, "file 0", ((1, 1),))
    assert judged(sent, [row(file) for file in sent[1:]], [hole]).holds


def test_wrong_missing_and_second_rows_are_noticed(sent):
    right = [row(file) for file in sent]
    assert not judged(sent, [*right[:2], row(sent[2], size=5)]).holds
    assert not judged(sent, [*right[:2], row(sent[2], sha256="0" * 64)]).holds
    assert not judged(sent, right[:2]).holds
    assert not judged(sent, [*right, right[0]]).holds
