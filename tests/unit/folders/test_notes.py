"""Names in the hidden folder can be read back, and nothing else is taken for one."""

import pytest

from dray.errors import Misuse
from dray.folders.notes import PlacedNote, key_of, key_of_name, note_in

MANAGER, OTHER = "a" * 32, "b" * 32
KEY = f"{MANAGER}-17"


def test_a_note_is_read_as_it_was_written():
    note = PlacedNote(KEY, 4711, f"{OTHER}\\23")
    assert note_in(note.name) == note
    assert key_of_name(note.name) == KEY == key_of(f"{MANAGER}\\17")


@pytest.mark.parametrize("ending", ["lock", "part", "part.partial", "kept", "kept.partial"])
def test_each_file_tells_its_message(ending):
    assert key_of_name(f"{KEY}.{ending}") == KEY
    assert note_in(f"{KEY}.{ending}") is None


@pytest.mark.parametrize(
    "name", ["lock", "notes.txt", f"{KEY}.txt", f"x{KEY}.part", f"{KEY}.part\n"]
)
def test_a_file_of_others_belongs_to_no_message(name):
    assert key_of_name(name) is None
    assert note_in(name) is None


@pytest.mark.parametrize("id", ["../../etc/passwd", f"{MANAGER}\\../x", ""])
def test_an_id_that_could_be_a_path_is_refused(id):
    with pytest.raises(Misuse):
        key_of(id)
