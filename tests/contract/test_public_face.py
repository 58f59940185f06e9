"""The public face to the letter: names, arguments, their order, their defaults, in both faces.

Programs are written against these tables. What is left out of one may be added to the code; what is
in one is never renamed, never gets another default, and never becomes keyword-only.
"""

from __future__ import annotations

import importlib
import inspect

import pytest

import dray
import dray.aio

PARAMETERS = dray.LargeMessageParameters(header=-9998, trailer=-9999)
NEEDED = inspect.Parameter.empty
PROPERTIES = {
    "label": "",
    "correlation_id": None,
    "app_specific": 0,
    "extension": b"",
    "priority": 3,
    "recoverable": None,
    "time_to_reach_queue": None,
    "time_to_be_received": None,
    "administration_queue": None,
    "acknowledge": dray.Acknowledge.NONE,
    "response_queue": None,
    "traceparent": None,
    "use_dead_letter_queue": None,
    "use_journal_queue": False,
}
WAITS = {"timeout": None, "transaction": None}

# By name: what may be given by position, in that order, and what by keyword.
CALLS = {
    "open": (
        {"path": NEEDED},
        {"quota": "8GiB", "journal_quota": "8GiB", "name": None, "listen": None},
    ),
    "connect": ({"url": None}, {"ca": None, "cert": None, "key": None, "token": None}),
    "restore": ({"archive": NEEDED, "path": NEEDED}, {}),
    "Manager.create_queue": (
        {"name": NEEDED},
        {
            "transactional": True,
            "quota": None,
            "journal": False,
            "journal_quota": None,
            "label": "",
            "exist_ok": False,
        },
    ),
    "Manager.queue": ({"name": NEEDED}, {"raw": False}),
    "Manager.queues": ({}, {}),
    "Manager.delete_queue": ({"name": NEEDED, "born": None}, {}),
    "Manager.transaction": ({}, {}),
    "Manager.wait_for_delivery": (
        {"ids": NEEDED, "administration_queue": NEEDED},
        {"until": "accepted", "timeout": None},
    ),
    "Manager.outcome": ({"transaction_id": NEEDED}, {}),
    "Manager.prepared": ({}, {}),
    "Manager.commit_prepared": ({"transaction_id": NEEDED}, {}),
    "Manager.abort_prepared": ({"transaction_id": NEEDED}, {}),
    "Manager.info": ({}, {}),
    "Manager.backup": ({"target": NEEDED}, {}),
    "Manager.set_quota": ({"queue": None, "quota": ...}, {"journal_quota": ...}),
    "Manager.pause": ({"outgoing": NEEDED}, {}),
    "Manager.resume": ({"outgoing": NEEDED}, {}),
    "Manager.offer_file": (
        {"path": NEEDED, "to": NEEDED},
        {
            "fragment_size": 1 << 20,
            "window_size": 50,
            "request_timeout": 30.0,
            "consumers": "one",
        },
    ),
    "Manager.accept_file": ({"source": NEEDED, "timeout": None}, {}),
    "Manager.unfinished_transfers": ({}, {}),
    "Receiver": (
        {"queue": NEEDED},
        {
            "retries": 5,
            "retry_delay": 0.0,
            "then": "reject",
            "poison": "poison",
            "workers": 1,
            "reconnect": True,
        },
    ),
    "Receiver.handle_next": ({"handler": NEEDED, "timeout": None}, {}),
    "Receiver.run": ({"handler": NEEDED, "stop": NEEDED}, {"report": None}),
    "Transaction.commit": ({}, {}),
    "Transaction.abort": ({}, {}),
    "Transaction.prepare": ({}, {}),
    "Queue.send": ({"body": NEEDED}, {**PROPERTIES, "transaction": None}),
    "Queue.send_many": ({"messages": NEEDED, "transaction": None}, {}),
    "Queue.receive": (WAITS, {}),
    "Queue.receive_many": ({"max_messages": NEEDED}, {"max_bytes": None, **WAITS}),
    "Queue.peek": ({"timeout": None}, {}),
    "Queue.receive_by_id": ({"id": NEEDED, **WAITS}, {}),
    "Queue.receive_by_correlation_id": ({"correlation_id": NEEDED, **WAITS}, {}),
    "Queue.receive_by_lookup_id": ({"lookup_id": NEEDED, **WAITS}, {}),
    "Queue.peek_by_id": ({"id": NEEDED, "timeout": None}, {}),
    "Queue.peek_by_correlation_id": ({"correlation_id": NEEDED, "timeout": None}, {}),
    "Queue.peek_by_lookup_id": ({"lookup_id": NEEDED, "timeout": None}, {}),
    "Queue.messages": ({}, {}),
    "Queue.cursor": ({}, {}),
    "Queue.peek_range": ({"after": 0, "max_messages": 1000, "max_bytes": 1 << 20}, {}),
    "Queue.settle": ({"upto": NEEDED, "born": None, "transaction": None}, {}),
    "Queue.move": ({"message": NEEDED, "target": NEEDED, "transaction": None}, {}),
    "Queue.reject": ({"message": NEEDED, "transaction": NEEDED}, {}),
    "Queue.purge": ({"only": None, "born": None}, {}),
    "Cursor.peek": ({"timeout": None}, {}),
    "Cursor.next": ({"timeout": None}, {}),
    "Cursor.receive": (WAITS, {}),
    "Queue.info": ({}, {}),
    "LargeMessageQueue": (
        {"queue": NEEDED},
        {"fragment_size": 4_000_000, "status_queue": "statusq", "parameters": PARAMETERS},
    ),
    "LargeMessageQueue.send": (
        {"body": NEEDED},
        {**PROPERTIES, "transaction": None, "formatter": None, "progress": None},
    ),
    "LargeMessageQueue.receive": (WAITS, {}),
    "LargeMessageQueue.receive_by_correlation_id": ({"correlation_id": NEEDED, **WAITS}, {}),
    "LargeMessageQueue.peek": ({"timeout": None}, {}),
    "LargeMessage.save_to": ({"path": NEEDED, "progress": None}, {}),
    "LargeMessage.read": ({"size": -1}, {}),
    "LargeMessage.readinto": ({"buffer": NEEDED}, {}),
    "LargeMessage.body": ({"formatter": None}, {}),
    "Offer.wait": ({"timeout": None}, {}),
    "Offer.suspend": ({}, {}),
    "Offer.resume": ({}, {}),
    "Offer.cancel": ({}, {}),
    "Offer.cancel_consumer": ({"consumer_id": NEEDED}, {}),
    "Incoming.save_to": ({"path": None, "progress": None}, {}),
    "Incoming.suspend": ({}, {}),
    "Incoming.resume": ({}, {}),
    "Incoming.cancel": ({}, {}),
}
MESSAGE = (
    "id lookup_id body label correlation_id app_specific extension priority recoverable"
    " message_class transaction_id first_in_transaction last_in_transaction sent_time arrived_time"
    " source administration_queue response_queue traceparent destination abort_count move_count"
    " body_size"
)
QUEUE_INFO = (
    "name kind transactional message_count byte_count journal_count journal_bytes quota"
    " journal_quota state"
)
TRANSFER_STATUS = "state consumer_id bytes_done bytes_total fragments_resent rate_bytes_s"
ERRORS = {
    "Misuse": "InvalidQueueName QueueNotFound QueueExists TransactionUsage TransactionSequence"
    " MessageTooLarge MessageNotFound NotTransactional AccessDenied LargeMessageMixing"
    " StatusQueueMissing",
    "DrayError": "Misuse QuotaExceeded ReceiveTimeout InDoubt StoreError PeerError"
    " LargeMessageError TransferCancelled TransferSourceChanged",
    "StoreError": "StoreLocked StoreCorrupt StorePoisoned",
    "PeerError": "ConnectionLost ProtocolError TransferTimeout",
    "LargeMessageError": "LargeMessageHole",
}


@pytest.mark.parametrize("face", [dray, dray.aio], ids=["blocking", "awaited"])
@pytest.mark.parametrize("name", CALLS)
def test_a_call_takes_what_was_promised(face, name):
    by_position, by_keyword = CALLS[name]
    found = face
    for part in name.split("."):
        found = getattr(found, part)
    taken = dict(inspect.signature(found).parameters)
    taken.pop("self", None)
    positional = [each for each in taken.values() if each.kind is each.POSITIONAL_OR_KEYWORD]
    promised = [(each.name, each.default) for each in positional][: len(by_position)]
    assert promised == list(by_position.items())
    assert {each: taken[each].default for each in by_keyword} == by_keyword
    assert all(
        each.default is not NEEDED or each.name in by_position or each.kind is each.VAR_KEYWORD
        for each in taken.values()
    ), "more is needed than was promised"


FOLDERS = {
    "send": {
        "directory": NEEDED, "queue": NEEDED, "state": None, "include": (), "exclude": (),
        "hidden": False, "follow_links": False, "changed": "send", "after": "keep", "batch": 1,
        "in_doubt": None, "tell": None,
    },
    "watch": {
        "directory": NEEDED, "queue": NEEDED, "state": NEEDED, "include": (), "exclude": (),
        "hidden": False, "follow_links": False, "changed": "send", "settle": 2.0, "poll": None,
        "ready_suffix": "", "after": "keep", "batch": 1, "in_doubt": None, "wait": None,
        "stop": None,
        "tell": None,
    },
    "receive": {
        "queue": NEEDED, "target": NEEDED, "tree": True, "preserve": True, "follow": True,
        "on_conflict": "number", "command": None, "retries": 5, "retry_delay": 0.0,
        "then": "move", "poison": "poison", "workers": 1, "sync": True, "count": None,
        "timeout": 0, "stop": None, "tell": None,
    },
}  # fmt: skip


SPARK = {
    "register": {"spark": NEEDED},
    "land": {
        "url": NEEDED, "queue": NEEDED, "out": NEEDED, "as_": "auto", "table": "parquet",
        "fail_on_data_loss": False, "accept_new_queue": False,
    },
    "settling": {"write": NEEDED},
    "open_payload": {"row": NEEDED},
    "audit": {"sources": NEEDED, "out": None},
}  # fmt: skip


@pytest.mark.parametrize(
    ("module", "name", "promised"),
    [
        *(("dray.folders", name, promised) for name, promised in FOLDERS.items()),
        *(("dray.spark", name, promised) for name, promised in SPARK.items()),
    ],
)
def test_a_call_of_a_module_takes_what_was_promised(module, name, promised):
    """The first ones without a default come by position, all others by keyword."""
    taken = inspect.signature(getattr(importlib.import_module(module), name)).parameters
    assert {each: taken[each].default for each in promised} == promised
    positional = [each for each in taken.values() if each.kind is each.POSITIONAL_OR_KEYWORD]
    assert [each.name for each in positional] == list(promised)[: len(positional)]
    assert all(each.default is NEEDED for each in positional)


@pytest.mark.parametrize(
    "name", ["Cursor", "Manager", "Queue", "LargeMessageQueue", "LargeMessage"]
)
def test_both_faces_of_a_thing_have_the_same_calls(name):
    blocking, awaited = getattr(dray, name), getattr(dray.aio, name)
    for call in {each for each in dir(blocking) if not each.startswith("_")}:
        if callable(getattr(blocking, call)):
            ours, theirs = (
                [(each.name, each.kind, each.default) for each in signature.parameters.values()]
                for signature in map(
                    inspect.signature, (getattr(blocking, call), getattr(awaited, call))
                )
            )
            assert ours == theirs, call


@pytest.mark.parametrize(("parent", "children"), ERRORS.items())
def test_the_tree_of_errors_is_as_promised(parent, children):
    for child in children.split():
        error = getattr(dray, child)
        assert issubclass(error, getattr(dray.errors, parent))
        assert getattr(dray.errors, child) is error
        assert isinstance(error.code, str)
        assert isinstance(error.retryable, bool)


def test_every_error_is_importable_from_dray():
    for name, found in vars(dray.errors).items():
        if inspect.isclass(found) and issubclass(found, dray.DrayError):
            assert getattr(dray, name) is found
            assert name in dray.__all__
    assert issubclass(dray.ReceiveTimeout, TimeoutError)


def test_what_comes_back_has_the_properties_that_were_promised(manager, queue):
    queue.send(b"x")
    for each in MESSAGE.split():
        getattr(queue.peek(0), each)
    for each in QUEUE_INFO.split():
        getattr(queue.info(), each)
    for each in TRANSFER_STATUS.split():
        assert each in dray.TransferStatus.__struct_fields__
    assert isinstance(manager.queues(), list)


def test_a_message_is_made_of_a_body_and_keywords(queue):
    queue.send(dray.Message(b"first", label="by hand"))
    queue.send(dray.Message(body=b"second", app_specific=-7))
    first, second = queue.receive_many(2, timeout=0)
    assert (first.body, first.label) == (b"first", "by hand")
    assert (second.body, second.app_specific) == (b"second", -7)


def test_messages_are_sent_together_in_a_transaction_given_by_position(manager, queue):
    with manager.transaction() as transaction:
        queue.send_many([b"1", b"2"], transaction)
        assert queue.info().message_count == 0
    assert [each.body for each in queue.receive_many(3, timeout=0)] == [b"1", b"2"]


@pytest.mark.parametrize(
    "form", [r"DIRECT=OS:.\private$\{}", r"DIRECT=TCP:.\{}", r".\private$\{}", r".\{}"]
)
def test_the_originals_names_of_a_queue_here_mean_this_queue(manager, queue, form):
    manager.queue(form.format(queue.name)).send(b"here")
    assert queue.receive(0).body == b"here"


def test_the_originals_names_of_journals_mean_ours(manager, make_queue):
    queue = make_queue(journal=True)
    queue.send(b"kept")
    queue.receive(0)
    assert manager.queue(rf".\private$\{queue.name}\Journal$").receive(0).body == b"kept"
    for path in (r".\Journal$", r".\DeadLetter$", r".\XactDeadLetter$"):
        assert manager.queue(path).name in {each.name for each in manager.queues()}
        assert manager.queue(path).info().kind == manager.queue("system$;journal").info().kind


def test_who_looks_here_for_a_queue_elsewhere_is_told_where_to_look(manager):
    with pytest.raises(dray.QueueNotFound, match="connect to its own"):
        manager.queue("dray://127.0.0.1:1/elsewhere").info()
    with pytest.raises(dray.QueueNotFound, match="create it first"):
        manager.queue("nowhere").info()
