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
    """The findings of a check so far; it is clean if nothing is damaged."""

    directory: str
    manager_id: str = ""
    clean: bool = True
    queues: int = 0
    messages: int = 0
    record_bytes: int = 0
    large_messages: int = 0
    heap_files: int = 0
    free_heap_files: int = 0
    groups: int = 0
    findings: list[Finding] = []

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
        self.clean = False
        self.findings.append(
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
        self.findings.append(Finding(severity="doubt", file=file, what=what, remedy=remedy))

    def note(self, file: str, what: str, queue: str = "", remedy: str = "") -> None:
        """Something is worth knowing."""
        finding = Finding(severity="note", file=file, what=what, queue=queue, remedy=remedy)
        self.findings.append(finding)
