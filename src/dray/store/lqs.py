r"""Lqs: one text file per queue in `storage/lqs`, for people to read and, while stopped, to edit.

    00000010.8774014b                          private: queue number, then hash of the queue's path
    0123456789abcdef0123456789abcdef.8774014b  public: the queue's GUID, then the same hash

    [Properties]
    Label=what it is for
    Type=private
    QueueName=\private$\orders
    Quota=8589934592
    JQuota=none
    Journal=no
    Transaction=yes
    SystemQueue=no
    Digest=sha256
    [Signature]
    Signature=Dray
    Checksum=0f2e61c8

Theory of operation. The state of the manager is the truth and the files are a view of it, written
again whenever it changes. The checksum tells who wrote a file last: while it fits, the manager did,
so a difference from the state means that a crash came between the two and the file is old; when it
does not fit, a person edited the file. `Digest` is there only if the queue has chosen one. The hash
is CRC32C of the path in lower case (`casefold`), as everything else here is. docs/formats/lqs.md
says what may never change.
"""

from __future__ import annotations

import configparser
import re
import threading
from contextlib import closing
from typing import Final, NamedTuple

from crc32c import crc32c

from dray.errors import InvalidConfiguration, StoreError, StoreFull
from dray.model.limits import LABEL_CHARACTERS_MAX
from dray.model.words import size_in_bytes
from dray.store.disk import SUB_FOLDERS, Disk, ReadableDisk

FOLDER, QUARANTINE = SUB_FOLDERS
FILE_BYTES_MAX: Final = 64 << 10
"""A label of 249 characters and a name of 124 come to 2 KB; a larger file is none of ours, and the
original crashed on one (semantics 3.2)."""
NO_LIMIT: Final = "none"

_NEW: Final = ".new"
_NAME: Final = re.compile(r"([0-9a-f]{8}|[0-9a-f]{32})\.([0-9a-f]{8})")
_GUID_DIGITS: Final = 32
_TRUTHS: Final = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
_ESCAPED: Final = re.compile(r"\\(?:([\\nrt])|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(.?))")
_LETTERS: Final = {"\\": "\\", "n": "\n", "r": "\r", "t": "\t"}
_KEYS: Final = (
    "Label",
    "Type",
    "QueueName",
    "Quota",
    "JQuota",
    "Journal",
    "Transaction",
    "SystemQueue",
)
_OPTIONAL_KEYS: Final = ("Digest",)


class NotAFileOfOursError(Exception):
    """The text is no description of a queue; the message says what is wrong with it."""


class Description(NamedTuple):
    """The properties of a queue in its file. Quotas in bytes; None is no limit."""

    path: str
    kind: str
    label: str = ""
    quota: int | None = None
    journal_quota: int | None = None
    journal: bool = False
    transactional: bool = True
    system: bool = False
    digest: str | None = None


class Found(NamedTuple):
    """A file as it was read: what it says, and whether the manager wrote it last."""

    description: Description
    signed: bool


class FileName(NamedTuple):
    """The name of a file taken apart; `number` of a private queue, `guid` of a public one."""

    number: int | None
    guid: str
    path_hash: int


def path_hash(path: str) -> int:
    """The hash in the name of a file: CRC32C of the path in lower case, as UTF-8."""
    return crc32c(path.casefold().encode())


def file_name(number: int, path: str) -> str:
    """The name of the file of a private queue, or of any other that has a number."""
    return f"{number:08x}.{path_hash(path):08x}"


def parse_file_name(name: str) -> FileName | None:
    """Take a file's name apart; None if it has neither form."""
    form = _NAME.fullmatch(name)
    if form is None:
        return None
    if len(form[1]) == _GUID_DIGITS:
        return FileName(None, form[1], int(form[2], 16))
    return FileName(int(form[1], 16), "", int(form[2], 16))


def is_unfinished(name: str) -> bool:
    """Whether a crash left that name while a file was written; `unfinished` tells its fate."""
    return name.endswith(_NEW) and parse_file_name(name.removesuffix(_NEW)) is not None


def encode(description: Description) -> bytes:
    """The text of a file, signed."""
    lines = [
        "[Properties]",
        f"Label={_escape(description.label)}",
        f"Type={description.kind}",
        f"QueueName={description.path}",
        f"Quota={_size_text(description.quota)}",
        f"JQuota={_size_text(description.journal_quota)}",
        f"Journal={_truth_text(truth=description.journal)}",
        f"Transaction={_truth_text(truth=description.transactional)}",
        f"SystemQueue={_truth_text(truth=description.system)}",
    ]
    if description.digest is not None:
        lines.append(f"Digest={description.digest}")
    body = "".join(f"{line}\n" for line in lines).encode()
    return body + f"[Signature]\nSignature=Dray\nChecksum={crc32c(body):08x}\n".encode()


def decode(image: bytes) -> Found:
    """Read a file, however it was edited. Raises `NotAFileOfOursError`."""
    if len(image) > FILE_BYTES_MAX:
        raise NotAFileOfOursError(f"it has more than {FILE_BYTES_MAX} bytes")
    parser = configparser.RawConfigParser(
        delimiters=("=",),
        comment_prefixes=("#", ";"),
        empty_lines_in_values=False,
        default_section="\0",
    )
    try:
        parser.read_string(image.decode("utf-8-sig").replace("\r\n", "\n"))
        given = dict(parser["Properties"])
        signature = dict(parser["Signature"]) if parser.has_section("Signature") else {}
    except UnicodeDecodeError as error:
        raise NotAFileOfOursError("it is not UTF-8 text") from error
    except (configparser.Error, KeyError) as error:
        raise NotAFileOfOursError("it has no readable section [Properties]") from error
    unknown = set(parser.sections()) - {"Properties", "Signature"}
    unknown |= given.keys() - {key.lower() for key in (*_KEYS, *_OPTIONAL_KEYS)}
    if unknown:
        raise NotAFileOfOursError(f"it has an unknown property {min(unknown)!r}")
    missing = [key for key in _KEYS if key.lower() not in given]
    if missing:
        raise NotAFileOfOursError(f"it lacks {missing[0]}")
    description = _description(given)
    signed = signature.get("checksum") == f"{_body_checksum(image):08x}"
    return Found(description, signed)


def _description(given: dict[str, str]) -> Description:
    return Description(
        path=given["queuename"],
        kind=given["type"],
        label=_unescape(given["label"]),
        quota=_size("Quota", given["quota"]),
        journal_quota=_size("JQuota", given["jquota"]),
        journal=_truth("Journal", given["journal"]),
        transactional=_truth("Transaction", given["transaction"]),
        system=_truth("SystemQueue", given["systemqueue"]),
        digest=given.get("digest") or None,
    )


def _body_checksum(image: bytes) -> int:
    return crc32c(image[: image.find(b"[Signature]\n")])


def _size(key: str, text: str) -> int | None:
    if text.lower() == NO_LIMIT:
        return None
    try:
        return size_in_bytes(text)
    except InvalidConfiguration as error:
        raise NotAFileOfOursError(f"its {key} is {text!r}, but it must be a size") from error


def _size_text(size: int | None) -> str:
    return NO_LIMIT if size is None else str(size)


def _truth(key: str, text: str) -> bool:
    truth = _TRUTHS.get(text.lower())
    if truth is None:
        raise NotAFileOfOursError(f"its {key} is {text!r}, but it must be yes or no")
    return truth


def _truth_text(*, truth: bool) -> str:
    return "yes" if truth else "no"


def _escape(label: str) -> str:
    """One line without anything that a reader would strip or take for a line's end."""
    stripped = label.strip()
    start = label.find(stripped) if stripped else len(label)
    stop = start + len(stripped)
    return "".join(
        _escape_character(character, edge=not start <= at < stop)
        for at, character in enumerate(label)
    )


def _escape_character(character: str, *, edge: bool) -> str:
    if character == "\\":
        return "\\\\"
    if edge or not (character.isprintable() or character == " "):
        digits = f"{ord(character):02x}"
        match len(digits):
            case 2:
                return f"\\x{digits}"
            case 3 | 4:
                return f"\\u{digits:0>4}"
    return character


def _unescape(text: str) -> str:
    def meant(found: re.Match[str]) -> str:
        letter, two, four, other = found.groups()
        if letter:
            return _LETTERS[letter]
        if other is not None:
            raise NotAFileOfOursError(f"its Label has a backslash before {other!r}; write \\\\")
        return chr(int(two or four, 16))

    label = _ESCAPED.sub(meant, text)
    if any("\ud800" <= character <= "\udfff" for character in label):
        raise NotAFileOfOursError("its Label has an incomplete character")
    if len(label) > LABEL_CHARACTERS_MAX:
        raise NotAFileOfOursError(f"its Label has more than {LABEL_CHARACTERS_MAX} characters")
    return label


class _QueueFileChange(NamedTuple):
    number: int
    name: str
    image: bytes | None


class QueueFiles:
    """The folder of files: read and mended at start, changed by syncs in any thread.

    The owner states changes (`write`, `remove`); a sync that begins later makes them true on the
    disk (`captured`, `flush`) before anybody is told. A disk without room keeps a change waiting
    for a later flush: the state has it, and a start writes what is missing.
    """

    def __init__(self, disk: Disk) -> None:
        """Keep files on `disk`; nothing is read yet."""
        self._disk = disk
        self._lock = threading.Lock()
        # Held while the disk is at work; stating a change never waits for that.
        self._flushing = threading.Lock()
        self.stated = 0
        """The number of changes stated so far."""
        self._waiting: dict[str, _QueueFileChange] = {}
        self.refused: StoreFull | None = None
        """Why the last flush left something waiting."""

    # ------------------------------------------------------------------- while it is running

    def write(self, name: str, description: Description) -> None:
        """Have the file `name` describe a queue so."""
        self._state(name, encode(description))

    def remove(self, name: str) -> None:
        """Have no file `name` any more."""
        self._state(name, None)

    @property
    def captured(self) -> int:
        """The number to flush up to, so that all stated facts are written; 0 if nothing waits."""
        return self.stated if self._waiting else 0

    @property
    def unwritten(self) -> int:
        """The number of files that the next syncs write; 0 while the disk has no room for any."""
        return 0 if self.refused is not None else len(self._waiting)

    def flush(self, upto: int) -> None:
        """Make what was captured true, durably; any thread may do it. Raises StorePoisoned."""
        with self._flushing:
            self.refused = None
            with self._lock:
                due = [change for change in self._waiting.values() if change.number <= upto]
            if not due:
                return
            done = set()
            try:
                for change in due:
                    self._make(change)
                    done.add(change.number)
            except StoreFull as error:
                self.refused = error
            self._disk.sync_directory(FOLDER)
            with self._lock:
                for each in due:
                    if each.number in done and self._waiting.get(each.name) is each:
                        del self._waiting[each.name]

    def _state(self, name: str, image: bytes | None) -> None:
        with self._lock:
            self.stated += 1
            # Only the last word on a name counts, also when a full disk has kept others waiting.
            self._waiting.pop(name, None)
            self._waiting[name] = _QueueFileChange(self.stated, name, image)

    def _make(self, change: _QueueFileChange) -> None:
        if change.image is not None:
            self._replace(change.name, change.image)
        elif self._disk.exists(f"{FOLDER}/{change.name}"):
            self._disk.remove(f"{FOLDER}/{change.name}")

    def _replace(self, name: str, image: bytes) -> None:
        self._disk.rename(self._write_new(name, image), f"{FOLDER}/{name}")

    def _write_new(self, name: str, image: bytes) -> str:
        new = f"{FOLDER}/{name}{_NEW}"
        with closing(self._disk.open(new)) as file:
            file.truncate(0)
            file.write(image, 0)
            file.sync()
        return new

    # ------------------------------------------------------------------------------ at start

    def names(self) -> list[str]:
        """All files there are, after what a crash left unfinished is finished or gone."""
        for new, name in unfinished(self._disk).items():
            if name:
                self._disk.rename(f"{FOLDER}/{new}", f"{FOLDER}/{name}")
            else:
                self._disk.remove(f"{FOLDER}/{new}")
        return self._disk.names(FOLDER)

    def is_taken(self, name: str) -> bool:
        """Whether something has that name, be it a file or, unlike those of `names`, a folder."""
        return self._disk.exists(f"{FOLDER}/{name}")

    def read(self, name: str) -> Found:
        """Read a file. Raises `NotAFileOfOursError`, also for one that cannot be read."""
        return read_file(self._disk, name)

    def image(self, name: str) -> bytes:
        """The bytes of a file. Raises `NotAFileOfOursError` if it cannot be read."""
        return _image(self._disk, name)

    def replace_damaged(self, name: str, description: Description) -> str:
        """Move a file to quarantine and write it anew; at no moment could it seem to be missing.

        Gives its new name, or its old one if the disk has no room for another file.
        """
        try:
            new = self._write_new(name, encode(description))
        except StoreFull as error:
            self.refused = error
            return f"{FOLDER}/{name}"
        self._disk.sync_directory(FOLDER)
        apart = self.quarantine(name)
        self._disk.rename(new, f"{FOLDER}/{name}")
        self._disk.sync_directory(FOLDER)
        return apart

    def quarantine(self, name: str) -> str:
        """Move a file out of the way, with all its bytes; give its new name."""
        taken = set(self._disk.names(QUARANTINE))
        number = 1
        while (apart := f"{name}.{number}") in taken:
            number += 1
        self._disk.rename(f"{FOLDER}/{name}", f"{QUARANTINE}/{apart}")
        self._disk.sync_directory(QUARANTINE)
        self._disk.sync_directory(FOLDER)
        return f"{QUARANTINE}/{apart}"


def unfinished(disk: ReadableDisk) -> dict[str, str]:
    """The names that a crash left while files were written, and the name that a start gives each.

    That name is empty if the start removes the file: it is not whole, or the older one is there.
    """
    names = set(disk.names(FOLDER))
    fates = {}
    for new in sorted(name for name in names if is_unfinished(name)):
        name = new.removesuffix(_NEW)
        fates[new] = name if name not in names and _is_whole(disk, new) else ""
    return fates


def _is_whole(disk: ReadableDisk, name: str) -> bool:
    try:
        return read_file(disk, name).signed
    except NotAFileOfOursError:
        return False


def read_file(disk: ReadableDisk, name: str) -> Found:
    """Read a queue file. Raises `NotAFileOfOursError`, also for one that cannot be read."""
    return decode(_image(disk, name))


def _image(disk: ReadableDisk, name: str) -> bytes:
    """The bytes of a file, or the first of one that is too large to be one of ours.

    Raises `NotAFileOfOursError` if it cannot be read.
    """
    try:
        with closing(disk.open(f"{FOLDER}/{name}")) as file:
            image = bytearray(min(file.size(), FILE_BYTES_MAX + 1))
            file.read_into(memoryview(image), 0)
    except StoreError as error:
        raise NotAFileOfOursError(f"it cannot be read ({error})") from error
    return bytes(image)
