"""Docstrings name their subject: no sentence begins with What, Who or Of."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.house.ratchets import turned_sentences

SOURCE = Path(__file__).parents[2] / "src" / "dray"

LEFT = {"manager": 2, "testing": 42}
"""How many such sentences each folder still has. These numbers only fall."""


def test_docstrings_name_their_subject():
    counted: Counter[str] = Counter()
    complaints: dict[str, list[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        folder = name.rpartition("/")[0].partition("/")[0] or "."
        found = list(turned_sentences(name, path.read_text("utf-8")))
        counted[folder] += len(found)
        complaints.setdefault(folder, []).extend(found)
    over = [folder for folder in sorted(counted) if counted[folder] > LEFT.get(folder, 0)]
    told = "\n".join(line for folder in over for line in complaints[folder])
    assert not over, f"write subject, verb, object; LEFT is never raised:\n{told}"


def test_a_turned_sentence_is_found_wherever_a_docstring_has_it():
    source = (
        '"""What a queue holds."""\n'
        "LIMIT = 3\n"
        '"""Bytes. Of a small log\nno less than a block."""\n'
        "def f():\n"
        '    """Wait: who comes first is served. Who comes late waits."""\n'
    )
    assert [each.split(":")[1] for each in turned_sentences("a.py", source)] == ["1", "3", "6"]


def test_a_sentence_with_a_subject_is_none_and_other_texts_are_not_read():
    source = (
        '"""Tells what a queue holds. Whatever: the official order of it."""\n'
        'TEXT = "What is not a docstring"\n'
        "# Of a comment nothing is said\n"
    )
    assert not list(turned_sentences("a.py", source))
