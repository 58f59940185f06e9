"""Small and large messages with rights and with TLS, beside a queue manager that is open.

Four queue managers run, and one client after another works at each of them by turns over TCP:

open        everyone may do everything: no caller is looked up, no rule restricts
open again  the same once more: its ratio tells how far the machine's noise reaches
rights      callers show a token, and one of a hundred rules lets this one use the queue
TLS         callers show a certificate instead, and everything is encrypted

The bar is on the processor time of the queue manager for a message and for a MB of large ones: that
is what a check costs. All turns count together, since the kernel counts in steps of 10 ms. They are
short, since a virtual machine has fast and slow seconds. Rights stand beside both open ones. The
rates of these two differ by more than the bar on most machines. All small messages come before all
large ones, since a queue manager tidies for a while after many small ones.
"""

from __future__ import annotations

import os
import random
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import harmonic_mean
from typing import Any
from unittest import mock

import dray
from benches.limits import make_payload
from benches.processes import client, processor_s
from benches.results import Result
from dray.net.certificates import issue, make_authority
from dray.testing.processes import ManagerProcess

TURNS = 4  # in a round
COUNT, BATCH, MESSAGE_BYTES = 5_000, 100, 1024
RULES = 100
RIGHTS_RATIO_MIN = 0.97
SMALL_COST = "1 KiB in and out, messages a processor second"
LARGE_COST = "large in and out, MB a processor second"
CALLER = "bench"
OPEN, AGAIN, RIGHTS, TLS = "open", "open again", "rights", "TLS"
Rates = dict[str, dict[str, list[float]]]
Environment = dict[str, str]


def run(folder: Path, size: int, rounds: int) -> list[Result]:
    """Measure; `size` bytes of large messages in each round."""
    payload = make_payload(folder / "payload", size // TURNS)
    rates: Rates = {way: {} for way in (OPEN, AGAIN, RIGHTS, TLS)}
    with ExitStack() as stack:
        managers = {way: _started(stack, folder, way) for way in rates}
        for measure in (_small, partial(_large, payload)):
            for turn in range(TURNS * rounds):
                # In any order: one pays for what the disk tidies up behind the one before.
                for way in random.Random(turn).sample(list(rates), len(rates)):
                    process, url, environment = managers[way]
                    with mock.patch.dict(os.environ, environment):
                        for what, figure in measure(process, url).items():
                            rates[way].setdefault(what, []).append(figure)
    for what in (SMALL_COST, LARGE_COST):
        both = rates[OPEN][what] + rates[AGAIN][what]
        for figures in rates.values():
            figures[what] = [harmonic_mean(figures[what])]
        rates[OPEN][what] = [harmonic_mean(both)]
    return [_result(rates, way, what) for what in rates[OPEN] for way in (AGAIN, RIGHTS, TLS)]


def _started(stack: ExitStack, folder: Path, way: str) -> tuple[ManagerProcess, str, Environment]:
    """A queue manager with two queues, its address for clients, and how they prove themselves."""
    home = folder / way
    home.mkdir()
    if way in (OPEN, AGAIN):
        options, environment = [], {}
    else:
        who = f"token:{CALLER}" if way == RIGHTS else f"cert:{CALLER}"
        options = ["--config", str(_rules(home, who))]
        if way == TLS:
            make_authority(home, now=time.time())
            authority = str(home / "ca.pem")
            options += ["--tls-cert", str(issue(home, "manager", ["localhost"], now=time.time()))]
            options += ["--tls-client-ca", authority]
            own = str(issue(home, CALLER, [], now=time.time()))
            environment = {"DRAY_CA": authority, "DRAY_CERT": own}
        else:
            environment = {}
    socket = home / "s"
    process = stack.enter_context(ManagerProcess(way, home, ["--socket", str(socket), *options]))
    with dray.connect(f"dray+unix://{socket}") as manager:
        manager.create_queue("small")
        manager.create_queue("large")
        if way == RIGHTS:
            environment["DRAY_TOKEN"] = manager.create_token(CALLER)
    url = f"drays://localhost:{process.port}" if way == TLS else process.url
    return process, url, environment


def _rules(home: Path, who: str) -> Path:
    """A configuration in which the last of many rules is the one that counts."""
    rules = [([f"user:other-{number}"], [f"queue-{number}"]) for number in range(RULES - 1)]
    rules.append(([who], ["small", "large"]))
    text = "".join(
        f'[[access]]\nwho = ["{callers[0]}"]\nqueues = [{", ".join(repr(each) for each in queues)}]'
        '\nmay = ["send", "receive"]\n\n'
        for callers, queues in rules
    )
    file = home / "dray.toml"
    file.write_text(text)
    file.chmod(0o600)
    return file


def _small(process: ManagerProcess, url: str) -> dict[str, float]:
    common: dict[str, Any] = {"url": url, "queue": "small", "count": COUNT, "batch": BATCH}
    before = processor_s(process.pid)
    sent = client("send_small", **common, size=MESSAGE_BYTES, threads=1)
    received = client("receive_small", **common)
    spent = processor_s(process.pid) - before
    return {
        "1 KiB sent, messages/s": COUNT / sent["seconds"],
        "1 KiB received, messages/s": COUNT / received["seconds"],
        SMALL_COST: COUNT / spent,
    }


def _large(payload: Path, process: ManagerProcess, url: str) -> dict[str, float]:
    size, out = payload.stat().st_size, payload.with_name("out")
    before = processor_s(process.pid)
    sent = client("send_large", url=url, queue="large", path=str(payload))
    received = client("receive_large", url=url, queue="large", to=str(out))
    out.unlink()
    spent = processor_s(process.pid) - before
    return {
        "large sent, MB/s": size / 1e6 / sent["seconds"],
        "large received, MB/s": size / 1e6 / received["seconds"],
        LARGE_COST: size / 1e6 / spent,
    }


def _result(rates: Rates, way: str, what: str) -> Result:
    name, unit = what.rsplit(", ", 1)
    bar = RIGHTS_RATIO_MIN if way == RIGHTS and "processor" in unit else None
    return Result(f"{name}, {way}", unit, rates[way][what], OPEN, rates[OPEN][what], bar)
