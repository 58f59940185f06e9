"""Audits: each kind of fault is made for real, found, and told from what is in order."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import dray
from dray.cli.program import run
from dray.errors import InvalidConfiguration
from dray.spark import audit, land
from dray.spark.auditing.sources import QueueSource, read_sources

pytestmark = [pytest.mark.spark, pytest.mark.slow]
MESSAGES = 9


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A queue manager of this file, with one queue and its journal; dead letters are kept."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as probe:
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    with dray.open(tmp_path_factory.mktemp("manager"), listen=address, open=True) as manager:
        manager.create_queue("parcels", journal=True)
        yield f"dray://{address}"


@pytest.fixture(scope="module")
def original(spark, url, tmp_path_factory):
    """A directory into which three transactions of three messages were landed."""
    out = tmp_path_factory.mktemp("landed") / "out"
    with dray.connect(url) as manager:
        parcels = dray.LargeMessageQueue(manager.queue("parcels"), fragment_size=10_000)
        for first in range(0, MESSAGES, 3):
            with manager.transaction() as transaction:
                for number in range(first, first + 3):
                    body = bytes([number]) * (25_000 + number)
                    parcels.send(body, label=f"{number}.bin", transaction=transaction)
        assert land(url, "parcels", out, session=spark, rows_per_batch=4).clean
    return out


@pytest.fixture
def landed(original, tmp_path):
    """A copy of it, to be damaged."""
    return Path(shutil.copytree(original, tmp_path / "out"))


def rewrite(landed, change):
    """Change the rows of the landed table; the footer of the last commit stays."""
    paths = sorted((landed / "table").glob("*.parquet"))
    tables = [pq.read_table(path) for path in paths]
    metadata = tables[-1].schema.metadata
    rows = change(pa.concat_tables([table.replace_schema_metadata(None) for table in tables]))
    for path in paths[:-1]:
        path.unlink()
    pq.write_table(rows.replace_schema_metadata(metadata), paths[-1])


def without(rows, *labels):
    return rows.filter(pc.invert(pc.is_in(rows["label"], pa.array(labels))))


def told(report, *, explained=False):
    """Kinds of findings, and for each its rows."""
    kinds: dict[str, list] = {}
    for row in report.findings.to_pylist():
        if row["explained"] is explained:
            kinds.setdefault(row["kind"], []).append(row)
    return kinds


def test_what_landed_whole_is_clean(spark, url, landed, tmp_path):
    report = audit([landed, f"{url}/parcels"], session=spark, out=tmp_path / "audit")

    assert report.clean
    assert report.findings.num_rows == 0
    assert report.messages == MESSAGES
    assert report.bytes == sum(25_000 + number for number in range(MESSAGES))
    assert pq.read_table(tmp_path / "audit" / "findings.parquet").schema == report.findings.schema
    (stream,) = report.streams.to_pylist()
    assert stream["messages"] == MESSAGES
    assert 0 <= stream["arrived_p50_s"] <= stream["landed_p50_s"] <= stream["landed_p99_s"]
    assert sum(pq.read_table(tmp_path / "audit" / "hours.parquet")["messages"].to_pylist()) == 9


@pytest.mark.usefixtures("interpreted")
def test_a_landed_row_that_was_removed_is_a_gap_and_a_torn_transaction(spark, landed):
    rows = pq.read_table(landed / "table").to_pylist()
    (gone,) = (row for row in rows if row["label"] == "4.bin")
    rewrite(landed, lambda rows: without(rows, "4.bin"))

    report = audit(landed, session=spark)

    found = told(report)
    assert not report.clean
    assert sorted(found) == ["gap", "payload", "transaction"]
    (gap,) = found["gap"]
    assert (gap["first_lookup_id"], gap["last_lookup_id"]) == (
        gone["first_lookup_id"],
        gone["last_lookup_id"],
    )
    assert gone["payload"] in found["payload"][0]["detail"]
    assert found["transaction"][0]["transaction_id"] == gone["transaction_id"]


@pytest.mark.usefixtures("interpreted")
def test_a_torn_transaction_is_told_over_all_commits(spark, landed):
    rewrite(landed, lambda rows: without(rows, "8.bin"))

    # The last message of the queue leaves no gap behind it.
    found = told(audit(landed, session=spark))

    assert sorted(found) == ["payload", "transaction"]
    assert found["transaction"][0]["detail"].startswith("2 of 3 messages landed")


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("missing", [0, 1])
def test_a_transaction_of_large_and_small_messages_is_counted_whole(spark, landed, missing):
    def change(rows):
        """Make a small message of the last one."""
        *others, last = sorted(rows.to_pylist(), key=lambda row: row["first_lookup_id"])
        at = last["first_lookup_id"]
        for row in [*others[-2:], last]:
            row["transaction_size"] = 3 + missing
        (landed / "payload" / last["payload"]).unlink()
        last |= dict.fromkeys(("fragment_count", "digest", "digest_kind", "payload"))
        last |= {"last_lookup_id": at, "lookup_ranges": [[at, at]]}
        return pa.Table.from_pylist([*others, last], schema=rows.schema)

    rewrite(landed, change)

    found = told(audit(landed, session=spark))

    assert sorted(found) == (["transaction"] if missing else [])


@pytest.mark.usefixtures("interpreted")
def test_a_flipped_byte_of_a_payload_file_is_found(spark, landed):
    (path,) = (landed / "payload").glob("*3.bin")
    with path.open("r+b") as file:
        file.seek(12_345)
        file.write(b"\xff")
    (short,) = (landed / "payload").glob("*5.bin")
    short.write_bytes(b"x")
    (missing,) = (landed / "payload").glob("*7.bin")
    missing.unlink()

    found = told(audit(landed, session=spark))

    assert sorted(found) == ["digest"]
    details = sorted(row["detail"].replace(row["id"], "") for row in found["digest"])
    assert [path.name in details_of for details_of in details].count(True) == 1
    assert any(f"{short.name} has 1 bytes, not 25005" in each for each in details)
    assert any(f"{missing.name} cannot be read" in each for each in details)


@pytest.mark.usefixtures("interpreted")
def test_a_row_that_is_there_twice_is_a_duplicate(spark, landed):
    rewrite(landed, lambda rows: pa.concat_tables([rows, rows.slice(2, 1)]))

    (duplicate,) = told(audit(landed, session=spark)).pop("duplicate")

    assert duplicate["detail"] == "it has 2 rows"


@pytest.mark.usefixtures("interpreted")
def test_two_rows_at_one_position_and_rows_out_of_order_are_found(spark, landed):
    def swap(rows):
        """Give the second message the place of the first, and the first that of the second."""
        listed = sorted(rows.to_pylist(), key=lambda row: row["first_lookup_id"])
        names = ("first_lookup_id", "last_lookup_id", "lookup_ranges")
        first, second = ({name: row[name] for name in names} for row in listed[:2])
        listed[0] |= second
        listed[1] |= first
        listed[8] |= {name: listed[7][name] for name in names}
        return pa.Table.from_pylist(listed, schema=rows.schema)

    rewrite(landed, swap)

    found = told(audit(landed, session=spark))

    assert sorted(found) == ["order", "overlap"]
    assert len(found["order"]) == len(found["overlap"]) == 1


def test_messages_that_others_took_are_explained_by_the_journal(spark, url, tmp_path):
    out = tmp_path / "out"
    with dray.connect(url) as manager:
        manager.create_queue("shared", journal=True)
        shared = dray.LargeMessageQueue(manager.queue("shared"), fragment_size=10_000)
        with manager.transaction() as transaction:
            for number in range(4):
                shared.send(b"x" * 25_000, correlation_id=f"{number}", transaction=transaction)
        with shared.receive_by_correlation_id("2"):
            pass
        land(url, "shared", out, session=spark)

    alone = audit(out, session=spark)
    explained = audit([out, (url, "journal:shared"), f"{url}/deadletter:"], session=spark)

    assert "gap" in told(alone)
    assert not alone.clean
    assert explained.clean
    (gap,) = told(explained, explained=True)["gap"]
    assert "was received by another consumer" in gap["detail"]


@pytest.mark.usefixtures("spark")
def test_the_command_ends_with_a_status_of_its_own_if_something_is_wrong(
    url, landed, tmp_path, capsys
):
    rewrite(landed, lambda rows: without(rows, "4.bin"))
    page = tmp_path / "page.html"
    command = ["--url", url, "--json", "spark", "audit", str(landed), "parcels"]
    assert run([*command, "--html", str(page)]) == 42
    printed = json.loads(capsys.readouterr().out)
    assert (printed["clean"], printed["messages"]) == (False, 8)
    assert {each["kind"] for each in printed["findings"]} == {"gap", "payload", "transaction"}
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_sources_are_directories_or_queues(landed):
    given = read_sources([landed, "dray://host:7340/journal:orders", ("dray+unix:///s", "a")])
    assert given.directories == (landed,)
    assert given.queues == (
        QueueSource("dray://host:7340", "journal:orders"),
        QueueSource("dray+unix:///s", "a"),
    )
    for wrong in (
        "dray://host:7340/orders",
        "dray://host",
        [landed, "dray+unix:///run/x"],
        landed.parent,
    ):
        with pytest.raises(InvalidConfiguration):
            read_sources(wrong)


BROWSER = shutil.which("chromium")


@pytest.mark.skipif(
    BROWSER is None, reason="NO BROWSER HERE: the page is not checked; run `make browser` as root"
)
def test_the_page_is_drawn_by_a_browser_without_loading_anything(spark, url, landed, tmp_path):
    rewrite(landed, lambda rows: without(rows, "4.bin"))
    page = tmp_path / "audit.html"
    audit([landed, f"{url}/parcels"], session=spark).write_html(page)

    text = page.read_text()
    assert "http" not in text.replace("http-equiv", "")
    drawn = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000",
         f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", page.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    ).stdout  # fmt: skip
    picture = tmp_path / "page.png"
    subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--screenshot={picture}",
         f"--user-data-dir={tmp_path / 'profile'}", "--window-size=900,1400", page.as_uri()],
        capture_output=True, timeout=120, check=True,
    )  # fmt: skip

    assert 'id="verdict">not clean<' in drawn
    assert drawn.count("<svg") == 2
    assert "<rect" in drawn
    assert "<polyline" in drawn
    assert "transaction" in drawn
    assert picture.stat().st_size > 10_000
