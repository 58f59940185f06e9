"""Rights at the manager: each frame of a caller is decided only with the right for it."""

from __future__ import annotations

import crc32c
import msgspec
import pytest

from dray.errors import (
    AccessDenied,
    DrayError,
    MessageNotFound,
    QueueNotFound,
    StatusQueueMissing,
    TransactionSequence,
)
from dray.manager.rights import table
from dray.model.access import Access, AccessRule, Verb
from dray.model.callers import NOBODY, Caller
from dray.model.classes import Acknowledge, Part
from dray.model.ids import ManagerId, join_id
from dray.model.limits import NUMBERS_LEASED
from dray.model.message import Message
from dray.model.names import STATUS_QUEUE
from dray.model.queue import QueueOptions
from dray.wire import (
    backup_frames,
    batch_frames,
    file_frames,
    frames,
    large_frames,
    message_frames,
    queue_frames,
    range_frames,
    transfer_frames,
)
from dray.wire.head import Head
from dray.wire.peer_frames import Passed
from dray.wire.record import PartMark, encode_record
from tests.inspection import look_into
from tests.unit.manager.conftest import ManagerDriver

FAR = "dray://elsewhere:7340/orders"
ADA, BOB = Caller("user:ada"), Caller("token:bob", address="10.0.0.2:4000")


def allowing(who: str, may: str, queues: str = "*", hosts: str = "") -> AccessRule:
    verbs = tuple(map(Verb, may.split()))
    return AccessRule((who,), verbs, tuple(queues.split()), tuple(hosts.split()))


def driver_with(tmp_path, *rules: AccessRule) -> ManagerDriver:
    driver = ManagerDriver(tmp_path / "data", access=Access(rules))
    owner = driver.session()
    for name in ("orders", "secrets", "statusq"):
        owner.create(name)
    owner.send(owner.open("secrets"), Message(body=b"hush"))
    return driver


def refused(caller, head: Head, body: bytes = b"") -> DrayError:
    with pytest.raises(DrayError) as caught:
        caller.call(head, body)
    return caught.value


def test_each_frame_has_a_row(tmp_path):
    subjects = look_into(ManagerDriver(tmp_path / "data").manager).subjects
    with_body = {kind for role, kind in subjects.with_body if role == "client"}
    assert table.RIGHTS_OF_CLIENTS.keys() == subjects.for_clients.keys() | with_body


def test_a_row_without_a_frame_does_not_start(tmp_path, monkeypatch):
    monkeypatch.setitem(table.RIGHTS_OF_CLIENTS, Passed, table.RIGHTS_OF_CLIENTS)
    with pytest.raises(AssertionError, match=r"client without a row or a handler.*Passed"):
        ManagerDriver(tmp_path / "data")


def test_a_frame_without_a_row_does_not_start(tmp_path, monkeypatch):
    monkeypatch.delitem(table.RIGHTS_OF_CLIENTS, queue_frames.PurgeQueue)
    with pytest.raises(AssertionError, match=r"client without a row.*PurgeQueue"):
        ManagerDriver(tmp_path / "data")


def test_a_caller_without_any_right_is_refused_at_its_hello(tmp_path):
    driver = driver_with(tmp_path, allowing("user:ada", "send"))
    with pytest.raises(AccessDenied, match="token:bob may not do anything here"):
        driver.session(BOB)
    with pytest.raises(AccessDenied, match="has not named itself"):
        driver.session(Caller(NOBODY))


def test_a_caller_with_a_right_at_one_queue_has_nothing_at_another(tmp_path):
    driver = driver_with(tmp_path, allowing("user:ada", "send", "orders"))
    owner, ada = driver.session(), driver.session(ADA)
    secrets, orders = owner.open("secrets"), ada.open("orders")
    ada.send(orders, Message(body=b"1"))
    at = owner.receive(secrets, peek=True)[0][0].lookup_id
    for head in (
        queue_frames.OpenQueue("secrets"),
        queue_frames.DescribeQueue("secrets"),
        queue_frames.DeleteQueue("secrets"),
        queue_frames.SetQuota("secrets", 5, 5),
        queue_frames.PauseQueue("secrets", paused=True),
        queue_frames.PurgeQueue(secrets),
        message_frames.Receive(secrets, 0, 0.0),
        message_frames.Receive(secrets, 0, 0.0, peek=True),
        message_frames.Receive(secrets, ada.number_for(), 0.0, claim=True),
        message_frames.ReceiveTransaction(secrets, ada.number_for(), 0.0),
        large_frames.LargeReceive(secrets, 0, 0.0),
        large_frames.LargeReceive(secrets, 0, 0.0, peek=True),
        large_frames.LargeList(secrets, 0, 10),
        large_frames.LargeMove(secrets, at, orders, 0),
        large_frames.PartDamaged(secrets, at),
        large_frames.ReadPart(secrets, at, 0, 10),
        file_frames.CopyPart(secrets, at, 0, 10, 0),
        range_frames.MeasureRange(secrets, 0),
        range_frames.ReadRange(secrets, 0, 0, 10, 0),
        message_frames.Settle(secrets, at, 0),
        message_frames.Reject(secrets, at, ada.number_for()),
        message_frames.Move(secrets, at, orders, 0),
        message_frames.MoveMessages(secrets, [at], orders, ada.number_for()),
        message_frames.Reserve(secrets, ada.number_for(), 10),
        large_frames.UploadBegin(secrets, ada.number_for(), 10, b""),
        large_frames.ListUploads(secrets),
        transfer_frames.AttachBox("box", "secrets"),
        message_frames.Send(secrets, 0, [], []),
        file_frames.SendFile(secrets, ada.number_for(), 1, 0, 0),
    ):
        assert isinstance(refused(ada, head), QueueNotFound), head
    assert owner.receive(secrets)[1] == [b"hush"]


def test_a_queue_that_one_may_not_see_is_in_no_list(tmp_path):
    ada = driver_with(tmp_path, allowing("user:ada", "send", "orders")).session(ADA)
    listed = ada.call(queue_frames.ListQueues())
    assert isinstance(listed, queue_frames.QueueList)
    assert [each.name for each in listed.queues] == ["orders"]


def test_a_sender_may_not_take_look_or_manage_what_it_sees(tmp_path):
    ada = driver_with(tmp_path, allowing("user:ada", "send", "orders")).session(ADA)
    orders = ada.open("orders")
    for head, act in (
        (message_frames.Receive(orders, 0, 0.0), "receive"),
        (message_frames.Receive(orders, 0, 0.0, peek=True), "peek"),
        (queue_frames.PurgeQueue(orders), "manage"),
        (queue_frames.DeleteQueue("orders"), "manage"),
        (queue_frames.SetQuota("orders", 5, 5), "manage"),
    ):
        error = refused(ada, head)
        assert isinstance(error, AccessDenied)
        assert f"user:ada may not {act} at the queue 'orders'" in str(error)


def test_acts_at_the_whole_manager_need_a_rule_for_all_queues(tmp_path):
    rules = (allowing("user:ada", "manage keep", "o*"), allowing("token:bob", "manage keep", "*"))
    driver = driver_with(tmp_path, *rules)
    ada, bob = driver.session(ADA), driver.session(BOB)
    for head in (
        backup_frames.Backup(),
        queue_frames.SetQuota("", 5, 5),
        queue_frames.ListPeers(),
        queue_frames.AcceptPeer("a:1", "b" * 32),
        queue_frames.ForgetPeer("a:1"),
        queue_frames.CreateQueue("secret", QueueOptions()),
    ):
        assert isinstance(refused(ada, head), AccessDenied), head
    bob.call(queue_frames.ListPeers())
    bob.call(queue_frames.SetQuota("", 5, 5))
    ada.create("other-orders")


def test_a_client_needs_forward_to_make_the_manager_dial_a_host(tmp_path):
    """Neither by a name, nor by an acknowledgment, nor by a box of a transfer."""
    rules = (allowing("user:ada", "send", "orders"), allowing("user:ada", "forward", "", "depot:1"))
    driver = driver_with(tmp_path, *rules)
    ada = driver.session(ADA)
    asks = Message(
        body=b"", administration_queue="dray://evil:1/x", acknowledge=Acknowledge.POSITIVE_ARRIVAL
    )
    with pytest.raises(AccessDenied, match="forward to evil:1"):
        ada.send(ada.open("orders"), asks)
    for head in (
        queue_frames.OpenQueue("dray://evil:1/x"),
        queue_frames.OpenQueue("dray://evil:1/x", for_status=True),
        transfer_frames.AttachBox("box", "dray://evil:1/x"),
        transfer_frames.Post("box", b"", "dray://evil:1/x"),
    ):
        assert isinstance(refused(ada, head), AccessDenied), head
    names = [each.name for each in driver.session().call(queue_frames.ListQueues()).queues]
    assert not [name for name in names if "evil" in name]
    ada.send(ada.open("dray://depot:1/x"), Message(body=b"1"))


def test_an_outgoing_queue_that_is_there_is_opened_with_see_or_forward_and_else_not(tmp_path):
    rules = (allowing("user:ada", "send", "orders"), allowing("token:bob", "see", "*elsewhere*"))
    driver = driver_with(tmp_path, *rules)
    number = driver.session().open(FAR)
    assert isinstance(refused(driver.session(ADA), queue_frames.OpenQueue(FAR)), AccessDenied)
    assert driver.session(BOB).open(FAR) == number


def test_the_status_queue_of_all_is_hidden_from_a_receiver_that_opens_it_as_any_other(tmp_path):
    ada = driver_with(tmp_path, allowing("user:ada", "receive", "orders")).session(ADA)
    assert isinstance(refused(ada, queue_frames.OpenQueue(STATUS_QUEUE)), QueueNotFound)
    ada.call(queue_frames.OpenQueue(STATUS_QUEUE, for_status=True))


def test_the_numbers_of_a_stream_are_told_only_with_manage(tmp_path):
    """By them the five messages of the first attack were passed over."""
    remote = "dray://depot:7340/x"
    rules = (
        allowing("*", "forward", "", "depot:7340"),
        allowing("token:bob", "manage", "*depot*"),
    )
    driver = driver_with(tmp_path, *rules)
    ada, bob = driver.session(ADA), driver.session(BOB)
    ada.send(ada.open(remote), Message(body=b"1"))
    (queue,) = look_into(driver.manager).state.queues.outgoing()
    queue.stream.refusals.stream_refused("queue-not-found", "there is none", driver.now)

    def told(caller):
        listed = caller.call(queue_frames.ListQueues()).queues
        found = [each.delivery for each in listed if each.delivery is not None]
        found.append(caller.call(queue_frames.DescribeQueue(remote)).info.delivery)
        return [(each.sequence_id, each.next_number, each.last_ack) for each in found]

    assert told(ada) == [(0, 0, 0)] * 2
    assert all(sequence and number for sequence, number, _ in told(bob))


def test_an_acknowledgment_goes_only_where_its_asker_may_send(tmp_path):
    ada = driver_with(tmp_path, allowing("user:ada", "send", "orders")).session(ADA)
    asks = Message(
        body=b"", administration_queue="secrets", acknowledge=Acknowledge.POSITIVE_ARRIVAL
    )
    with pytest.raises(QueueNotFound):
        ada.send(ada.open("orders"), asks)


def test_journals_and_dead_letters_are_read_with_keep(tmp_path):
    rules = (allowing("user:ada", "receive"), allowing("token:bob", "keep"))
    driver = driver_with(tmp_path, *rules)
    driver.session().open("orders;journal")
    ada, bob = driver.session(ADA), driver.session(BOB)
    for name in ("system$;deadletter", "orders;journal"):
        peek = message_frames.Receive(bob.open(name), 0, 0.0, peek=True)
        assert isinstance(refused(ada, peek), AccessDenied)
        assert refused(bob, peek).code == "receive-timeout"


def test_no_number_tells_that_there_is_a_hidden_queue(tmp_path):
    """Whatever else a frame has: a number of a hidden queue is refused as one that nobody has."""
    driver = driver_with(tmp_path, allowing("user:ada", "send receive peek", "orders"))
    ada, hidden = driver.session(ADA), driver.session().open("secrets")
    for head in (
        large_frames.ListUploads(hidden),
        message_frames.Reserve(hidden, 0, 10),
        large_frames.UploadBegin(hidden, 0, 10, b""),
        message_frames.MoveMessages(hidden, [1], ada.open("orders"), 0),
        message_frames.Send(hidden, 1, [], []),
    ):
        told = [refused(ada, msgspec.structs.replace(head, queue=each)) for each in (hidden, 999)]
        assert [(type(each), str(each)) for each in told] == [(QueueNotFound, str(told[0]))] * 2


def test_the_status_queue_serves_whoever_may_receive_and_shows_nothing(tmp_path):
    rules = (allowing("user:ada", "receive", "orders"), allowing("token:bob", "send", "orders"))
    driver = driver_with(tmp_path, *rules)
    ada, bob = driver.session(ADA), driver.session(BOB)
    opened = ada.call(queue_frames.OpenQueue("statusq", for_status=True))
    assert isinstance(opened, queue_frames.Opened)
    ask = large_frames.LargeReceive(
        ada.open("orders"), 0, 0.0, status_queue=opened.number, peek=True
    )
    assert refused(ada, ask).code == "receive-timeout"
    assert isinstance(refused(ada, message_frames.Receive(opened.number, 0, 0.0)), QueueNotFound)
    secret = msgspec.structs.replace(ask, status_queue=driver.session().open("secrets"))
    gone = msgspec.structs.replace(ask, status_queue=999)
    told = [refused(ada, each) for each in (secret, gone)]
    assert [type(each) for each in told] == [StatusQueueMissing] * 2
    assert str(told[0]) == str(told[1])
    assert isinstance(
        refused(bob, queue_frames.OpenQueue("statusq", for_status=True)), AccessDenied
    )


def test_numbers_belong_to_the_caller_that_leased_them(tmp_path):
    driver = driver_with(tmp_path, allowing("*", "send receive", "orders"))
    ada, bob = driver.session(ADA), driver.session(BOB)
    queue = bob.open("orders")
    theirs = ada.number_for()
    bob.next_number, kept = theirs, bob.next_number
    with pytest.raises(TransactionSequence, match="not leased to this caller"):
        bob.send(queue, Message(body=b"forged"))
    asked = message_frames.Outcome(str(join_id(ManagerId(driver.manager_id), theirs)))
    for head in (
        message_frames.Commit(theirs, 0),
        message_frames.Abort(theirs),
        message_frames.Prepare(theirs, 0),
        batch_frames.StageForBatch(theirs, 0, "q", 1),
        large_frames.UploadBegin(queue, theirs, 10, b""),
        message_frames.Reserve(queue, theirs, 10),
        message_frames.Receive(queue, theirs, 0.0, claim=True),
        large_frames.UploadMark(theirs, 1, 1, b""),
        large_frames.UploadRead(theirs, 0),
        large_frames.UploadResume(asked.transaction_id),
        large_frames.UploadDrop(asked.transaction_id),
        asked,
    ):
        assert isinstance(refused(bob, head), TransactionSequence), head
    bob.next_number = theirs
    with pytest.raises(TransactionSequence, match="not leased to this caller"):
        bob.send(queue, Message())
    bob.next_number = kept
    bob.send(queue, Message(body=b"own"))
    ada.call(asked)


def test_the_number_of_another_caller_is_no_secret_to_who_manages_all_and_elsewhere_is_none(
    tmp_path,
):
    driver = driver_with(
        tmp_path, allowing("user:ada", "send", "orders"), allowing(BOB.name, "manage")
    )
    ada, bob = driver.session(ADA), driver.session(BOB)
    here = f"{driver.manager_id}\\{bob.number_for()}"
    assert isinstance(refused(ada, message_frames.Outcome(here)), TransactionSequence)
    elsewhere = f"{'f' * 32}\\{bob.number_for()}"
    assert ada.call(message_frames.Outcome(elsewhere)).status == "unknown"
    of_adas = f"{driver.manager_id}\\{ada.number_for()}"
    assert bob.call(message_frames.Outcome(of_adas)).status == "aborted"


def test_a_batch_that_goes_on_in_the_lease_of_another_caller_is_refused(tmp_path):
    driver = driver_with(tmp_path, allowing("*", "send receive", "orders"))
    bob, ada = driver.session(BOB), driver.session(ADA)
    queue = bob.open("orders")
    last_of_bobs = (ada.number_for() - 1) // NUMBERS_LEASED * NUMBERS_LEASED
    bob.next_number = last_of_bobs - 2
    bob.send(queue, Message(body=b"own"), Message(body=b"the last"))
    bob.next_number = last_of_bobs - 1
    with pytest.raises(TransactionSequence, match="not leased to this caller"):
        bob.send(queue, Message(body=b"own"), Message(body=b"forged"))


@pytest.mark.parametrize("longer", [0, 3])
def test_a_number_of_another_caller_is_found_anywhere_in_a_batch(tmp_path, longer):
    """Whether its records are equally long or not."""
    driver = driver_with(tmp_path, allowing("*", "send receive", "orders"))
    ada, bob = driver.session(ADA), driver.session(BOB)
    queue, own = bob.open("orders"), bob.number_for()
    taken = (own, own + 3)
    for numbers in (
        (own, ada.number_for(), own + 1),
        (ada.number_for(), own),
        (own, 1 << 40),
        taken,
    ):
        source = bytes.fromhex(driver.manager_id)
        records = [
            b"".join(encode_record(Message(body=bytes(1 + at * longer)), source, each))
            for at, each in enumerate(numbers)
        ]
        said = message_frames.Send(
            queue, 0, list(map(len, records)), list(map(crc32c.crc32c, records))
        )
        if numbers == taken:
            bob.call(said, b"".join(records))
        else:
            assert isinstance(refused(bob, said, b"".join(records)), TransactionSequence), numbers


def test_nobody_uses_numbers_that_the_next_caller_will_lease(tmp_path):
    """Else it is told that the transaction of another program was its own, and has committed."""
    driver = driver_with(tmp_path, allowing("*", "send receive", "orders"))
    bob = driver.session(BOB)
    queue = bob.open("orders")
    coming = look_into(driver.manager).state.next_number + 1
    bob.next_number, kept = coming, bob.next_number
    with pytest.raises(TransactionSequence, match="not leased to this caller"):
        bob.send(queue, Message(body=b"forged"))
    assert isinstance(
        refused(bob, large_frames.UploadBegin(queue, coming, 10, b"")), TransactionSequence
    )
    bob.next_number = kept
    ada = driver.session(ADA)
    assert ada.number_for() == coming
    asked = message_frames.Outcome(str(join_id(ManagerId(driver.manager_id), coming)))
    assert ada.call(asked).status == "aborted"


def test_nobody_uses_numbers_of_the_managers_own_messages(tmp_path):
    driver = driver_with(tmp_path, allowing("*", "send receive", "orders"))
    bob = driver.session(BOB)
    queue = bob.open("orders")
    bob.next_number = look_into(driver.manager).number_of_own_message()
    with pytest.raises(TransactionSequence, match="not leased to this caller"):
        bob.send(queue, Message(body=b"forged"))


def test_a_caller_that_takes_leases_without_end_frees_no_number_of_another(tmp_path, monkeypatch):
    monkeypatch.setattr("dray.model.leases.LEASES_KNOWN_MAX", 5)
    monkeypatch.setattr("dray.manager.transactions.aborted_transactions.TRANSACTIONS_REMEMBERED", 6)
    driver = driver_with(tmp_path, allowing("*", "send receive", "orders"))
    ada, bob = driver.session(ADA), driver.session(BOB)
    queue, manager = ada.open("orders"), ManagerId(driver.manager_id)
    numbers = [ada.number_for() for _ in range(4)]
    for _ in range(40):
        first = bob.call(frames.Lease()).first_number
        assert bob.call(message_frames.Outcome(str(join_id(manager, first)))).status == "aborted"
    for number in numbers[:2]:
        assert isinstance(refused(bob, message_frames.Commit(number, 0)), TransactionSequence)
        ada.send(queue, Message(body=b"1"), transaction=number)
        ada.call(message_frames.Commit(number, 1))


def test_prepared_transactions_belong_to_their_caller_also_after_a_crash(tmp_path):
    driver = driver_with(tmp_path, allowing("*", "send", "orders"))
    ada = driver.session(ADA)
    transaction = ada.number_for()
    ada.send(ada.open("orders"), Message(body=b"1"), transaction=transaction)
    ada.call(message_frames.Prepare(transaction, 1))
    settle = message_frames.SettlePrepared(
        str(join_id(ManagerId(driver.manager_id), transaction)), commit=False
    )
    driver.crash()
    bob, ada = driver.session(BOB), driver.session(ADA)
    assert bob.call(message_frames.ListPrepared()).transaction_ids == []
    assert isinstance(refused(bob, settle), TransactionSequence)
    assert ada.call(message_frames.ListPrepared()).transaction_ids == [settle.transaction_id]
    ada.call(settle)


def test_uploads_belong_to_their_caller_also_after_a_crash(tmp_path):
    driver = driver_with(tmp_path, allowing("*", "send", "orders"))
    ada = driver.session(ADA)
    begun = ada.call(large_frames.UploadBegin(ada.open("orders"), ada.number_for(), 1000, b"from"))
    driver.crash()
    bob, ada = driver.session(BOB), driver.session(ADA)
    queue = bob.open("orders")
    assert bob.call(large_frames.ListUploads(queue)).uploads == []
    for head in (
        large_frames.UploadResume(begun.sequence_id),
        large_frames.UploadDrop(begun.sequence_id),
    ):
        assert isinstance(refused(bob, head), MessageNotFound)
    assert len(ada.call(large_frames.ListUploads(queue)).uploads) == 1
    assert ada.call(large_frames.UploadResume(begun.sequence_id)).status == "open"


def test_nobody_begins_anything_under_a_number_of_an_earlier_start(tmp_path):
    """Else another caller commits under it, and its holder is told that its own commit happened."""
    driver = driver_with(tmp_path, allowing("*", "send receive", "orders"))
    ada = driver.session(ADA)
    queue, lost, done = ada.open("orders"), ada.number_for(), ada.number_for()
    ada.send(queue, Message(body=b"1"), transaction=done)
    ada.call(message_frames.Commit(done, 1))
    ada.send(queue, Message(body=b"lost"), transaction=lost)
    driver.crash()
    asked = [
        message_frames.Outcome(str(join_id(ManagerId(driver.manager_id), n))) for n in (lost, done)
    ]
    for who in (BOB, ADA):
        caller = driver.session(who)
        queue = caller.open("orders")
        for head in (
            message_frames.Commit(lost, 0),
            message_frames.Prepare(lost, 0),
            batch_frames.StageForBatch(lost, 0, "q", 1),
            batch_frames.CommitBatch("q", 1, b"d", lost, []),
            large_frames.UploadBegin(queue, lost, 10, b""),
            message_frames.Receive(queue, lost, 0.0, claim=True),
            message_frames.MoveMessages(queue, [1], queue, lost),
        ):
            assert isinstance(refused(caller, head), TransactionSequence), head
        _, said, body = caller._encoded(queue, [Message(body=b"1")], lost, marks=(), guarded=True)
        assert isinstance(refused(caller, said, body), TransactionSequence)
        caller.next_number = lost - 1
        with pytest.raises(TransactionSequence, match="not leased to this caller"):
            caller.send(queue, Message(body=b"forged"))
        assert [caller.call(each).status for each in asked] == ["aborted", "committed"]


def test_an_upload_goes_on_under_its_number_after_a_restart(tmp_path):
    driver = driver_with(tmp_path, allowing("*", "send", "orders"))
    ada, bob = driver.session(ADA), driver.session(BOB)
    number = ada.number_for()
    begun = ada.call(large_frames.UploadBegin(ada.open("orders"), number, 1000, b"from"))
    prepared = bob.number_for()
    bob.call(message_frames.Prepare(prepared, 0))
    driver.crash()
    ada, bob = driver.session(ADA), driver.session(BOB)
    theirs = message_frames.Outcome(str(join_id(ManagerId(driver.manager_id), prepared)))
    assert isinstance(refused(ada, theirs), TransactionSequence)
    assert isinstance(refused(bob, message_frames.Outcome(begun.sequence_id)), TransactionSequence)
    assert bob.call(theirs).status == "prepared"
    queue = ada.open("orders")
    assert isinstance(refused(ada, message_frames.Commit(number, 1)), TransactionSequence)
    assert ada.call(large_frames.UploadResume(begun.sequence_id)).status == "open"
    ada.next_number, kept = number - 1, ada.next_number
    header = Message(app_specific=-9998)
    options = {"transaction": number, "guarded": False}
    ada.send(queue, header, marks=(PartMark(Part.HEADER),), **options)
    ada.next_number = kept
    trailer = Message(app_specific=-9999)
    ada.send(queue, trailer, marks=(PartMark(Part.TRAILER, number, 0),), **options)
    ada.call(message_frames.Commit(number, 2))
    assert ada.call(message_frames.Outcome(begun.sequence_id)).status == "committed"


def test_staged_rows_belong_to_the_caller_whose_tasks_staged_them(tmp_path):
    driver = driver_with(tmp_path, allowing("*", "send", "orders"))
    ada, bob = driver.session(ADA), driver.session(BOB)
    transaction = ada.number_for()
    ada.send(ada.open("orders"), Message(body=b"1"), transaction=transaction)
    ada.call(batch_frames.StageForBatch(transaction, 1, "query", 0))
    name = str(join_id(ManagerId(driver.manager_id), transaction))
    for forged in (
        batch_frames.DropStaged("query", 0, [name]),
        batch_frames.CommitBatch("query", 0, b"", bob.number_for(), []),
    ):
        assert isinstance(refused(bob, forged), AccessDenied)
    committed = ada.call(batch_frames.CommitBatch("query", 0, b"d", ada.number_for(), [name]))
    assert committed.messages == 1


def test_a_query_belongs_to_the_caller_of_its_first_batch_also_after_a_crash(tmp_path):
    """Else another caller commits a batch in its name, and its own rows never come."""
    driver = driver_with(
        tmp_path, allowing("*", "send", "orders"), allowing("token:bob", "send receive", "q")
    )
    ada, bob = driver.session(ADA), driver.session(BOB)
    ada.call(batch_frames.CommitBatch("query", 0, b"d", ada.number_for(), []))
    for _ in range(2):
        for forged in (
            batch_frames.CommitBatch("query", 1, b"e", bob.number_for(), []),
            batch_frames.StageForBatch(bob.number_for(), 0, "query", 1),
            batch_frames.DescribeBatch("query", 0),
            batch_frames.DropStaged("query", 1, []),
        ):
            error = refused(bob, forged)
            assert isinstance(error, AccessDenied), forged
            assert "choose another query_id" in str(error)
        assert ada.call(batch_frames.DescribeBatch("query", 0)).last == 0
        driver.crash()
        ada, bob = driver.session(ADA), driver.session(BOB)
    # The owner of the manager may, and the query stays its caller's.
    driver.session().call(
        batch_frames.CommitBatch("query", 1, b"e", driver.session().number_for(), [])
    )
    assert ada.call(batch_frames.CommitBatch("query", 2, b"f", ada.number_for(), [])).last == 2


def test_rows_that_another_caller_stages_for_a_query_hinder_no_commit(tmp_path):
    driver = driver_with(tmp_path, allowing("*", "send", "orders"))
    ada, bob = driver.session(ADA), driver.session(BOB)

    def stages(caller) -> str:
        transaction = caller.number_for()
        caller.send(caller.open("orders"), Message(body=b"1"), transaction=transaction)
        caller.call(batch_frames.StageForBatch(transaction, 1, "query", 0))
        return str(join_id(ManagerId(driver.manager_id), transaction))

    own, theirs = stages(ada), stages(bob)
    stolen = batch_frames.CommitBatch("query", 0, b"", ada.number_for(), [own, theirs])
    assert isinstance(refused(ada, stolen), AccessDenied)
    assert (
        ada.call(batch_frames.CommitBatch("query", 0, b"d", ada.number_for(), [own])).messages == 1
    )
    assert isinstance(refused(bob, batch_frames.DropStaged("query", 0, [theirs])), AccessDenied)
    assert len(look_into(driver.manager).state.prepared) == 1


def test_rows_that_another_caller_staged_for_its_own_query_are_nobody_elses_matter(tmp_path):
    driver = driver_with(tmp_path, allowing("*", "send", "orders"))
    for caller, query in ((driver.session(ADA), "of-ada"), (driver.session(BOB), "of-bob")):
        transaction = caller.number_for()
        caller.send(caller.open("orders"), Message(body=b"1"), transaction=transaction)
        caller.call(batch_frames.StageForBatch(transaction, 1, query, 0))
        name = str(join_id(ManagerId(driver.manager_id), transaction))
    commit = batch_frames.CommitBatch("of-bob", 0, b"d", caller.number_for(), [name])
    assert caller.call(commit).messages == 1


def test_nobody_learns_what_the_query_of_another_caller_is_called(tmp_path):
    driver = driver_with(tmp_path, allowing("*", "send", "orders"))
    ada, bob = driver.session(ADA), driver.session(BOB)
    staged = ada.number_for()
    ada.call(batch_frames.StageForBatch(staged, 0, "a-query-of-ada", 0))
    settle = message_frames.SettlePrepared(
        str(join_id(ManagerId(driver.manager_id), staged)), commit=True
    )
    assert "a-query-of-ada" in str(refused(ada, settle))
    told = refused(bob, settle)
    assert isinstance(told, TransactionSequence)
    assert "query" not in str(told)


def test_a_caller_finds_its_open_transactions_however_many_another_has(tmp_path, monkeypatch):
    monkeypatch.setattr("dray.manager.transactions.prepared.OPEN_TRANSACTIONS_TOLD_MAX", 3)
    driver = driver_with(tmp_path, allowing("*", "send", "orders"))
    ada, bob = driver.session(ADA), driver.session(BOB)
    for caller, many in ((bob, 5), (ada, 2)):
        queue = caller.open("orders")
        for _ in range(many):
            caller.send(queue, Message(body=b"1"), transaction=caller.number_for())
    found = {
        each: each.call(message_frames.ListPrepared()).open for each in (ada, bob, driver.session())
    }
    assert [len(each) for each in found.values()] == [2, 3, 3]
    assert {each.caller for each in found[ada]} == {ADA.name}


def test_a_box_belongs_to_its_caller(tmp_path):
    driver = driver_with(tmp_path, allowing("*", "send", "orders"))
    ada, again, bob = driver.session(ADA), driver.session(ADA), driver.session(BOB)
    box = transfer_frames.AttachBox("box", "orders")
    ada.call(box)
    assert isinstance(refused(bob, box), AccessDenied)
    again.call(box)


@pytest.mark.parametrize("rows", [table.RIGHTS_OF_CLIENTS, table.RIGHTS_OF_MANAGERS])
@pytest.mark.parametrize(
    "head",
    [transfer_frames.AttachBox("box", FAR), transfer_frames.Post("box", b"", FAR)],
    ids=["attach", "post"],
)
def test_a_box_on_the_way_to_another_host_needs_forward(tmp_path, rows, head):
    driver = driver_with(
        tmp_path, allowing("user:ada", "send"), allowing(BOB.name, "forward", hosts="*")
    )
    inside = look_into(driver.manager)
    ada, bob = (inside.sessions[driver.session(each).number] for each in (ADA, BOB))
    with pytest.raises(AccessDenied):
        rows[type(head)](inside.links.rights, ada, head)
    rows[type(head)](inside.links.rights, bob, head)


def test_a_box_is_attached_only_to_a_queue_that_its_caller_sees(tmp_path):
    """The refusal tells nobody that there is another queue."""
    ada = driver_with(tmp_path, allowing("user:ada", "send", "orders")).session(ADA)
    told = [refused(ada, transfer_frames.AttachBox("box", name)) for name in ("secrets", "no-such")]
    assert [type(each) for each in told] == [QueueNotFound] * 2
    assert str(told[0]).replace("secrets", "no-such") == str(told[1])
    for name in ("secrets", "no-such"):
        ada.call(transfer_frames.AttachBox("box", name, attached=False))


def test_a_caller_that_posts_to_ever_new_queues_is_remembered_for_the_last_ones_only(
    tmp_path, monkeypatch
):
    """It names as many as it likes, and pays for none of them."""
    monkeypatch.setattr("dray.manager.rights.table.QUEUES_MAX", 3)
    driver = driver_with(tmp_path, allowing("user:ada", "send"))
    ada = driver.session(ADA)
    names = [f"queue{number}" for number in range(3)]
    for name in names:
        ada.ask(transfer_frames.Post("box", b"", name))
    session = look_into(driver.manager).sessions[ada.number]
    assert session.posts_to == set(names)
    ada.ask(transfer_frames.Post("box", b"", "one too many"))
    assert session.posts_to == {"one too many"}


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("sizes", ["alike", "different"])
def test_each_message_of_a_batch_asks_for_acknowledgments_only_where_its_sender_may_send(
    tmp_path, at, sizes
):
    driver = driver_with(tmp_path, allowing("user:ada", "send see", "orders"))
    ada = driver.session(ADA)
    queue = ada.open("orders")
    batch = [
        Message(body=bytes(10 + (number if sizes == "different" else 0))) for number in range(3)
    ]
    ada.send(queue, *batch)
    batch[at] = Message(administration_queue="secrets", acknowledge=Acknowledge.FULL_RECEIVE)
    with pytest.raises((AccessDenied, QueueNotFound), match="secrets"):
        ada.send(queue, *batch)
    assert driver.session().call(queue_frames.DescribeQueue("orders")).info.message_count == 3


def test_a_record_from_a_file_asks_for_acknowledgments_only_where_its_sender_may_send(tmp_path):
    driver = driver_with(tmp_path, allowing("user:ada", "send see", "orders"))
    ada = driver.session(ADA)
    asking = Message(administration_queue="secrets", acknowledge=Acknowledge.FULL_RECEIVE)
    number, source = ada.number_for(), bytes.fromhex(driver.manager_id)
    mark = PartMark(Part.FRAGMENT, number)
    record = b"".join(encode_record(asking, source, number, mark))
    head = file_frames.SendFile(
        ada.open("orders"), ada.number_for(), len(record), crc32c.crc32c(record), 0
    )
    assert isinstance(refused(ada, head, record), AccessDenied | QueueNotFound)


def test_a_sender_that_may_not_manage_learns_nothing_by_creating_a_queue_that_it_does_not_see(
    tmp_path,
):
    driver = driver_with(tmp_path, allowing("user:ada", "send see", "orders"))
    ada = driver.session(ADA)
    for name in ("secrets", "nowhere"):
        created = queue_frames.CreateQueue(name, QueueOptions(), exist_ok=True)
        assert isinstance(refused(ada, created), AccessDenied)
    ada.call(queue_frames.CreateQueue("orders", QueueOptions(), exist_ok=True))


@pytest.mark.parametrize("head", ["stage", "move", "upload"])
def test_a_frame_that_needs_two_rights_is_refused_without_the_second(tmp_path, head):
    driver = driver_with(tmp_path, allowing("user:ada", "send receive see", "orders"))
    ada, bob = driver.session(ADA), driver.session()
    queue, foreign = ada.open("orders"), bob.number_for()
    ada.send(queue, Message(body=b"x"))
    heads = {
        "stage": batch_frames.StageForBatch(foreign, 0, "query", 0),
        "move": message_frames.Move(queue, 1, queue, foreign),
        "upload": large_frames.UploadBegin(queue, foreign, 0, b""),
    }
    assert isinstance(refused(ada, heads[head]), TransactionSequence | AccessDenied)
