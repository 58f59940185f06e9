"""Promises about large messages: any size, all or nothing, byte for byte, holes named."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import threading

import pytest
from blake3 import blake3

import dray
from dray.client.formatters import JsonFormatter, MsgpackFormatter, TextFormatter


def some_bytes(size, seed=1):
    return random.Random(seed).randbytes(size)


def received(large, **options):
    with large.receive(timeout=10, **options) as message:
        return message.body()


@pytest.fixture
def raw(manager, queue):
    """The queue of `large` for readers of single parts."""
    return manager.queue(queue.name, raw=True)


@pytest.mark.parametrize("size", [0, 1, 999, 1000, 1001, 5000, 70_003])
def test_a_body_of_any_size_comes_back_byte_for_byte(large, size):
    body = some_bytes(size)
    sequence_id = large.send(body)
    with large.receive(timeout=10) as message:
        assert message.body() == body
        assert message.sequence_id == sequence_id
        assert message.size == size
        assert (message.digest, message.digest_kind) == (blake3(body).digest(), "blake3")
        assert message.fragment_count == max(1, -(-size // 1000))


DIGESTS = {
    "sha256": lambda body: hashlib.sha256(body).digest(),
    "blake3": lambda b: blake3(b).digest(),
}


@pytest.mark.parametrize("kind", DIGESTS)
@pytest.mark.parametrize("chosen_by", ["queue", "object", "send"])
def test_the_digest_is_a_choice_of_the_queue_of_the_object_and_of_the_send(
    face, make_queue, chosen_by, kind
):
    """The one who is nearest to the body has the last word."""
    body, other = some_bytes(2500), next(each for each in DIGESTS if each != kind)
    queue = make_queue(digest=kind if chosen_by == "queue" else other)
    given = {"object": {"digest": kind}, "send": {"digest": other}}.get(chosen_by, {})
    sent = {"digest": kind} if chosen_by == "send" else {}
    large = face.LargeMessageQueue(queue, fragment_size=1000, **given)
    large.send(body, **sent)
    with large.receive(timeout=10) as message:
        assert (message.digest, message.digest_kind) == (DIGESTS[kind](body), kind)
        assert message.body() == body


def test_the_digest_of_a_queue_is_told_and_is_there_after_a_restart(house, face):
    manager = house.start()
    manager.create_queue("plain")
    manager.create_queue("known", digest="sha256")
    for _ in range(2):
        assert [manager.queue(name).info().digest for name in ("plain", "known")] == [
            None,
            "sha256",
        ]
        large = face.LargeMessageQueue(manager.queue("known"))
        large.send(b"x")
        with large.receive(timeout=10) as message:
            assert message.digest_kind == "sha256"
        manager = house.start()


def test_an_upload_that_is_resumed_takes_the_digest_of_the_queue(face, make_queue, tmp_path):
    large = face.LargeMessageQueue(make_queue(digest="sha256"))
    large.send(b"x" * 2500, resume=tmp_path / "state")
    with large.receive(timeout=10) as message:
        assert message.digest_kind == "sha256"
    large.send(b"x" * 2500, resume=tmp_path / "state", digest="blake3")
    with large.receive(timeout=10) as message:
        assert message.digest_kind == "blake3"


def test_a_digest_that_there_is_not_is_refused(face, manager, queue):
    for act in (
        lambda: face.LargeMessageQueue(queue, digest="md5"),
        lambda: face.LargeMessageQueue(queue).send(b"", digest="md5"),
        lambda: manager.create_queue("never", digest="md5"),
    ):
        with pytest.raises(ValueError, match="md5"):
            act()


@pytest.mark.slow
def test_a_body_of_many_full_fragments_comes_back_byte_for_byte(face, large, queue):
    body = some_bytes(25_000_001)
    face.LargeMessageQueue(queue, fragment_size=0).send(body)
    assert received(large) == body


def test_what_was_said_of_the_message_is_restored(large):
    said = {
        "label": "Ladung " + "x" * 240,
        "correlation_id": "order-7",
        "app_specific": (1 << 31) - 1,
        "extension": b"more",
        "response_queue": "answers",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "administration_queue": "acks",
        "acknowledge": dray.Acknowledge.FULL_REACH_QUEUE,
    }
    large.send(b"x" * 2500, **said)
    with large.receive(timeout=10) as message:
        assert {name: getattr(message, name) for name in said} == said


def test_a_path_a_file_and_an_iterable_are_sent_as_their_bytes(large, tmp_path):
    body = some_bytes(10_500)
    path = tmp_path / "payload"
    path.write_bytes(body)
    large.send(path)
    with path.open("rb") as file:
        large.send(file)
    large.send(io.BytesIO(body))
    large.send(body[at : at + 777] for at in range(0, len(body), 777))
    large.send(memoryview(body))
    assert [received(large) for _ in range(5)] == [body] * 5


def test_empty_sources_are_sent_as_empty_bodies(large, tmp_path):
    (tmp_path / "empty").touch()
    for source in (tmp_path / "empty", io.BytesIO(), iter(())):
        large.send(source)
        assert received(large) == b""


@pytest.mark.parametrize(
    ("value", "formatter"),
    [
        ("Grüße" * 500, TextFormatter()),
        ({"rows": list(range(900))}, JsonFormatter()),
        ([b"\x00", {"a": None}], MsgpackFormatter()),
    ],
)
def test_an_object_is_formatted_whole_before_it_is_cut(large, value, formatter):
    large.send(value, formatter=formatter)
    with large.receive(timeout=10) as message:
        assert message.body(formatter) == value


@pytest.mark.parametrize("value", [-(1 << 31), -9998, -1, 0, True, (1 << 31) - 1])
def test_extreme_values_of_app_specific_are_restored(large, value):
    large.send(b"x", app_specific=value)
    with large.receive(timeout=10) as message:
        assert message.app_specific == value


@pytest.mark.parametrize(
    "said",
    [
        {"app_specific": 1 << 31},
        {"app_specific": -(1 << 31) - 1},
        {"app_specific": "7"},
        {"app_specific": None},
        {"label": "x" * 250},
        {"label": 5},
        {"correlation_id": b"order-7"},
        {"priority": 8},
        {"priority": "high"},
        {"acknowledge": "full"},
        {"extension": "more"},
        {"response_queue": 5},
        {"administration_queue": " "},
        {"time_to_be_received": -1},
    ],
)
def test_what_no_receiver_could_read_is_refused_before_anything_is_sent(
    large, queue, said, tmp_path
):
    """It would stand in the queue for ever, in the way of everything behind it."""
    for resume in (None, tmp_path / "state"):
        with pytest.raises(dray.Misuse) as caught:
            large.send(iter([b"x" * 5000]), resume=resume, **said)
        assert "\n" not in str(caught.value)
    assert queue.info().byte_count == 0
    assert not list(tmp_path.iterdir())
    large.send(b"the next")
    assert received(large) == b"the next"


class Reversed:
    """A formatter of a program's own."""

    def encode(self, value):
        return bytes(reversed(value))

    def decode(self, body):
        return list(reversed(body))


def test_a_formatter_of_ones_own_is_used(large):
    large.send([1, 2, 3], formatter=Reversed())
    with large.receive(timeout=10) as message:
        assert message.body() == b"\x03\x02\x01"
        assert message.body(Reversed()) == [1, 2, 3]


def test_a_formatter_may_be_a_function(large):
    large.send({"rows": 3}, formatter=lambda value: json.dumps(value).encode())
    with large.receive(timeout=10) as message:
        assert message.body(json.loads) == {"rows": 3}


def test_bytes_go_as_they_are_whatever_the_formatter(large):
    large.send(b"as it is", formatter=JsonFormatter())
    assert received(large) == b"as it is"


@pytest.mark.parametrize("value", ["text", {"a": 1}, 7, [1, 2], io.StringIO("text")])
def test_what_is_no_body_needs_a_formatter(large, queue, value):
    with pytest.raises(TypeError):
        large.send(value)
    assert queue.info().message_count == 0


def test_a_reader_of_single_messages_sees_the_chain(manager, large, queue):
    sequence_id = large.send(b"a" * 2500, label="blob", correlation_id="mine", app_specific=5)
    raw = list(manager.queue(queue.name, raw=True).messages())
    assert [message.app_specific for message in raw] == [-9998, 1, 2, 3, -9999]
    assert raw[0].id == sequence_id
    assert [message.correlation_id for message in raw] == ["mine", *[sequence_id] * 4]
    assert [message.label for message in raw] == [
        "blob", "blob.part.1", "blob.part.2", "blob.part.3", "blob.part.-9999",
    ]  # fmt: skip
    assert [len(message.body) for message in raw[1:4]] == [1000, 1000, 500]
    assert (raw[0].first_in_transaction, raw[-1].last_in_transaction) == (True, True)
    assert len({message.transaction_id for message in raw}) == 1


def test_the_marks_of_the_control_messages_can_be_chosen(face, manager, queue):
    parameters = dray.LargeMessageParameters(header=-1, trailer=-(1 << 31))
    face.LargeMessageQueue(queue, parameters=parameters).send(b"")
    raw = list(manager.queue(queue.name, raw=True).messages())
    assert [message.app_specific for message in raw] == [-1, 1, -(1 << 31)]


def test_several_in_one_transaction_come_together_and_in_order(manager, large, queue):
    with manager.transaction() as transaction:
        ids = [large.send(some_bytes(3000, seed), transaction=transaction) for seed in range(3)]
        assert queue.info().message_count == 0
    for seed, sequence_id in enumerate(ids):
        with large.receive(timeout=10) as message:
            assert message.sequence_id == sequence_id
            assert message.body() == some_bytes(3000, seed)
            assert message.transaction_id == transaction.id


def test_an_aborted_send_leaves_nothing(manager, large, queue):
    transaction = manager.transaction()
    large.send(b"x" * 5000, transaction=transaction)
    transaction.abort()
    assert queue.info().message_count == 0


def test_a_source_that_fails_midway_leaves_nothing(manager, large, queue):
    def failing():
        yield b"x" * 5000
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        large.send(failing())
    transaction = manager.transaction()
    with pytest.raises(RuntimeError, match="the source broke"):
        large.send(failing(), transaction=transaction)
    with pytest.raises(dray.TransactionAborted):
        transaction.commit()
    assert transaction.status is dray.TransactionStatus.ABORTED
    assert queue.info().message_count == 0


def test_a_missing_or_unreadable_file_is_told_by_name(large, queue, tmp_path):
    for path in (tmp_path / "missing", tmp_path):
        with pytest.raises(dray.SourceUnreadable) as caught:
            large.send(path)
        assert caught.value.path == str(path)
    assert queue.info().message_count == 0


@pytest.mark.parametrize("change", ["grow", "shrink", "touch"])
def test_a_file_that_changes_while_it_is_sent_is_refused(large, queue, tmp_path, change):
    path = tmp_path / "payload"
    path.write_bytes(some_bytes(20_000))

    def interfere(done, total):
        assert total == 20_000
        if change == "touch":
            path.write_bytes(some_bytes(20_000, seed=2))
        else:
            with path.open("r+b") as file:
                file.truncate(30_000 if change == "grow" else 15_000)

    said = "but was written to" if change == "touch" else "it had 20000 bytes, now"
    with pytest.raises(dray.SourceChanged, match=said) as caught:
        large.send(path, progress=interfere)
    assert caught.value.path == str(path)
    assert queue.info().message_count == 0


def test_an_aborted_receive_gives_the_same_message_again_first(manager, large):
    first = large.send(some_bytes(3000))
    large.send(b"second")

    def read_and_fail():
        with large.receive(timeout=10) as message:
            assert message.read(10) == some_bytes(3000)[:10]
            raise RuntimeError

    with pytest.raises(RuntimeError):
        read_and_fail()
    transaction = manager.transaction()
    assert large.receive(10, transaction).sequence_id == first
    assert large.receive(10, transaction).body() == b"second"
    transaction.abort()
    with large.receive(timeout=10) as message:
        assert (message.sequence_id, message.body()) == (first, some_bytes(3000))
        assert message.abort_count == 2


def test_a_receive_in_a_transaction_leaves_the_commit_to_it(manager, large, queue):
    large.send(b"x")
    transaction = manager.transaction()
    with large.receive(10, transaction) as message:
        assert message.body() == b"x"
    assert transaction.status is dray.TransactionStatus.PENDING
    assert message.body() == b"x"
    transaction.commit()
    assert queue.info().message_count == 0


def test_the_parts_are_gone_after_the_commit(large, queue):
    large.send(b"x" * 5000)
    with large.receive(timeout=10) as message:
        pass
    assert queue.info().message_count == 0
    with pytest.raises(dray.TransactionSequence):
        message.body()


def test_the_body_can_be_read_piece_by_piece_and_more_than_once(large):
    body = some_bytes(10_500)
    large.send(body)
    with large.receive(timeout=10) as message:
        assert b"".join(message) == body
        assert message.read(1) == body[:1]
        assert message.read(2000) == body[1:2001]
        buffer = bytearray(1500)
        assert message.readinto(buffer) == 1500
        assert bytes(buffer) == body[2001:3501]
        assert message.read() == body[3501:]
        assert message.read(5) == b""
        assert message.readinto(buffer) == 0
        assert message.body() == body


def test_reading_on_in_long_fragments_gives_every_byte_in_its_place(face, queue, large):
    body = some_bytes(1_000_000)
    face.LargeMessageQueue(queue, fragment_size=100_000).send(body)
    with large.receive(timeout=10) as message:
        assert message.read(150_000) + message.read() == body


def test_a_file_is_saved_whole_with_progress(large, tmp_path):
    body = some_bytes(50_000)
    large.send(body)
    told = []
    with large.receive(timeout=10) as message:
        saved = message.save_to(
            tmp_path / "out.bin", progress=lambda done, total: told.append((done, total))
        )
    assert saved.read_bytes() == body
    assert told[-1] == (50_000, 50_000)
    assert [path.name for path in tmp_path.iterdir()] == ["out.bin"]


def test_a_device_or_a_pipe_is_not_replaced_by_a_file(large, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    large.send(b"x")
    with (
        pytest.raises(dray.TargetUnwritable, match="it is no regular file"),
        large.receive(timeout=10) as message,
    ):
        message.save_to(tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()
    assert received(large) == b"x"


@pytest.mark.parametrize("target", [".", "/"])
def test_a_path_without_a_name_is_refused_as_a_file_and_leaves_the_message(large, target):
    large.send(b"x")
    with (
        pytest.raises(dray.TargetUnwritable, match="it is no regular file"),
        large.receive(timeout=10) as message,
    ):
        message.save_to(target)
    assert received(large) == b"x"


@pytest.mark.parametrize("target", ["missing/out.bin", "file/out.bin", "folder"])
def test_a_file_that_cannot_be_written_leaves_the_message_in_its_queue(large, tmp_path, target):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    large.send(b"x")
    with (
        pytest.raises(dray.TargetUnwritable, match="cannot be written") as caught,
        large.receive(timeout=10) as message,
    ):
        message.save_to(tmp_path / target)
    assert caught.value.path == str(tmp_path / target)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]
    assert received(large) == b"x"


def test_peek_reads_and_removes_nothing(large, queue):
    large.send(some_bytes(3000))
    for _ in range(2):
        with large.peek(timeout=10) as message:
            assert message.body() == some_bytes(3000)
    assert queue.info().message_count == 5
    assert received(large) == some_bytes(3000)
    with pytest.raises(dray.ReceiveTimeout):
        large.peek(0)


def test_a_message_is_found_by_the_applications_correlation_id(large):
    for name in ("one", "two", "three"):
        large.send(name.encode() * 600, correlation_id=name)
    with large.receive_by_correlation_id("two") as message:
        assert message.body() == b"two" * 600
    with pytest.raises(dray.MessageNotFound):
        large.receive_by_correlation_id("two")
    with pytest.raises(dray.ReceiveTimeout):
        large.receive_by_correlation_id("two", 0.02)
    assert received(large) == b"one" * 600


def test_nothing_in_time_is_a_timeout(large):
    for timeout in (0, 0.02):
        with pytest.raises(dray.ReceiveTimeout):
            large.receive(timeout)


def test_a_waiting_receive_takes_what_another_thread_sends(large):
    taken = []
    waiting = threading.Thread(target=lambda: taken.append(received(large)))
    waiting.start()
    large.send(some_bytes(5000))
    waiting.join(100)
    assert taken == [some_bytes(5000)]


@pytest.mark.slow
def test_concurrent_receivers_take_each_message_once(large):
    count = 12
    for seed in range(count):
        large.send(some_bytes(4000, seed))
    taken = []

    def take():
        taken.extend(received(large) for _ in range(count // 3))

    threads = [threading.Thread(target=take) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert sorted(taken) == sorted(some_bytes(4000, seed) for seed in range(count))


@pytest.mark.parametrize(
    ("lost", "missing"),
    [
        ([0], ["header"]),
        ([1], [[1, 1]]),
        ([2, 3], [[2, 3]]),
        ([5], [[5, 5]]),
        ([6], ["trailer"]),
        ([1, 3, 6], [[1, 1], [3, 3], "trailer"]),
    ],
)
def test_a_hole_is_named_once_and_the_next_message_is_whole(large, raw, lost, missing):
    holed = large.send(b"x" * 5000)
    large.send(b"whole")
    positions = [message.lookup_id for message in raw.messages()]
    for at in lost:
        raw.receive_by_lookup_id(positions[at])
    for act in (large.peek, large.receive):
        with pytest.raises(dray.LargeMessageHole) as caught:
            act(10)
        assert caught.value.sequence_id == holed
        assert caught.value.missing == missing
        assert "fragments 2 to 3;" in str(caught.value) or [2, 3] not in missing
        assert "fragment 5;" in str(caught.value) or [5, 5] not in missing
    assert received(large) == b"whole"
    assert raw.info().message_count == 0


def test_plain_sends_and_receives_are_kept_away_from_large_messages(manager, large, queue):
    large.send(b"x" * 3000)
    for act in (lambda: queue.send(b"plain"), lambda: queue.receive(0)):
        with pytest.raises(dray.LargeMessageMixing) as caught:
            act()
        assert caught.value.queue == queue.name
    assert received(large) == b"x" * 3000


def test_a_part_of_a_large_message_is_moved_by_a_raw_handle_only(manager, large, queue):
    large.send(b"x" * 3000)
    part = queue.peek(0)
    with pytest.raises(dray.LargeMessageMixing):
        queue.move(part, f"{queue.name};aside")
    assert received(large) == b"x" * 3000
    large.send(b"x" * 3000)
    raw = manager.queue(queue.name, raw=True)
    raw.move(raw.peek(0), f"{queue.name};aside")
    with pytest.raises(dray.LargeMessageHole):
        large.receive(0)


def test_large_messages_need_a_transactional_queue(face, manager, make_queue):
    large = face.LargeMessageQueue(make_queue(transactional=False), status_queue="statusq")
    manager.create_queue("statusq", exist_ok=True)
    for act in (lambda: large.send(b""), lambda: large.receive(0), lambda: large.peek(0)):
        with pytest.raises(dray.NotTransactional):
            act()


def test_receiving_needs_a_transactional_status_queue(face, manager, make_queue):
    queue, plain = make_queue(), make_queue(transactional=False)
    for status_queue in ("dray://127.0.0.1:9/there", "absent;sub", plain.name):
        large = face.LargeMessageQueue(queue, status_queue=status_queue)
        large.send(b"x")
        with pytest.raises(dray.StatusQueueMissing) as caught:
            large.receive(0)
        assert caught.value.queue == status_queue
    assert received(face.LargeMessageQueue(queue)) == b"x"


def test_a_missing_queue_is_told_at_first_use(face, manager):
    manager.create_queue("statusq", exist_ok=True)
    large = face.LargeMessageQueue(manager.queue("nowhere"))
    for act in (lambda: large.send(b""), lambda: large.receive(0)):
        with pytest.raises(dray.QueueNotFound):
            act()


@pytest.mark.parametrize("size", [-1, 4_000_001, 1.5, "1000", None])
def test_a_fragment_size_out_of_bounds_is_refused(face, queue, size):
    with pytest.raises(ValueError, match="fragment_size"):
        face.LargeMessageQueue(queue, fragment_size=size)


def test_a_name_in_the_place_of_a_queue_is_told(face):
    with pytest.raises(TypeError, match=r"queue is a queue of dray.*, not 'orders'"):
        face.LargeMessageQueue("orders")


def test_a_fragment_size_of_zero_is_the_largest_and_stays(face, queue):
    large = face.LargeMessageQueue(queue, fragment_size=0)
    large.send(b"x")
    assert large.fragment_size == 4_000_000


def test_a_quota_that_a_large_message_would_pass_is_told_and_nothing_is_kept(
    face, manager, make_queue
):
    queue = make_queue(quota=20_000)
    large = face.LargeMessageQueue(queue, fragment_size=1000)
    told = []
    with pytest.raises(dray.QuotaExceeded):
        large.send(b"x" * 30_000, progress=lambda *done: told.append(done))
    # At the start: not a byte of it was read.
    assert told == []
    with pytest.raises(dray.QuotaExceeded):
        large.send(iter([b"x" * 30_000]))
    assert queue.info().message_count == 0
    large.send(b"x" * 10_000)


def test_without_a_with_block_a_message_is_given_back_or_received_for_good(large, queue):
    large.send(some_bytes(3000))
    message = large.receive(timeout=10)
    assert message.read(10) == some_bytes(3000)[:10]
    message.close()
    message.close()
    with pytest.raises(dray.TransactionSequence):
        message.body()
    message = large.receive(timeout=10)
    assert message.body() == some_bytes(3000)
    message.commit()
    message.close()
    assert queue.info().message_count == 0


def test_a_message_that_is_dropped_is_given_back_with_a_warning(manager, large):
    large.send(some_bytes(3000))
    kept = [large.receive(timeout=10)]
    with pytest.warns(ResourceWarning, match="given back"):
        kept.clear()
    # Its abort goes ahead of whatever is asked next.
    manager.info()
    assert received(large) == some_bytes(3000)


def test_a_message_of_the_callers_transaction_is_left_to_it(manager, large):
    large.send(b"x")
    transaction = manager.transaction()
    message = large.receive(10, transaction)
    message.close()
    with pytest.raises(dray.TransactionUsage):
        message.commit()
    assert message.body() == b"x"
    transaction.abort()
    assert received(large) == b"x"


def test_a_compressed_body_comes_back_and_takes_less_room(face, manager, queue):
    manager.create_queue("statusq", exist_ok=True)
    large = face.LargeMessageQueue(queue, fragment_size=10_000, compression="zstd")
    body = b"heavy loads " * 2_000 + some_bytes(20_000) + b"low and strong " * 1_000
    large.send(body)
    assert queue.info().byte_count < len(body) - 20_000
    with face.LargeMessageQueue(queue).receive(timeout=10) as message:
        assert (message.size, message.body()) == (len(body), body)
        assert message.read(5_000) + message.read() == body


def test_compressed_fragments_are_saved_and_resumed(face, manager, queue, tmp_path):
    manager.create_queue("statusq", exist_ok=True)
    large = face.LargeMessageQueue(queue, compression="zstd")
    body = some_bytes(300_000).hex().encode()
    large.send(body, resume=tmp_path / "upload.state")
    with large.receive(timeout=10) as message:
        assert message.save_to(tmp_path / "out").read_bytes() == body


def test_an_unknown_compression_is_refused(face, queue):
    with pytest.raises(ValueError, match="zstd"):
        face.LargeMessageQueue(queue, compression="gzip")
