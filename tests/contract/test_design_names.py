"""The names, the order and the defaults of arguments that the design of Dray fixes for programs."""

# ruff: noqa: ARG005 - each lambda is there for its signature alone

import inspect

import pytest

import dray.aio
import dray.folders
import dray.spark

FIXED = [
    (dray.connect, lambda url=None, *, ca=None, cert=None, key=None, token=None: 0),
    (dray.aio.connect, lambda url=None, *, ca=None, cert=None, key=None, token=None: 0),
    (
        dray.open,
        lambda path, *, quota="8GiB", journal_quota="8GiB", name=None, listen=None, **config: 0,
    ),
    (dray.Manager.create_queue, lambda name, *, transactional=True, quota=None, journal=False: 0),
    (dray.Queue.receive, lambda timeout=None, transaction=None: 0),
    (
        dray.Queue.receive_many,
        lambda max_messages, *, max_bytes=None, timeout=None, transaction=None: 0,
    ),
    (dray.Queue.settle, lambda upto, born=None, transaction=None: 0),
    (
        dray.Queue.send,
        lambda body, *, label="", correlation_id=None, app_specific=0, extension=b"": 0,
    ),
    (dray.Queue.send, lambda body, *, use_dead_letter_queue=None, transaction=None: 0),
    (dray.LargeMessageQueue, lambda queue, *, fragment_size=4000000, status_queue="statusq": 0),
    (dray.LargeMessageQueue.send, lambda body, *, formatter=None, progress=None: 0),
    (dray.LargeMessageQueue.receive, lambda timeout=None, transaction=None: 0),
    (
        dray.Receiver,
        lambda queue, *, retries=5, retry_delay=0.0, then="reject", workers=1, reconnect=True: 0,
    ),
    (dray.aio.Receiver, lambda queue, *, workers=1, reconnect=True: 0),
    (dray.Manager.offer_file, lambda path, to, *, fragment_size=1048576, window_size=50: 0),
    (dray.Manager.offer_file, lambda path, to, *, request_timeout=30.0, consumers="one": 0),
    (dray.Manager.accept_file, lambda source, timeout=None: 0),
    (dray.folders.watch, lambda directory, queue, *, state, settle=2.0, after="keep", stop=None: 0),
    (dray.folders.watch, lambda directory, queue, *, state, include=(), exclude=(): 0),
    (dray.folders.receive, lambda queue, target, *, tree=True, preserve=True, stop=None: 0),
    (dray.folders.receive, lambda queue, target, *, on_conflict="number", follow=True: 0),
    (dray.spark.register, lambda spark: 0),
    (
        dray.spark.land,
        lambda url, queue, out, *, as_="auto", table="parquet", fail_on_data_loss=False: 0,
    ),
    (dray.spark.land, lambda url, queue, out, *, accept_new_queue=False: 0),
    (dray.spark.settling, lambda write: 0),
    (dray.spark.open_payload, lambda row: 0),
    (dray.spark.audit, lambda sources, *, out=None: 0),
]


@pytest.mark.parametrize(("call", "fixed"), FIXED)
def test_arguments_have_the_names_the_order_and_the_defaults_of_the_design(call, fixed):
    """More keywords may come in between; what stands by position stands in this order."""
    found = inspect.signature(call).parameters
    design = inspect.signature(fixed).parameters
    for name, wanted in design.items():
        assert (found[name].kind, found[name].default) == (wanted.kind, wanted.default), name
    by_position = [name for name, each in found.items() if each.kind is each.POSITIONAL_OR_KEYWORD]
    wanted = [name for name, each in design.items() if each.kind is each.POSITIONAL_OR_KEYWORD]
    assert [name for name in by_position if name != "self"] == wanted
