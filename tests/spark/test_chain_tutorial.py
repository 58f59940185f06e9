"""The tutorial's programs, run as they stand on the page, and killed on the way."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import runpy
import signal
import struct
import subprocess
import sys
import time
import zlib
from collections import Counter
from pathlib import Path

import pytest

import dray
from tests.integration.commands import until
from tests.spark.conftest import Daemon

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "spark-chain.md"
FILES, LINES, KILLS = 12, 50, 20


@pytest.fixture
def second(tmp_path):
    """Another queue manager."""
    running = Daemon(tmp_path / "second")
    yield running
    running.end()


@pytest.fixture
def programs(tmp_path):
    """The programs of the page, by the names that it gives them."""
    page = PAGE.read_text("utf-8")
    named = re.findall(r"Save this as \*(\w+\.py)\*:\n\n```python\n(.*?)```", page, re.DOTALL)
    assert [name for name, _ in named] == ["send_files.py", "chain.py"]
    for name, code in named:
        (tmp_path / name).write_text(code)
    return tmp_path


def picture(width, height):
    """A grey PNG."""

    def chunk(kind, data):
        crc = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + crc

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    lines = chunk(b"IDAT", zlib.compress((b"\0" + b"\x80" * width) * height))
    return b"\x89PNG\r\n\x1a\n" + head + lines + chunk(b"IEND", b"")


def fill(inbox, first=0):
    """Make files of both kinds; give the results that they must lead to."""
    inbox.mkdir()
    chance, wanted = random.Random(5), Counter()
    for number in range(first, first + FILES):
        name = f"{number:02}"
        if number % 3:
            values = [chance.randrange(1_000_000) for _ in range(LINES)]
            text = "".join(f"{at},{value}\n" for at, value in enumerate(values))
            (inbox / f"{name}.csv").write_text("at,value\n" + text)
            for at, value in enumerate(values):
                wanted[f"{name}.csv", str(at), json.dumps({"at": at, "value": value})] += 1
        else:
            size = {"width": 10 + number, "height": 20 + number}
            (inbox / f"{name}.png").write_bytes(picture(**size))
            wanted[f"{name}.png", "0", json.dumps(size)] += 1
    return wanted


def test_each_line_and_picture_of_the_tutorial_arrives_once_through_a_kill(
    spark, daemon, second, programs, *, monkeypatch
):
    wanted = fill(programs / "inbox")
    send = [sys.executable, "send_files.py", daemon.url, "inbox"]
    subprocess.run(send, cwd=programs, check=True, timeout=100)
    chain = [sys.executable, "chain.py", daemon.url, second.url, str(programs / "checkpoint")]
    with dray.connect(second.url) as target, dray.connect(daemon.url) as source:
        results = target.create_queue("results")
        with (programs / "said").open("wb") as said:
            first = subprocess.Popen(
                chain, cwd=programs, stdout=said, stderr=said, start_new_session=True
            )
            try:
                results.peek(timeout=300)
            finally:
                os.killpg(first.pid, signal.SIGKILL)
                first.wait(100)
        assert source.queue("parcels", raw=True).info().message_count, "it was killed too late"

        # In the session of this process, which `spark_session` gives to any program.
        monkeypatch.chdir(programs)
        monkeypatch.setattr(sys, "argv", chain[1:])
        runpy.run_path("chain.py", run_name="__main__")

        assert_each_once(source, results, wanted)


def assert_each_once(source, results, wanted):
    """Each result is there once, and nothing is left behind."""
    found = Counter(
        (message.label, message.correlation_id, bytes(message.body).decode())
        for message in results.messages()
    )
    assert found == wanted
    assert source.queue("parcels", raw=True).info().message_count == 0
    assert results.info().staged_count == 0


def end(driver, *, with_java):
    """Kill a driver, and its Java with it or not: then Java notices and ends by itself."""
    with contextlib.suppress(ProcessLookupError):
        if with_java:
            os.killpg(driver.pid, signal.SIGKILL)
    driver.kill()
    driver.wait(100)
    until(lambda: is_gone(driver.pid), 60)


def is_gone(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.torture
@pytest.mark.timeout(7_200)
def test_the_chain_of_the_tutorial_killed_at_random_sends_each_row_once(
    spark, daemon, second, programs, *, monkeypatch
):
    """Twenty kills of the driver, of half of them with its Java, seed 9; files come meanwhile."""
    chance, wanted, killed, rounds = random.Random(9), Counter(), 0, 0
    chain = [sys.executable, "chain.py", daemon.url, second.url, str(programs / "checkpoint")]
    takes = None
    while killed < KILLS:
        inbox = f"inbox-{rounds}"
        wanted += fill(programs / inbox, rounds * FILES)
        rounds += 1
        assert rounds < 5 * KILLS, (programs / "said").read_text()[-3000:]
        send = [sys.executable, "send_files.py", daemon.url, inbox]
        subprocess.run(send, cwd=programs, check=True, timeout=100)
        began = time.monotonic()
        with (programs / "said").open("wb") as said:
            driver = subprocess.Popen(
                chain, cwd=programs, stdout=said, stderr=said, start_new_session=True
            )
        try:
            driver.wait(None if takes is None else chance.uniform(0.3, 1.1) * takes)
        except subprocess.TimeoutExpired:
            killed += 1
        finally:
            end(driver, with_java=chance.random() < 0.5)
        takes = takes or time.monotonic() - began

    monkeypatch.chdir(programs)
    monkeypatch.setattr(sys, "argv", chain[1:])
    runpy.run_path("chain.py", run_name="__main__")
    with dray.connect(second.url) as target, dray.connect(daemon.url) as source:
        assert_each_once(source, target.queue("results"), wanted)
