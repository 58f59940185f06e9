"""Progress off a terminal: plain lines for what is long, nothing for what is short."""

from pathlib import Path

import pytest

from dray.cli import progress as progress_module
from dray.cli.commands.spark import _print as print_summary
from dray.cli.progress import progress, steps_text
from dray.spark.landing.summary import HoleLanded, LandingSummary


def test_what_is_over_at_once_says_nothing(capsys):
    with progress("sending", 100) as shown:
        shown.update(100)
    assert capsys.readouterr() == ("", "")


def test_what_takes_long_says_where_it_is_on_standard_error(capsys, monkeypatch):
    monkeypatch.setattr(progress_module, "PLAIN_LINE_EVERY_S", 0.0)
    with progress("sending", 2048) as shown:
        shown.update(1024)
        shown.update(2048)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[0].startswith("sending: 1.0 KiB of 2.0 KiB, ")
    assert err.splitlines()[-1].startswith("sending: 2.0 KiB of 2.0 KiB, ")


@pytest.mark.parametrize(("total", "said"), [(None, "2,000"), (3_000, "2,000 of 3,000")])
def test_steps_are_counted_and_not_called_bytes(capsys, monkeypatch, total, said):
    monkeypatch.setattr(progress_module, "PLAIN_LINE_EVERY_S", 0.0)
    with progress("kills", total, steps_text) as shown:
        shown.update(2_000)
    assert capsys.readouterr().err == f"kills: {said}\n"


def test_a_label_of_a_sender_commands_no_terminal(capsys, monkeypatch):
    monkeypatch.setattr(progress_module, "PLAIN_LINE_EVERY_S", 0.0)
    with progress("receiving \x1b[2Ja\nb", 2048) as shown:
        shown.update(1024)
        shown.describe("\x1b]0;title\x07: paused")
        shown.update(2048)
    said = capsys.readouterr().err
    assert r"receiving \x1b[2Ja\nb: 1.0 KiB" in said
    assert r"\x1b]0;title\x07: paused: 2.0 KiB" in said
    assert "\x1b" not in said
    summary = LandingSummary(
        out=Path(),
        payload_directory="",
        table_directory=Path(),
        holes=[HoleLanded("1", "\x1b[31mred", (), 2)],
        unreadable=["\x1b[2J"],
        left=["\x1b[2J"],
    )
    print_summary(summary)
    assert "\x1b" not in capsys.readouterr().out
