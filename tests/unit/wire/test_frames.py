"""The vocabulary: codes, defaults, errors that travel."""

from __future__ import annotations

import subprocess
import sys

import crc32c
import msgspec
import pytest
from msgspec import structs as records

from dray.errors import (
    DrayError,
    InvalidArgument,
    ProtocolError,
    QuotaExceeded,
    every_error,
    from_code,
)
from dray.manager.entries.layout import ORDINAL_BITS
from dray.model.limits import (
    FRAME_BODY_BYTES_MAX,
    HOLES_NAMED_MAX,
    MESSAGE_NUMBER_MAX,
)
from dray.wire import peer_frames
from dray.wire.file_frames import SendFile
from dray.wire.frames import (
    FRAME_HEADER,
    FRAME_TYPES,
    Continuation,
    Cut,
    Failed,
    Unfit,
    check_values,
    decode_head,
    encode_frame,
    failure,
    read_again,
    read_frame_header,
)
from dray.wire.head import Head
from dray.wire.message_frames import Envelope
from dray.wire.peer_frames import RepairAnswer, RepairWanted
from dray.wire.queue_frames import OpenQueue
from dray.wire.selections import SelectFirst
from dray.wire.transfer_frames import Post, size_of_post
from tests.unit.wire.speech import encoded, heard


def test_every_module_of_frames_is_known_to_the_decoder():
    """In a process of its own: here other tests may have imported what `frames` does not."""
    program = (
        "import importlib, pkgutil, dray.wire; from dray.wire import frames\n"
        "from dray.wire.head import Head\n"
        "for each in pkgutil.iter_modules(dray.wire.__path__, 'dray.wire.'):\n"
        "    importlib.import_module(each.name)\n"
        "print({head.__name__ for head in Head.__subclasses__()}"
        " - {head.__name__ for head in frames.FRAME_TYPES.values()})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("kind", [RepairWanted, RepairAnswer])
def test_a_frame_names_as_many_missing_parts_as_it_may(kind):
    head = kind(1, 1, [[2**31 - 2, 2**31 - 1]] * HOLES_NAMED_MAX)
    assert [each for each, _, _ in heard(encoded(head, 9))] == [head]


@pytest.mark.parametrize("field", Envelope.__struct_fields__)
@pytest.mark.parametrize("wrong", [-2, -(1 << 63), 1 << 63, (1 << 64) - 1])
def test_an_envelope_with_a_number_out_of_bounds_breaks_the_protocol(field, wrong):
    """A queue entry had no room for it, and the queue manager of the receiver ended."""
    good = Envelope(1, 64, 0, 1, 1, 1, 3)
    data = peer_frames.Data(5, 1, 0, [records.replace(good, **{field: wrong})])
    with pytest.raises(ProtocolError):
        heard(encoded(data))


@pytest.mark.parametrize(
    ("field", "highest"),
    [
        ("marks", 255),
        ("message_class", 65_535),
        ("ordinal", (1 << ORDINAL_BITS) - 1),
        ("move_count", (1 << 32) - 1),
        ("number", MESSAGE_NUMBER_MAX),
        ("remaining_us", 253_402_300_799_999_999),
    ],
)
def test_the_bounds_of_an_envelope_are_those_of_a_queue_entry(field, highest):
    fits = Envelope(1, 64, 0, 1, 1, 1, 3)
    data = peer_frames.Data(5, 1, 0, [records.replace(fits, **{field: highest})])
    assert [each for each, _, _ in heard(encoded(data))] == [data]
    with pytest.raises(ProtocolError):
        heard(encoded(records.replace(data, envelopes=[
            records.replace(fits, **{field: highest + 1})
        ])))  # fmt: skip


SAID_OF_OMISSION = {
    ("AttachBox", "attached"): True,
    ("BatchIs", "last"): -1,
    ("Envelope", "reaching_us"): -1,
    ("Envelope", "remaining_us"): -1,
    ("LargeReceive", "count"): 1,
    ("LargeReceive", "select"): SelectFirst(),
    ("Move", "guarded"): True,
    ("ReadRange", "bodies"): True,
    ("Receive", "guarded"): True,
    ("Receive", "max_messages"): 1,
    ("Receive", "select"): SelectFirst(),
    ("Send", "guarded"): True,
    ("StreamState", "transactional"): True,
}
"""What a field that a frame leaves out means, if it is not nothing: no, zero, empty."""


def test_a_field_that_a_frame_leaves_out_says_nothing_but_for_a_few():
    found = {
        (each.__name__, field): default
        for each in structs(msgspec.Struct)
        if each.__module__.startswith("dray.wire.")
        for field, default in defaults_of(each)
        if default or default is msgspec.NODEFAULT
    }
    assert found == SAID_OF_OMISSION


def defaults_of(struct):
    """The fields that may be left out."""
    defaults = struct.__struct_defaults__
    fields = struct.__struct_fields__[-len(defaults) :] if defaults else ()
    for field, default in zip(fields, defaults, strict=True):
        made = getattr(default, "factory", None)
        yield field, made() if made else default


def structs(base):
    for each in base.__subclasses__():
        yield each
        yield from structs(each)


def test_no_head_and_no_value_in_one_can_be_changed_once_it_was_made():
    ours = [each for each in structs(msgspec.Struct) if each.__module__.startswith("dray.wire.")]
    assert Head in ours
    assert not [each.__name__ for each in ours if not each.__struct_config__.frozen]


def test_every_value_travels_as_an_array():
    ours = [each for each in structs(msgspec.Struct) if each.__module__.startswith("dray.wire.")]
    assert not [each.__name__ for each in ours if not each.__struct_config__.array_like]


def test_the_frames_that_carry_lists_have_long_heads_and_no_others():
    long = {each.__name__ for each in Head.__subclasses__() if each.pages}
    lists = (
        "AccessState LargeFound LargeListed LargeTaken PeerList PreparedList QueueList TokenList"
    )
    between_managers = "Confirmations Data Passed RepairAnswer RepairWanted"
    messages = "Messages RangeMeasured RangeRead Send TransactionMessages UploadList"
    assert long == {*f"{lists} {between_managers} {messages} BackupPiece Failed".split()}


def test_every_frame_has_a_code_of_its_own():
    assert len(FRAME_TYPES) == len(Head.__subclasses__())
    assert all(code == cls.code for code, cls in FRAME_TYPES.items())
    assert all(0 < code < 256 for code in FRAME_TYPES)


@pytest.mark.parametrize("cls", every_error().values(), ids=lambda cls: cls.code)
def test_every_error_travels_whole(cls):
    error = cls("what happened, to what, what to do", queue="orders", size=3)
    (head, _, _), *_ = heard(encoded(failure(error), 9))
    assert isinstance(head, Failed)
    again = from_code(head.error, head.sentence, head.fields)
    assert type(again) is cls
    assert str(again) == str(error)
    assert again.fields == error.fields


def test_an_error_of_a_later_version_is_still_an_error():
    again = from_code("not-yet-invented", "a sentence", {"x": 1})
    assert type(again) is DrayError
    assert str(again) == "a sentence"


def test_the_fields_of_an_error_are_its_attributes():
    error = QuotaExceeded("full", quota="queue", limit=10, used=9, requested=2)
    head = failure(error)
    again = from_code(head.error, head.sentence, head.fields)
    assert isinstance(again, QuotaExceeded)
    assert (again.quota, again.limit, again.used, again.requested) == ("queue", 10, 9, 2)


def test_a_post_takes_credits_for_its_message_its_body_and_more_for_being_one():
    empty = size_of_post(Post("box", b""), memoryview(b""))
    assert empty > 0, "else any number of empty posts could wait"
    assert size_of_post(Post("box", b"abc"), memoryview(b"12")) == empty + 5


def whole(kind: type[Head], fields: object) -> memoryview:
    """A frame of that kind, whole, with any fields."""
    head = msgspec.msgpack.encode(fields)
    checked = FRAME_HEADER.pack(b"DRAY", 1, kind.code, 0, 9, len(head), 0, 0)[:20]
    crc = crc32c.crc32c(head, crc32c.crc32c(checked))
    return memoryview(checked + crc.to_bytes(4, "little") + head)


def test_a_value_of_a_wrong_type_is_answered_where_the_reader_is_lenient():
    frame = whole(OpenQueue, [5])
    found = decode_head(read_frame_header(frame), frame, lenient=True)
    assert isinstance(found, Unfit)
    assert (found.error, found.fields) == ("invalid-argument", {"argument": "name"})
    with pytest.raises(ProtocolError, match="OpenQueue"):
        decode_head(read_frame_header(frame), frame)


@pytest.mark.parametrize("kind", [Cut, Continuation, SendFile])
def test_a_frame_that_others_hang_on_has_to_be_read(kind):
    frame = whole(kind, ["x"])
    with pytest.raises(ProtocolError, match=kind.__name__):
        decode_head(read_frame_header(frame), frame, lenient=True)


def test_a_frame_that_is_no_list_of_fields_is_named_itself():
    frame = whole(OpenQueue, "text")
    found = decode_head(read_frame_header(frame), frame, lenient=True)
    assert isinstance(found, Unfit)
    assert found.fields == {"argument": "OpenQueue"}


@pytest.mark.parametrize(
    ("head", "why"),
    [
        (OpenQueue("orders" + chr(0xD800)), "OpenQueue has a value that cannot be sent"),
        (Failed("misuse", "too many", {"limit": 1 << 64}), "Failed has a value that cannot be"),
        (Failed("misuse", "an object", {"limit": object()}), "Failed has a value that cannot be"),
    ],
)
def test_a_value_that_has_no_place_in_a_frame_is_the_callers_mistake(head, why):
    with pytest.raises(InvalidArgument, match=why) as raised:
        encode_frame(head)
    assert raised.value.argument == type(head).__name__


def test_a_frame_of_no_request_has_the_id_0():
    assert read_frame_header(encode_frame(OpenQueue("orders"))).request_id == 0


def test_a_head_of_a_wrong_type_is_refused_before_the_other_end_sees_it():
    good, wrong = OpenQueue("orders"), OpenQueue(7)
    check_values(good, encode_frame(good))
    assert read_again(good) == good
    with pytest.raises(InvalidArgument, match="OpenQueue"):
        check_values(wrong, encode_frame(wrong))
    with pytest.raises(InvalidArgument, match="OpenQueue"):
        read_again(wrong)
    with pytest.raises(ProtocolError):
        read_again(good, FRAME_BODY_BYTES_MAX + 1)
