"""Numbers of things in words."""

import pytest

from dray.model.words import counted


@pytest.mark.parametrize(
    ("count", "noun", "said"),
    [
        (0, "message", "0 messages"),
        (1, "message", "1 message"),
        (2, "large message", "2 large messages"),
        (1_000, "day", "1,000 days"),
        (1, "entry", "1 entry"),
        (2, "entry", "2 entries"),
    ],
)
def test_one_thing_is_said_as_one_and_others_as_several(count, noun, said):
    assert counted(count, noun) == said
