"""The page of the Python API has every name, every argument and every field that programs see."""

import enum
import inspect
import re
from pathlib import Path

import pytest

import dray

REFERENCE = Path(__file__).resolve().parent.parent.parent / "docs/reference"
PAGES = ("api.md", "errors.md", "message-classes.md")
# Arguments that only Dray itself passes, when it makes one API from the other.
OURS = {
    "awaited", "handle", "dialer", "runtime", "stop", "join", "self", "arguments", "named",
    "__version__",
}  # fmt: skip


def words_of(pages):
    return {word for page in pages for word in re.findall(r"\w+", (REFERENCE / page).read_text())}


def public_names():
    """Every name of `dray`; of its classes the attributes and the arguments too."""
    for name in dray.__all__:
        found = getattr(dray, name)
        yield name, name
        if inspect.isclass(found) and not issubclass(found, BaseException):
            yield from ((f"{name}.{each}", each) for each in names_in(found))


def names_in(found):
    if issubclass(found, enum.Enum):
        yield from found.__members__
        return
    yield from inspect.signature(found).parameters
    for attribute, value in vars(found).items():
        if not attribute.startswith("_"):
            yield attribute
            if inspect.isfunction(value):
                yield from inspect.signature(value).parameters


def missing_from(words):
    return {whole for whole, word in public_names() if word not in words | OURS}


def test_everything_that_programs_can_say_is_on_the_page():
    assert missing_from(words_of(PAGES)) == set()


@pytest.mark.parametrize(
    ("word", "whole"),
    [
        ("receive_many", "Queue.receive_many"),
        ("repair", "LargeMessageQueue.repair"),
        ("low_water", "ManagerInfo.low_water"),
        ("RETRIED", "Fate.RETRIED"),
        ("StoreMoved", "StoreMoved"),
    ],
)
def test_a_name_that_is_on_no_page_is_noticed(word, whole):
    assert missing_from(words_of(PAGES) - {word}) == {whole}
