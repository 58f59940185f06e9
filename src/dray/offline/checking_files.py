"""The part of `dray check` that looks at the files beside log and heap, and what a check finds."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from dray.manager.change import LQS_EDITABLE, LQS_EVENTS, changed_in_file, check_editable
from dray.manager.disk import path_in_file
from dray.manager.queue import StoredQueue
from dray.offline.stopped import Offline
from dray.store.access_log import verify_access_log
from dray.store.audit import AUDIT_NAME
from dray.store.decisions import LogState, Pair
from dray.store.disk import LOCK_NAME
from dray.store.log.checkpoint import PAIRS, CheckpointState
from dray.store.lqs import FOLDER, NotAFileOfOursError, file_name, is_unfinished, read_file
from dray.store.manifest import MANIFEST_NAME, is_own_name, read_manifest, verify_audit
from dray.store.reading import ReadOnlyDisk
from dray.store.recovery.survey import Sight, look

_LEFT_TO_THE_LOG: Final = {Pair.NONE, Pair.TORN}
_MOVED_ASIDE: Final = "a start moves it to quarantine"


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
    for name in seen.missing:
        remedy = _instead_of(name, seen, "a start makes this one anew")
        report.damage(name, "it is missing", remedy=remedy)
    for name in seen.cut:
        remedy = "it can be used; a start or the checkpoint after next makes it long enough"
        report.damage(name, "it was cut off, but has everything that counts", remedy=remedy)
    for name in disk.names():
        if not is_own_name(name) and name != LOCK_NAME:
            report.note(name, "no queue manager gives such a name to a file")


def _instead_of(name: str, seen: Sight, then: str) -> str:
    """How a start replaces a checkpoint file or a map."""
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
    files = frozenset(offline.disk.names(FOLDER))
    for queue in offline.state.queues:
        _check_queue_file(offline, queue, files, report)
    ours = {file_name(queue.number, path_in_file(queue)) for queue in offline.state.queues}
    for name in sorted(files - ours):
        fate = "a start finishes or removes it" if is_unfinished(name) else _MOVED_ASIDE
        report.note(f"{FOLDER}/{name}", f"no queue has this file; {fate}")


def check_audit(path: Path, report: CheckReport) -> None:
    """The manifest can be read; the chains of the audit and the access log are unbroken."""
    try:
        read_manifest(path)
    except (OSError, ValueError):
        remedy = "a start tells so in the audit and writes it anew"
        report.damage(MANIFEST_NAME, "it cannot be read", remedy=remedy)
    chain = verify_audit(path)
    if not chain.intact:
        report.damage(AUDIT_NAME, f"line {chain.line}: {chain.problem}")
    name, chain = verify_access_log(path)
    if not chain.intact:
        report.damage(name, f"line {chain.line}: {chain.problem}")


def _check_queue_file(
    offline: Offline, queue: StoredQueue, files: frozenset[str], report: CheckReport
) -> None:
    name = f"{FOLDER}/{file_name(queue.number, path_in_file(queue))}"
    event = LQS_EVENTS.get(queue.number)
    if name.removeprefix(f"{FOLDER}/") not in files:
        if offline.disk.exists(name):
            remedy = "move it away; a start refuses until then"
            report.damage(name, "it is no file", queue=queue.name, remedy=remedy)
        elif event:
            sentence = f"event {event}: it is missing, and describes an internal queue"
            report.damage(name, sentence, queue=queue.name, remedy="dray storage rebuild")
        else:
            report.note(name, "it is missing; a start writes it anew", queue.name)
        return
    try:
        found = read_file(offline.disk, name.removeprefix(f"{FOLDER}/"))
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
