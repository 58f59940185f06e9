"""The part of `dray check` that looks at the files beside log and heap, and what a check finds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from dray.manager.change import LQS_EDITABLE, LQS_EVENTS, changed_in_file, check_editable
from dray.manager.disk import path_in_file
from dray.manager.queue import StoredQueue
from dray.offline.stopped import Offline
from dray.own_files import hindrance
from dray.store.access_log import ACCESS_NAME, verify_access_log
from dray.store.audit import AUDIT_NAME
from dray.store.decisions import LogState, Pair
from dray.store.disk import LOCK_NAME, SUB_FOLDERS
from dray.store.log.checkpoint import PAIRS, CheckpointState
from dray.store.lqs import FOLDER, NotAFileOfOursError, file_name, read_file, unfinished
from dray.store.manifest import MANIFEST_NAME, is_own_name, read_manifest, verify_audit
from dray.store.reading import ReadOnlyDisk
from dray.store.recovery.survey import Sight, look

_LEFT_TO_THE_LOG: Final = {Pair.NONE, Pair.TORN}
_MOVED_ASIDE: Final = "a start moves it to quarantine"
_UNTIL_THEN: Final = "a start refuses until then"


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


def check_checkpoints(disk: ReadOnlyDisk, report: CheckReport) -> None:
    """Each file of the pair by itself: either alone must be able to start the store."""
    seen = look(disk)
    for name in seen.damaged:
        report.damage(
            name,
            "its header is gone, or its checksum does not fit",
            remedy=_instead_of(name, seen, "the next checkpoint replaces this one"),
        )
    for name in seen.unfinished:
        sentence = "the queue manager ended while it wrote a checkpoint into it"
        remedy = _instead_of(name, seen, "the next checkpoint replaces this one")
        report.note(name, sentence, remedy=remedy)
    for name in seen.missing:
        remedy = _instead_of(name, seen, "a start makes this one anew")
        report.damage(name, "it is missing", remedy=remedy)
    for name in seen.cut:
        remedy = "it can be used; a start or the checkpoint after next makes it long enough"
        report.damage(name, "it was cut off, but has everything that counts", remedy=remedy)
    _check_places(disk, report)


def _check_places(disk: ReadOnlyDisk, report: CheckReport) -> None:
    """Each name of the store belongs to a file or a folder, as a start wants it."""
    files = disk.names()
    for name in (*files, *disk.not_files()):
        if name in SUB_FOLDERS:
            if name in files or not disk.exists(name):
                report.damage(name, "it is no folder", remedy=f"move it away; {_UNTIL_THEN}")
        elif is_own_name(name) or name == LOCK_NAME:
            wrong = disk.hindrance(name)
            if wrong:
                report.damage(name, wrong, remedy=_UNTIL_THEN)
        elif name in files:
            report.note(name, "no queue manager gives such a name to a file")


def _instead_of(name: str, seen: Sight, then: str) -> str:
    """Say which file a start uses instead of a checkpoint file or a map."""
    pair = next((pair for pair in PAIRS if name in pair), ())
    whole = [other for other in pair if seen.states[other] is CheckpointState.VALID]
    if not pair:
        return f"it is not needed; {then}"
    if whole:
        return f"{whole[0]} is used; {then}"
    if seen.log.state is LogState.ORIGIN and seen.worth(pair) in _LEFT_TO_THE_LOG:
        return f"the log has all of it; {then}"
    return "the other one of the pair cannot be used either, so a start refuses"


def check_queue_files(offline: Offline, report: CheckReport) -> None:
    """The files of queues say what the state says."""
    if not offline.state.queue_files_kept:
        return
    fates = unfinished(offline.disk)
    files = {name: name for name in offline.disk.names(FOLDER) if name not in fates}
    for new, name in fates.items():
        fate = f"a start gives it the name {name}" if name else "a start removes it"
        report.note(f"{FOLDER}/{new}", f"a crash left it unfinished; {fate}")
        if name:
            files[name] = new
    for queue in offline.state.queues:
        _check_queue_file(offline, queue, files, report)
    ours = {file_name(queue.number, path_in_file(queue)) for queue in offline.state.queues}
    for name in sorted(files.keys() - ours):
        report.note(f"{FOLDER}/{name}", f"no queue has this file; {_MOVED_ASIDE}")


def check_audit(path: Path, report: CheckReport) -> None:
    """The manifest can be read; the chains of the audit and the access log are unbroken."""
    try:
        read_manifest(path)
    except ValueError:
        remedy = "a start tells so in the audit and writes it anew"
        report.damage(MANIFEST_NAME, "it cannot be read", remedy=remedy)
    except OSError as error:
        sentence = f"it cannot be read: {error.strerror}"
        report.damage(MANIFEST_NAME, sentence, remedy=f"move it away; {_UNTIL_THEN}")
    for name in (AUDIT_NAME, ACCESS_NAME):
        wrong = os.path.lexists(path / name) and hindrance(path / name)
        if wrong:
            remedy = f"{_UNTIL_THEN}, unless its option `audit` is false"
            report.damage(name, wrong, remedy=remedy)
    chain = verify_audit(path)
    if not chain.intact:
        report.damage(AUDIT_NAME, f"line {chain.line}: {chain.problem}")
    name, chain = verify_access_log(path)
    if not chain.intact:
        report.damage(name, f"line {chain.line}: {chain.problem}")


def _check_queue_file(
    offline: Offline, queue: StoredQueue, files: Mapping[str, str], report: CheckReport
) -> None:
    """Check the file of one queue; `files` has the present name of each that a start will find."""
    own = file_name(queue.number, path_in_file(queue))
    name = f"{FOLDER}/{own}"
    event = LQS_EVENTS.get(queue.number)
    if own not in files:
        if offline.disk.exists(name):
            remedy = f"move it away; {_UNTIL_THEN}"
            report.damage(name, "it is no file", queue=queue.name, remedy=remedy)
        elif event:
            sentence = f"event {event}: it is missing, and describes an internal queue"
            report.damage(name, sentence, queue=queue.name, remedy="dray storage rebuild")
        else:
            report.note(name, "it is missing; a start writes it anew", queue.name)
        return
    try:
        wrong = offline.disk.hindrance(f"{FOLDER}/{files[own]}")
        if wrong:
            raise NotAFileOfOursError(wrong)
        found = read_file(offline.disk, files[own])
        changed = changed_in_file(found.description, queue)
        if not found.signed:
            check_editable(queue, changed, found.description)
    except NotAFileOfOursError as error:
        remedy = f"{_MOVED_ASIDE} and writes it anew"
        report.damage(name, str(error), queue=queue.name, remedy=remedy)
        return
    if changed and found.signed:
        report.note(name, "it is older than the state; a start writes it anew", queue.name)
    elif changed:
        edited = ", ".join(LQS_EDITABLE[each] for each in changed)
        report.note(name, f"it was edited; a start takes over its {edited}", queue.name)
