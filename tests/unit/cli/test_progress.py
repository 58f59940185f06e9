"""Progress off a terminal: plain lines for what is long, nothing for what is short."""

from dray.cli import progress as progress_module
from dray.cli.progress import progress


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
