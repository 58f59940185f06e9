"""Whatever a caller says, the manager answers, refuses or hangs up: it never fails itself."""

from __future__ import annotations

import random
import types
import typing
from collections.abc import Iterator

import msgspec
import pytest

from dray import errors
from dray.manager.dispatch import FROM_CALLERS
from dray.manager.events import CloseSession, Request, SessionOpened
from dray.model.callers import OWNER
from dray.model.message import Message
from dray.testing.keyed_manager import KeyedManager, id_named
from dray.wire import frames, queue_frames
from dray.wire.head import Head
from dray.wire.stream import Frame
from tests.inspection import look_into

NUMBERS = [-(1 << 63), -1, 0, 1, 2, 3, 16, 17, 18, (1 << 31) - 1, 1 << 32, 1 << 63, (1 << 64) - 1]
TEXTS = [
    "", "x", "q", "plain", "q;retry", "q;journal", "system$;deadxact", "order_queue$", "\x00",
    "dray://127.0.0.1:1/q", "dray://h/", "a" * 32 + "\\1", "a" * 32 + "\\" + "9" * 30, "é" * 300,
    "first", "id", "correlation", "lookup", "after", "client", "manager",
]  # fmt: skip
TIMES = [-1.0, 0.0, 0.5, 1e300, float("nan"), float("inf"), -float("inf")]


class Babbler:
    """Makes values of any type that a frame has."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def value(self, kind: object) -> object:
        origin, inner = typing.get_origin(kind), typing.get_args(kind)
        if origin in {typing.Union, types.UnionType}:
            return self.value(self.random.choice(inner))
        if origin is typing.Annotated:
            return self.value(inner[0])
        if origin is list:
            return [self.value(inner[0]) for _ in range(self.random.choice([0, 1, 1, 3]))]
        if origin is tuple:
            return tuple(self.value(each) for each in inner if each is not ...)
        if origin is dict:
            return {}
        if hasattr(kind, "__supertype__"):
            return self.value(kind.__supertype__)
        if hasattr(kind, "__members__"):
            return self.random.choice(list(kind))
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return self.struct(kind)
        return self.plain(kind)

    def plain(self, kind: object) -> object:
        choices = {int: NUMBERS, str: TEXTS, float: TIMES, bool: [True, False]}
        choices |= {bytes: [b"", bytes.fromhex(id_named("a")), b"x"], type(None): [None]}
        return self.random.choice(choices.get(kind, [None]))

    def struct(self, kind: type[msgspec.Struct]) -> object:
        hints = typing.get_type_hints(kind, include_extras=True)
        given = {name: self.value(hints[name]) for name in kind.__struct_fields__}
        if "queue" in given and self.random.random() < 0.8:
            given["queue"] = self.random.choice([4, 6, 7, 16, 17, 18, 19])
        if "transaction" in given and self.random.random() < 0.8:
            given["transaction"] = self.random.choice([0, 0, 1 << 30, (1 << 30) + 1])
        return kind(**given)

    def heads(self, count: int) -> Iterator[Head]:
        """What came over a wire: only what a frame can hold."""
        # By number: the order in which they were made depends on what other tests imported.
        kinds = [kind for _, kind in sorted(frames.FRAME_TYPES.items())]
        for _ in range(count):
            try:
                encoded = memoryview(frames.encode_frame(self.struct(self.random.choice(kinds)), 1))
                yield frames.decode_head(frames.read_frame_header(encoded), encoded)
            except errors.DrayError:
                continue


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_no_frame_whatever_makes_the_manager_fail(driver, seed):
    babbler = Babbler(seed)
    caller = driver.session()
    for name, transactional in (("q", True), ("plain", False)):
        caller.send(caller.create(name, transactional=transactional), Message(body=b"x"))
    for head in babbler.heads(600):
        body = memoryview(bytearray(babbler.random.randbytes(babbler.random.choice([0, 0, 100]))))
        effects = driver.turn(Request(caller.number, Frame(head, 1, body)))
        if any(isinstance(each, CloseSession) for each in effects):
            caller = driver.session()
        if babbler.random.random() < 0.02:
            driver.advance(babbler.random.choice([0.1, 10.0, 3600.0]))
    driver.crash()
    assert isinstance(driver.session().call(queue_frames.Describe()), queue_frames.ManagerState)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_no_value_in_a_frame_of_a_client_ends_its_session(driver, seed):
    babbler = Babbler(seed)
    caller = driver.session()
    for name, transactional in (("q", True), ("plain", False)):
        caller.send(caller.create(name, transactional=transactional), Message(body=b"x"))
    without_body = look_into(driver.manager).subjects.for_clients
    for head in babbler.heads(1_500):
        if type(head) in without_body:
            effects = driver.turn(Request(caller.number, Frame(head, 1, memoryview(b""))))
            assert not any(isinstance(each, CloseSession) for each in effects), head


@pytest.mark.parametrize(("role", "request_id"), [("client", 0), ("manager", 1)])
def test_a_frame_that_cannot_be_read_ends_the_session_where_no_answer_would_do(
    driver, role, request_id
):
    number = driver.session().number + 1
    hello = KeyedManager("b").hello() if role == "manager" else frames.Hello("client")
    driver.turn(SessionOpened(number, OWNER))
    driver.turn(Request(number, Frame(hello, 1, memoryview(b""))))
    unfit = frames.Unfit("invalid-argument", "name of OpenQueue has a value of a wrong type")
    effects = driver.turn(Request(number, Frame(unfit, request_id, memoryview(b""))))
    assert any(isinstance(each, CloseSession) for each in effects)


def test_what_a_caller_may_say_is_what_somebody_handles(driver):
    subjects = look_into(driver.manager).subjects
    handled = {*subjects.for_clients, *subjects.for_managers}
    handled |= {kind for _, kind in subjects.with_body}
    first = {frames.Hello, frames.Cut, frames.Continuation}
    assert {kind.code for kind in handled | first} == FROM_CALLERS
