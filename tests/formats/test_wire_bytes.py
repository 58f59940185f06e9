"""The bytes of frames and records, kept: a change here is a change of the wire.

`docs/formats/wire.md` explains them. Whoever must change one makes a new version of the format.
"""

from __future__ import annotations

import pytest

from dray.model.classes import Acknowledge, Part
from dray.model.message import Message
from dray.wire.frames import Done, Failed, Hello, encode_frame
from dray.wire.message_frames import Commit, Envelope, Send
from dray.wire.peer_frames import Ahead, AheadDropped, AheadKept, Data, OpenStream, StreamState
from dray.wire.record import PLAIN, PartMark, encode_record, read_header
from dray.wire.stream import FrameStream

SEQUENCE_ID = 1_700_000_000 << 32
ENVELOPE = Envelope(
    lookup_id=40,
    length=67,
    crc=0xDEADBEEF,
    transaction=1_048_577,
    sent_us=1_700_000_000_000_000,
    arrived_us=1_700_000_000_500_000,
    marks=3,
    number=13,
)
FRAMES = {
    "hello": (
        Hello("manager", "ab" * 16, "source"),
        1,
        0,
        (
            "4452415901010000010000003b00000000000000dd87eddd"
            "99a76d616e61676572d92061626162616261626162616261626162616261626162616261626162616261"
            "62a6736f7572636590c400c400a0c400a0"
        ),
    ),
    "send": (
        Send(3, 1_048_577, [67], [0xDEADBEEF]),
        7,
        67,
        "44524159011e0000070000001000000043000000b4debcfd9503ce00100001914391cedeadbeefc3",
    ),
    "commit": (
        Commit(1_048_577, 1),
        8,
        0,
        "44524159011f00000800000007000000000000007a96216d92ce0010000101",
    ),
    "done": (Done(1), 8, 0, "445241590105000008000000020000000000000009f2fd7e9101"),
    "failed": (
        Failed("queue-not-found", "there is no queue 'x'", {"queue": "x"}),
        9,
        0,
        (
            "445241590106000009000000300000000000000045f16368"
            "93af71756575652d6e6f742d666f756e64b57468657265206973206e6f2071756575652027782781a5"
            "7175657565a178"
        ),
    ),
    "open stream": (
        OpenStream(4, "orders"),
        0,
        0,
        "44524159013c0000000000000f0000000000000080333ece9604a66f72646572730000c400c400",
    ),
    "stream state": (
        StreamState(4, SEQUENCE_ID, 12),
        0,
        0,
        "44524159013d00000000000014000000000000007871eac39a04cf6553f100000000000cc300c2000090c400",
    ),
    "data": (
        Data(4, SEQUENCE_ID, 12, [ENVELOPE]),
        0,
        67,
        (
            "44524159013f0000000000003700000043000000339876ae9604cf6553f100000000000c"
            "919f2843cedeadbeefce00100001cf00060a24181e4000cf00060a241825e12003000000000dffff0090"
            "c2"
        ),
    ),
    "ahead": (
        Ahead(5, 300, 2, 0x01020304),
        0,
        65,
        "4452415901480000000000000b00000041000000dc6d8e889405cd012c02ce01020304",
    ),
    "ahead dropped": (
        AheadDropped(5, 300),
        0,
        0,
        "4452415901490000000000000500000000000000fdd3d3399205cd012c",
    ),
    "ahead kept": (
        AheadKept(5, 300, 2, kept=True),
        0,
        0,
        "44524159014a000000000000070000000000000072f8191c9405cd012c02c3",
    ),
}
SOURCE = bytes(range(16))
RECORDS = {
    "plain": (
        Message(body=b"abc"),
        6,
        PLAIN,
        (
            "444d5347010003010000000003000000000102030405060708090a0b0c0d0e0f"
            "0600000000000000000000000000000000000000000000000000000000000000616263"
        ),
    ),
    "header of a large message": (
        Message(
            body=b"abc",
            label="lab",
            app_specific=-9998,
            acknowledge=Acknowledge.FULL_RECEIVE,
            use_dead_letter_queue=True,
        ),
        5,
        PartMark(Part.HEADER, 5),
        (
            "444d5347010103030d00000003000000000102030405060708090a0b0c0d0e0f"
            "0500000000000000f2d8ffff0e0000000500000000000000000000000000000098a36c6162c0c400c0c0"
            "c0c0c0616263"
        ),
    ),
}


@pytest.mark.parametrize(("head", "request_id", "body_bytes", "image"), FRAMES.values(), ids=FRAMES)
def test_a_frame_keeps_its_bytes(head, request_id, body_bytes, image):
    assert encode_frame(head, request_id, body_bytes).hex() == image
    stream = FrameStream()
    data = bytes.fromhex(image) + bytes(body_bytes)
    stream.buffer()[: len(data)] = data
    (frame,) = stream.received(len(data))
    assert (frame.head, frame.request_id, len(frame.body)) == (head, request_id, body_bytes)


@pytest.mark.parametrize(("message", "number", "mark", "image"), RECORDS.values(), ids=RECORDS)
def test_a_record_keeps_its_bytes(message, number, mark, image):
    head, body = encode_record(message, SOURCE, number, mark)
    assert (head + bytes(body)).hex() == image
    header = read_header(bytes.fromhex(image))
    assert (header.number, header.part) == (number, mark.part)
