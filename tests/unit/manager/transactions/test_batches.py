"""Batches of a query at the manager: staged by many, committed once, remembered, dropped by age."""

from __future__ import annotations

import pytest

from dray import errors
from dray.manager.disk import RoomLeft
from dray.manager.entries import TAIL_BYTES
from dray.manager.events import SessionClosed
from dray.manager.notices import NoticeKind
from dray.manager.state.outcomes import BatchOutcomes
from dray.manager.transactions.batches import _STAGED_ID_BYTES
from dray.model import callers
from dray.model.classes import TransactionStatus
from dray.model.limits import (
    BATCH_DIGEST_BYTES_MAX,
    MESSAGE_NUMBER_MAX,
    QUERY_ID_CHARACTERS_MAX,
    STAGED_AGE_S_MAX,
)
from dray.model.message import Message
from dray.model.names import REQUEST_KEY, UNNAMED_WRITE
from dray.wire import batch_frames, frames, message_frames, queue_frames
from tests.inspection import look_into
from tests.unit.manager.conftest import Caller, ManagerDriver

QUERY = "a query"
DIGEST = b"a digest of 32 bytes, or nearly."


class Job:
    """Tasks and spark_driver of a query, each on a session of its own."""

    def __init__(self, driver: ManagerDriver, query: str = QUERY) -> None:
        self.driver, self.query = driver, query
        self.spark_driver = driver.session()

    def stage(
        self, *bodies: bytes, batch: int = 0, queue: str = "orders"
    ) -> batch_frames.BatchIs | str:
        """Let a task stage rows; its name, or the answer that the batch is committed."""
        task = self.driver.session()
        number, into = task.number_for(), task.open(queue)
        for body in bodies:
            task.send(into, Message(body=body), transaction=number)
        stage = batch_frames.StageForBatch(number, len(bodies), self.query, batch)
        answer = task.call(stage)
        assert isinstance(answer, batch_frames.BatchIs)
        self.driver.turn(SessionClosed(task.number))
        return answer if answer.committed else f"{self.driver.manager_id}\\{number}"

    def commit(self, *staged: str, batch: int = 0, digest: bytes = DIGEST) -> batch_frames.BatchIs:
        number = self.spark_driver.number_for()
        answer = self.spark_driver.call(
            batch_frames.CommitBatch(self.query, batch, digest, number, list(staged))
        )
        assert isinstance(answer, batch_frames.BatchIs)
        return answer

    def restart(self) -> None:
        self.driver.crash()
        self.spark_driver = self.driver.session()

    def bodies(self, queue: str = "orders") -> list[bytes]:
        peeked = self.spark_driver.what_is_in(queue, peek=True)
        return peeked[1]

    def info(self, queue: str = "orders"):
        return self.spark_driver.call(queue_frames.DescribeQueue(queue)).info


@pytest.fixture
def job(driver: ManagerDriver) -> Job:
    job = Job(driver)
    job.spark_driver.create("orders")
    return job


def prepared(job: Job) -> list[int]:
    return list(look_into(job.driver.manager).state.prepared)


def test_what_tasks_have_staged_is_seen_by_nobody_before_the_commit(job: Job) -> None:
    job.stage(b"one", b"two")
    assert job.bodies() == []
    assert job.info().staged_count == 2
    known = job.spark_driver.call(batch_frames.DescribeBatch(QUERY, 0))
    assert (known.committed, known.last) == (False, -1)
    listed = job.spark_driver.call(queue_frames.ListQueues()).queues
    assert {info.name: info.staged_count for info in listed if info.staged_count} == {"orders": 2}


def test_a_batch_becomes_visible_as_one_transaction_in_the_order_of_its_tasks(job: Job) -> None:
    first, second = job.stage(b"3", b"4"), job.stage(b"1", b"2")
    answer = job.commit(second, first)
    envelopes, bodies = job.spark_driver.receive(job.spark_driver.open("orders"), peek=True)
    assert bodies == [b"1", b"2", b"3", b"4"]
    number = int(answer.transaction_id.rpartition("\\")[2])
    assert {each.transaction for each in envelopes} == {number}
    assert [(each.ordinal, each.following) for each in envelopes] == [
        (1, 3),
        (2, 2),
        (3, 1),
        (4, 0),
    ]
    assert (answer.committed, answer.last, answer.messages) == (True, 0, 4)
    status = job.spark_driver.call(message_frames.Outcome(answer.transaction_id)).status
    assert status == str(TransactionStatus.COMMITTED)
    assert (job.info().staged_count, prepared(job)) == (0, [])


@pytest.mark.parametrize("crash_after", ["stage", "commit"])
def test_staged_work_and_outcomes_survive_a_crash(job: Job, crash_after: str) -> None:
    staged = job.stage(b"one", b"two")
    if crash_after == "stage":
        job.restart()
        assert job.bodies() == []
    first = job.commit(staged)
    if crash_after == "commit":
        job.restart()
    assert job.bodies() == [b"one", b"two"]
    assert job.commit(staged) == first


def test_outcomes_and_staged_work_are_in_a_checkpoint(job: Job) -> None:
    job.commit(job.stage(b"one"))
    second = job.stage(b"two", batch=1)
    job.driver.store.checkpoint(job.driver.manager.snapshot())
    job.restart()
    assert job.commit(batch=0).committed
    assert job.commit(second, batch=1).last == 1
    assert job.bodies() == [b"one", b"two"]


def test_a_batch_that_comes_again_changes_nothing(job: Job) -> None:
    first = job.commit(job.stage(b"one"))
    assert isinstance(job.stage(b"one"), batch_frames.BatchIs)
    assert job.commit("0" * 32 + "\\7") == first
    assert (job.bodies(), prepared(job)) == ([b"one"], [])


def test_the_same_batch_with_another_digest_is_an_error_and_sends_nothing(job: Job) -> None:
    job.commit(job.stage(b"one"))
    with pytest.raises(errors.BatchMismatch, match="with other rows") as raised:
        job.commit(digest=b"another")
    assert (raised.value.query, raised.value.batch) == (QUERY, 0)
    assert job.bodies() == [b"one"]


def test_a_batch_that_is_older_than_what_is_remembered_is_an_error(job: Job) -> None:
    for batch in (3, 5, 8):
        job.commit(job.stage(b"%d" % batch, batch=batch), batch=batch)
    assert job.commit(batch=5).last == 8
    for batch in (3, 4, 6):
        with pytest.raises(errors.BatchMismatch, match="older"):
            job.commit(batch=batch)
        with pytest.raises(errors.BatchMismatch, match="older"):
            job.stage(b"late", batch=batch)
    assert (job.bodies(), prepared(job)) == ([b"3", b"5", b"8"], [])


def test_only_the_attempt_that_the_driver_names_becomes_visible(job: Job) -> None:
    job.stage(b"row")
    named = job.stage(b"row")
    job.commit(named)
    assert (job.bodies(), job.info().staged_count, prepared(job)) == ([b"row"], 0, [])


def test_what_is_staged_at_another_queue_manager_is_named_and_not_committed_here(job: Job) -> None:
    elsewhere = "a" * 32 + job.stage(b"one")[32:]
    with pytest.raises(errors.TransactionAborted, match="no longer staged here") as raised:
        job.commit(elsewhere)
    assert raised.value.transaction_id == elsewhere
    assert job.bodies() == []


def test_an_attempt_that_stages_after_the_commit_leaves_nothing(job: Job) -> None:
    job.commit(job.stage(b"row"))
    late = job.stage(b"row")
    assert isinstance(late, batch_frames.BatchIs)
    assert (late.committed, late.digest) == (True, DIGEST)
    assert (job.bodies(), prepared(job)) == ([b"row"], [])


def test_a_transaction_that_came_too_late_for_its_batch_has_ended(job: Job) -> None:
    job.commit(job.stage(b"row"))
    task = job.driver.session()
    number = task.number_for()
    task.send(task.open("orders"), Message(body=b"late"), transaction=number)
    assert task.call(batch_frames.StageForBatch(number, 1, QUERY, 0)).committed
    assert number not in look_into(job.driver.manager).transactions
    assert job.bodies() == [b"row"]


@pytest.mark.parametrize(
    ("query", "batch"), [("", 0), ("q" * (QUERY_ID_CHARACTERS_MAX + 1), 0), (QUERY, -1)]
)
def test_nothing_is_staged_for_a_batch_that_makes_no_sense(job: Job, query, batch) -> None:
    task = job.driver.session()
    number = task.number_for()
    task.send(task.open("orders"), Message(body=b"row"), transaction=number)
    with pytest.raises(errors.InvalidArgument):
        task.call(batch_frames.StageForBatch(number, 1, query, batch))
    assert prepared(job) == []
    assert number not in look_into(job.driver.manager).transactions


def test_the_name_of_a_query_has_one_character_at_least(job: Job) -> None:
    short = Job(job.driver, "q")
    assert short.commit(short.stage(b"row")).committed


def test_a_commit_drops_what_earlier_batches_of_the_query_have_left(job: Job) -> None:
    job.stage(b"left by a job that failed", batch=1)
    other = Job(job.driver, "another query").stage(b"of another query", batch=1)
    ahead = job.stage(b"of a later batch", batch=3)
    job.commit(job.stage(b"row", batch=2), batch=2)
    assert {f"{job.driver.manager_id}\\{each}" for each in prepared(job)} == {other, ahead}


def test_a_driver_drops_what_a_failed_job_has_staged(job: Job) -> None:
    staged = job.stage(b"row")
    keep = job.stage(b"row", batch=1)
    drop = batch_frames.DropStaged(QUERY, 0, [staged, keep, "0" * 32 + "\\7"])
    assert job.spark_driver.call(drop) == frames.Done(1)
    with pytest.raises(errors.TransactionAborted, match="run it again"):
        job.commit(staged)
    assert f"{job.driver.manager_id}\\{prepared(job)[0]}" == keep


def test_staged_work_is_dropped_a_day_after_the_last_task_of_its_batch(job: Job) -> None:
    first = job.stage(b"one", b"two")
    job.driver.advance(STAGED_AGE_S_MAX - 10)
    second = job.stage(b"three")
    job.driver.advance(20)
    assert job.info().staged_count == 3
    job.restart()
    deadline = job.driver.manager.deadline()
    assert deadline is not None
    assert deadline <= job.driver.now + STAGED_AGE_S_MAX
    job.driver.advance(10)
    assert job.info().staged_count == 3
    job.driver.manager.notices()
    job.driver.advance(STAGED_AGE_S_MAX + 10)
    assert (job.info().staged_count, job.info().staged_dropped, prepared(job)) == (0, 3, [])
    told = [each for each in job.driver.manager.notices() if each.kind == NoticeKind.STAGED_DROPPED]
    assert len(told) == 2
    assert all("was staged for it in 24 hours" in each.sentence for each in told)
    with pytest.raises(errors.TransactionAborted, match="no longer staged"):
        job.commit(first, second)


def test_what_is_staged_is_no_business_of_those_who_settle_prepared_transactions(job: Job) -> None:
    staged = job.stage(b"row")
    assert job.spark_driver.call(message_frames.ListPrepared()).transaction_ids == []
    with pytest.raises(errors.TransactionUsage, match="only the query can commit it"):
        job.spark_driver.call(message_frames.SettlePrepared(staged, commit=True))
    job.spark_driver.call(message_frames.SettlePrepared(staged, commit=False))
    assert (job.bodies(), prepared(job)) == ([], [])


def test_a_queue_that_is_deleted_takes_what_is_staged_for_it_along(job: Job) -> None:
    staged = job.stage(b"row")
    job.spark_driver.call(queue_frames.DeleteQueue("orders"))
    job.spark_driver.create("orders")
    with pytest.raises(errors.TransactionAborted, match="run it again"):
        job.commit(staged)
    job.commit(job.stage(b"row"))
    assert job.bodies() == [b"row"]


def test_a_batch_without_rows_is_remembered(job: Job) -> None:
    job.commit()
    with pytest.raises(errors.BatchMismatch):
        job.commit(digest=b"another")
    is_known = job.spark_driver.call(batch_frames.DescribeBatch(QUERY, 0))
    assert (is_known.committed, is_known.digest, is_known.messages) == (True, DIGEST, 0)
    assert not job.spark_driver.call(batch_frames.DescribeBatch(QUERY, 1)).committed


def test_a_batch_that_does_not_fit_the_log_is_refused_and_stays_staged(
    driver: ManagerDriver,
) -> None:
    job = Job(driver)
    job.spark_driver.create("orders")
    each = look_into(driver.manager).fact_bytes_max // 200
    names = [job.stage(*[b"x"] * each) for _ in range(4)]
    with pytest.raises(errors.TransactionAborted, match="maxOffsetsPerTrigger") as raised:
        job.commit(*names)
    assert not raised.value.retryable
    assert job.info().staged_count == 4 * each
    job.commit(names[0])
    assert job.info().message_count == each


def test_a_batch_commits_if_what_it_needs_of_the_log_is_just_there(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(driver)
    job.spark_driver.create("orders")
    name, room = job.stage(b"x"), 0
    monkeypatch.setattr(RoomLeft, "fact_bytes_max", property(lambda _: room))
    with pytest.raises(errors.TransactionAborted, match="messages and 0 bytes here"):
        job.commit(name)
    beside = _STAGED_ID_BYTES + QUERY_ID_CHARACTERS_MAX
    room = beside + TAIL_BYTES - 1
    with pytest.raises(errors.TransactionAborted, match=f"and {TAIL_BYTES - 1} bytes here"):
        job.commit(name)
    room += 1
    assert job.commit(name).committed


def test_the_query_that_committed_least_recently_is_forgotten_first(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dray.manager.state.outcomes.QUERIES_REMEMBERED", 2)
    jobs = [Job(driver, f"query {at}") for at in range(3)]
    for job in (jobs[0], jobs[1]):
        job.commit()
    jobs[0].commit(batch=1)
    jobs[2].commit()
    known = [
        job.spark_driver.call(batch_frames.DescribeBatch(job.query, 0)).committed for job in jobs
    ]
    assert known == [True, False, True]


@pytest.mark.parametrize(
    ("beginning", "bound"),
    [
        (UNNAMED_WRITE, "UNNAMED_WRITES_REMEMBERED"),
        (REQUEST_KEY, "REQUEST_KEYS_REMEMBERED"),
    ],
)
def test_writes_without_a_name_and_keys_of_requests_never_push_out_queries(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch, beginning: str, bound: str
) -> None:
    monkeypatch.setattr("dray.manager.state.outcomes.QUERIES_REMEMBERED", 1)
    monkeypatch.setattr(f"dray.manager.state.outcomes.{bound}", 2)
    named = Job(driver, "query")
    named.commit()
    unnamed = [Job(driver, f"{beginning}{at}") for at in range(9)]
    for job in unnamed:
        job.commit()

    def known() -> list[bool]:
        asked = [batch_frames.DescribeBatch(job.query, 0) for job in (named, *unnamed)]
        return [named.spark_driver.call(each).committed for each in asked]

    assert known() == [True] + 7 * [False] + [True, True]
    # The same after a start, from a checkpoint or from the log.
    outcomes = BatchOutcomes(look_into(driver.manager).state.batch_outcomes.state())
    kept = [query for query, _ in outcomes.state() if query.startswith(beginning)]
    assert kept == [f"{beginning}{at}" for at in (7, 8)]


@pytest.mark.parametrize(
    ("beginning", "bound"),
    [
        ("", "QUERIES_REMEMBERED"),
        (REQUEST_KEY, "REQUEST_KEYS_REMEMBERED"),
    ],
)
def test_a_caller_with_ever_new_queries_pushes_out_none_of_another(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch, beginning: str, bound: str
) -> None:
    """Else a batch of Spark, or a request with an `Idempotency-Key`, could happen twice."""
    monkeypatch.setattr(f"dray.manager.state.outcomes.{bound}", 4)

    def commits(name: str, queries: list[str]) -> list[bool]:
        session = driver.session(callers.Caller(name, owner=True))
        for query in queries:
            session.call(batch_frames.CommitBatch(query, 0, DIGEST, session.number_for(), []))
        return [session.call(batch_frames.DescribeBatch(each, 0)).committed for each in queries]

    honest = [f"{beginning}honest {at}" for at in range(2)]
    assert commits("token:honest", honest) == [True, True]
    greedy = [f"{beginning}greedy {at}" for at in range(20)]
    for _ in range(2):
        assert commits("token:greedy", greedy) == [False] * 18 + [True, True]
        session = driver.session()
        assert all(session.call(batch_frames.DescribeBatch(each, 0)).committed for each in honest)
        driver.crash()


@pytest.mark.parametrize(
    "wrong",
    [
        ("", 0, DIGEST, []),
        ("q" * (QUERY_ID_CHARACTERS_MAX + 1), 0, DIGEST, []),
        (QUERY, -1, DIGEST, []),
        (QUERY, 0, b"d" * 65, []),
        (QUERY, 0, DIGEST, ["no id"]),
    ],
)
def test_a_commit_that_makes_no_sense_is_refused(job: Job, wrong) -> None:
    query, batch, digest, staged = wrong
    commit = batch_frames.CommitBatch(query, batch, digest, job.spark_driver.number_for(), staged)
    with pytest.raises(errors.DrayError):
        job.spark_driver.call(commit)


@pytest.mark.parametrize("number", [0, MESSAGE_NUMBER_MAX + 1])
def test_a_batch_is_committed_under_the_number_of_a_transaction(job: Job, number: int) -> None:
    with pytest.raises(errors.InvalidArgument, match="transaction"):
        job.spark_driver.call(batch_frames.CommitBatch(QUERY, 0, DIGEST, number, []))
    assert not job.spark_driver.call(batch_frames.DescribeBatch(QUERY, 0)).committed


def test_a_transaction_number_or_a_task_cannot_be_used_twice(job: Job) -> None:
    staged = job.stage(b"row")
    with pytest.raises(errors.DrayError):
        job.commit(staged, staged)
    taken = int(staged.rpartition("\\")[2])
    with pytest.raises(errors.DrayError):
        job.spark_driver.call(batch_frames.CommitBatch(QUERY, 0, DIGEST, taken, [staged]))
    job.commit(staged)
    assert job.bodies() == [b"row"]


def test_what_has_received_cannot_be_staged(job: Job) -> None:
    caller: Caller = job.spark_driver
    queue = caller.open("orders")
    caller.send(queue, Message(body=b"there"))
    number = caller.number_for()
    caller.receive(queue, transaction=number, max_messages=1)
    with pytest.raises(errors.TransactionUsage, match="cannot be staged"):
        caller.call(batch_frames.StageForBatch(number, 0, QUERY, 0))
    assert job.bodies() == [b"there"]


def test_a_task_whose_sends_have_not_all_come_stages_nothing(job: Job) -> None:
    caller = job.spark_driver
    number = caller.number_for()
    caller.send(caller.open("orders"), Message(body=b"one"), transaction=number)
    with pytest.raises(errors.TransactionAborted):
        caller.call(batch_frames.StageForBatch(number, 2, QUERY, 0))
    assert prepared(job) == []


def test_too_many_staged_transactions_are_refused(job: Job, monkeypatch) -> None:
    monkeypatch.setattr("dray.manager.transactions.prepared.STAGED_MAX", 1)
    job.stage(b"one")
    with pytest.raises(errors.Misuse, match="staged for batches; settle"):
        job.stage(b"two")
    assert job.info().staged_count == 1


def test_a_digest_is_kept_up_to_its_last_byte_and_not_beyond(job: Job) -> None:
    assert job.commit(job.stage(b"1"), digest=bytes(BATCH_DIGEST_BYTES_MAX)).committed
    with pytest.raises(errors.InvalidArgument, match="digest"):
        job.commit(job.stage(b"2", batch=1), batch=1, digest=bytes(BATCH_DIGEST_BYTES_MAX + 1))
    assert job.bodies() == [b"1"]


def test_a_batch_may_have_as_many_messages_as_a_transaction_and_not_one_more(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dray.manager.transactions.batches.TRANSACTION_OPERATIONS_MAX", 3)
    assert job.commit(job.stage(b"1", b"2"), job.stage(b"3")).committed
    staged = [job.stage(b"4", b"5", batch=1), job.stage(b"6", b"7", batch=1)]
    with pytest.raises(errors.TransactionAborted, match="one commit may have 3 messages"):
        job.commit(*staged, batch=1)
    assert job.bodies() == [b"1", b"2", b"3"]
