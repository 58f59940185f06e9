"""Log lines."""

from __future__ import annotations

import json
import logging
import os
import sys

from dray.daemon.logs import JsonLogFormatter, log_to_stderr


def test_a_log_line_is_one_json_object_with_its_traceback():
    try:
        raise KeyError("lost")
    except KeyError:
        record = logging.LogRecord(
            "dray.x", logging.ERROR, __file__, 1, "a %s\nb", ("é",), sys.exc_info()
        )
    line = JsonLogFormatter().format(record)
    assert "\n" not in line
    entry = json.loads(line)
    assert (entry["level"], entry["logger"], entry["message"]) == ("error", "dray.x", "a é\nb")
    assert "KeyError: 'lost'" in entry["traceback"]
    assert entry["time"].endswith("+00:00")


def test_a_name_that_is_no_utf8_is_logged_with_escapes():
    name = os.fsdecode(b"caf\xe9")
    record = logging.LogRecord("dray.x", logging.ERROR, __file__, 1, "%s is strange", (name,), None)
    record.facts = {"subject": name, "times": 1}
    entry = json.loads(JsonLogFormatter().format(record))
    assert (entry["message"], entry["subject"]) == (r"caf\xe9 is strange", r"caf\xe9")


def test_only_what_is_loud_enough_reaches_standard_error(capsys):
    logger = logging.getLogger("dray")
    before = (logger.handlers, logger.level, logger.propagate)
    try:
        log_to_stderr("warning")
        logging.getLogger("dray.daemon").info("quiet")
        logging.getLogger("dray.daemon").warning("loud")
    finally:
        logger.handlers, logger.propagate = before[0], before[2]
        logger.setLevel(before[1])
    lines = capsys.readouterr().err.splitlines()
    assert [json.loads(line)["message"] for line in lines] == ["loud"]
