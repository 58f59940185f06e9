"""Docstrings and comments name their subject: no sentence begins with What, and no text asks."""

from __future__ import annotations

from pathlib import Path

from tests.house.ratchets import turned_sentences

SOURCE = Path(__file__).parents[2] / "src" / "dray"


def test_docstrings_and_comments_name_their_subject():
    complaints = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        complaints += turned_sentences(name, path.read_text("utf-8"))
    assert not complaints, "write subject, verb, object:\n" + "\n".join(complaints)


def test_a_turned_sentence_is_found_wherever_a_docstring_or_comment_has_it():
    source = (
        '"""What a queue holds."""\n'
        "LIMIT = 3\n"
        '"""Bytes. Of a small log\nno less than a block."""\n'
        "def f():\n"
        '    """Wait: who comes first is served. Who comes late waits."""\n'
        "    # Rows are cut. What\n"
        "    # is left goes.\n"
        '    """A list.\n\n    a   b\n\n    What is left waits."""\n'
        '    """Those that wait."""\n'
        '    """How many wait."""\n'
        '    """Where the log ends."""\n'
        "    pass\n"
    )
    found = [each.split(":")[1] for each in turned_sentences("a.py", source)]
    assert found == ["1", "3", "6", "7", "9", "14", "15", "16"]


def test_a_sentence_with_a_subject_is_none_and_other_texts_are_not_read():
    source = (
        '"""How a queue is kept. Whatever: the official order of it."""\n'
        'TEXT = "What is not a docstring"\n'
        "x = 3  # What stands behind code is not read\n"
    )
    assert not list(turned_sentences("a.py", source))
