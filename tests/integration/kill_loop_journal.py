"""What a process of the kill loop knows after it was killed: one JSON line for each step.

A kill takes nothing back from the file, but it may leave a line half written. Such a line was about
something that had not happened yet, so it is cut off.
"""

from __future__ import annotations

import json
import os


class Journal:
    """Transactions that were about to be committed, and what became of them."""

    def __init__(self, path):
        self.path = path
        self.lines = read(path)
        whole = "".join(json.dumps(line) + "\n" for line in self.lines)
        fresh = path.with_suffix(".fresh")
        fresh.write_text(whole)
        fresh.replace(path)
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND)

    def begin(self, transaction_id, what):
        """Note what is about to be committed."""
        self.write({"id": transaction_id, "what": what})

    def end(self, transaction_id, *, committed):
        """Note whether it was."""
        self.write({"id": transaction_id, "committed": committed})

    def undecided(self):
        """The transaction of which it is not known, if there is one: it is the last line."""
        return self.lines[-1] if self.lines and "what" in self.lines[-1] else None

    def decided(self):
        """What was committed, in order."""
        return committed(self.lines)

    def write(self, line):
        os.write(self.file, (json.dumps(line) + "\n").encode())
        self.lines.append(line)


def read(path):
    """The whole lines of a journal."""
    text = path.read_text() if path.exists() else ""
    whole = text[: text.rfind("\n") + 1]
    return [json.loads(line) for line in whole.splitlines()]


def committed(lines):
    """What the lines say was committed, in order."""
    begun = {}
    done = []
    for line in lines:
        if "what" in line:
            begun[line["id"]] = line["what"]
        elif line["committed"]:
            done.append(begun[line["id"]])
    return done
