"""Landing from a real queue manager: holes, labels, its restarts, and kills of the driver."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from blake3 import blake3

import dray
from dray.errors import ConnectionLost, MessageNotFound, QueueNotFound
from dray.large import split
from dray.spark import land
from dray.spark.landing.landing import Landing
from dray.spark.landing.puller import ManagerPuller
from dray.spark.landing.settler import ManagerSettler
from tests.integration.commands import until
from tests.spark.judge import rows_in_order
from tests.spark.judged import judge_bodies

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("interpreted")]

DRIVER = Path(__file__).with_name("land_and_die.py")


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


@pytest.fixture
def land_parcels(spark, daemon, out):
    """Land the queue "parcels" of the manager."""

    def land_now(**options):
        return land(daemon.url, "parcels", out, session=spark, **options)

    return land_now


def bodies(count, size=25_000):
    chance = random.Random(7)
    return [chance.randbytes(size + 11 * number) for number in range(count)]


def table(out):
    return rows_in_order(out)


def assert_landed_once(out, sent):
    """Each of `sent`, bodies by sequence id, has one row and its payload; nothing else is there."""
    rows = table(out)
    assert sorted(row["sequence_id"] for row in rows) == sorted(sent)
    for row in rows:
        content = (out / "payload" / row["payload"]).read_bytes()
        assert content == sent[row["sequence_id"]]
        assert (row["digest"], row["digest_kind"]) == (blake3(content).hexdigest(), "blake3")
    assert {path.name for path in (out / "payload").iterdir()} == {row["payload"] for row in rows}
    assert [row["first_lookup_id"] for row in rows] == sorted(
        row["first_lookup_id"] for row in rows
    )


def test_large_messages_land_with_what_was_said_of_them(land_parcels, manager, parcels, out):
    sent = {}
    with manager.transaction() as transaction:
        for number, body in enumerate(bodies(3)):
            label = f"../../{number}" if number else ""
            properties = {"label": label, "app_specific": number, "correlation_id": f"c{number}"}
            sent[parcels.send(body, transaction=transaction, **properties)] = body
    sent[parcels.send(b"", label="empty")] = b""

    summary = land_parcels()

    assert_landed_once(out, sent)
    rows = table(out)
    assert [row["position_in_transaction"] for row in rows] == [1, 2, 3, 1]
    assert [row["app_specific"] for row in rows] == [0, 1, 2, 0]
    assert [row["correlation_id"] for row in rows] == ["c0", "c1", "c2", None]
    assert [row["label"] for row in rows] == ["", "../../1", "../../2", "empty"]
    assert len({row["transaction_id"] for row in rows}) == 2
    assert all(row["sent_time"] <= row["arrived_time"] <= row["landed_time"] for row in rows)
    assert summary.clean
    assert summary.files == 4
    assert 0 < summary.moving_seconds < summary.seconds
    assert summary.rate_bytes_s < summary.moving_rate_bytes_s
    assert manager.queue("parcels").info().message_count == 0


def test_a_micro_batch_ends_where_all_transactions_are_closed(land_parcels, manager, parcels, out):
    sent = {}
    # By sizes: within the limit of two, behind it, and over four times the limit.
    for size in (1, 1, 3, 8, 9, 2):
        with manager.transaction() as transaction:
            for body in bodies(size):
                sent[parcels.send(body, transaction=transaction)] = body

    summary = land_parcels(rows_per_batch=2)

    assert summary.clean
    assert_landed_once(out, sent)
    commits = {}
    for path in sorted((out / "table").iterdir()):
        for row in pq.read_table(path).to_pylist():
            commits.setdefault(row["transaction_id"], []).append((path.name, row))
    whole = [rows for rows in commits.values() if len(rows) < 9]
    (torn,) = (rows for rows in commits.values() if len(rows) == 9)
    assert all(len({name for name, _ in rows}) == 1 for rows in whole)
    assert len({name for name, _ in torn}) > 1
    for rows in commits.values():
        assert {row["transaction_size"] for _, row in rows} == {len(rows)}
        positions = [row["position_in_transaction"] for _, row in rows]
        assert positions == list(range(1, len(rows) + 1))


def test_holes_are_named_and_the_rest_lands(land_parcels, manager, parcels, out):
    ids = [parcels.send(body, label=f"body {at}") for at, body in enumerate(bodies(6, 45_000))]
    raw = manager.queue("parcels", raw=True)
    positions = {}
    for message in raw.messages():
        mine = message.id if message.id in ids else message.correlation_id
        positions.setdefault(mine, []).append(message.lookup_id)
    # Of header, fragments 1 to 5 and trailer: a middle, two of them, the header, the trailer.
    for at, lost in {0: [3], 2: [1, 2, 4], 3: [0], 4: [6]}.items():
        for index in lost:
            raw.receive_by_lookup_id(positions[ids[at]][index])

    summary = land_parcels()

    named = {hole.sequence_id: hole.missing for hole in summary.holes}
    assert named == {
        ids[0]: ("3",),
        ids[2]: ("1-2", "4"),
        ids[3]: ("header",),
        ids[4]: ("trailer",),
    }
    states = {row["sequence_id"]: (row["state"], row["label"]) for row in table(out)}
    assert states[ids[1]] == ("landed", "body 1")
    assert states[ids[5]] == ("landed", "body 5")
    assert states[ids[0]] == ("hole", "body 0")
    assert states[ids[3]] == ("hole", "")
    assert (summary.files, len(states)) == (2, 6)
    assert manager.queue("parcels").info().message_count == 0


def test_what_only_a_newer_program_can_read_is_moved_aside_and_the_rest_lands(
    land_parcels, manager, parcels, out
):
    sent = {}
    with pytest.MonkeyPatch.context() as newer:
        newer.setattr(split, "CONTROL_VERSION", split.CONTROL_VERSION + 1)
        unreadable = parcels.send(b"of the future", label="new")
    for body in bodies(2):
        sent[parcels.send(body)] = body

    summary = land_parcels()

    assert_landed_once(out, sent)
    (sentence,) = summary.unreadable
    assert unreadable in sentence
    assert "it was moved to 'parcels;unreadable'" in sentence
    assert (summary.files, summary.clean) == (2, False)
    aside = manager.queue("parcels;unreadable")
    assert [queue.info().message_count for queue in (manager.queue("parcels"), aside)] == [0, 3]
    assert land_parcels().unreadable == []


def test_what_does_not_land_is_told_and_does_not_dam_the_queue(land_parcels, manager, parcels, out):
    plain = manager.queue("parcels", raw=True)
    first, *rest = bodies(4)
    sent = {parcels.send(first): first}
    plain.send_many([b"plain", b"plain"])
    sent |= {parcels.send(body): body for body in rest}

    summary = land_parcels(as_="large")

    assert (summary.files, summary.skipped, summary.clean) == (4, 2, False)
    (sentence,) = summary.left
    assert sentence.startswith("queue 'parcels' at dray://")
    assert "has 2 plain messages that this landing leaves there" in sentence
    assert_landed_once(out, sent)
    assert [bytes(each.body) for each in plain.peek_range()] == [b"plain", b"plain"]
    # Nothing of it lands, also alone; once it is received, the landing is clean.
    assert (land_parcels(as_="large").files, len(land_parcels(as_="large").left)) == (0, 1)
    plain.receive_many(2)
    body = b"last" * 10_000
    sent |= {parcels.send(body): body}
    summary = land_parcels()
    assert (summary.files, summary.clean) == (1, True)
    assert_landed_once(out, sent)
    assert plain.info().message_count == 0


class RobbedPuller(ManagerPuller):
    """Pulls while another receiver takes the second message, and commits or gives it back."""

    def __init__(self, url, outcome):
        super().__init__()
        self.url, self.outcome = url, outcome

    def pull(self, row, target):
        if row["label"] == "body 1" and self.outcome:
            with dray.connect(self.url) as other, other.transaction() as transaction:
                parcels = dray.LargeMessageQueue(other.queue("parcels"))
                parcels.receive_by_correlation_id("1", transaction=transaction)
                outcome, self.outcome = self.outcome, ""
                if outcome == "hold":
                    # Given back when this returns; the landing has not found the message by then.
                    with pytest.raises(MessageNotFound):
                        super().pull(row, target)
                    transaction.abort()
                    raise MessageNotFound("held by another")
        return super().pull(row, target)


@pytest.mark.parametrize("outcome", ["commit", "hold"])
def test_a_message_that_another_receiver_takes_is_counted_and_the_landing_goes_on(
    spark, daemon, manager, parcels, *, out, outcome
):
    sent = {
        parcels.send(body, label=f"body {number}", correlation_id=f"{number}"): body
        for number, body in enumerate(bodies(3))
    }
    reader = spark.readStream.format("dray").option("content", "large").option("url", daemon.url)
    rows = reader.option("queue", "parcels").option("minPartitions", "1").load()
    settler = ManagerSettler()

    summary = Landing(out, RobbedPuller(daemon.url, outcome), settler).run(rows)

    settler.close()
    if outcome == "commit":
        sent.pop(list(sent)[1])
    assert (summary.files, summary.taken, summary.clean) == (len(sent), 3 - len(sent), True)
    assert_landed_once(out, sent)
    assert manager.queue("parcels").info().message_count == 0


class NotingPuller(ManagerPuller):
    """Notes which process pulled which piece; one of them robs the message if it is told to."""

    def __init__(self, notes, robbed=""):
        super().__init__()
        self.notes, self.robbed = notes, robbed

    def pull_piece(self, row, piece, target):
        (self.notes / f"{row['label']}-{piece.number}-of-{piece.total}").touch()
        if self.robbed and piece.number == piece.total:
            with dray.connect(self.robbed) as other:
                dray.LargeMessageQueue(other.queue("parcels")).receive(0).commit()
        super().pull_piece(row, piece, target)


def cut_rows(spark, url):
    reader = spark.readStream.format("dray").option("content", "large").option("url", url)
    reader = reader.option("queue", "parcels").option("minPartitions", "8")
    reader = reader.option("failOnDataLoss", "false").option("markTaken", "true")
    return reader.option("pieceBytes", "100000").load()


def test_a_long_message_is_pulled_by_several_tasks(spark, daemon, parcels, *, out, tmp_path):
    (tmp_path / "notes").mkdir()
    long = random.Random(1).randbytes(205_000)
    sent = {parcels.send(long, label="long"): long}
    sent |= {parcels.send(body, label="short"): body for body in bodies(3, 5_000)}
    settler = ManagerSettler()

    summary = Landing(out, NotingPuller(tmp_path / "notes"), settler).run(
        cut_rows(spark, daemon.url)
    )

    settler.close()
    assert (summary.files, summary.duplicates, summary.clean) == (4, 0, True)
    assert_landed_once(out, sent)
    notes = sorted(path.name for path in (tmp_path / "notes").iterdir())
    assert notes == [f"long-{number}-of-4" for number in (1, 2, 3, 4)]


def test_a_long_message_that_is_taken_between_its_pieces_is_counted_once(
    spark, daemon, parcels, *, out, tmp_path
):
    (tmp_path / "notes").mkdir()
    parcels.send(bytes(205_000), label="long")
    sent = {parcels.send(b"short"): b"short"}
    settler = ManagerSettler()

    summary = Landing(out, NotingPuller(tmp_path / "notes", daemon.url), settler).run(
        cut_rows(spark, daemon.url)
    )

    settler.close()
    assert (summary.files, summary.taken) == (1, 1)
    assert_landed_once(out, sent)


def test_a_manager_that_is_killed_and_restarted_is_waited_for(land_parcels, daemon, parcels, out):
    sent = {parcels.send(body): body for body in bodies(6)}
    killed = []

    def kill_once(_):
        if not killed:
            killed.append(True)
            daemon.kill()
            daemon.start()

    summary = land_parcels(rows_per_batch=2, report=kill_once)

    assert_landed_once(out, sent)
    assert (summary.files, summary.batches) == (6, 3)


class AbandonedSettler(ManagerSettler):
    """Settles when the queue manager was killed, and nobody has started it again."""

    def __init__(self, daemon):
        super().__init__()
        self.daemon = daemon

    def settle(self, key, reached):
        self.daemon.kill()
        return super().settle(key, reached)


def test_a_manager_that_stays_away_ends_a_landing_and_the_next_one_goes_on(
    spark, daemon, manager, parcels, *, out, land_parcels, monkeypatch
):
    sent = {parcels.send(body): body for body in bodies(6)}
    monkeypatch.setattr("dray.spark.managers.PATIENCE_S", 0.5)
    reader = spark.readStream.format("dray").option("content", "large").option("url", daemon.url)
    rows = reader.option("queue", "parcels").option("maxOffsetsPerTrigger", "2").load()
    settler = AbandonedSettler(daemon)

    with pytest.raises(ConnectionLost):
        Landing(out, ManagerPuller(), settler).run(rows)
    settler.close()
    assert len(table(out)) == 2
    daemon.start()
    summary = land_parcels(as_="large")

    assert (summary.files, summary.replayed, summary.duplicates) == (4, 2, 0)
    assert judge_bodies(sent, out) == ""
    assert manager.queue("parcels").info().message_count == 0


def test_following_lands_what_comes_later_also_by_a_clock_set_back_and_ends_when_idle(
    land_parcels, parcels, out, *, monkeypatch, caplog
):
    later = bodies(3)
    sent = {parcels.send(b"first"): b"first"}
    clock, back = time.time, [0]
    monkeypatch.setattr("time.time", lambda: clock() - back[0])

    def send_more(_):
        if later:
            body = later.pop()
            sent[parcels.send(body)] = body
            back[0] = 0 if len(later) == 2 else 3600

    until = dray.spark.Until(follow=True, idle_s=3.0)
    summary = land_parcels(until=until, report=send_more)

    assert_landed_once(out, sent)
    assert summary.files == 4
    # Java, whose clock this is not, would wait for an hour.
    assert caplog.text.count("the clock was set back; the query begins anew") == 1


def test_a_queue_that_is_not_there_is_one_clear_sentence(spark, daemon, out):
    with pytest.raises(QueueNotFound) as caught:
        land(daemon.url, "nowhere", out, session=spark)

    assert str(caught.value) == f"there is no queue 'nowhere' at {daemon.url}; create it"


@pytest.mark.torture
@pytest.mark.timeout(1500)
def test_killing_the_driver_anywhere_neither_loses_nor_repeats(
    daemon, manager, parcels, out, *, land_parcels
):
    sent = {}
    for number, body in enumerate(bodies(18)):
        sent[parcels.send(body, label=f"body {number}")] = body
    long = random.Random(1).randbytes(205_000)
    sent[parcels.send(long, label="long")] = long

    for point in ("pulling", "landed", "settled", "piece"):
        command = [sys.executable, str(DRIVER), daemon.url, str(out), point]
        ended = subprocess.run(command, check=False, timeout=400)
        assert ended.returncode == -signal.SIGKILL
    land_parcels()

    assert judge_bodies(sent, out) == ""
    assert manager.queue("parcels").info().message_count == 0


@pytest.mark.timeout(600)
def test_an_interrupt_ends_a_landing_in_one_line(daemon, manager, parcels, out):
    sent = {parcels.send(body): body for body in bodies(2)}
    command = [sys.executable, "-m", "dray.cli", "--url", daemon.url]
    command += ["spark", "land", "parcels", "--to", str(out), "--follow"]
    with (out.parent / "said").open("wb") as said:
        # Like a terminal, which sends the signal to the whole group.
        landing = subprocess.Popen(command, stdout=said, stderr=said, start_new_session=True)
        try:
            queue = manager.queue("parcels", raw=True)
            # Asked without a pause, it took as much of the processor as the landing.
            until(lambda: landing.poll() is not None or not queue.info().message_count, 400)
            assert landing.poll() is None
            os.killpg(landing.pid, signal.SIGINT)
            assert landing.wait(100) == 130
        finally:
            if landing.poll() is None:
                os.killpg(landing.pid, signal.SIGKILL)
                landing.wait(100)

    assert judge_bodies(sent, out) == ""
    assert "Traceback" not in (out.parent / "said").read_text()
    assert "Exception" not in (out.parent / "said").read_text()
