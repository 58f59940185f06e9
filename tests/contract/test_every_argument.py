"""No argument of any public call does harm: it is refused in a sentence, and nobody else notices.

The calls are found by looking, not listed: one that is new is driven as well, or a test fails.
"""

from __future__ import annotations

import enum
import inspect
import threading
import traceback
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import msgspec
import pytest

import dray
import dray.aio
from dray.client.awaited.large_message_file import LargeMessageFile
from dray.client.calls.public_calls import inner_calls, is_checked
from dray.daemon.config import ServeOptions
from tests.contract.faces import AwaitedFace, BlockingFace, inside
from tests.contract.wrong_values import VALUES, is_ours
from tests.integration.commands import until

pytestmark = pytest.mark.slow
RESULTS = {
    "Fate", "Handled", "ManagerInfo", "PeerInfo", "QueueInfo", "QueuedMessage", "DoctorFinding",
    "TokenInfo", "AccessInfo", "QueuedPart",
    "ReceivedTransaction",
    "TransferStatus",
}  # fmt: skip
"""What calls give; nobody makes one to give it to a call."""
MADE_BY_PROGRAMS = {
    "FileProperties", "LargeMessageQueue", "Receiver", "LargeMessageParameters", "Message",
}  # fmt: skip
FUNCTIONS = ("open", "connect", "restore")


def classes_of(module) -> dict[str, type]:
    """The classes of a face that do something."""
    found = {name: getattr(module, name) for name in module.__all__}
    return {
        name: kind
        for name, kind in found.items()
        if inspect.isclass(kind)
        and not issubclass(kind, BaseException | enum.Enum)
        and name not in RESULTS
    }


BLOCKING = classes_of(dray)
AWAITED = {**BLOCKING, **classes_of(dray.aio), "LargeMessageFile": LargeMessageFile}


def methods_of(kind: type) -> list[str]:
    return sorted(
        name
        for name in dir(kind)
        if not name.startswith("_")
        and inspect.isfunction(inspect.getattr_static(kind, name))
        and name not in inner_calls(AWAITED[kind.__name__])
    )


CALLS = sorted(
    {
        f"{name}.{method}"
        for name, kind in AWAITED.items()
        if not issubclass(kind, msgspec.Struct)
        for method in methods_of(kind)
    }
)


class World:
    """Two queue managers, one of them with a bit of everything, and valid arguments."""

    def __init__(self, face, manager, strangers, folder: Path) -> None:
        self.face, self.manager, self.folder = face, manager, folder
        self.strangers = strangers
        self.queue = self.fresh()
        self.other = self.fresh()
        self.finished = manager.transaction()
        self.finished.abort()
        manager.create_queue("statusq", exist_ok=True)
        self.large = face.LargeMessageQueue(self.fresh(), fragment_size=1000)
        self.large.send(b"x" * 2500)
        self.other.send(b"of another queue")
        self.file = folder / "file"
        self.file.write_bytes(b"file")
        self.to_close: list[object] = []
        self.stopped = threading.Event()
        self.stopped.set()

    def fresh(self, manager=None):
        return (manager or self.manager).create_queue(f"q-{uuid.uuid4().hex}")

    def of(self, name: str):
        """An object of a class, to call its methods."""
        made = getattr(self, f"_{name}")()
        self.to_close.append(made)
        return made

    def _Manager(self):  # noqa: N802 - the name of the class, as below
        return self.manager

    def _Queue(self):  # noqa: N802
        self.queue.send(b"body")
        return self.queue

    def _Cursor(self):  # noqa: N802
        self.queue.send(b"body")
        return self.queue.cursor()

    def _Transaction(self):  # noqa: N802
        return self.manager.transaction()

    def _LargeMessageQueue(self):  # noqa: N802
        return self.large

    def _LargeMessage(self):  # noqa: N802
        return self.large.peek(0)

    def _LargeMessageFile(self):  # noqa: N802
        return self._LargeMessage().open()

    def _Receiver(self):  # noqa: N802
        self.queue.send(b"body")
        return self.face.Receiver(self.queue)

    def _Offer(self):  # noqa: N802
        return self.manager.offer_file(self.file, self.queue.name, listen=None)

    def _Incoming(self):  # noqa: N802
        queue = self.fresh()
        self.to_close.append(self.manager.offer_file(self.file, queue.name, listen=None))
        return self.manager.accept_file(queue.name, 10)

    def _RunningTransfer(self):  # noqa: N802
        # To a queue of its own: whoever accepts from the one that all share might end it first.
        offer = self.manager.offer_file(self.file, self.fresh().name, listen=None)
        self.to_close.append(offer)

        def running():
            found = self.manager.running_transfer(offer.transfer_id)
            assert found or not offer.status.state.final, offer.status
            return found

        # An offer that has just begun is on the board of running transfers a moment later.
        return until(running)

    def good(self, call: str, parameter: str):
        """A value that makes sense, for an argument that has to be given."""
        by_name = {
            "name": f"q-{uuid.uuid4().hex}", "to": self.queue.name, "source": self.queue.name,
            "outgoing": "dray://127.0.0.1:1/q", "target": "retry", "path": self.file,
            "transaction_id": self.finished.id, "transfer_id": "x", "consumer_id": "x",
            "sequence_id": self.finished.id, "id": self.finished.id, "correlation_id": "x",
            "lookup_id": 10**6, "upto": 0, "message": 10**6, "messages": [b"x"], "body": b"x",
            "max_messages": 1, "seconds": 0, "buffer": bytearray(5), "offset": 0,
            "handler": lambda *_: None, "transaction": self.finished, "url": "dray://127.0.0.1:1",
            "archive": self.file, "queue": self.queue, "timeout": 0,
            "address": "dray://127.0.0.1:1", "stop": self.stopped, "ids": [self.finished.id],
            "administration_queue": self.queue.name,
        }  # fmt: skip
        if call == "Manager.wait_for_delivery":
            # Otherwise it would wait for ever.
            by_name["ids"] = []
        if call == "Manager.backup":
            return self.folder / "backup"
        assert parameter in by_name, f"say in this test what {parameter} of {call} may be"
        return by_name[parameter]

    def objects(self) -> dict[str, object]:
        """Things of ours in a wrong place."""
        return {
            "a queue": self.queue,
            "a manager": self.manager,
            "a large message queue": self.large,
            "a finished transaction": self.finished,
            "a message of another queue": self.other.peek(0),
            "a message that was never sent": dray.Message(b"x"),
            "parameters": dray.LargeMessageParameters(),
            **self.strangers,
        }

    def close(self) -> None:
        for each in reversed(self.to_close):
            if each is not self.manager:
                end(each)


WAITS = {"None", "1.5", "inf", "1e300", "31 bits", "63 bits", "64 bits", "5000 digits"} | {
    "a number that raises"
}
"""Timeouts that make sense, and would be waited for."""
PATHS = {"a state", "a blank", "a text", "a line", "a path", "a text that raises", "..."}
"""Names that a file may have; nobody wants them in the directory of the sources."""
CALLED = {"progress", "handler", "formatter"}
CALLED_WRONGLY = {"a class", "what raises"}
"""Called, they raise what they want, and that is the caller's to see."""
FILES = {"path", "archive", "target", "resume", "ca", "cert", "key", "token_file", "state"}


@pytest.fixture(scope="module")
def strangers(face, tmp_path_factory) -> Iterator[dict[str, object]]:
    """Objects of another manager, and of the other face."""
    found: dict[str, object] = {}
    other = BlockingFace() if isinstance(face, AwaitedFace) else AwaitedFace()
    with ExitStack() as open_ones:
        open_ones.callback(other.close)
        for whose, made_by in (("of another manager", face), ("of the other face", other)):
            manager = open_ones.enter_context(made_by.open(tmp_path_factory.mktemp("data")))
            transaction = open_ones.enter_context(manager.transaction())
            queue = manager.create_queue("orders")
            closed = made_by.open(tmp_path_factory.mktemp("closed"))
            closed_queue = closed.create_queue("orders")
            closed.close()
            found |= {
                f"a manager {whose}": inside(manager),
                f"a queue {whose}": inside(queue),
                f"a transaction {whose}": inside(transaction),
                f"a closed queue {whose}": inside(closed_queue),
            }
        yield found


@pytest.fixture
def world(*, face, embedded, strangers, tmp_path, monkeypatch) -> Iterator[World]:
    monkeypatch.setenv("DRAY_TRANSFERS", str(tmp_path / "transfers"))
    standing = tmp_path / "standing"
    standing.mkdir()
    monkeypatch.chdir(standing)
    made = World(face, embedded, strangers, tmp_path)
    yield made
    made.close()
    assert list(standing.iterdir()) == [], "a wrong argument has made something on disk"


@pytest.fixture
def neighbour(world) -> Iterator[None]:
    """A transaction of another thread, which commits at the end."""
    begun, over = threading.Event(), threading.Event()
    outcome: list[object] = []
    queue = world.fresh()

    def run() -> None:
        try:
            with world.manager.transaction() as transaction:
                queue.send(b"mine", transaction=transaction)
                queue.send(b"and mine", transaction=transaction)
                begun.set()
                over.wait()
            outcome.append(transaction.status)
        except BaseException as error:  # noqa: BLE001 - told by the assertion below
            outcome.append(error)
        finally:
            begun.set()

    thread = threading.Thread(target=run)
    thread.start()
    begun.wait()
    yield
    over.set()
    thread.join()
    assert outcome == [dray.TransactionStatus.COMMITTED]
    assert [message.body for message in queue.receive_many(5, timeout=0)] == [b"mine", b"and mine"]


def parameters_of(function) -> dict[str, inspect.Parameter]:
    found = dict(inspect.signature(function).parameters)
    found.pop("self", None)
    return {name: each for name, each in found.items() if each.kind is not each.VAR_KEYWORD}


def refused_or_served(
    call: Callable[..., object], named: dict[str, object], told: str
) -> list[str]:
    """Call it; whatever comes of it is a result, or an error of ours."""
    return tried(call, named, told)[0]


def tried(
    call: Callable[..., object], named: dict[str, object], told: str
) -> tuple[list[str], bool]:
    """Call it: what is wrong with its outcome, and whether the call was refused for an argument."""
    try:
        made = call(**named)
        if hasattr(type(made), "__next__"):
            list(made)
    except Exception as error:  # noqa: BLE001 - that is the question
        if is_ours(error) and ("\n" not in str(error) or "a line" in told):
            return [], isinstance(error, dray.InvalidArgument | TypeError)
        last = traceback.extract_tb(error.__traceback__)[-1]
        raised = f"{type(error).__name__}: {str(error)[:200]}"
        return [f"{told}: {raised} ({last.filename[-30:]}:{last.lineno})"], False
    else:
        end(made)
    return [], False


def end(made) -> None:
    """Let go of what a call has given, however it stands."""
    for way in ("cancel", "abort", "close"):
        if hasattr(type(inside(made)), way):
            with suppress(dray.DrayError):
                getattr(made, way)()


@pytest.mark.parametrize("name", CALLS)
def test_no_argument_of_a_public_call_does_harm(face, world, neighbour, name):
    owner, method = name.split(".")
    kind = (AWAITED if isinstance(face, AwaitedFace) else BLOCKING).get(owner)
    if kind is None or method not in methods_of(kind):
        pytest.skip("the other face has this one")
    function = inspect.getattr_static(kind, method)
    parameters = parameters_of(function)
    needed = {each for each, what in parameters.items() if what.default is what.empty}
    values = {**VALUES, **world.objects()}
    wrong: list[str] = []
    on, refused = None, False
    for parameter in parameters:
        skipped = WAITS if parameter == "timeout" else set()
        if parameter in FILES and name != "Queue.move":
            skipped = PATHS
        if parameter in CALLED:
            skipped = CALLED_WRONGLY
        if name == "LargeMessageQueue.send" and parameter == "body":
            # An iterable of bytes, which raises what it wants when it is read.
            skipped = {"what raises"}
        for told, value in values.items():
            if told in skipped:
                continue
            named = {each: world.good(name, each) for each in needed}
            if "timeout" in parameters:
                named["timeout"] = 0
            if name == "Manager.set_quota":
                # A limit of the whole manager would be everybody's.
                named["queue"] = world.queue.name
            # A call that was refused for its argument has done nothing to what it was made on.
            on = on if refused else world.of(owner)
            found, refused = tried(
                getattr(on, method), {**named, parameter: value}, f"{name}({parameter}={told})"
            )
            wrong += found
    assert not wrong, "\n".join(wrong)
    assert world.manager.info().id


OWNERS = sorted({each.partition(".")[0] for each in CALLS} - {"Receiver"})


@pytest.mark.parametrize("owner", OWNERS)
def test_a_call_with_arguments_that_it_does_not_have_is_refused_in_a_sentence(face, world, owner):
    kind = (AWAITED if isinstance(face, AwaitedFace) else BLOCKING).get(owner)
    if kind is None:
        pytest.skip("the other face has this one")
    on = world.of(owner)
    for method in methods_of(kind):
        parameters = parameters_of(inspect.getattr_static(kind, method))
        needed = {
            each: world.good(f"{owner}.{method}", each)
            for each, what in parameters.items()
            if what.default is what.empty
        }
        shapes = [((1,) * 20, {}), ((), {**needed, "no_such_argument": 1})]
        if needed:
            shapes.append(((), {}))
            first = next(iter(needed))
            if parameters[first].kind is not inspect.Parameter.KEYWORD_ONLY:
                shapes.append(((needed[first],), needed))
        for arguments, named in shapes:
            with pytest.raises(TypeError) as caught:
                getattr(on, method)(*arguments, **named)
            assert is_ours(caught.value), f"{owner}.{method}: {caught.value}"


def test_every_public_call_checks_its_arguments():
    for module, classes in ((dray, BLOCKING), (dray.aio, AWAITED)):
        for name in FUNCTIONS:
            assert is_checked(getattr(module, name)), name
        others = {each for each in module.__all__ if inspect.isfunction(getattr(module, each))}
        assert others == set(FUNCTIONS)
        for name, kind in classes.items():
            if issubclass(kind, msgspec.Struct):
                assert name in MADE_BY_PROGRAMS
                continue
            assert is_checked(kind.__init__), name
            for method in methods_of(kind):
                assert is_checked(inspect.getattr_static(kind, method)), f"{name}.{method}"


@pytest.mark.parametrize("name", sorted(AWAITED.keys() - MADE_BY_PROGRAMS))
def test_what_dray_makes_is_made_by_nobody_else(name):
    for kind in {AWAITED[name], BLOCKING.get(name, AWAITED[name])}:
        for told, value in VALUES.items():
            for arguments, named in (((value,), {}), ((value, 1, 2), {}), ((), {"link": value})):
                with pytest.raises(TypeError) as caught:
                    kind(*arguments, **named)
                assert is_ours(caught.value), f"{name}({told}): {caught.value}"


@pytest.mark.parametrize("field", [each.name for each in msgspec.structs.fields(dray.Message)])
def test_a_message_with_a_property_that_makes_no_sense_is_refused(world, neighbour, field):
    wrong: list[str] = []
    for told, value in {**VALUES, **world.objects()}.items():
        message = dray.Message(**{"body": b"x", field: value})
        wrong += refused_or_served(world.queue.send, {"body": message}, f"{field}={told}")
        wrong += refused_or_served(
            world.queue.send_many, {"messages": [message]}, f"{field}={told}"
        )
        wrong += refused_or_served(
            world.queue.move, {"message": message, "target": "retry"}, f"{field}={told}"
        )
    assert not wrong, "\n".join(wrong)


def test_a_large_message_queue_a_receiver_and_parameters_are_made_of_what_makes_sense(
    face, world, neighbour
):
    wrong: list[str] = []
    for name, given in (
        ("LargeMessageQueue", {"queue": world.queue}),
        ("Receiver", {"queue": world.queue}),
        ("Receiver", {"queue": world.large}),
        ("LargeMessageParameters", {}),
    ):
        make = getattr(face, name, dray.LargeMessageParameters)
        for parameter in parameters_of(getattr(dray, name)):
            for told, value in {**VALUES, **world.objects()}.items():
                wrong += refused_or_served(
                    make, {**given, parameter: value}, f"{name}({parameter}={told})"
                )
    assert not wrong, "\n".join(wrong)


OPTIONS = [each.name for each in msgspec.structs.fields(ServeOptions)] + ["no_such_option"]
STARTS = {"name", "quota", "journal_quota", "listen", *OPTIONS}


SOME = ("path", "name", "listen", "no_such_option")
"""Options that are tried through both faces, which open a manager by the same code."""
OPENINGS = [
    *((BlockingFace, each) for each in ("path", *sorted(STARTS))),
    *((AwaitedFace, each) for each in SOME),
]


@pytest.mark.parametrize(("face", "option"), OPENINGS, indirect=["face"])
def test_a_manager_is_opened_with_what_makes_sense_or_not_at_all(face, world, tmp_path, option):
    wrong: list[str] = []
    for told, value in {**VALUES, **world.objects()}.items():
        if option == "path" and told in PATHS:
            continue
        path = tmp_path / uuid.uuid4().hex
        wrong += refused_or_served(
            face.open, {"path": path, option: value}, f"open({option}={told})"
        )
        if path.exists():
            # It made sense, and a manager was there.
            assert (path / "dray.lock").exists() or any(path.iterdir())
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("parameter", ["url", "ca", "cert", "key", "token", "token_file", "caller"])
def test_a_connection_is_made_to_what_makes_sense_or_not_at_all(
    face, world, parameter, *, monkeypatch, tmp_path
):
    # No certificates of this machine: OpenSSL would read all of them for each connection.
    (tmp_path / "none").touch()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none"))
    wrong: list[str] = []
    hosts = {
        f"dray://{each}": f"dray://{each}"
        for each in (
            "a\0b",
            "..",
            "a..b",
            "\ud800",
            "x" * 300,
            "[",
            "a b",
            "127.0.0.1:x",
            "127.0.0.1:99999",
            "",
        )
    }
    for told, value in {**VALUES, **world.objects(), **hosts}.items():
        named = {"url": "drays://127.0.0.1:1", parameter: value}
        wrong += refused_or_served(face.connect, named, f"connect({parameter}={told})")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("parameter", ["archive", "path", "progress"])
def test_a_backup_is_restored_from_what_makes_sense_or_not_at_all(face, world, tmp_path, parameter):
    world.manager.backup(tmp_path / "backup")
    wrong: list[str] = []
    for told, value in {**VALUES, **world.objects()}.items():
        if told in (CALLED_WRONGLY if parameter == "progress" else PATHS):
            continue
        named = {"archive": tmp_path / "backup", "path": tmp_path / uuid.uuid4().hex}
        wrong += refused_or_served(
            face.restore, {**named, parameter: value}, f"restore({parameter}={told})"
        )
    assert not wrong, "\n".join(wrong)


def test_reject_without_a_transaction_leaves_the_transactions_of_others_alone(world, neighbour):
    message = world.other.peek(0)
    with pytest.raises(dray.InvalidArgument, match="transaction is what manager"):
        world.other.reject(message, None)
