"""The daemon warns each day of certificates that end soon, by a clock of the test's own."""

from __future__ import annotations

import asyncio

import pytest

from dray.daemon.config import read_options
from dray.daemon.embedded import EmbeddedDaemon
from dray.daemon.limits import CERTIFICATE_LOOK_S
from dray.daemon.notice_log import NoticeLog
from dray.daemon.sockets.certificate_ends import CertificateEnds
from dray.net.certificates import issue, make_authority

DAY = 86_400.0
BEGINS = 1_800_000_000.0


class Clock:
    """A clock and a timer that the test sets."""

    def __init__(self):
        self.time = BEGINS
        self.timers = []

    def now(self):
        return self.time

    def call_later(self, delay, act):
        timer = asyncio.TimerHandle(self.time + delay, act, [], self)
        self.timers.append(timer)
        return timer

    def _timer_handle_cancelled(self, timer):
        self.timers.remove(timer)

    def get_debug(self):
        return False

    def pass_to(self, time):
        """Let time pass, and call what is due."""
        while self.timers and (first := min(self.timers, key=lambda each: each.when())):
            if first.when() > time:
                break
            self.timers.remove(first)
            self.time = first.when()
            first._run()
        self.time = time


@pytest.fixture
def shown(tmp_path):
    """A certificate of thirty days, by an authority of a hundred."""
    make_authority(tmp_path, now=BEGINS, days=100)
    return issue(tmp_path, "depot", [], now=BEGINS, days=30)


def test_a_certificate_that_ends_within_14_days_is_said_each_day(shown, caplog):
    clock = Clock()
    watch = CertificateEnds(clock, clock, NoticeLog(clock, clock))
    watch.watch([str(shown), str(shown.parent / "ca.pem"), None])
    clock.pass_to(BEGINS + 15 * DAY)
    assert not caplog.records
    clock.pass_to(BEGINS + 19.5 * DAY)
    said = [each.getMessage() for each in caplog.records]
    assert len(said) == 4
    assert all(f"the certificate CN=depot in {shown} ends on " in each for each in said)
    caplog.clear()
    clock.pass_to(BEGINS + 30.5 * DAY)
    assert "ended on" in caplog.messages[-1]
    watch.stop()
    caplog.clear()
    clock.pass_to(BEGINS + 40 * DAY)
    assert not caplog.records


def test_a_new_certificate_ends_the_warning(shown, caplog):
    clock = Clock()
    watch = CertificateEnds(clock, clock, NoticeLog(clock, clock))
    clock.pass_to(BEGINS + 20 * DAY)
    watch.watch([str(shown)])
    assert len(caplog.records) == 1
    shown.unlink()
    issue(shown.parent, "depot", [], now=clock.now(), days=300)
    caplog.clear()
    clock.pass_to(clock.now() + 5 * CERTIFICATE_LOOK_S)
    assert not caplog.records


def test_a_file_that_cannot_be_read_any_more_is_said(shown, caplog):
    clock = Clock()
    watch = CertificateEnds(clock, clock, NoticeLog(clock, clock))
    shown.write_text("nothing")
    watch.watch([str(shown)])
    assert f"{shown} holds no certificates" in caplog.text


@pytest.mark.parametrize("listen", ["127.0.0.1:0", None], ids=["called", "only-calls-others"])
def test_a_daemon_warns_at_its_start(tmp_path, caplog, listen):
    from dray.daemon.timekeeper import Timekeeper

    now = Timekeeper().now()
    make_authority(tmp_path, now=now)
    file = issue(tmp_path, "depot", ["127.0.0.1"], now=now, days=10)
    options = read_options(
        data="",
        listen=listen,
        tls_cert=str(file),
        tls_client_ca=str(tmp_path / "ca.pem"),
    )
    daemon = EmbeddedDaemon(tmp_path / "data", options)
    daemon.start()
    daemon.stop()
    assert f"the certificate CN=depot in {file} ends on" in caplog.text
