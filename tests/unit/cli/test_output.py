"""What people and programs get on standard output."""

import json
import os

from dray.cli.output import print_json, print_record, print_table
from dray.model.words import size_text, time_text


def test_a_table_off_a_terminal_is_aligned_and_never_cut(capsys):
    long = "x" * 300
    print_table(["name", "size "], [["a", "1"], [long, "1000"]])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["name", "size"]
    assert lines[1].startswith("a ")
    assert lines[1].endswith("   1")
    assert lines[2] == f"{long}  1000"


def test_an_empty_table_still_names_its_columns(capsys):
    print_table(["name", "size "], [])
    assert capsys.readouterr().out == "name  size\n"


def test_json_is_one_value_on_one_line(capsys):
    print_json({"a": [1, None, "ü"]})
    assert capsys.readouterr().out == '{"a":[1,null,"ü"]}\n'


def test_a_path_that_is_no_utf_8_is_json_all_the_same(capsys):
    print_json({"path": os.fsdecode(b"odd\xff")})
    told = json.loads(capsys.readouterr().out)
    assert os.fsencode(told["path"]) == b"odd\xff"


def test_a_record_is_one_pair_a_line(capsys):
    print_record({"name": "orders", "label": ""})
    assert capsys.readouterr().out == "name   orders\nlabel\n"


def test_no_quota_reads_no_limit():
    assert size_text(None) == "no limit"
    assert size_text(8 << 30) == "8.0 GiB"


def test_a_time_that_is_not_known_is_empty():
    assert time_text(None) == ""
    assert "T" not in time_text(0.0)


def test_a_label_of_others_keeps_to_its_line_and_commands_no_terminal(capsys):
    hostile = "a\nb\x1b[31m\u202eü"
    print_table(["label", "size "], [[hostile, "1"]])
    print_record({"label": hostile})
    shown = capsys.readouterr().out
    assert shown.count(r"a\nb\x1b[31m\u202eü") == 2
    assert len(shown.splitlines()) == 3
    assert "\x1b" not in shown
