"""Findings of a check, for people and for programs."""

from __future__ import annotations

import msgspec


class Finding(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One thing that was found in one file. `severity` is "damage", "doubt" or "note"."""

    severity: str
    file: str
    what: str
    queue: str = ""
    lookup_id: int = 0
    message_id: str = ""
    remedy: str = ""


class CheckReport(msgspec.Struct, kw_only=True):
    """The outcome of a check: clean if nothing is damaged."""

    directory: str
    manager_id: str
    clean: bool
    queues: int
    messages: int
    record_bytes: int
    large_messages: int
    heap_files: int
    free_heap_files: int
    groups: int
    findings: list[Finding]


class Findings:
    """Gathers a report."""

    def __init__(self, directory: str) -> None:
        """Begin with nothing found."""
        self.directory = directory
        self.manager_id = ""
        self.queues = self.messages = self.record_bytes = self.large_messages = 0
        self.heap_files = self.free_heap_files = self.groups = 0
        self._found: list[Finding] = []

    def damage(  # noqa: PLR0917 - the fields of a finding, by name wherever it is called
        self,
        file: str,
        what: str,
        queue: str = "",
        lookup_id: int = 0,
        message_id: str = "",
        remedy: str = "",
    ) -> None:
        """Something is not what it should be."""
        self._found.append(
            Finding(
                severity="damage",
                file=file,
                what=what,
                queue=queue,
                lookup_id=lookup_id,
                message_id=message_id,
                remedy=remedy,
            )
        )

    def doubt(self, file: str, what: str, remedy: str = "") -> None:
        """Something may be damage, or what a power failure leaves; nobody can tell."""
        self._found.append(Finding(severity="doubt", file=file, what=what, remedy=remedy))

    def note(self, file: str, what: str, queue: str = "", remedy: str = "") -> None:
        """Something is worth knowing."""
        finding = Finding(severity="note", file=file, what=what, queue=queue, remedy=remedy)
        self._found.append(finding)

    def report(self) -> CheckReport:
        """All of it."""
        return CheckReport(
            directory=self.directory,
            manager_id=self.manager_id,
            clean=not any(each.severity == "damage" for each in self._found),
            queues=self.queues,
            messages=self.messages,
            record_bytes=self.record_bytes,
            large_messages=self.large_messages,
            heap_files=self.heap_files,
            free_heap_files=self.free_heap_files,
            groups=self.groups,
            findings=self._found,
        )
