"""The page of the Python API has every name, every argument and every field that programs see."""

import ast
import enum
import inspect
import re
from pathlib import Path

import pytest

import dray
import dray.folders
import dray.spark

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


CALL = re.compile(r"`(?:[\w.]+\.)?(\w+)\(([^`]*=[^`]*)\)`")
"""A call with default values, as a page writes it."""
EXAMPLES = {"Message", "Until", "trigger"}  # called on a page, and not described by the call
PLACES = (dray, dray.folders, dray.spark, *(getattr(dray, name) for name in dray.__all__))
PROPERTIES = set(inspect.signature(dray.Queue.send).parameters) - {"self", "body", "transaction"}


def written_calls(text):
    """Name and parameters of every call with default values on a page."""
    for name, arguments in CALL.findall(text):
        if name in EXAMPLES:
            continue
        yield name, parameters_of(f"def {name}({' '.join(arguments.split())}): pass")


def parameters_of(source):
    """The parameters of a definition, in order: `*` before the first that takes a name only."""
    (function,) = ast.parse(source).body
    arguments = function.args
    missing = [None] * (len(arguments.args) - len(arguments.defaults))
    pairs = [*zip(arguments.args, [*missing, *arguments.defaults], strict=True), (None, None)]
    pairs += zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    found = ["*" if each is None else (each.arg, worth(value)) for each, value in pairs]
    return found + ([f"**{arguments.kwarg.arg}"] if arguments.kwarg else [])


def worth(value):
    # A page may write 1 << 20 or Acknowledge.NONE, which literal_eval refuses.
    return None if value is None else repr(eval(ast.unparse(value), vars(dray)))  # noqa: S307 - our page


def real_calls(name):
    """The parameters of everything of that name that programs call."""
    for place in PLACES:
        try:
            signature = inspect.signature(getattr(place, name))
        except (AttributeError, TypeError, ValueError):
            continue
        whole = [each for each in signature.parameters.values() if each.name != "self"]
        yield in_order(whole)
        if name == "send":
            plain = [each for each in whole if each.name not in PROPERTIES]
            yield [*in_order(plain), "**properties"]


def in_order(parameters):
    by_place = [each for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    by_name = [each for each in parameters if each.kind is each.KEYWORD_ONLY]
    more = [f"**{each.name}" for each in parameters if each.kind is each.VAR_KEYWORD]
    return [*map(told, by_place), "*", *map(told, by_name), *more]


def told(parameter):
    default = parameter.default
    return parameter.name, None if default is parameter.empty else repr(default)


def wrong_calls(text):
    return [name for name, found in written_calls(text) if found not in [*real_calls(name)]]


@pytest.mark.parametrize("page", ["api.md", "spark.md"])
def test_calls_on_a_page_have_the_arguments_and_defaults_of_the_code(page):
    assert wrong_calls((REFERENCE / page).read_text()) == []


@pytest.mark.parametrize(
    "text",
    [
        "`peek(timeout=0)`",
        "`receive(seconds=None, transaction=None)`",
        "`audit(sources, out=None, session=None, credentials=None)`",
        "`send(body, *, transaction=None, force=False, **properties)`",
        "`no_such_call(timeout=None)`",
    ],
)
def test_a_call_that_the_code_does_not_have_is_noticed(text):
    assert wrong_calls(text)
