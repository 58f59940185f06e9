"""Uploads at the manager: what is marked survives everything, the rest nothing; committed once."""

from __future__ import annotations

import pytest
from crc32c import crc32c

from dray import errors
from dray.manager.disk import RoomLeft
from dray.manager.entries import TAIL_BYTES
from dray.manager.events import SessionClosed
from dray.manager.notices import NoticeKind
from dray.manager.queue import Account
from dray.model import callers
from dray.model.access import Access
from dray.model.classes import Part
from dray.model.limits import (
    RESERVATION_UNUSED_S,
    UPLOAD_AGE_S_MAX,
    UPLOAD_SOURCE_BYTES_MAX,
    UPLOADS_MAX,
)
from dray.model.message import Message
from dray.wire import frames, large_frames, message_frames, queue_frames
from dray.wire.record import PartMark
from tests.inspection import look_into
from tests.unit.manager.conftest import Caller, ManagerDriver


class Sender:
    """A client that sends one large message of one-byte fragments."""

    def __init__(self, caller: Caller, queue: int) -> None:
        self.caller, self.queue = caller, queue
        self.sends = 0

    def begin(self, *, reserve: int = 0) -> large_frames.UploadState:
        self.number = self.caller.number_for()
        begin = large_frames.UploadBegin(self.queue, self.number, reserve, b"here")
        state = self.caller.call(begin)
        assert isinstance(state, large_frames.UploadState)
        self.name = state.sequence_id
        return state

    def send(self, part: Part, number: int = 0, *, count: int = 0) -> None:
        mark = PartMark(part, 0 if part is Part.HEADER else self.number, count)
        if part is Part.HEADER:
            self.caller.next_number = self.number - 1
        message = Message(body=bytes([number]), app_specific=number)
        options = {"transaction": self.number, "marks": (mark,), "guarded": False}
        self.caller.send(self.queue, message, **options)
        self.caller.next_number = max(self.caller.next_number, self.number + 100 + number)
        self.sends += 1

    def mark(self, parts: int) -> list[object]:
        mark = large_frames.UploadMark(self.number, parts, parts - 1, b"digest")
        return self.caller.answers(self.caller.ask(mark))

    def resume(self, caller: Caller) -> large_frames.UploadState:
        self.caller, self.sends = caller, 0
        state = caller.call(large_frames.UploadResume(self.name))
        assert isinstance(state, large_frames.UploadState)
        return state

    def finish(self, first: int) -> None:
        """Send what is left of three fragments, and commit."""
        for number in range(first, 4):
            self.send(Part.FRAGMENT, number)
        self.send(Part.TRAILER, 4, count=3)
        self.caller.commit(self.number, self.sends)


@pytest.fixture
def caller(driver: ManagerDriver) -> Caller:
    return driver.session()


@pytest.fixture
def sender(caller: Caller) -> Sender:
    return Sender(caller, caller.create("heavy"))


def half_way(sender: Sender) -> None:
    """Header and two fragments, of which only the first is marked."""
    sender.begin()
    sender.send(Part.HEADER)
    sender.send(Part.FRAGMENT, 1)
    assert sender.mark(2) == []
    sender.send(Part.FRAGMENT, 2)


def take(caller: Caller, queue: int) -> large_frames.LargeFound:
    found = caller.call(large_frames.LargeReceive(queue, caller.number_for(), 0.0))
    assert isinstance(found, large_frames.LargeFound)
    return found


def end_in(driver: ManagerDriver, sender: Sender, how: str) -> Caller:
    """End the sender's connection in some way; gives a new one."""
    match how:
        case "crash":
            driver.crash()
        case "session":
            driver.turn(SessionClosed(sender.caller.number))
        case "checkpoint":
            driver.store.checkpoint(driver.manager.snapshot())
            driver.store.sync()
            driver.crash()
    return driver.session()


@pytest.mark.parametrize("how", ["crash", "session", "checkpoint", "takeover"])
def test_what_was_marked_is_there_and_is_gone_on_with(
    driver: ManagerDriver, sender: Sender, how: str
) -> None:
    half_way(sender)
    other = end_in(driver, sender, how)
    state = sender.resume(other)
    assert (state.status, state.parts, state.size) == ("open", 2, 1)
    assert (state.digest, state.source) == (b"digest", b"here")
    with pytest.raises(errors.ReceiveTimeout):
        take(other, sender.queue)
    sender.finish(2)
    found = take(other, sender.queue)
    assert (found.sequence, len(found.parts)) == (sender.number, 3)
    other.call(message_frames.Commit(other.next_number, 0))


def test_an_upload_that_was_gone_on_with_after_a_crash_outlives_its_connection_again(
    driver: ManagerDriver, sender: Sender
) -> None:
    half_way(sender)
    sender.resume(end_in(driver, sender, "crash"))
    assert sender.resume(end_in(driver, sender, "session")).status == "open"


@pytest.mark.parametrize("how", ["crash", "session"])
def test_nothing_is_kept_of_what_was_not_marked(
    driver: ManagerDriver, sender: Sender, how: str
) -> None:
    sender.begin()
    sender.send(Part.HEADER)
    sender.send(Part.FRAGMENT, 1)
    other = end_in(driver, sender, how)
    assert sender.resume(other).parts == 0
    assert driver.store.live_bytes == 0


def test_who_asks_after_the_commit_is_told_that_it_happened(
    driver: ManagerDriver, sender: Sender
) -> None:
    half_way(sender)
    sender.finish(3)
    driver.crash()
    other = driver.session()
    assert sender.resume(other).status == "committed"
    assert take(other, other.open("heavy")).sequence == sender.number


def test_of_a_number_that_was_never_committed_that_is_said(
    driver: ManagerDriver, sender: Sender
) -> None:
    half_way(sender)
    sender.caller.call(large_frames.UploadDrop(sender.name))
    assert driver.store.live_bytes == 0
    assert sender.resume(driver.session()).status == "aborted"
    with pytest.raises(errors.MessageNotFound):
        sender.caller.call(large_frames.UploadDrop(sender.name))


@pytest.mark.parametrize("end", ["drop", "abort", "queue", "age"])
def test_an_upload_that_ends_gives_every_byte_back(
    driver: ManagerDriver, sender: Sender, end: str
) -> None:
    half_way(sender)
    caller = sender.caller
    match end:
        case "drop":
            caller.call(large_frames.UploadDrop(sender.name))
        case "abort":
            caller.call(message_frames.Abort(sender.number))
        case "queue":
            caller.call(queue_frames.DeleteQueue("heavy"))
            with pytest.raises(errors.TransactionAborted):
                caller.commit(sender.number, sender.sends)
        case "age":
            driver.advance(UPLOAD_AGE_S_MAX - 1)
            assert driver.store.live_bytes > 0
            driver.advance(2)
    assert driver.store.live_bytes == 0
    driver.crash()
    assert driver.store.live_bytes == 0
    assert len(look_into(driver.manager).state.uploads) == 0


def test_the_age_counts_from_the_last_mark(driver: ManagerDriver, sender: Sender) -> None:
    half_way(sender)
    driver.advance(UPLOAD_AGE_S_MAX - 1)
    sender.mark(3)
    driver.crash()
    driver.advance(UPLOAD_AGE_S_MAX - 1)
    assert sender.resume(driver.session()).parts == 3


def test_an_upload_is_dropped_in_the_moment_in_which_it_is_too_old(
    driver: ManagerDriver, sender: Sender
) -> None:
    half_way(sender)
    driver.manager.notices()
    driver.advance(UPLOAD_AGE_S_MAX)
    assert driver.store.live_bytes == 0
    (notice,) = driver.manager.notices()
    assert (notice.kind, notice.subject) == (NoticeKind.UPLOAD_DROPPED, "uploads")
    assert "nobody resumed it for 7 days" in notice.sentence


def test_room_that_was_used_up_is_not_given_back_once_more(tmp_path) -> None:
    """The minute after the last use comes when the upload has ended long ago, or has no room."""
    driver = ManagerDriver(tmp_path / "data", quota=10_000)
    caller = driver.session()
    sender, other = (Sender(caller, caller.create(name)) for name in ("heavy", "more"))
    sender.begin(reserve=2_000)
    sender.finish(1)
    other.begin(reserve=2_000)
    other.send(Part.HEADER)
    before = used(driver)
    driver.advance(RESERVATION_UNUSED_S)
    assert used(driver) < before
    driver.advance(RESERVATION_UNUSED_S)
    assert used(driver) < before


def test_no_plain_message_is_sent_to_the_queue_of_an_upload_before_its_first_part(
    sender: Sender,
) -> None:
    sender.begin()
    with pytest.raises(errors.LargeMessageMixing, match="a large message is being sent"):
        sender.caller.send(sender.queue, Message(body=b"plain"))


def test_an_idle_upload_is_not_an_idle_transaction(driver: ManagerDriver, sender: Sender) -> None:
    half_way(sender)
    driver.advance(7200)
    sender.finish(3)
    assert take(sender.caller, sender.queue).sequence == sender.number


def test_the_newest_connection_has_the_upload(driver: ManagerDriver, sender: Sender) -> None:
    half_way(sender)
    before = sender.caller
    sender.resume(driver.session())
    with pytest.raises(errors.TransactionAborted):
        before.commit(sender.number, 1)
    refused = before.answers(before.ask(large_frames.UploadMark(sender.number, 2, 1, b"")))
    assert [type(each.head) for each in refused] == [frames.Failed]
    sender.finish(2)
    assert take(sender.caller, sender.queue).sequence == sender.number


def test_a_mark_that_does_not_fit_dooms_it_until_it_is_resumed(
    driver: ManagerDriver, sender: Sender
) -> None:
    half_way(sender)
    (refused,) = sender.mark(7)
    assert refused.head.error == "protocol-error"
    assert sender.mark(3) == []
    assert sender.resume(driver.session()).parts == 2
    sender.finish(2)
    assert take(sender.caller, sender.queue).sequence == sender.number


def used(driver: ManagerDriver) -> int:
    """Bytes that count against the quota of the computer, reserved ones too."""
    ledger = look_into(driver.manager).ledger
    return ledger.stored[Account.COMPUTER] + ledger.staged[Account.COMPUTER]


def test_the_room_is_reserved_and_reserved_again_when_the_upload_goes_on(tmp_path) -> None:
    driver = ManagerDriver(tmp_path / "data", quota=20_000)
    caller = driver.session()
    sender = Sender(caller, caller.create("heavy"))
    sender.begin(reserve=9_000)
    sender.send(Part.HEADER)
    sender.send(Part.FRAGMENT, 1)
    sender.mark(2)
    with pytest.raises(errors.QuotaExceeded) as caught:
        driver.session().call(large_frames.UploadBegin(sender.queue, 5_000_000, 12_000, b""))
    assert caught.value.used == 9_000
    driver.crash()
    placed = used(driver)
    assert placed < 1_000
    for _ in range(2):
        sender.resume(driver.session())
        assert used(driver) == 9_000
    driver.advance(RESERVATION_UNUSED_S * 0.9)
    assert used(driver) == 9_000
    sender.finish(2)
    assert used(driver) < 1_000


@pytest.mark.parametrize("how", ["hangs up", "is silent"])
def test_room_that_nobody_uses_is_given_back_after_a_minute(tmp_path, how: str) -> None:
    """One reservation and a hang-up took all room from everybody, for a week."""
    driver = ManagerDriver(tmp_path / "data", quota=10_000)
    caller, honest = driver.session(), driver.session()
    sender = Sender(caller, caller.create("heavy"))
    light = honest.create("light")
    sender.begin(reserve=9_900)
    if how == "hangs up":
        driver.turn(SessionClosed(caller.number))
    with pytest.raises(errors.QuotaExceeded):
        honest.send(light, Message(body=bytes(1_000)))
    assert driver.manager.deadline() == driver.now + RESERVATION_UNUSED_S
    driver.advance(RESERVATION_UNUSED_S)
    assert used(driver) == 0
    honest.send(light, Message(body=bytes(1_000)))


def test_room_that_is_used_stays_reserved(tmp_path) -> None:
    driver = ManagerDriver(tmp_path / "data", quota=10_000)
    caller = driver.session()
    sender = Sender(caller, caller.create("heavy"))
    sender.begin(reserve=9_000)
    for number in range(3):
        driver.advance(RESERVATION_UNUSED_S * 0.9)
        sender.send(Part.FRAGMENT, number + 1) if number else sender.send(Part.HEADER)
    assert used(driver) == 9_000


def test_an_upload_whose_room_was_taken_meanwhile_is_told_at_the_part_that_does_not_fit(
    tmp_path,
) -> None:
    driver = ManagerDriver(tmp_path / "data", quota=10_000)
    caller, honest = driver.session(), driver.session()
    sender = Sender(caller, caller.create("heavy"))
    sender.begin(reserve=9_000)
    driver.advance(RESERVATION_UNUSED_S)
    honest.send(honest.create("light"), Message(body=bytes(9_880)))
    for _ in range(2):
        with pytest.raises(AssertionError, match="quota-exceeded"):
            # A part is answered only if it is refused.
            sender.send(Part.HEADER)
        sender.resume(driver.session())
        assert used(driver) < 10_000, "nothing is set aside beyond the quota"


def test_a_caller_sets_aside_half_of_what_is_free_however_many_uploads_it_begins(tmp_path) -> None:
    driver = ManagerDriver(tmp_path / "data", quota=100_000, access=Access(is_open=True))
    owner = driver.session()
    queue = owner.create("heavy")
    stranger = driver.session(callers.Caller("user:mallory", address="process 7"))
    for _ in range(5):
        Sender(stranger, queue).begin(reserve=40_000)
        stranger = driver.session(callers.Caller("user:mallory", address="process 8"))
    assert used(driver) == 50_000
    owner.send(owner.create("light"), Message(body=bytes(40_000)))


def test_their_number_is_bounded(driver: ManagerDriver, sender: Sender) -> None:
    for _ in range(UPLOADS_MAX):
        sender.begin()
    with pytest.raises(errors.Misuse, match="unfinished"):
        sender.begin()
    listed = sender.caller.call(large_frames.ListUploads(sender.queue))
    assert len(listed.uploads) == UPLOADS_MAX
    sender.caller.call(large_frames.UploadDrop(listed.uploads[0].sequence_id))
    sender.begin()


def test_an_upload_is_committed_in_one_phase(sender: Sender) -> None:
    half_way(sender)
    with pytest.raises(errors.TransactionUsage):
        sender.caller.call(message_frames.Prepare(sender.number, sender.sends))


def test_a_number_is_begun_once(sender: Sender) -> None:
    half_way(sender)
    with pytest.raises(errors.TransactionSequence):
        sender.caller.call(large_frames.UploadBegin(sender.queue, sender.number, 0, b""))


@pytest.mark.parametrize(
    "head",
    [
        large_frames.UploadBegin(0, 77, -1, b""),
        large_frames.UploadBegin(0, 77, 0, bytes(10_000)),
    ],
)
def test_nonsense_is_refused(sender: Sender, head: large_frames.UploadBegin) -> None:
    wrong = large_frames.UploadBegin(sender.queue, head.number, head.reserve, head.source)
    with pytest.raises(errors.InvalidArgument):
        sender.caller.call(wrong)


def test_a_mark_in_what_is_no_upload_is_refused(driver: ManagerDriver, sender: Sender) -> None:
    caller = sender.caller
    transaction = caller.number_for()
    caller.send(sender.queue, Message(body=b"x"), transaction=transaction)
    with pytest.raises(errors.InvalidArgument):
        caller.call(large_frames.UploadMark(transaction, 1, 0, b""))


def test_a_restored_store_knows_nothing_of_uploads(driver: ManagerDriver, sender: Sender) -> None:
    from dray.manager.facts import Restored

    half_way(sender)
    look_into(driver.manager).record(Restored(0, int(driver.now * 1e6)))
    driver.store.sync()
    driver.crash()
    assert driver.store.live_bytes == 0
    assert sender.resume(driver.session()).status == "unknown"


def test_the_id_of_another_manager_with_the_same_number_drops_nothing(sender: Sender) -> None:
    half_way(sender)
    _, number = sender.name.split("\\")
    for other in ("b" * 32 + "\\" + number, sender.name + "1"):
        with pytest.raises(errors.MessageNotFound):
            sender.caller.call(large_frames.UploadDrop(other))
    sender.finish(3)
    assert take(sender.caller, sender.queue).sequence == sender.number


@pytest.mark.parametrize("how", ["crash", "session", "none"])
def test_what_is_unfinished_goes_with_its_queue(
    driver: ManagerDriver, sender: Sender, how: str
) -> None:
    half_way(sender)
    other = end_in(driver, sender, how)
    other.call(queue_frames.DeleteQueue("heavy"))
    assert driver.store.live_bytes == 0
    state = sender.resume(other)
    assert state.status == "aborted"
    driver.crash()
    assert sender.resume(driver.session()).status == "aborted"
    assert driver.store.live_bytes == 0


def test_a_marked_record_is_given_back_to_its_sender_alone(
    driver: ManagerDriver, sender: Sender
) -> None:
    half_way(sender)
    for part in (0, 1):
        head, record = sender.caller.call_whole(large_frames.UploadRead(sender.number, part))
        assert isinstance(head, large_frames.UploadPart)
        assert crc32c(record) == head.crc
        assert record[-1] == part
    for wrong in (-1, 2, 99):
        with pytest.raises(errors.Misuse, match="the place of a marked record"):
            sender.caller.call(large_frames.UploadRead(sender.number, wrong))
    other = driver.session()
    with pytest.raises(errors.Misuse, match="an upload on this connection"):
        other.call(large_frames.UploadRead(sender.number, 0))
    sender.resume(other)
    head, record = other.call_whole(large_frames.UploadRead(sender.number, 1))
    assert record[-1] == 1


def test_a_message_that_an_upload_sends_elsewhere_is_not_kept_without_its_connection(
    driver: ManagerDriver, sender: Sender
) -> None:
    caller = sender.caller
    other = caller.create("light")
    sender.begin()
    sender.send(Part.HEADER)
    sender.send(Part.FRAGMENT, 1)
    assert sender.mark(2) == []
    before = driver.store.live_bytes
    caller.send(other, Message(body=b"x"), transaction=sender.number)
    assert driver.store.live_bytes > before
    driver.turn(SessionClosed(caller.number))
    assert driver.store.live_bytes == before
    assert sender.resume(driver.session()).parts == 2


def test_the_source_of_an_upload_is_kept_up_to_its_last_byte_and_not_beyond(caller: Caller) -> None:
    queue = caller.create("files")
    for size in (UPLOAD_SOURCE_BYTES_MAX, UPLOAD_SOURCE_BYTES_MAX + 1):
        begin = large_frames.UploadBegin(queue, caller.number_for(), 0, bytes(size))
        if size == UPLOAD_SOURCE_BYTES_MAX:
            caller.call(begin)
            continue
        with pytest.raises(errors.InvalidArgument, match="source"):
            caller.call(begin)


@pytest.mark.parametrize("how", ["crash", "session", "takeover"])
@pytest.mark.parametrize("short", [0, 1])
def test_each_part_of_an_upload_counts_once_for_the_log_however_often_it_was_gone_on_with(
    driver: ManagerDriver,
    sender: Sender,
    monkeypatch: pytest.MonkeyPatch,
    *,
    how: str,
    short: int,
) -> None:
    """What is not counted would be committed in a fact that the log cannot hold."""
    most = (1 + 3 + 1) * TAIL_BYTES - short
    monkeypatch.setattr(RoomLeft, "fact_bytes_max", property(lambda _: most))
    half_way(sender)
    for _ in range(2):
        sender.resume(end_in(driver, sender, how))
        sender.send(Part.FRAGMENT, 2)
    sender.resume(end_in(driver, sender, how))
    if short:
        with pytest.raises(AssertionError, match="transaction-aborted"):
            sender.finish(2)
    else:
        sender.finish(2)


@pytest.mark.parametrize("rejected", [False, True])
def test_what_an_upload_had_received_is_not_its_own_any_more_when_it_goes_on(
    driver: ManagerDriver, sender: Sender, *, rejected: bool
) -> None:
    half_way(sender)
    caller = sender.caller
    orders = caller.create("orders")
    caller.send(orders, Message(body=b"a", use_dead_letter_queue=True))
    (envelope,), _ = caller.receive(orders, transaction=sender.number)
    if rejected:
        caller.call(message_frames.Reject(orders, envelope.lookup_id, sender.number))
    other = end_in(driver, sender, "session")
    assert other.what_is_in(orders, peek=True)[1] == [b"a"]
    sender.resume(other)
    if rejected:
        assert other.receive(orders, transaction=sender.number)[1] == [b"a"]
    sender.finish(2)
    assert other.what_is_in("system$;deadxact")[1] == []
    assert other.what_is_in(orders)[1] == ([] if rejected else [b"a"])


@pytest.mark.parametrize("how", ["hangs up", "resumes"])
def test_room_of_parts_that_were_not_marked_is_free_when_their_sender_is_gone(
    driver: ManagerDriver, sender: Sender, how: str
) -> None:
    half_way(sender)
    ledger = look_into(driver.manager).ledger
    sender.send(Part.FRAGMENT, 3)
    more = dict(ledger.staged)
    if how == "hangs up":
        driver.turn(SessionClosed(sender.caller.number))
    else:
        sender.resume(driver.session())
    upload = look_into(driver.manager).transactions[sender.number]
    left = sum(each.extent.length for sends in upload.sends.values() for each in sends)
    assert ledger.staged[Account.COMPUTER] == left < more[Account.COMPUTER]


def test_an_open_transaction_that_is_no_upload_cannot_be_resumed_as_one(caller: Caller) -> None:
    queue, number = caller.create("orders"), caller.number_for()
    caller.send(queue, Message(body=b"x"), transaction=number)
    resume = large_frames.UploadResume(f"{caller.driver.manager_id}\\{number}")
    state = caller.call(resume)
    assert isinstance(state, large_frames.UploadState)
    caller.commit(number, 1)
    assert caller.receive(queue)[1] == [b"x"]


def test_the_same_mark_may_come_twice(driver: ManagerDriver, sender: Sender) -> None:
    sender.begin()
    sender.send(Part.HEADER)
    sender.send(Part.FRAGMENT, 1)
    assert sender.mark(2) == []
    assert sender.mark(2) == []
    assert sender.mark(1), "of fewer parts than were sent"


def test_uploads_are_listed_by_queue_and_of_all_queues(sender: Sender, caller: Caller) -> None:
    sender.begin()
    listed = {
        queue: [each.queue for each in caller.call(large_frames.ListUploads(queue)).uploads]
        for queue in (0, sender.queue, caller.create("others"))
    }
    assert list(listed.values()) == [["heavy"], ["heavy"], []]
